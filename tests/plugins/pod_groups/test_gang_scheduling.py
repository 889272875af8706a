"""Gangs in the live scheduler, with time under control: all pods of a gang, or none."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import pytest

from moorage.cluster.pod_groups import GroupKey
from moorage.framework.plugin import PermitPlugin, ReservePlugin
from moorage.framework.runner import pre_enqueue
from moorage.framework.status import Code, Status
from moorage.model.pod import Pod
from moorage.testing import make_node, make_pod
from plugins.pod_groups.gangs import GANGS, World, make_group, member
from plugins.tables import table

KEY = GroupKey("default", "gang")
NO_VICTIMS = "pod group preemption: No preemption victims found for incoming preemptor"


def gang(world: World, size: int, min_count: int, **fields: Any) -> None:
    world.add(make_group(min_count=min_count, priority=fields.get("priority")))
    world.add(*(member(f"p{i}", **fields) for i in range(size)))


GROUP_MISSING = 'waiting for pods\'s pod group "gang" to appear in scheduling queue'
PODS_MISSING = "waiting for minCount pods from a gang to appear in scheduling queue"


class GangCase(NamedTuple):
    """Nodes by their CPUs, a gang whose pods take one each, and how many of them are bound."""

    id: str
    nodes: Sequence[int]
    pods: int
    min_count: int | None
    """None: there is no group of the name."""
    bound: int
    gated: str = ""
    """What the pods wait for outside of the queue."""


@table(
    GangCase("a gang of one", [1], 1, 1, bound=1),
    GangCase("it fits on one node", [4], 4, 4, bound=4),
    GangCase("it fits on two nodes", [2, 2], 4, 4, bound=4),
    GangCase("a place is missing", [2, 1], 4, 4, bound=0),
    GangCase("all places are missing", [], 2, 2, bound=0),
    GangCase("more pods than it needs", [8], 4, 2, bound=4),
    GangCase("more pods than it needs, and too few places for all", [3], 4, 2, bound=3),
    GangCase("a pod is missing", [8], 1, 2, bound=0, gated=PODS_MISSING),
    GangCase("the group is missing", [8], 2, None, bound=0, gated=GROUP_MISSING),
)
def test_all_pods_of_a_gang_are_bound_or_none(case: GangCase) -> None:
    world = World()
    world.add(*(make_node(f"n{place}", cpu=str(cpus)) for place, cpus in enumerate(case.nodes)))
    if case.min_count is not None:
        world.add(make_group(min_count=case.min_count))
    pods = [member(f"p{number}") for number in range(case.pods)]
    world.add(*pods)
    world.run()
    assert len(world.bound) == len(world.places) == case.bound
    waiting = world.scheduler.queue.view.pending_pods()
    apart = waiting.incomplete if case.min_count is None else waiting.gated
    assert len(apart) == (case.pods if case.gated else 0)
    status = pre_enqueue(world.scheduler.profiles["default-scheduler"], pods[0])
    assert ("" if status is None else status.message) == case.gated


def test_a_gang_that_fits_is_bound_as_a_whole() -> None:
    world = World()
    world.add(make_node("n1", cpu="2"), make_node("n2", cpu="2"))
    gang(world, 4, 4)
    world.run()
    assert sorted(world.bound) == ["p0", "p1", "p2", "p3"]
    assert not world.failures
    [told] = world.outcomes
    condition = told.condition
    assert (condition.type, condition.status, condition.reason, condition.message) == (
        *("PodGroupInitiallyScheduled", "True", "Scheduled"),
        "",
    )
    assert condition.observed_generation == 1


def test_a_gang_that_does_not_fit_leaves_every_place_free() -> None:
    world = World()
    world.add(make_node("n1", cpu="2"), make_node("n2", cpu="1"))
    gang(world, 4, 4)
    world.run()
    assert not world.bound
    assert not world.places
    assert len(world.failures) == 4, "each pod is tried once, and told once"
    short = "minCount (4) cannot be satisfied: 3 scheduled, 0 remaining"
    held = f"pod group is unschedulable, {short}, {NO_VICTIMS}"
    [last] = [failure.message for failure in world.failures if failure.message != held]
    assert last == "0/2 nodes are available: 2 Insufficient cpu."
    [told] = world.outcomes
    condition = told.condition
    assert (condition.status, condition.reason, condition.message) == (
        *("False", "Unschedulable"),
        f"{short}, {NO_VICTIMS}",
    )
    world.add(make_pod("other", cpu="2"))
    world.run()
    assert world.bound == {"other": "n1"}, "the places that were tried are free for others"


def test_a_gang_that_did_not_fit_is_tried_again_and_fits_later() -> None:
    world = World()
    world.add(make_node("n1", cpu="2"))
    gang(world, 3, 3)
    world.run()
    assert not world.bound
    world.add(make_node("n2", cpu="1"))
    world.pass_time(5)
    assert sorted(world.bound) == ["p0", "p1", "p2"]


def test_more_pods_than_a_gang_needs_may_stay_behind() -> None:
    world = World()
    world.add(make_node("n1", cpu="3"))
    gang(world, 4, 2)
    world.run()
    assert len(world.bound) == 3
    reasons = [failure.message for failure in world.failures]
    again = "it is tried again at once, as it may have to preempt others"
    assert reasons == ["0/1 nodes are available: 1 Insufficient cpu."] * 2, again
    assert world.outcomes[0].condition.status == "True"


def test_a_gang_waits_for_its_group_and_for_enough_pods() -> None:
    world = World()
    world.add(make_node("n1", cpu="8"), member("p0"))
    world.run()
    [waiting] = world.scheduler.queue.view.pending_pods().incomplete
    assert waiting.name == "p0"
    world.add(make_group(min_count=2))
    world.run()
    assert not world.bound, "one pod is not enough"
    world.add(member("p1"))
    world.run()
    assert sorted(world.bound) == ["p0", "p1"]


def test_another_groups_pods_wake_nobody() -> None:
    world = World()
    world.add(make_node("n1", cpu="8"), make_group(min_count=2), member("p0"))
    world.add(member("q0", "other"), member("elsewhere", namespace="there"))
    world.add(make_group("gang", min_count=1, namespace="there"))
    world.run()
    assert sorted(world.bound) == ["elsewhere"]


def test_the_gate_answers_in_the_plugins_name() -> None:
    world = World()
    world.add(member("p0"))
    status = pre_enqueue(world.scheduler.profiles["default-scheduler"], member("p0"))
    assert status == Status(Code.UNRESOLVABLE, (GROUP_MISSING,), "GangScheduling")


class Refusing(ReservePlugin):
    """Agrees the first time and refuses a labelled pod from then on."""

    name = "Refusing"

    def __init__(self, args: Any, handle: Any) -> None:
        super().__init__(args, handle)
        self.asked: set[str] = set()

    def reserve(self, pod: Pod, node_name: str) -> Status | None:
        if pod.labels.get("refuse") and pod.name in self.asked:
            return Status(Code.UNSCHEDULABLE, ("no longer",))
        self.asked.add(pod.name)
        return None

    def unreserve(self, pod: Pod, node_name: str) -> None:
        pass


REFUSING = "profiles: [{plugins: {multiPoint: {enabled: [{name: Refusing}]}}}]"


def test_a_gang_whose_last_pod_is_lost_times_out_and_frees_its_places() -> None:
    world = World(config=REFUSING, plugins=[Refusing])
    world.add(make_node("n1", cpu="3"), make_group(min_count=3))
    world.add(member("p0"), member("p1"), member("p2", labels={"refuse": "yes"}))
    world.run()
    assert not world.bound
    assert world.places == {"p0", "p1"}, "the first two wait for the third"
    assert set(world.messages("p2")) == {"0/1 nodes are available: 1 no longer."}
    assert world.scheduler.waiting.next_deadline() == world.clock.now() + 300
    world.handlers.delete_pod(member("p2", labels={"refuse": "yes"}))
    world.clock.advance(299)
    world.run()
    assert world.places == {"p0", "p1"}
    world.clock.advance(1)
    world.run()
    assert not world.places
    assert not world.bound
    for name in ("p0", "p1"):
        assert world.messages(name) == [
            "0/1 nodes are available: 1 rejected due to timeout after waiting 5m0s "
            "at plugin GangScheduling."
        ]
    world.add(make_pod("other", cpu="3"))
    world.run()
    assert world.bound == {"other": "n1"}


def test_a_pod_that_completes_a_waiting_gang_lets_the_others_go() -> None:
    world = World(config=REFUSING, plugins=[Refusing])
    world.add(make_node("n1", cpu="8"), make_group(min_count=3))
    world.add(member("p0"), member("p1"), member("p2", labels={"refuse": "yes"}))
    world.run()
    assert not world.bound
    world.add(member("p3"))
    world.pass_time(15)
    assert sorted(world.bound) == ["p0", "p1", "p3"]


def test_a_deleted_pod_of_a_waiting_gang_gives_its_place_back() -> None:
    world = World(config=REFUSING, plugins=[Refusing])
    world.add(make_node("n1", cpu="8"), make_group(min_count=3))
    world.add(member("p0"), member("p1"), member("p2", labels={"refuse": "yes"}))
    world.run()
    world.handlers.delete_pod(member("p0"))
    world.run()
    assert world.places == {"p1"}
    groups = world.scheduler.groups
    assert groups is not None
    state = groups.get(KEY)
    assert state is not None
    assert (len(state), state.scheduled_count) == (2, 1)


class Locked(PermitPlugin):
    """Lets nobody go."""

    name = "Locked"

    def permit(self, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        return Status(Code.UNSCHEDULABLE, ("locked",)), 0


def test_a_group_of_which_nobody_may_go_on_waits_out_its_back_off() -> None:
    config = "profiles: [{plugins: {multiPoint: {enabled: [{name: Locked}]}}}]"
    world = World(config=config, plugins=[Locked])
    world.add(make_node("n1", cpu="4"), make_group(min_count=1), member("p0"), member("p1"))
    world.run()
    assert len(world.messages("p0")) == 1
    assert not world.places
    world.pass_time(3)
    assert len(world.messages("p0")) == 2


def test_a_group_without_a_gang_places_what_fits() -> None:
    world = World()
    world.add(make_node("n1", cpu="2"), make_group())
    world.add(*(member(f"p{i}") for i in range(3)))
    world.run()
    assert len(world.bound) == 2
    assert world.outcomes[0].condition.status == "True"


def test_pods_whose_group_vanished_wait_for_one_of_that_name() -> None:
    world = World()
    world.add(make_node("n1", cpu="4"), make_group(min_count=2))
    world.add(member("p0"), member("p1"))
    world.handlers.delete_object(make_group(min_count=2))
    world.run()
    assert not world.failures
    assert not world.outcomes, "there is no group to tell"
    waiting = world.scheduler.queue.view.pending_pods()
    assert [pod.name for pod in waiting.incomplete] == ["p0", "p1"]
    world.add(make_group(min_count=2))
    world.run()
    assert sorted(world.bound) == ["p0", "p1"]


@pytest.mark.parametrize(
    ("gates", "group", "fields", "text"),
    [
        (
            GANGS,
            {"priority": 5},
            {"priority": 7},
            "priority as the pod group's priority, got 7 and 5",
        ),
        (
            GANGS,
            {},
            {"spec": {"preemptionPolicy": "Never"}},
            "preemption policy, got Never and PreemptLowerPriority",
        ),
        (
            (*GANGS, "PodGroupPreemptionPolicy"),
            {"preemptionPolicy": "Never"},
            {},
            "preemption policy as the pod group's preemption policy, "
            "got PreemptLowerPriority and Never",
        ),
    ],
)
def test_pods_that_cannot_be_one_group_fail_together(
    gates: Sequence[str], group: dict[str, Any], fields: dict[str, Any], text: str
) -> None:
    world = World(gates)
    made = make_group(min_count=2, priority=group.get("priority"))
    spec = msgspec.structs.replace(made.spec, preemption_policy=group.get("preemptionPolicy"))
    made = msgspec.structs.replace(made, spec=spec)
    world.add(make_node("n1", cpu="4"), made)
    world.add(member("p0", priority=group.get("priority", 0)), member("p1", **fields))
    world.run()
    message = f"all pods in a single pod group should have the same {text}"
    assert {failure.message for failure in world.failures} == {message}
    assert {failure.reason for failure in world.failures} == {"SchedulerError"}
    [told] = world.outcomes
    assert (told.condition.reason, told.condition.message) == ("SchedulerError", message)
    assert {pod.name for pod in world.scheduler.queue.view.pending_pods().backoff} == {"p0", "p1"}


def test_pods_of_one_group_for_two_schedulers_all_fail() -> None:
    config = "profiles: [{schedulerName: default-scheduler}, {schedulerName: second}]"
    world = World(config=config)
    world.add(make_node("n1", cpu="4"), make_group(min_count=2))
    world.add(member("p0"), member("p1", spec={"schedulerName": "second"}))
    world.run()
    assert not world.bound
    text = (
        "all pods in a single pod group should have the same .spec.schedulerName set, "
        'got: "second" and "default-scheduler"'
    )
    assert [failure.message for failure in world.failures] == [text, text]


def test_a_gang_is_tried_by_priority_and_evicts_lesser_pods() -> None:
    world = World()
    world.add(make_node("n1", cpu="2"))
    world.add(make_pod("old", cpu="2", node_name="n1", priority=0))
    gang(world, 1, 1, cpu="2", priority=10)
    world.run()
    [eviction] = world.evictions
    assert [victim.name for victim in eviction.victims] == ["old"]
    world.scheduler.preemption_done(eviction.cause)
    world.handlers.delete_pod(make_pod("old", cpu="2", node_name="n1", priority=0))
    world.pass_time(5)
    assert world.bound == {"p0": "n1"}
    assert world.outcomes[-1].condition.status == "True"


def test_a_placed_group_is_never_told_to_be_unschedulable() -> None:
    status = {
        "conditions": [
            {
                "type": "PodGroupInitiallyScheduled",
                "status": "True",
                "reason": "Scheduled",
                "message": "",
            }
        ]
    }
    world = World()
    world.add(make_node("n1", cpu="1"), make_group(min_count=1, status=status))
    world.add(member("big", cpu="9"))
    world.run()
    assert world.failures
    assert not world.outcomes


def test_without_the_gates_groups_mean_nothing() -> None:
    world = World(gates=())
    world.add(make_node("n1", cpu="1"), member("p0"), member("p1"))
    world.run()
    assert len(world.bound) == 1
    assert not len(world.scheduler.groups)
    assert "GangScheduling" not in world.scheduler.profiles["default-scheduler"].plugins
