"""NodeName: a pod that names its node goes there or nowhere."""

from framework.building import make_plugin, make_state
from moorage.cluster.view import NodeView
from moorage.framework.cluster_events import ActionType, EventResource
from moorage.framework.plugin import PreFilterResult
from moorage.plugins.node_name import NodeName
from plugins.tables import FITS, FilterCase, check_filter, registered, table
from reference.objects import make_node, make_pod

NODES = [make_node("a"), make_node("b")]
OTHER = "node(s) didn't match the requested node name"


@table(
    FilterCase("no name", make_pod("p"), NODES, {"a": FITS, "b": FITS}),
    FilterCase("a name", make_pod("p", node="b"), NODES, {"b": FITS}),
    FilterCase("nobody's name", make_pod("p", node="c"), NODES, {}),
)
def test_only_the_named_node_is_looked_at(case: FilterCase) -> None:
    check_filter(NodeName, case)


def test_other_nodes_are_refused_if_they_are_looked_at_all_the_same() -> None:
    state = make_state(NODES)
    plugin, nodes = make_plugin(NodeName, state), NodeView(state)
    verdicts = plugin.filter(make_pod("p", node="b"), nodes, None)
    assert [[reason.text for reason in verdicts.reasons_of(row)] for row in (0, 1)] == [[OTHER], []]


def test_a_name_narrows_the_attempt_to_its_node() -> None:
    state = make_state(NODES)
    plugin, nodes = make_plugin(NodeName, state), NodeView(state)
    assert plugin.pre_filter(make_pod("p"), nodes) == PreFilterResult(None)
    only = PreFilterResult(None, frozenset({"b"}))
    assert plugin.pre_filter(make_pod("p", node="b"), nodes) == only


def test_it_registers_the_events_that_upstreams_does() -> None:
    assert registered(NodeName) == [(EventResource.NODE, ActionType.ADD, False)]
