"""Pod groups: the books, and the law that a gang is bound in full or not at all."""

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.cluster.pod_groups import GroupKey, PodGroups, group_of
from moorage.engine.group_attempt import condition_update
from moorage.framework.status import Code, Status
from moorage.kube.pod_status import group_status
from moorage.model.pod import Pod
from moorage.testing import make_node, make_pod
from plugins.pod_groups.gangs import GANGS, PLACEMENTS, World, make_group, member, newer

KEY = GroupKey("default", "gang")
ZONE = "topology.kubernetes.io/zone"


def counts(groups: PodGroups) -> tuple[int, int, int, int]:
    state = groups.get(KEY)
    assert state is not None
    assigned = state.scheduled_count - len(state.assumed)
    return len(state), len(state.unscheduled), len(state.assumed), assigned


def test_a_pod_goes_from_unscheduled_over_assumed_to_assigned() -> None:
    groups, pod = PodGroups(), member("p")
    groups.put(pod)
    assert counts(groups) == (1, 1, 0, 0)
    groups.assume(pod, "n1")
    assert counts(groups) == (1, 0, 1, 0)
    groups.put(pod)
    assert counts(groups) == (1, 0, 1, 0), "an update of a pending pod changes nothing"
    groups.forget(pod)
    assert counts(groups) == (1, 1, 0, 0)
    groups.assume(pod, "n1")
    groups.put(pod.on_node("n1"))
    assert counts(groups) == (1, 0, 0, 1)
    groups.forget(pod)
    assert counts(groups) == (1, 0, 0, 1), "a bound pod cannot be forgotten"
    groups.remove(pod)
    assert groups.get(KEY) is None
    assert len(groups) == 0


def test_pods_that_are_gone_or_alone_leave_no_trace() -> None:
    groups = PodGroups()
    groups.assume(member("gone"), "n1")
    groups.forget(member("gone"))
    groups.remove(member("gone"))
    groups.put(make_pod("alone"))
    assert len(groups) == 0
    assert group_of(make_pod("alone")) is None


def test_the_outcome_is_told_only_if_it_is_news() -> None:
    group = make_group(min_count=1)
    told = condition_update(group, Status(Code.ERROR, ("broken",)))
    assert told is not None
    assert (told.condition.status, told.condition.reason) == ("False", "SchedulerError")
    body = group_status(told, 0.0)
    assert body["conditions"] == [
        {
            "type": "PodGroupInitiallyScheduled",
            "status": "False",
            "reason": "SchedulerError",
            "message": "broken",
            "observedGeneration": 1,
            "lastTransitionTime": "1970-01-01T00:00:00Z",
        }
    ]
    known = make_group(min_count=1, status={"conditions": body["conditions"]})
    assert condition_update(known, Status(Code.ERROR, ("broken",))) is None
    changed = condition_update(known, Status(Code.UNSCHEDULABLE, ("full",)))
    assert changed is not None
    assert "lastTransitionTime" not in group_status(changed, 1.0)["conditions"][0]


def test_a_pod_that_is_deleted_on_its_way_to_a_node_is_not_part_of_its_group_any_more() -> None:
    world, pods = World(), [member("a"), member("b")]
    world.add(make_node("n1"), make_group(min_count=2), *pods)
    assert world.scheduler.schedule_one()
    old = pods[0]
    metadata = msgspec.structs.replace(old.metadata, deletion_timestamp="2026-11-19T00:00:00Z")
    world.handlers.update_pod(old, newer(msgspec.structs.replace(old, metadata=metadata)))
    assert counts(world.scheduler.groups) == (1, 0, 1, 0), "but the other one still is"


gangs = st.lists(
    st.fixed_dictionaries(
        {
            "size": st.integers(1, 5),
            "min_count": st.integers(1, 5),
            "cpu": st.integers(1, 4),
            "priority": st.sampled_from([0, 10]),
            "topology": st.sampled_from([None, ZONE]),
        }
    ),
    min_size=1,
    max_size=4,
)
nodes = st.lists(
    st.tuples(st.integers(1, 8), st.sampled_from(["a", "b", None])), min_size=1, max_size=5
)


@settings(max_examples=60, deadline=None)
@given(shapes=gangs, rooms=nodes, placements=st.booleans(), data=st.data())
def test_never_is_a_strict_subset_of_a_gang_bound(
    shapes: list[dict[str, Any]], rooms: list[tuple[int, str | None]], placements: bool, data: Any
) -> None:
    world = World(PLACEMENTS if placements else GANGS)
    objects: list[Any] = [
        make_node(f"n{i}", cpu=str(cpu), zone=zone) for i, (cpu, zone) in enumerate(rooms)
    ]
    zone_of = {f"n{i}": zone for i, (_, zone) in enumerate(rooms)}
    members: dict[str, list[Pod]] = {}
    for number, shape in enumerate(shapes):
        name = f"g{number}"
        objects.append(make_group(name, min_count=shape["min_count"], topology=shape["topology"]))
        members[name] = [
            member(f"{name}-{i}", name, cpu=str(shape["cpu"]), priority=shape["priority"])
            for i in range(shape["size"])
        ]
        objects += members[name]
    for one in data.draw(st.permutations(objects)):
        world.add(one)
        if data.draw(st.booleans()):
            world.run()
            _check(world, shapes, members, zone_of, placements)
    world.pass_time(12)
    _check(world, shapes, members, zone_of, placements)
    assert world.places == set(world.bound), "nothing is held by a gang that was not bound"


def _check(
    world: World,
    shapes: list[dict[str, Any]],
    members: dict[str, list[Pod]],
    zone_of: dict[str, str | None],
    placements: bool,
) -> None:
    for shape, (name, pods) in zip(shapes, members.items(), strict=True):
        bound = [world.bound[pod.name] for pod in pods if pod.name in world.bound]
        assert not bound or len(bound) >= shape["min_count"], name
        if placements and shape["topology"]:
            assert len({zone_of[node] for node in bound}) <= 1, name
