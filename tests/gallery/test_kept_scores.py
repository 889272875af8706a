"""Scores that are kept: worked out once for each state of a node, bounded, true."""

import numpy as np

from gallery.gpu_clusters import everywhere, gpu_node, gpu_pod
from moorage.cluster.columns import Ints
from moorage.cluster.stamps import Aspect
from moorage.cluster.view import NodeView
from moorage.gallery.kept_scores import MOST_KINDS, KeptScores
from moorage.testing import cluster, make_pod
from reference.shared_gpus import Wish


class Counting:
    """Scores by the number of pods, and notes which nodes were asked about."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def __call__(self, nodes: NodeView) -> Ints:
        self.asked.append(nodes.names())
        return nodes.pod_count.copy()


def test_only_nodes_that_changed_are_asked_about_again() -> None:
    state = cluster([gpu_node(name) for name in "abc"])
    kept, score = KeptScores((Aspect.PODS, Aspect.LABELS)), Counting()
    assert kept.of("kind", everywhere(state), score).tolist() == [0, 0, 0]
    state.add_pod(gpu_pod("ship", Wish(1), node_name="b"))
    assert kept.of("kind", everywhere(state), score).tolist() == [0, 1, 0]
    assert kept.of("kind", everywhere(state).take(np.array([1])), score).tolist() == [1]
    assert score.asked == [["a", "b", "c"], ["b"]]


def test_nodes_left_out_are_asked_about_when_they_are_there() -> None:
    state = cluster([gpu_node(name) for name in "abc"])
    kept, score = KeptScores((Aspect.PODS,)), Counting()
    kept.of("kind", everywhere(state).take(np.array([2])), score)
    kept.of("kind", everywhere(state), score)
    assert score.asked == [["c"], ["a", "b"]]


def test_nodes_that_come_and_go_are_no_others() -> None:
    state = cluster([gpu_node(name) for name in "abc"], [make_pod("ship", node_name="c")])
    kept, score = KeptScores((Aspect.PODS,)), Counting()
    kept.of("kind", everywhere(state), score)
    state.remove_node("a")  # the last node takes its row
    assert kept.of("kind", everywhere(state), score).tolist() == [1, 0]
    state.add_node(gpu_node("d"))
    assert kept.of("kind", everywhere(state), score).tolist() == [1, 0, 0]


def test_what_ifs_are_not_kept() -> None:
    state = cluster([gpu_node("a")])
    kept, score = KeptScores((Aspect.PODS,)), Counting()
    supposed = everywhere(state).what_if({0: [make_pod("ship")]}, {})
    assert kept.of("kind", supposed, score).tolist() == [1]
    assert kept.of("kind", everywhere(state), score).tolist() == [0]


def test_kinds_seen_last_are_kept_and_no_more_than_fit() -> None:
    state = cluster([gpu_node("a")])
    kept, score = KeptScores((Aspect.PODS,)), Counting()
    for kind in range(MOST_KINDS + 5):
        kept.of(kind, everywhere(state), score)
        kept.of("often", everywhere(state), score)
    assert len(kept) == MOST_KINDS
    assert len(score.asked) == MOST_KINDS + 6


def test_another_cluster_has_other_scores() -> None:
    kept, score = KeptScores((Aspect.PODS,)), Counting()
    one, other = cluster([gpu_node("a")]), cluster([gpu_node("b")])
    kept.of("kind", everywhere(one), score)
    kept.of("kind", everywhere(other), score)
    assert score.asked == [["a"], ["b"]]
