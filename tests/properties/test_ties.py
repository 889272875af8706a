"""Which of the best nodes is taken: the short way, the plain way and plain Python agree."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.building import make_state
from moorage.engine.fast_lane import FastLane
from moorage.engine.selection import best
from reference.objects import make_node, make_pod

# Few different values, so that many nodes are equal; -1 stands for nodes that do not fit.
kinds_of_nodes = st.tuples(st.integers(-1, 2), st.integers(0, 3), st.sampled_from("abc"))


@settings(max_examples=300)
@given(nodes=st.lists(kinds_of_nodes, min_size=1, max_size=12), start=st.integers(0, 30))
def test_all_ways_take_the_same_of_equal_nodes(
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
    assert best(feasible, rows, points[rows].astype(np.int64), emptiness) == expected
    assert FastLane(state)._best(points, start) == expected
