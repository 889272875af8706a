"""Which of the best nodes is taken: columns and plain Python agree."""

from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.building import make_state
from moorage.engine.selection import NodeSearch, best, in_this_order
from reference.objects import make_node, make_pod

# Few different values, so that many nodes are equal; -1 stands for nodes that do not fit.
kinds_of_nodes = st.tuples(st.integers(-1, 2), st.integers(0, 3), st.sampled_from("abc"))


@settings(max_examples=300)
@given(nodes=st.lists(kinds_of_nodes, min_size=1, max_size=12), start=st.integers(0, 30))
def test_columns_take_the_same_of_equal_nodes(
    nodes: list[tuple[int, int, str]], start: int
) -> None:
    totals = [total for total, _, _ in nodes]
    if max(totals) < 0:
        return
    state = make_state([make_node(f"n{i}", zone=zone) for i, (_, _, zone) in enumerate(nodes)])
    for row, (_, pods, _) in enumerate(nodes):
        for number in range(pods):
            state.assume(make_pod(f"p{row}-{number}"), f"n{row}")
    order = np.roll(state.order.rows(state.nodes.row_of), -(start % len(nodes)))

    equals = [row for row in order.tolist() if totals[row] == max(totals)]
    expected = min(equals, key=lambda row: nodes[row][1])

    feasible = np.array([row for row in order.tolist() if totals[row] >= 0])
    rows = np.sort(feasible)
    points = np.array(totals, np.int32)
    emptiness = state.nodes.emptiness.values
    scores = points[rows].astype(np.int64)
    assert best(in_this_order(feasible, len(nodes)), scores, emptiness) == expected


@given(nodes=st.lists(kinds_of_nodes, min_size=1, max_size=12), dice=st.randoms())
def test_of_equals_the_first_by_name_is_taken_however_nodes_came(
    nodes: list[tuple[int, int, str]], dice: Random
) -> None:
    totals = [total for total, _, _ in nodes]
    if max(totals) < 0:
        return
    came = [make_node(f"n{i:02}", zone=zone) for i, (_, _, zone) in enumerate(nodes)]
    dice.shuffle(came)
    state = make_state(came)
    for i, (_, pods, _) in enumerate(nodes):
        for number in range(pods):
            state.assume(make_pod(f"p{i}-{number}"), f"n{i:02}")
    turns = [sum(other == zone for *_, other in nodes[:i]) for i, (*_, zone) in enumerate(nodes)]
    equals = [i for i, total in enumerate(totals) if total == max(totals)]
    expected = min(equals, key=lambda i: (nodes[i][1], turns[i], nodes[i][2]))

    points = np.array([totals[int(node.name[1:])] for node in state.nodes.nodes], np.int64)
    rows = np.flatnonzero(points >= 0)
    found = NodeSearch().all_feasible(state.order, state.nodes.row_of, rows)
    chosen = best(found, points[rows], state.nodes.emptiness.values)
    assert state.nodes.nodes[chosen].name == f"n{expected:02}"
