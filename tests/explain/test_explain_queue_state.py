"""What the queue is said to do with a pod, in every place it can be."""

from typing import Any

import pytest

from moorage.config import DEFAULT_FEATURE_GATES, load_config
from moorage.engine.actions import Binding
from moorage.engine.clock import VirtualClock
from moorage.engine.scheduler import Scheduler
from moorage.explain.queue_state import queue_state
from moorage.framework.plugin import PermitPlugin
from moorage.framework.status import Code, Status
from moorage.kube.live import build_scheduler
from moorage.model.pod import Pod
from moorage.plugins.defaults import in_tree_registry
from moorage.testing import make_node, make_pod

START = 1_000_000.0

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      enabled: [{name: Doorman}]
"""


class Doorman(PermitPlugin):
    """Holds pods back that ask for it."""

    name = "Doorman"

    def permit(self, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        waits = pod.labels.get("permit") == "wait"
        return (Status(Code.WAIT, ("hold on",)), 60.0) if waits else (None, 0.0)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(START)


@pytest.fixture
def scheduler(clock: VirtualClock) -> Scheduler:
    registry = in_tree_registry()
    registry.register(Doorman)
    config = load_config(CONFIG, "test")
    made = build_scheduler(config, registry, DEFAULT_FEATURE_GATES, clock)
    made.handlers.add_node(make_node("n1", cpu="4"))
    return made


def add(scheduler: Scheduler, pod: Pod) -> Pod:
    scheduler.state.listers.of(Pod).put(pod)
    scheduler.handlers.add_pod(pod)
    return pod


def refused(scheduler: Scheduler, **fields: Any) -> Pod:
    """A pod that was tried once and fits nowhere."""
    pod = add(scheduler, make_pod("big", cpu="100", **fields))
    assert scheduler.schedule_one()
    return pod


def let_pass(scheduler: Scheduler, clock: VirtualClock, until: float) -> None:
    """Time passes as in a live scheduler: the timers run whenever they ask to."""
    while (next_time := scheduler.next_wakeup()) is not None and next_time <= until:
        clock.advance(next_time - clock.now())
        scheduler.run_timers()
    clock.advance(until - clock.now())


def test_a_new_pod_is_active(scheduler: Scheduler) -> None:
    told = queue_state(scheduler, add(scheduler, make_pod("p")))
    assert (told.state, told.attempts, told.added) == ("active", 0, START)
    assert told.next_retry == START
    assert told.message == "ready to be tried, not tried yet"


def test_a_refused_pod_waits_for_the_events_of_those_who_refused_it(
    scheduler: Scheduler,
) -> None:
    told = queue_state(scheduler, refused(scheduler))
    assert told.state == "unschedulable"
    assert told.attempts == 1
    assert told.initial_attempt == START
    assert told.unschedulable_plugins == ("NodeResourcesFit",)
    by_event = {waker.event: waker.plugins for waker in told.waits_for}
    assert set(by_event) == {
        "NodeAdd",
        "NodeUpdateNodeAllocatable",
        "AssignedPodDelete",
        "AssignedPodUpdatePodScaleDown",
        "TargetPodUpdatePodScaleDown",
        "resource.k8s.io/DeviceClassAdd",
        "resource.k8s.io/DeviceClassUpdate",
    }
    assert set(by_event.values()) == {("NodeResourcesFit",)}
    assert told.message.startswith("tried once, turned away by NodeResourcesFit; waits for ")


def test_the_next_retry_is_when_the_queue_really_flushes(
    scheduler: Scheduler, clock: VirtualClock
) -> None:
    pod = refused(scheduler)
    retry = queue_state(scheduler, pod).next_retry
    assert retry is not None
    assert START + 300 < retry <= START + 330

    let_pass(scheduler, clock, retry - 0.5)
    assert queue_state(scheduler, pod).state == "unschedulable"
    let_pass(scheduler, clock, retry)
    assert queue_state(scheduler, pod).state == "active"


def test_an_event_that_is_named_wakes_the_pod_and_leads_through_back_off(
    scheduler: Scheduler, clock: VirtualClock
) -> None:
    pod = refused(scheduler)
    scheduler.handlers.add_node(make_node("n2", cpu="200"))

    told = queue_state(scheduler, pod)

    assert told.state == "backoff"
    assert told.waits_for == ()
    retry = told.next_retry
    assert retry is not None
    let_pass(scheduler, clock, retry - 0.1)
    assert queue_state(scheduler, pod).state == "backoff"
    let_pass(scheduler, clock, retry)
    assert queue_state(scheduler, pod).state == "active"


def test_a_gated_pod_names_its_gate_and_what_opens_it(scheduler: Scheduler) -> None:
    pod = add(scheduler, make_pod("p", spec={"schedulingGates": [{"name": "wait"}]}))
    told = queue_state(scheduler, pod)
    assert (told.state, told.gated_by, told.next_retry) == ("gated", "SchedulingGates", None)
    assert [waker.event for waker in told.waits_for] == [
        "TargetPodUpdatePodSchedulingGatesEliminated"
    ]
    assert told.message == (
        "kept out of the queue by SchedulingGates; "
        "waits for TargetPodUpdatePodSchedulingGatesEliminated"
    )


def test_a_pod_held_by_permit_names_who_holds_it(scheduler: Scheduler) -> None:
    pod = add(scheduler, make_pod("p", labels={"permit": "wait"}))
    scheduler.schedule_one()
    told = queue_state(scheduler, pod)
    assert (told.state, told.pending_plugins) == ("waitingOnPermit", ("Doorman",))
    assert told.next_retry == START + 60
    assert told.message == "on its way to n1, held back by Doorman"


def test_a_pod_on_its_way_is_binding_and_then_gone(scheduler: Scheduler) -> None:
    pod = add(scheduler, make_pod("p"))
    scheduler.schedule_one()
    told = queue_state(scheduler, pod)
    assert (told.state, told.message) == ("binding", "being bound to n1")

    (binding,) = scheduler.outbox
    assert isinstance(binding, Binding)
    scheduler.permitted(binding)
    scheduler.handlers.update_pod(pod, pod.on_node("n1"))
    assert queue_state(scheduler, pod.on_node("n1")).state == "absent"


def test_a_popped_pod_is_in_flight(scheduler: Scheduler) -> None:
    pod = add(scheduler, make_pod("p"))
    scheduler.queue.pop()
    assert queue_state(scheduler, pod).state == "inFlight"


def test_a_pod_of_the_same_name_is_another_one(scheduler: Scheduler) -> None:
    add(scheduler, make_pod("p", uid="one"))
    assert queue_state(scheduler, make_pod("p", uid="two")).state == "absent"


def test_asking_leaves_the_back_off_to_the_queue(scheduler: Scheduler) -> None:
    pod = refused(scheduler)
    scheduler.handlers.add_node(make_node("n2", cpu="200"))
    info = scheduler.queue.view.find(pod)
    assert info is not None
    info.backoff_expiration = None  # to be worked out again
    assert queue_state(scheduler, pod).next_retry is not None
    assert info.backoff_expiration is None
