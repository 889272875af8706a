"""An expression has the same values and failures over columns and node by node."""

from collections.abc import Sequence

from hypothesis import event, given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from moorage.cluster.state import ClusterState
from moorage.cluster.view import NodeView
from moorage.config.expressions import FILTER_EXPRESSIONS, SCORE_EXPRESSIONS
from moorage.plugins.expressions.expression import NodeExpression, Values
from moorage.testing import cluster, make_node, make_pod
from properties.harness import effort

Maps = Sequence[dict[str, str]]
KEYS = ("disk", "rank", "none")
POD = make_pod(
    "ship",
    cpu="300m",
    labels={"disk": "ssd", "rank": "3"},
    priority=-7,
    metadata={"annotations": {"note": "ssd"}},
)


def _harbour() -> ClusterState:
    """Nodes with and without labels, amounts at both ends of 64 bits, with and without pods."""
    amounts: Maps = ({}, {"gpu.io/x": "2"}, {"gpu.io/x": "9223372036854775807"})
    labels: Maps = ({}, {"disk": "ssd"}, {"disk": "hdd", "rank": "7"}, {"disk": "", "rank": "-x"})
    nodes = [
        make_node(f"quay-{i}", labels=labels[i % 4], allocatable=amounts[i % 3], cpu=str(i % 5))
        for i in range(24)
    ]
    requests: Maps = ({}, {"gpu.io/x": "3"}, {"cpu": "1500m", "gpu.io/x": "9223372036854775807"})
    pods = [
        make_pod(f"pod-{i}", node_name=f"quay-{i % 9}", requests=requests[i % 3]) for i in range(30)
    ]
    return cluster(nodes, pods)


STATE = _harbour()
ALL = NodeView(STATE)

labels = st.sampled_from(KEYS)
text_constants = st.sampled_from(('"ssd"', '"hdd"', '""', '"7"', '"quay-3"'))
int_constants = st.sampled_from(
    ("0", "1", "-1", "2", "-7", "1500", "9223372036854775807", "-9223372036854775808")
)
resources = st.sampled_from(('["gpu.io/x"]', ".cpu", ".memory", '["no.such/thing"]'))


def _built(template: str, *parts: SearchStrategy[str]) -> SearchStrategy[str]:
    return st.tuples(*parts).map(lambda drawn: template.format(*drawn))


def _texts() -> SearchStrategy[str]:
    look_up = st.sampled_from(("node.labels.{}", "pod.labels.{}", 'node.labels["{}"]'))
    return st.one_of(
        text_constants,
        st.tuples(look_up, labels).map(lambda drawn: drawn[0].format(drawn[1])),
        st.just("pod.annotations.note"),
        st.just("pod.namespace"),
        st.just("node.name"),
        _built("node.labels[?'{}'].orValue({})", labels, text_constants),
        _built("node.labels.{}.upperAscii()", labels),
    )


def _ints(depth: int) -> SearchStrategy[str]:
    leaves = st.one_of(
        int_constants,
        _built("node.allocatable{}", resources),
        _built("node.requested{}", resources),
        _built("pod.requests{}", resources),
        st.sampled_from(("pod.priority", "size(node.pods)", "node.pods.size()")),
        _built("int(node.labels.{})", labels),
        _built("size(node.labels.{})", labels),
    )
    if not depth:
        return leaves
    inner = _ints(depth - 1)
    return st.one_of(
        leaves,
        _built("({} {} {})", inner, st.sampled_from("+-*/%"), inner),
        _built("(-({}))", inner),
        _built("({} ? {} : {})", _bools(depth - 1), inner, inner),
    )


def _bools(depth: int) -> SearchStrategy[str]:
    tests = st.sampled_from(("startsWith", "endsWith", "contains", "matches"))
    leaves = st.one_of(
        st.sampled_from(("true", "false")),
        _built("({} {} {})", _texts(), st.sampled_from(("==", "!=")), _texts()),
        _built("has(node.labels.{})", labels),
        _built('("{}" in node.labels)', labels),
        st.just('("gpu.io/x" in node.allocatable)'),
        st.just('("gpu.io/x" in node.requested)'),
        _built("({} in [{}, {}])", _texts(), text_constants, text_constants),
        _built("({} in [])", _texts()),
        _built("node.labels.{}.{}({})", labels, tests, text_constants),
    )
    if not depth:
        return leaves
    inner = _bools(depth - 1)
    numbers = _ints(depth - 1)
    orders = st.sampled_from(("==", "!=", "<", "<=", ">", ">="))
    return st.one_of(
        leaves,
        _built("({} {} {})", inner, st.sampled_from(("&&", "||", "==")), inner),
        _built("(!{})", inner),
        _built("({} ? {} : {})", inner, inner, inner),
        _built("({} {} {})", numbers, orders, numbers),
        _built("({} in [{}, {}])", numbers, int_constants, int_constants),
    )


def _told(found: Values) -> list[object]:
    """The value of each node, or the sentence of its failure."""
    values: list[object] = found.values.tolist()
    if found.failed is None:
        return values
    codes = found.failed.tolist()
    return [found.failures.sentence(c) or v for v, c in zip(values, codes, strict=True)]


def _agree(expression: NodeExpression, nodes: NodeView) -> None:
    by_column = _told(expression.values(POD, nodes))
    failures = sum(isinstance(told, str) for told in by_column)
    event("all fail" if failures == len(by_column) else "some fail" if failures else "none fails")
    assert by_column == _told(expression.by_row(POD, nodes))


@effort(400)
@given(_bools(3))
def test_conditions_over_columns_are_those_of_every_single_node(text: str) -> None:
    expression = NodeExpression(text, FILTER_EXPRESSIONS)
    assert expression.in_columns
    _agree(expression, ALL)


@effort(400)
@given(_ints(3), st.lists(st.integers(0, 23), unique=True))
def test_numbers_over_columns_are_those_of_every_single_node(text: str, rows: list[int]) -> None:
    expression = NodeExpression(text, SCORE_EXPRESSIONS)
    assert expression.in_columns
    _agree(expression, ALL)
    _agree(expression, ALL.take(ALL.rows[rows]))


@given(_ints(2), st.integers(0, 8))
def test_nodes_as_they_would_be_have_the_values_of_such_nodes(text: str, row: int) -> None:
    added = make_pod("more", requests={"gpu.io/x": "1", "cpu": "1"})
    view = ALL.what_if({row: [added]}, {row: ALL.pods_on(row)[:1]})
    _agree(NodeExpression(text, SCORE_EXPRESSIONS), view)
