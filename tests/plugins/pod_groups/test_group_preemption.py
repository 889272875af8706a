"""Room made for a whole group."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.cluster.listers import Lister
from moorage.cluster.pod_groups import PodGroups
from moorage.cluster.state import ClusterState
from moorage.framework.group_preemption import Assignment, Rehearsal
from moorage.framework.status import Code, Status
from moorage.model.labels import LabelSelector, Selector, compile_selector
from moorage.model.pod import Pod
from moorage.model.pod_group import (
    AllDisruptionMode,
    DisruptionMode,
    PodGroup,
    SingleDisruptionMode,
)
from moorage.plugins.default_preemption.group_victims import select_group_victims
from moorage.plugins.default_preemption.units import units_of
from moorage.plugins.default_preemption.victims import Budget, Unit, split_by_violation
from moorage.testing import make_node, make_pod
from plugins.pod_groups.gangs import World, make_group, member

NOTHING_FREED = "deallocation and deletion of ResourceClaims completed"
WHOLE = DisruptionMode(all=AllDisruptionMode())
PARTS = DisruptionMode(single=SingleDisruptionMode())


def group(name: str = "gang", min_count: int | None = None, **spec: Any) -> PodGroup:
    made = make_group(name, min_count=min_count)
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, **spec))


def important(min_count: int = 2) -> PodGroup:
    return group(min_count=min_count, priority=10)


def crowded() -> World:
    """Two nodes, full of pods without priority."""
    world = World()
    world.add(make_node("n1", cpu="2"), make_node("n2", cpu="2"))
    for name, node in (("a", "n1"), ("b", "n1"), ("c", "n2"), ("d", "n2")):
        world.add(make_pod(name, cpu="1", node_name=node, priority=0))
    return world


def places(world: World) -> set[tuple[str, str, bool]]:
    state = world.scheduler.state
    return {(pod.name, node, state.is_assumed(pod)) for pod, node in state.placed_pods()}


def test_a_gang_evicts_what_it_needs_from_anywhere_and_is_placed_then() -> None:
    world = crowded()
    before = places(world)
    world.add(important(3), *(member(f"p{i}", cpu="1", priority=10) for i in range(3)))
    world.run()
    [eviction] = world.evictions
    assert len(eviction.victims) == 3
    assert (eviction.node_name, eviction.what, eviction.priority) == ("cluster", "podgroup", 10)
    assert {pod.name for pod in eviction.members} == {"p0", "p1", "p2"}
    assert places(world) == before, "trying leaves no trace"
    [told] = world.outcomes
    assert told.condition.message == (
        "minCount (3) cannot be satisfied: 0 scheduled, 2 remaining, "
        "pod group preemption: found a placement for podgroup, preempting 3 victims"
    )
    assert {failure.nominated_node for failure in world.failures} == {"n1", "n2"}
    world.scheduler.preemption_done(eviction.cause)
    for victim in eviction.victims:
        world.handlers.delete_pod(victim)
    world.pass_time(10)
    assert sorted(world.bound) == ["p0", "p1", "p2"]


def test_pods_of_the_group_wait_while_its_victims_are_evicted() -> None:
    world = crowded()
    world.add(important(), member("p0", priority=10), member("p1", priority=10))
    world.run()
    [eviction] = world.evictions
    [plugin] = [
        p
        for p in world.scheduler.profiles["default-scheduler"].pre_enqueue
        if p.name == "DefaultPreemption"
    ]
    expected = "waiting for the preemption for this pod group to be finished"
    assert plugin.pre_enqueue(member("p2")) == Status(Code.UNRESOLVABLE, (expected,))
    assert plugin.pre_enqueue(make_pod("single")) is None
    world.scheduler.preemption_done(eviction.cause)
    assert plugin.pre_enqueue(member("p2")) is None


def test_a_group_that_does_not_fit_even_then_evicts_nobody() -> None:
    world = crowded()
    before = places(world)
    world.add(important(5), *(member(f"p{i}", cpu="1", priority=10) for i in range(5)))
    world.run()
    assert not world.evictions
    assert places(world) == before
    [told] = world.outcomes
    assert told.condition.message == (
        "minCount (5) cannot be satisfied: 0 scheduled, 4 remaining, "
        f"{NOTHING_FREED}, pod group preemption: "
        "minCount (5) cannot be satisfied: 4 scheduled, 0 remaining"
    )


@pytest.mark.parametrize(
    ("waiting", "pod", "message"),
    [
        (
            make_group(min_count=1),
            member("p0", priority=0),
            "pod group preemption: No preemption victims found for incoming preemptor",
        ),
        (
            important(1),
            member("p0", priority=10, spec={"preemptionPolicy": "Never"}),
            f"{NOTHING_FREED}, pod group preemption: not eligible due to preemptionPolicy=Never.",
        ),
    ],
)
def test_why_a_group_may_not_preempt(waiting: PodGroup, pod: Pod, message: str) -> None:
    world = crowded()
    world.add(waiting, pod)
    world.run()
    assert not world.evictions
    [told] = world.outcomes
    assert told.condition.message == (
        f"minCount (1) cannot be satisfied: 0 scheduled, 0 remaining, {message}"
    )


def test_groups_that_are_disrupted_as_a_whole_are_evicted_as_a_whole() -> None:
    world = World()
    world.add(make_node("n1", cpu="2"), make_node("n2", cpu="2"))
    world.add(group("whole", disruption_mode=WHOLE, priority=1))
    world.add(group("parts", disruption_mode=PARTS, priority=1))
    for name, owner, node in (
        ("w0", "whole", "n1"),
        ("w1", "whole", "n2"),
        ("q0", "parts", "n1"),
        ("q1", "parts", "n2"),
    ):
        world.add(member(name, owner, cpu="1", node_name=node, priority=1))
    world.add(important(1), member("p0", cpu="2", priority=10))
    world.run()
    [eviction] = world.evictions
    names = {victim.name for victim in eviction.victims}
    assert names in ({"w0", "w1", "q0"}, {"w0", "w1", "q1"})


@pytest.mark.parametrize(
    ("mode", "expected"), [(WHOLE, {"w0", "w1"}), (PARTS, {"w0"})], ids=["whole", "one by one"]
)
def test_a_pod_evicts_a_group_as_a_whole_from_all_its_nodes(
    mode: DisruptionMode, expected: set[str]
) -> None:
    world = World()
    world.add(make_node("n1", cpu="2", labels={"first": "yes"}), make_node("n2", cpu="2"))
    world.add(group("crew", disruption_mode=mode, priority=1))
    world.add(member("w0", "crew", cpu="2", node_name="n1", priority=1))
    world.add(member("w1", "crew", cpu="1", node_name="n2", priority=1))
    world.add(make_pod("big", cpu="2", priority=5, spec={"nodeSelector": {"first": "yes"}}))
    world.run()
    [eviction] = world.evictions
    assert {pod.name for pod in eviction.victims} == expected
    assert eviction.node_name == "n1"


def test_of_equal_priority_a_group_is_spared_before_a_single_pod() -> None:
    world = World()
    world.add(make_node("n1", cpu="2"), group("crew", disruption_mode=PARTS, priority=1))
    world.add(member("young", "crew", cpu="1", node_name="n1", priority=1))
    status = {"startTime": "1970-01-01T00:00:00Z"}
    world.add(make_pod("single", cpu="1", node_name="n1", priority=1, status=status))
    world.add(make_pod("big", cpu="1", priority=5))
    world.run()
    [eviction] = world.evictions
    assert [pod.name for pod in eviction.victims] == ["single"]


class Room(Rehearsal):
    """A rehearsal in a cluster where only the number of pods counts."""

    def __init__(self, pods: Iterable[Pod], size: int, wanted: int) -> None:
        state = ClusterState()
        state.add_node(make_node("n1"))
        for pod in pods:
            state.add_pod(pod.on_node("n1"))
        super().__init__(state, 100.0, self._place, lambda _: self.fits)
        self._size, self._wanted = size, wanted

    def _place(self) -> Sequence[Assignment] | Status:
        return () if self.fits else Status(Code.UNSCHEDULABLE, ("full",))

    @property
    def fits(self) -> bool:
        return len(self.left) + self._wanted <= self._size

    @property
    def left(self) -> set[str]:
        return {pod.uid for pod in self.pods()}


@given(
    st.lists(
        st.tuples(st.integers(0, 12), st.sampled_from(["", "g", "h"]), st.booleans()), max_size=8
    ),
    st.integers(0, 6),
    st.integers(0, 2),
)
def test_no_victim_could_have_stayed_and_no_more_important_one_goes(
    pods: list[tuple[int, str, bool]], wanted: int, allowed: int
) -> None:
    groups: Lister[PodGroup] = Lister()
    groups.put(group("g", disruption_mode=WHOLE, priority=5))
    groups.put(group("h", disruption_mode=WHOLE, priority=20))
    running = [
        make_pod(
            f"r{i}",
            labels={"app": "x"} if guarded else {"app": "y"},
            priority=priority,
            spec={"schedulingGroup": {"podGroupName": owner}} if owner else {},
        )
        for i, (priority, owner, guarded) in enumerate(pods)
    ]
    budgets = [Budget("default", _selector({"app": "x"}), allowed, frozenset())]
    room = Room(running, len(running), wanted)
    members = PodGroups()
    for pod in running:
        members.put(pod.on_node("n1"))
    units = units_of(room.pods(), groups, members)
    found = select_group_victims(important(), room, units, budgets)
    if found.status.code is not Code.SUCCESS:
        assert not found.victims
        return
    victims = {pod.uid for pod in found.victims}
    assert room.fits
    assert room.left == {pod.uid for pod in running} - victims
    for unit in units:
        inside = victims.intersection(pod.uid for pod in unit.pods)
        assert len(inside) in (0, len(unit.pods)), "a unit goes as a whole"
        if inside:
            assert unit.priority < 10
            room.give_back(unit.pods)
            assert not room.fits, "it could have stayed"
            room.take(unit.pods)


def test_a_budget_is_charged_until_a_pod_breaks_one() -> None:
    budgets = [
        Budget("default", _selector({"app": "x"}), 0, frozenset()),
        Budget("default", _selector({"app": "x"}), 1, frozenset()),
    ]
    both = [Unit((make_pod(name, labels={"app": "x"}),), 0) for name in ("a", "b")]
    assert split_by_violation(both, budgets) == ([(unit, 1) for unit in both], [])
    second = [budgets[1]]
    assert split_by_violation(both, second) == ([(both[1], 1)], both[:1])
    together = Unit(tuple(pod for unit in both for pod in unit.pods), 0)
    assert split_by_violation([together], budgets) == ([(together, 2)], [])


def _selector(labels: dict[str, str]) -> Selector:
    return compile_selector(LabelSelector(match_labels=labels))
