"""NodeName: a pod that names its node goes there or nowhere."""

from moorage.framework.cluster_events import ActionType, EventResource
from moorage.plugins.node_name import NodeName
from plugins.tables import FITS, FilterCase, check_filter, registered, table
from reference.objects import make_node, make_pod

NODES = [make_node("a"), make_node("b")]
OTHER = "node(s) didn't match the requested node name"


@table(
    FilterCase("no name", make_pod("p"), NODES, {"a": FITS, "b": FITS}),
    FilterCase("a name", make_pod("p", node="b"), NODES, {"a": OTHER, "b": FITS}),
    FilterCase("nobody's name", make_pod("p", node="c"), NODES, {"a": OTHER, "b": OTHER}),
)
def test_only_the_named_node_fits(case: FilterCase) -> None:
    check_filter(NodeName, case)


def test_it_registers_the_events_that_upstreams_does() -> None:
    assert registered(NodeName) == [(EventResource.NODE, ActionType.ADD, False)]
