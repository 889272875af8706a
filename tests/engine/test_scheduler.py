"""The scheduler around the cycle: what becomes of pods on every path, with time under control."""

from typing import Any

import msgspec
import pytest

from moorage.config import DEFAULT_FEATURE_GATES, KubeSchedulerConfiguration, load_config
from moorage.engine.actions import Binding, Eviction, Failure, SkippedDeletion
from moorage.engine.clock import VirtualClock
from moorage.engine.scheduler import Scheduler
from moorage.framework.plugin import PermitPlugin, ReservePlugin
from moorage.framework.status import Code, Status
from moorage.kube.live import build_scheduler
from moorage.model.pod import Pod
from moorage.plugins.defaults import in_tree_registry
from moorage.testing import make_node, make_pod

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      enabled: [{name: Doorman}, {name: Bookkeeper}]
"""


class Doorman(PermitPlugin):
    """Lets pods pass, unless their label says otherwise."""

    name = "Doorman"

    def permit(self, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        match pod.labels.get("permit"):
            case "wait":
                return Status(Code.WAIT, ("hold on",)), 60.0
            case "no":
                return Status(Code.UNSCHEDULABLE, ("not today",)), 0.0
        return None, 0.0


class Bookkeeper(ReservePlugin):
    """Remembers who reserved what, and refuses some."""

    name = "Bookkeeper"

    def __init__(self, args: Any, handle: Any) -> None:
        super().__init__(args, handle)
        self.held: dict[str, str] = {}

    def reserve(self, pod: Pod, node_name: str) -> Status | None:
        if pod.labels.get("reserve") == "no":
            return Status(Code.UNSCHEDULABLE, ("no room in the book",))
        self.held[pod.name] = node_name
        return None

    def unreserve(self, pod: Pod, node_name: str) -> None:
        self.held.pop(pod.name, None)


def config() -> KubeSchedulerConfiguration:
    return load_config(CONFIG, "test")


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(1_000_000.0)


@pytest.fixture
def scheduler(clock: VirtualClock) -> Scheduler:
    registry = in_tree_registry()
    registry.register(Doorman)
    registry.register(Bookkeeper)
    made = build_scheduler(config(), registry, DEFAULT_FEATURE_GATES, clock)
    made.handlers.add_node(make_node("n1", cpu="4"))
    return made


def changed(pod: Pod, **status: Any) -> Pod:
    version = str(int(pod.metadata.resource_version or 0) + 1)
    metadata = msgspec.structs.replace(pod.metadata, resource_version=version)
    return msgspec.structs.replace(
        pod, metadata=metadata, status=msgspec.structs.replace(pod.status, **status)
    )


def run(scheduler: Scheduler) -> list[Any]:
    """Decide about everything that is ready, and take what is to be done."""
    scheduler.run_timers()
    while scheduler.schedule_one():
        pass
    actions = list(scheduler.outbox)
    scheduler.outbox.clear()
    return actions


def book(scheduler: Scheduler) -> dict[str, str]:
    plugin = scheduler.profiles["default-scheduler"].plugins["Bookkeeper"]
    assert isinstance(plugin, Bookkeeper)
    return plugin.held


def test_a_pod_that_fits_is_assumed_and_sent_to_be_bound(scheduler: Scheduler) -> None:
    pod = make_pod("web", cpu="1")
    scheduler.handlers.add_pod(pod)
    [action] = run(scheduler)
    assert isinstance(action, Binding)
    assert (action.pod, action.node_name, action.waiting) == (pod, "n1", None)
    assert scheduler.state.is_assumed(pod)
    assert book(scheduler) == {"web": "n1"}


def test_a_bound_pod_is_confirmed_and_leaves_the_queue(scheduler: Scheduler) -> None:
    pod = make_pod("web", cpu="1")
    scheduler.handlers.add_pod(pod)
    [binding] = run(scheduler)
    scheduler.permitted(binding)
    scheduler.handlers.update_pod(pod, pod.on_node("n1"))
    assert not scheduler.state.is_assumed(pod)
    assert scheduler.state.node_of(pod) == "n1"
    assert scheduler.queue.view.pending_pods().pods == ()
    assert run(scheduler) == []


def test_a_pod_that_fits_nowhere_is_reported_and_waits_for_the_right_event(
    scheduler: Scheduler, clock: VirtualClock
) -> None:
    pod = make_pod("big", cpu="8")
    scheduler.handlers.add_pod(pod)
    [failure] = run(scheduler)
    assert isinstance(failure, Failure)
    assert failure.reason == "Unschedulable"
    assert failure.message.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert failure.nominated_node == ""
    clock.advance(5)
    scheduler.handlers.add_node(make_node("small", cpu="2"))
    assert run(scheduler) == [], "a node that is too small as well must not wake the pod"
    scheduler.handlers.add_node(make_node("large", cpu="16"))
    [binding] = run(scheduler)
    assert binding.node_name == "large"


def test_without_nodes_the_pod_is_unschedulable_but_retried_after_backoff(
    clock: VirtualClock,
) -> None:
    registry = in_tree_registry()
    scheduler = build_scheduler(
        load_config(CONFIG.split("profiles")[0], "test"), registry, DEFAULT_FEATURE_GATES, clock
    )
    scheduler.handlers.add_pod(make_pod("web"))
    [failure] = run(scheduler)
    assert (failure.reason, failure.message) == (
        "Unschedulable",
        "no nodes available to schedule pods",
    )
    assert run(scheduler) == []
    clock.advance(3)
    assert len(run(scheduler)) == 1


def test_a_pod_being_deleted_is_skipped_with_an_event(scheduler: Scheduler) -> None:
    pod = make_pod("web")
    going = msgspec.structs.replace(
        pod,
        metadata=msgspec.structs.replace(pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z"),
    )
    scheduler.handlers.add_pod(going)
    [action] = run(scheduler)
    assert isinstance(action, SkippedDeletion)


def test_pods_of_other_schedulers_are_left_alone_but_count_once_bound(
    scheduler: Scheduler,
) -> None:
    foreign = make_pod("foreign", cpu="3", spec={"schedulerName": "another"})
    scheduler.handlers.add_pod(foreign)
    assert run(scheduler) == []
    scheduler.handlers.update_pod(foreign, foreign.on_node("n1"))
    scheduler.handlers.add_pod(make_pod("web", cpu="2"))
    [failure] = run(scheduler)
    assert "Insufficient cpu" in failure.message


def test_a_refused_reservation_undoes_everything_and_names_the_plugin(
    scheduler: Scheduler,
) -> None:
    pod = make_pod("web", labels={"reserve": "no"})
    scheduler.handlers.add_pod(pod)
    [failure] = run(scheduler)
    assert failure.message == "0/1 nodes are available: 1 no room in the book."
    assert scheduler.state.node_of(pod) is None
    info = scheduler.queue.view.find(pod)
    assert info is not None
    assert info.unschedulable_plugins == {"Bookkeeper"}


def test_a_refusal_by_permit_undoes_the_reservation(scheduler: Scheduler) -> None:
    pod = make_pod("web", labels={"permit": "no"})
    scheduler.handlers.add_pod(pod)
    [failure] = run(scheduler)
    assert failure.message == "0/1 nodes are available: 1 not today."
    assert book(scheduler) == {}
    assert scheduler.state.node_of(pod) is None


def test_a_pod_held_by_permit_keeps_its_place_until_time_runs_out(
    scheduler: Scheduler, clock: VirtualClock
) -> None:
    pod = make_pod("web", labels={"permit": "wait"})
    scheduler.handlers.add_pod(pod)
    [binding] = run(scheduler)
    assert binding.waiting is not None
    assert scheduler.state.is_assumed(pod)
    outcomes: list[Status | None] = []
    binding.waiting.when_settled(outcomes.append)
    clock.advance(59)
    run(scheduler)
    assert outcomes == []
    clock.advance(1)
    run(scheduler)
    [outcome] = outcomes
    assert outcome is not None
    assert outcome.message == "rejected due to timeout after waiting 1m0s at plugin Doorman"
    scheduler.binding_failed(binding, outcome)
    [failure] = list(scheduler.outbox)
    assert isinstance(failure, Failure)
    assert failure.message == (
        "0/1 nodes are available: 1 rejected due to timeout after waiting 1m0s at plugin Doorman."
    )
    assert scheduler.state.node_of(pod) is None
    assert book(scheduler) == {}


def test_a_waiting_pod_that_is_deleted_is_rejected_as_removed(scheduler: Scheduler) -> None:
    pod = make_pod("web", labels={"permit": "wait"})
    scheduler.handlers.add_pod(pod)
    [binding] = run(scheduler)
    outcomes: list[Status | None] = []
    assert binding.waiting is not None
    binding.waiting.when_settled(outcomes.append)
    scheduler.handlers.delete_pod(pod)
    assert [outcome.message for outcome in outcomes if outcome] == ["removed"]


def test_a_failed_bind_frees_the_place_and_retries_after_backoff(
    scheduler: Scheduler, clock: VirtualClock
) -> None:
    pod = make_pod("web", cpu="3")
    other = make_pod("other", cpu="3")
    scheduler.handlers.add_pod(pod)
    [binding] = run(scheduler)
    scheduler.handlers.add_pod(other)
    [refused] = run(scheduler)
    assert isinstance(refused, Failure)
    scheduler.permitted(binding)
    scheduler.binding_failed(
        binding, Status(Code.ERROR, ('running Bind plugin "DefaultBinder": timed out',))
    )
    [failure] = list(scheduler.outbox)
    scheduler.outbox.clear()
    assert isinstance(failure, Failure)
    assert failure.reason == "SchedulerError"
    assert book(scheduler) == {}
    clock.advance(10)
    placed = run(scheduler)
    assert {action.pod.name for action in placed} == {"web", "other"}


def test_a_bind_that_took_effect_although_it_failed_is_not_tried_again(
    scheduler: Scheduler, clock: VirtualClock
) -> None:
    pod = make_pod("web", cpu="1")
    scheduler.handlers.add_pod(pod)
    [binding] = run(scheduler)
    scheduler.permitted(binding)
    scheduler.handlers.update_pod(pod, pod.on_node("n1"))
    scheduler.binding_failed(binding, Status(Code.ERROR, ("connection reset",)))
    scheduler.outbox.clear()
    clock.advance(60)
    assert run(scheduler) == []
    assert scheduler.state.node_of(pod) == "n1"


def test_a_pod_recreated_under_its_name_gets_neither_event_nor_status_of_the_old_one(
    scheduler: Scheduler,
) -> None:
    old = make_pod("web", cpu="1")
    scheduler.handlers.add_pod(old)
    [binding] = run(scheduler)
    scheduler.permitted(binding)
    new = msgspec.structs.replace(
        old, metadata=msgspec.structs.replace(old.metadata, uid="another-uid")
    )
    scheduler.handlers.delete_pod(old)
    scheduler.handlers.add_pod(new)
    scheduler.binding_failed(binding, Status(Code.ERROR, ("gone",)))
    assert list(scheduler.outbox) == []


def test_preemption_proposes_an_eviction_and_nominates_the_node(scheduler: Scheduler) -> None:
    scheduler.handlers.add_pod(make_pod("low", cpu="3", priority=1).on_node("n1"))
    high = make_pod("high", cpu="3", priority=100)
    scheduler.handlers.add_pod(high)
    eviction, failure = run(scheduler)
    assert isinstance(eviction, Eviction)
    assert [victim.name for victim in eviction.victims] == ["low"]
    assert isinstance(failure, Failure)
    assert failure.nominated_node == "n1"
    assert scheduler.cycle.nominated.node_of(high) == "n1"


def test_a_status_update_of_its_own_does_not_wake_a_pod(
    scheduler: Scheduler, clock: VirtualClock
) -> None:
    pod = make_pod("big", cpu="8")
    scheduler.handlers.add_pod(pod)
    run(scheduler)
    clock.advance(20)
    scheduler.handlers.update_pod(pod, changed(pod, phase="Pending"))
    assert run(scheduler) == []


def test_an_event_that_contradicts_the_books_is_logged_and_survived(
    scheduler: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler.handlers.delete_pod(make_pod("ghost").on_node("n1"))
    assert '"Scheduler cache RemovePod failed"' in caplog.text
