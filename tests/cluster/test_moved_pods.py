"""Pods are summed up kind by kind, which must come to the same as pod by pod."""

from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.cluster.columns import Ints
from moorage.cluster.moved_pods import MovedPods
from moorage.cluster.view import NodeView
from moorage.model.pod import Pod
from moorage.model.resources import CPU
from moorage.testing import cluster, make_node, make_pod

PLACES = 4


def _pod(cpu: int, number: int = 0, node_name: str = "") -> Pod:
    return make_pod(f"asks-{cpu}-{number}", cpu=str(cpu), node_name=node_name)


KINDS = [_pod(cpu) for cpu in range(3)]
pods = st.builds(
    lambda kind, number, fresh: _pod(kind, number) if fresh else KINDS[kind],
    st.integers(0, 2),
    st.integers(0, 9),
    st.booleans(),
)
moves = st.lists(st.tuples(st.integers(0, PLACES - 1), st.lists(pods, max_size=3)), max_size=4)


@settings(max_examples=100, deadline=None)
@given(moves, st.sampled_from([1, -1]))
def test_kind_by_kind_comes_to_the_same_as_pod_by_pod(
    moved: Sequence[tuple[int, list[Pod]]], sign: int
) -> None:
    column: Ints = np.full(PLACES, 7, np.int64)
    MovedPods(moved).add_to(column, lambda requests: requests.occupied.get(CPU, 0), sign)
    expected = [7] * PLACES
    for place, here in moved:
        expected[place] += sign * sum(pod.requests.occupied.get(CPU, 0) for pod in here)
    assert column.tolist() == expected


def test_a_hypothesis_adds_and_removes_pods_of_one_kind_on_many_nodes() -> None:
    nodes = [make_node(f"n{i}") for i in range(3)]
    there = _pod(1, node_name="n0")
    state = cluster(nodes, pods=[there, _pod(1, 1, node_name="n0")])
    view = NodeView(state).what_if({0: [_pod(2)], 2: [KINDS[1], KINDS[1]]}, {0: [there]})
    assert view.rows.tolist() == [0, 2]
    assert view.pod_count.tolist() == [2, 2]
    assert view.requested(CPU).tolist() == [3000, 2000]
    assert NodeView(state).pod_count.tolist() == [2, 0, 0]
