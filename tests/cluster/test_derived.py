"""Columns that are kept up to date equal those that are worked out anew, after any changes."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.building import make_state
from moorage.cluster.columns import Ints
from moorage.cluster.derived import EXACT, DerivedColumns, Floats, are_plain, plain_amounts
from moorage.cluster.state import ClusterState
from moorage.cluster.view import NodeView
from reference.objects import make_node, make_pod

NODES = 6
steps = st.lists(
    st.tuples(
        st.sampled_from(["pod", "node", "gone", "too large", "look"]), st.integers(0, NODES - 1)
    ),
    max_size=60,
)
TOO_LARGE = 1000


def both(nodes: NodeView) -> Floats | None:
    cpu = nodes.allocatable("cpu")
    if (cpu >= TOO_LARGE * 1000).any():
        return None
    return np.array([nodes.pod_count, cpu], np.float64)


def both_of_row(nodes: NodeView, row: int) -> Sequence[float] | None:
    cpu = nodes.amounts_at(row, "cpu")[1]
    return None if cpu >= TOO_LARGE * 1000 else (nodes.pod_count_at(row), cpu)


@given(steps)
def test_derived_columns_follow_their_rows(steps: list[tuple[str, int]]) -> None:
    state = make_state([make_node(f"n{i}") for i in range(NODES)])
    columns = DerivedColumns(both, both_of_row)
    for number, (step, place) in enumerate(steps):
        if step == "pod" and f"n{place}" in state.nodes.row_of:
            state.assume(make_pod(f"p{number}"), f"n{place}")
        elif step == "node":
            state.add_node(make_node(f"n{place}", cpu=str(number + 1)))
        elif step == "too large":
            state.add_node(make_node(f"n{place}", cpu=str(TOO_LARGE)))
        elif step == "gone" and f"n{place}" in state.nodes.row_of and len(state) > 1:
            if not list(state.pods.on(state.nodes.row_of[f"n{place}"])):
                state.remove_node(f"n{place}")
        else:
            check(columns, state)
    check(columns, state)


def check(columns: DerivedColumns, state: ClusterState) -> None:
    nodes = NodeView(state)
    some = nodes.rows[::2]
    expected, found, of_some = both(nodes), columns.of(nodes), columns.of(nodes.take(some))
    if expected is None or found is None or of_some is None:
        assert expected is found is of_some
        return
    assert found.tolist() == expected.tolist()
    assert of_some.tolist() == expected[:, some].tolist()


def test_views_of_other_pods_are_worked_out_for_themselves() -> None:
    state = make_state([make_node("n0"), make_node("n1")])
    columns, nodes = DerivedColumns(both, both_of_row), NodeView(state)
    before = columns.of(nodes)
    assert before is not None
    added = columns.of(nodes.what_if({1: [make_pod("more")]}, {}))
    assert added is not None
    assert added.tolist() == [[before[0][1] + 1], [before[1][1]]]
    after = columns.of(nodes)
    assert after is not None
    assert after.tolist() == before.tolist()


@pytest.mark.parametrize(
    ("used", "total", "plain"),
    [
        (0, 1, True),
        (5, 4, True),
        (EXACT - 1, EXACT - 1, True),
        (0, 0, False),
        (-1, 4, False),
        (EXACT, 4, False),
        (0, EXACT, False),
        (0, -1, False),
    ],
)
def test_amounts_are_plain_in_a_row_as_in_a_column(used: int, total: int, plain: bool) -> None:
    def column(amount: int) -> Ints:
        return np.array([1, amount, 1], np.int64)

    assert are_plain([(1, 1), (used, total)]) == plain
    found = plain_amounts([column(1), column(used)], [column(1), column(total)])
    assert (found is not None) == plain
    assert found is None or found[:, 1].tolist() == [1, used, 1, total]
