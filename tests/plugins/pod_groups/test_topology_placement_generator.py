"""TopologyPlacementGenerator: groups that must stay within one domain, and which one they take."""

import pytest

from moorage.cluster.pod_groups import GroupKey, PodGroups
from moorage.cluster.view import NodeView
from moorage.config import load_config
from moorage.framework.placements import Assignments, Placement
from moorage.framework.plugin import Handle
from moorage.framework.status import Code, Status
from moorage.model.pod_group import PodGroup
from moorage.plugins.node_resources_fit import NodeResourcesFit
from moorage.plugins.topology_placement import TopologyPlacementGenerator
from moorage.testing import cluster, make_node, make_pod
from plugins.pod_groups.gangs import HEADER, PLACEMENTS, World, make_group, member

ZONE = "topology.kubernetes.io/zone"
KEY = GroupKey("default", "gang")


def three_zones(world: World) -> None:
    world.add(make_node("a1", zone="a", cpu="1"), make_node("a2", zone="a", cpu="1"))
    world.add(make_node("b1", zone="b", cpu="2"), make_node("b2", zone="b", cpu="2"))
    world.add(make_node("nowhere", cpu="16"))


def test_a_gang_stays_within_one_domain() -> None:
    world = World(PLACEMENTS)
    three_zones(world)
    world.add(make_group(min_count=3, topology=ZONE), *(member(f"p{i}") for i in range(3)))
    world.run()
    assert len(world.bound) == 3
    assert set(world.bound.values()) <= {"b1", "b2"}


def test_without_a_constraint_the_whole_cluster_is_one_placement() -> None:
    world = World(PLACEMENTS)
    three_zones(world)
    world.add(make_group(min_count=3), *(member(f"p{i}", cpu="4") for i in range(3)))
    world.run()
    assert set(world.bound.values()) == {"nowhere"}


def test_a_gang_too_large_for_every_domain_is_told_so() -> None:
    world = World(PLACEMENTS)
    three_zones(world)
    world.add(make_group(min_count=5, topology=ZONE), *(member(f"p{i}") for i in range(5)))
    world.run()
    assert not world.places
    [told] = world.outcomes
    assert told.condition.message == (
        "pod group is unschedulable, 0/2 placements are available, first placement status: "
        "minCount (5) cannot be satisfied: 2 scheduled, 2 remaining, "
        "pod group preemption: No preemption victims found for incoming preemptor"
    )
    refused = [f.message for f in world.failures if f.message.startswith("0/")]
    assert set(refused) == {"0/2 nodes are available: 2 Insufficient cpu."}


def test_no_node_with_the_label_means_no_placement() -> None:
    world = World(PLACEMENTS)
    world.add(make_node("n1"), make_group(min_count=1, topology="rack"), member("p0"))
    world.run()
    assert world.messages("p0") == ["no feasible placements found"]
    assert world.failures[0].reason == "Unschedulable"
    assert world.outcomes[0].condition.message == (
        "no feasible placements found, "
        "pod group preemption: No preemption victims found for incoming preemptor"
    )


def test_later_pods_follow_the_earlier_ones() -> None:
    world = World(PLACEMENTS)
    three_zones(world)
    world.add(make_group(min_count=1, topology=ZONE))
    world.add(member("first", node_name="a1"), member("second"), member("third"))
    world.run()
    assert len(world.bound) == 1, "zone a has room for one more"
    assert set(world.bound.values()) == {"a2"}


def test_the_placement_that_takes_more_pods_wins() -> None:
    world = World(PLACEMENTS)
    three_zones(world)
    world.add(make_group(min_count=2, topology=ZONE), *(member(f"p{i}") for i in range(4)))
    world.run()
    assert len(world.bound) == 4
    assert set(world.bound.values()) == {"b1", "b2"}


def test_of_placements_that_take_as_many_the_fuller_one_wins() -> None:
    world = World(PLACEMENTS)
    world.add(make_node("a1", zone="a", cpu="8"), make_node("b1", zone="b", cpu="4"))
    world.add(make_group(min_count=2, topology=ZONE), member("p0"), member("p1"))
    world.run()
    assert set(world.bound.values()) == {"b1"}


def generator(groups: PodGroups, *objects: PodGroup) -> tuple[TopologyPlacementGenerator, NodeView]:
    nodes = [make_node("a1", zone="a"), make_node("b1", zone="b"), make_node("plain")]
    state = cluster(nodes, others=objects)
    handle = Handle(state.listers, World(PLACEMENTS).gates, groups=groups)
    return TopologyPlacementGenerator(None, handle), NodeView(state)


@pytest.mark.parametrize(
    ("places", "error"),
    [
        (["a1", "b1"], "more than 1 domain found for pod group: a, b"),
        (["plain"], "no topology domain found for pod default/p0"),
        (
            ["gone"],
            'getting node for pod default/p0: nodeinfo not found for node name "gone"',
        ),
    ],
)
def test_pods_already_placed_badly_are_an_error(places: list[str], error: str) -> None:
    groups = PodGroups()
    for number, node_name in enumerate(places):
        groups.put(member(f"p{number}", node_name=node_name))
    plugin, nodes = generator(groups, make_group(topology=ZONE))
    answer = plugin.generate_placements(KEY, Placement("", nodes.rows), nodes)
    text = f"cannot determine domain for already scheduled pods: {error}"
    assert answer == Status(Code.ERROR, (text,))


def test_a_missing_group_is_an_error() -> None:
    plugin, nodes = generator(PodGroups())
    answer = plugin.generate_placements(KEY, Placement("", nodes.rows), nodes)
    assert answer == Status(Code.ERROR, ('podgroup.scheduling.k8s.io "gang" not found',))


def test_the_fuller_placement_scores_higher_over_all_its_nodes() -> None:
    world = World(PLACEMENTS)
    fit = world.scheduler.profiles["default-scheduler"].plugins["NodeResourcesFit"]
    assert isinstance(fit, NodeResourcesFit)
    nodes = [make_node("n1", cpu="4", memory="4Gi"), make_node("n2", cpu="4", memory="4Gi")]
    state = cluster(nodes, [make_pod("old", cpu="1", memory="1Gi", node_name="n1")])
    view = NodeView(state)
    pods = (member("p0", cpu="2", memory="1Gi"), member("p1", cpu="1", memory="2Gi"))
    score = fit.score_placement(KEY, Assignments(Placement("", view.rows), pods), view)
    assert score == 50, "4 of 8 CPUs and 4 of 8 GiB"


def test_the_placement_plugins_are_off_by_default() -> None:
    config = load_config(HEADER, "test")
    names = {ref.name for ref in config.profiles[0].plugins.multi_point.enabled}
    assert not names & {"GangScheduling", "TopologyPlacementGenerator", "PodGroupPodsCount"}
