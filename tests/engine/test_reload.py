"""A scheduler that goes over to other profiles: what becomes of pods in every state."""

from typing import Any

import pytest

from moorage.config import DEFAULT_FEATURE_GATES, load_config
from moorage.engine.actions import Binding, Failure
from moorage.engine.clock import VirtualClock
from moorage.engine.scheduler import Scheduler
from moorage.errors import PluginError
from moorage.framework.plugin import QueueSortPlugin
from moorage.framework.profile import build_profiles
from moorage.framework.status import Code, Status
from moorage.kube.live import build_scheduler
from moorage.model.pod import Pod
from moorage.plugins.defaults import in_tree_registry
from moorage.testing import make_node, make_pod

HEAD = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
"""
TWO = "profiles: [{schedulerName: one}, {schedulerName: two}]"
ONLY_ONE = "profiles: [{schedulerName: one}]"
WITHOUT_FIT = """
profiles:
- schedulerName: one
  plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}]}}
"""
WITHOUT_GATES = """
profiles:
- schedulerName: one
  plugins: {preEnqueue: {disabled: [{name: SchedulingGates}]}}
"""


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(1_000_000.0)


def made(text: str, clock: VirtualClock) -> Scheduler:
    config = load_config(HEAD + text, "test")
    scheduler = build_scheduler(config, in_tree_registry(), DEFAULT_FEATURE_GATES, clock)
    scheduler.handlers.add_node(make_node("n1", cpu="4"))
    return scheduler


def pod_of(scheduler_name: str, name: str, **fields: Any) -> Pod:
    spec = {"schedulerName": scheduler_name, **fields.pop("spec", {})}
    return make_pod(name, spec=spec, **fields)


def adopt(scheduler: Scheduler, text: str) -> None:
    config = load_config(HEAD + text, "test")
    scheduler.reload(
        build_profiles(config, in_tree_registry(), scheduler.handle),
        (),
        initial_backoff_seconds=config.pod_initial_backoff_seconds,
        max_backoff_seconds=config.pod_max_backoff_seconds,
    )


def run(scheduler: Scheduler) -> list[Any]:
    scheduler.run_timers()
    while scheduler.schedule_one():
        pass
    actions = list(scheduler.outbox)
    scheduler.outbox.clear()
    return actions


def test_ready_pods_keep_their_order_and_are_decided_by_the_new_profile(
    clock: VirtualClock,
) -> None:
    scheduler = made(ONLY_ONE, clock)
    for name, priority in (("low", 0), ("high", 10), ("middle", 5)):
        scheduler.handlers.add_pod(pod_of("one", name, cpu="1", priority=priority))
    adopt(scheduler, WITHOUT_FIT)
    bindings = run(scheduler)
    assert [binding.pod.name for binding in bindings] == ["high", "middle", "low"]
    assert {id(binding.profile) for binding in bindings} == {id(scheduler.profiles["one"])}


def test_a_pod_that_a_plugin_refused_is_tried_again_without_that_plugin(
    clock: VirtualClock,
) -> None:
    scheduler = made(ONLY_ONE, clock)
    scheduler.handlers.add_pod(pod_of("one", "big", cpu="64"))
    [failure] = run(scheduler)
    assert isinstance(failure, Failure)
    clock.advance(30)
    assert run(scheduler) == []
    adopt(scheduler, WITHOUT_FIT)
    [binding] = run(scheduler)
    assert isinstance(binding, Binding)


def test_a_gated_pod_enters_when_the_gate_is_taken_away(clock: VirtualClock) -> None:
    scheduler = made(ONLY_ONE, clock)
    scheduler.handlers.add_pod(pod_of("one", "gated", spec={"schedulingGates": [{"name": "wait"}]}))
    assert run(scheduler) == []
    adopt(scheduler, ONLY_ONE)
    assert run(scheduler) == [], "the same gate still holds"
    adopt(scheduler, WITHOUT_GATES)
    [binding] = run(scheduler)
    assert binding.pod.name == "gated"


def test_pods_of_a_profile_that_is_gone_leave_and_come_back_with_it(clock: VirtualClock) -> None:
    scheduler = made(TWO, clock)
    scheduler.handlers.add_pod(pod_of("one", "ours"))
    scheduler.handlers.add_pod(pod_of("two", "theirs"))
    adopt(scheduler, ONLY_ONE)
    assert [action.pod.name for action in run(scheduler)] == ["ours"]
    assert scheduler.queue.view.find(make_pod("theirs")) is None
    adopt(scheduler, TWO)
    assert [action.pod.name for action in run(scheduler)] == ["theirs"]


def test_a_pod_on_its_way_finishes_with_the_plugins_that_placed_it(clock: VirtualClock) -> None:
    scheduler = made(TWO, clock)
    pod = pod_of("two", "web", cpu="3")
    scheduler.handlers.add_pod(pod)
    [binding] = run(scheduler)
    old = binding.profile
    adopt(scheduler, ONLY_ONE)
    assert binding.profile is old
    scheduler.handlers.add_pod(pod_of("one", "next", cpu="3"))
    [failure] = run(scheduler)
    assert "Insufficient cpu" in failure.message, "the place is still taken"
    scheduler.permitted(binding)
    scheduler.handlers.update_pod(pod, pod.on_node("n1"))
    assert scheduler.state.node_of(pod) == "n1"
    assert not scheduler.state.is_assumed(pod)


def test_a_pod_of_a_gone_profile_whose_binding_fails_frees_its_place(clock: VirtualClock) -> None:
    scheduler = made(TWO, clock)
    pod = pod_of("two", "web", cpu="3")
    scheduler.handlers.add_pod(pod)
    [binding] = run(scheduler)
    adopt(scheduler, ONLY_ONE)
    scheduler.permitted(binding)
    scheduler.binding_failed(binding, Status(Code.ERROR, ("no luck",)))
    clock.advance(60)
    assert [action for action in run(scheduler) if isinstance(action, Binding)] == []
    assert scheduler.queue.view.find(pod) is None
    scheduler.handlers.add_pod(pod_of("one", "next", cpu="3"))
    [taken] = run(scheduler)
    assert taken.node_name == "n1"


def test_an_assumed_pod_of_a_gone_profile_that_is_deleted_frees_its_place(
    clock: VirtualClock,
) -> None:
    scheduler = made(TWO, clock)
    pod = pod_of("two", "web", cpu="3")
    scheduler.handlers.add_pod(pod)
    run(scheduler)
    adopt(scheduler, ONLY_ONE)
    scheduler.handlers.delete_pod(pod)
    assert not scheduler.state.is_assumed(pod)
    scheduler.handlers.add_pod(pod_of("one", "next", cpu="3"))
    [taken] = run(scheduler)
    assert taken.node_name == "n1"


class Confused(QueueSortPlugin):
    """A plugin that cannot order one of the pods."""

    name = "Confused"

    def sort_key(self, pod: Pod, timestamp: float) -> Any:
        if pod.name == "odd":
            raise ValueError("cannot be compared")
        return timestamp


def test_an_order_that_fails_for_a_waiting_pod_changes_nothing(clock: VirtualClock) -> None:
    scheduler = made(ONLY_ONE, clock)
    for name in ("a", "odd", "b"):
        scheduler.handlers.add_pod(pod_of("one", name, cpu="1"))
    registry = in_tree_registry()
    registry.register(Confused)
    text = """
