"""PodGroupPodsCount: the placement that takes more pods of a group is the better one."""

import pytest

from moorage.cluster.pod_groups import GroupKey, PodGroups
from moorage.cluster.view import NodeView
from moorage.framework.placements import Assignments, Placement
from moorage.framework.plugin import Handle
from moorage.framework.status import Code, Status
from moorage.plugins.pod_group_pods_count import NOBODY, PodGroupPodsCount
from moorage.testing import cluster, make_node
from plugins.pod_groups.gangs import World, member

KEY = GroupKey("default", "gang")


def make_plugin(groups: PodGroups) -> tuple[PodGroupPodsCount, NodeView]:
    state = cluster([make_node("n1")])
    handle = Handle(state.listers, World(()).gates, groups=groups)
    return PodGroupPodsCount(None, handle), NodeView(state)


@pytest.mark.parametrize(
    ("there", "coming", "score"),
    [(0, 0, 0), (0, 2, 2), (1, 0, 1), (1, 2, 3)],
    ids=["nobody", "pods that would come", "pods that are there", "both"],
)
def test_placements_are_scored_by_how_many_pods_they_take(
    there: int, coming: int, score: int
) -> None:
    groups = PodGroups()
    groups.put(member("p0"))
    for number in range(there):
        groups.put(member(f"there{number}", node_name="n1"))
    plugin, nodes = make_plugin(groups)
    pods = tuple(member(f"p{number}") for number in range(coming))
    assignments = Assignments(Placement("", nodes.rows), pods)
    assert plugin.score_placement(KEY, assignments, nodes) == score


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([1, 2, 3], [33, 66, 100]),
        ([4], [100]),
        ([0, 5], [0, 100]),
        ([0, 0], Status(Code.ERROR, (NOBODY,))),
    ],
    ids=["shares of the largest", "one placement", "an empty one", "nobody anywhere"],
)
def test_counts_are_normalized_to_the_largest(
    counts: list[int], expected: list[int] | Status
) -> None:
    plugin, _ = make_plugin(PodGroups())
    assert plugin.normalize_placements(counts) == expected
