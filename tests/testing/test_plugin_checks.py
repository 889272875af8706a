"""check_plugin: in-tree plugins pass, and plugins with a fault are found."""

from collections.abc import Hashable

import numpy as np
import pytest

from moorage.cluster.columns import Ints
from moorage.cluster.stamps import Aspect
from moorage.cluster.view import NodeRow, NodeView
from moorage.config import DEFAULT_FEATURE_GATES
from moorage.config.args import ARGS_OF_PLUGIN
from moorage.config.defaulting import default_args
from moorage.config.plugins import default_plugins
from moorage.framework.plugin import (
    FilterPlugin,
    NodeFilterPlugin,
    Plugin,
    PreScorePlugin,
    ScorePlugin,
    SingleRowMixin,
)
from moorage.framework.status import SKIP, Reason, Skip, Verdicts
from moorage.model.pod import Pod
from moorage.plugins.defaults import in_tree_registry
from moorage.testing import PluginCheckError, check_plugin

CROWDED = Reason("node(s) were crowded")

IN_TREE = [
    in_tree_registry()[ref.name]
    for ref in default_plugins(DEFAULT_FEATURE_GATES).multi_point.enabled
]
ANSWERING = [plugin for plugin in IN_TREE if issubclass(plugin, FilterPlugin | ScorePlugin)]


@pytest.mark.parametrize("plugin", ANSWERING, ids=lambda plugin: plugin.name)
def test_in_tree_plugins_pass(plugin: type[Plugin]) -> None:
    known = plugin.name in ARGS_OF_PLUGIN
    args = default_args(plugin.name, DEFAULT_FEATURE_GATES) if known else None
    check_plugin(plugin, args, rounds=4)


class Honest(NodeFilterPlugin):
    name = "Honest"
    reads = (Aspect.PODS,)

    def pod_key(self, pod: Pod) -> Hashable:
        return pod.priority

    def filter_node(self, pod: Pod, node: NodeRow) -> Reason | None:
        return CROWDED if len(node.pods) > 1 + pod.priority // 10 else None


class ReadsUnstated(Honest):
    name = "ReadsUnstated"
    reads = (Aspect.TAINTS,)


class KeyTooCoarse(Honest):
    name = "KeyTooCoarse"

    def pod_key(self, pod: Pod) -> Hashable:
        return "all alike"


class LooksAcross(FilterPlugin[None]):
    """Compares with the busiest node, yet claims to look at one row only."""

    name = "LooksAcross"
    reads = (Aspect.PODS,)

    def pod_key(self, pod: Pod) -> Hashable:
        return ()

    def filter(self, pod: Pod, nodes: NodeView, state: None) -> Verdicts:
        count = nodes.pod_count
        return Verdicts(len(nodes)).reject(count < count.max(), CROWDED)


class Scribbles(ScorePlugin[None]):
    """Takes the lock off an array and writes on it."""

    name = "Scribbles"

    def score(self, pod: Pod, nodes: NodeView, state: None) -> Ints:
        column = nodes.requested("cpu")
        column.flags.writeable = True
        column += 1
        return np.zeros(len(nodes), np.int64)


def test_an_honest_plugin_passes() -> None:
    check_plugin(Honest)


@pytest.mark.parametrize(
    ("plugin", "complaint"),
    [
        (ReadsUnstated, "asked again about nodes that changed"),
        (KeyTooCoarse, "same key"),
        (LooksAcross, "when asked about"),
        (Scribbles, "changed the cluster"),
    ],
    ids=["reads", "key", "row_local", "writing"],
)
def test_what_is_wrong_is_found_and_named(plugin: type[Plugin], complaint: str) -> None:
    with pytest.raises(PluginCheckError, match=complaint) as broken:
        check_plugin(plugin)
    assert str(broken.value).startswith(plugin.name)
    assert "seed" in str(broken.value)


def test_a_plugin_that_answers_for_no_nodes_is_refused() -> None:
    with pytest.raises(TypeError, match="answers for no nodes"):
        check_plugin(Plugin)


class SingleRows(FilterPlugin[None], ScorePlugin[None], SingleRowMixin):
    """Answers for one row as for all of them."""

    name = "SingleRows"
    reads = (Aspect.REQUESTED,)

    def pod_key(self, pod: Pod) -> Hashable:
        return pod.priority

    def filter(self, pod: Pod, nodes: NodeView, state: None) -> Verdicts:
        return Verdicts(len(nodes)).reject(nodes.pod_count > 1, CROWDED)

    def rejects_row(self, pod: Pod, nodes: NodeView, row: int, state: object) -> bool:
        return nodes.pod_count_at(row) > 1

    def score(self, pod: Pod, nodes: NodeView, state: None) -> Ints:
        return np.minimum(nodes.pod_count, 100)

    def score_row(self, pod: Pod, nodes: NodeView, row: int, state: object) -> int:
        return min(nodes.pod_count_at(row), 100)


class RejectsTheNextRow(SingleRows):
    name = "RejectsTheNextRow"

    def rejects_row(self, pod: Pod, nodes: NodeView, row: int, state: object) -> bool:
        return super().rejects_row(pod, nodes, (row + 1) % len(nodes), state)


class ScoresARowTwice(SingleRows):
    name = "ScoresARowTwice"

    def score_row(self, pod: Pod, nodes: NodeView, row: int, state: object) -> int:
        return 2 * super().score_row(pod, nodes, row, state)


class PreparesFromNodes(SingleRows, PreScorePlugin[int]):
    """Scores relate to the busiest node at the time of the first pod."""

    name = "PreparesFromNodes"

    def pre_score(self, pod: Pod, nodes: NodeView) -> int:
        return int(nodes.pod_count.max())

    def normalize(self, scores: Ints, state: object) -> Ints:
        assert isinstance(state, int)
        return np.minimum(scores * 100 // max(state, 1), 100)


class SkipsByTheCluster(SingleRows, PreScorePlugin[int]):
    name = "SkipsByTheCluster"

    def pre_score(self, pod: Pod, nodes: NodeView) -> int | Skip:
        return SKIP if int(nodes.pod_count.sum()) % 2 else 10


def test_single_rows_that_agree_pass() -> None:
    check_plugin(SingleRows)


@pytest.mark.parametrize(
    ("plugin", "complaint"),
    [
        (RejectsTheNextRow, r"rejects_row of pod \S+ says (True|False) of \S+, but filter says"),
        (ScoresARowTwice, r"score_row of pod \S+ says \d+ of \S+, but score says \d+"),
        (PreparesFromNodes, r"normalize of pod \S+ says .* which has the same key"),
        (SkipsByTheCluster, r"pre_score of pod \S+: it (skips|looks at nodes), but it"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_short_cuts_that_do_not_agree_are_found(plugin: type[Plugin], complaint: str) -> None:
    with pytest.raises(PluginCheckError, match=complaint):
        check_plugin(plugin)