profiles:
- schedulerName: two
  plugins: {queueSort: {enabled: [{name: Confused}], disabled: [{name: PrioritySort}]}}
- schedulerName: one
  plugins: {queueSort: {enabled: [{name: Confused}], disabled: [{name: PrioritySort}]}}
"""
    config = load_config(HEAD + text, "test")
    profiles = build_profiles(config, registry, scheduler.handle)
    with pytest.raises(PluginError, match="cannot be compared"):
        scheduler.reload(profiles, (), initial_backoff_seconds=1, max_backoff_seconds=10)
    assert list(scheduler.profiles) == ["one"]
    assert [action.pod.name for action in run(scheduler)] == ["a", "odd", "b"]


def test_new_back_off_limits_count_from_the_next_failure(clock: VirtualClock) -> None:
    scheduler = made(ONLY_ONE, clock)
    adopt(scheduler, ONLY_ONE + "\npodInitialBackoffSeconds: 7\npodMaxBackoffSeconds: 9")
    pod = pod_of("one", "web", cpu="1")
    scheduler.handlers.add_pod(pod)
    [binding] = run(scheduler)
    scheduler.permitted(binding)
    scheduler.binding_failed(binding, Status(Code.ERROR, ("no luck",)))
    run(scheduler)
    clock.advance(6)
    assert run(scheduler) == []
    clock.advance(2.5)
    [again] = run(scheduler)
    assert again.pod.name == "web"
