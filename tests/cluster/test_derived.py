"""Columns that are kept up to date equal those that are worked out anew, after any changes."""

from hypothesis import given
from hypothesis import strategies as st

from framework.building import make_state
from moorage.cluster.columns import Ints
from moorage.cluster.derived import DerivedColumn
from moorage.cluster.state import ClusterState
from moorage.cluster.view import NodeView
from reference.objects import make_node, make_pod

NODES = 6
steps = st.lists(
    st.tuples(st.sampled_from(["pod", "node", "gone", "look"]), st.integers(0, NODES - 1)),
    max_size=60,
)


def twice(nodes: NodeView) -> Ints:
    return nodes.pod_count * 2 + nodes.allocatable("cpu")


def twice_of_row(nodes: NodeView, row: int) -> int:
    return nodes.pod_count_at(row) * 2 + nodes.amounts_at(row, "cpu")[1]


@given(steps)
def test_a_derived_column_follows_its_rows(steps: list[tuple[str, int]]) -> None:
    state = make_state([make_node(f"n{i}") for i in range(NODES)])
    column = DerivedColumn(twice, twice_of_row)
    for number, (step, place) in enumerate(steps):
        if step == "pod" and f"n{place}" in state.nodes.row_of:
            state.assume(make_pod(f"p{number}"), f"n{place}")
        elif step == "node":
            state.add_node(make_node(f"n{place}", cpu=str(number + 1)))
        elif step == "gone" and f"n{place}" in state.nodes.row_of and len(state) > 1:
            if not list(state.pods.on(state.nodes.row_of[f"n{place}"])):
                state.remove_node(f"n{place}")
        else:
            check(column, state)
    check(column, state)


def check(column: DerivedColumn, state: ClusterState) -> None:
    nodes = NodeView(state)
    expected = twice(nodes).tolist()
    assert column.of(nodes).tolist() == expected
    some = nodes.rows[::2]
    assert column.of(nodes.take(some)).tolist() == [expected[row] for row in some]


def test_views_of_other_pods_are_worked_out_for_themselves() -> None:
    state = make_state([make_node("n0"), make_node("n1")])
    column, nodes = DerivedColumn(twice, twice_of_row), NodeView(state)
    before = column.of(nodes).tolist()
    added = nodes.what_if({1: [make_pod("more")]}, {})
    assert column.of(added).tolist() == [before[1] + 2]
    assert column.of(nodes).tolist() == before
