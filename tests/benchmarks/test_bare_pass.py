"""The yardstick of the benchmarks finds the node that it says it finds."""

from moorage.benchmarks.bare_pass import BarePass
from moorage.cluster.view import NodeView
from moorage.testing import cluster, make_node, make_pod

POD = make_pod("ship", cpu="2", memory="2Gi")


def test_it_takes_the_least_allocated_node_that_has_room() -> None:
    nodes = [
        make_node("small", cpu="1"),
        make_node("full", cpu="8", memory="8Gi"),
        make_node("empty", cpu="8", memory="8Gi"),
        make_node("crowded", cpu="64", memory="64Gi", pods=1),
        make_node("tainted", cpu="64", memory="64Gi", taints=["pool=gpu:NoSchedule"]),
        make_node("cordoned", cpu="64", memory="64Gi", unschedulable=True),
    ]
    pods = [
        make_pod("a", node_name="full", cpu="4", memory="4Gi"),
        make_pod("b", node_name="crowded"),
    ]
    view = NodeView(cluster(nodes, pods))
    assert view.node(BarePass(view, POD)()).name == "empty"


def test_where_nothing_fits_it_finds_nothing() -> None:
    assert BarePass(NodeView(cluster([make_node("small", cpu="1")])), POD)() == -1
