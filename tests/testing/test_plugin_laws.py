"""check_plugin: in-tree plugins keep the laws, and plugins that break one are found."""

from collections.abc import Hashable

import numpy as np
import pytest

from moorage.cluster.columns import Ints
from moorage.cluster.stamps import Aspect
from moorage.cluster.view import NodeRow, NodeView
from moorage.config import DEFAULT_FEATURE_GATES, default_args, default_plugins
from moorage.config.args import ARGS_OF_PLUGIN
from moorage.framework.plugin import FilterPlugin, NodeFilterPlugin, Plugin, ScorePlugin
from moorage.framework.status import Reason, Verdicts
from moorage.model.pod import Pod
from moorage.plugins.defaults import in_tree_registry
from moorage.testing import LawBrokenError, check_plugin

CROWDED = Reason("node(s) were crowded")

IN_TREE = [
    in_tree_registry()[ref.name]
    for ref in default_plugins(DEFAULT_FEATURE_GATES).multi_point.enabled
]
ANSWERING = [plugin for plugin in IN_TREE if issubclass(plugin, FilterPlugin | ScorePlugin)]


@pytest.mark.parametrize("plugin", ANSWERING, ids=lambda plugin: plugin.name)
def test_in_tree_plugins_keep_the_laws(plugin: type[Plugin]) -> None:
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
        (ReadsUnstated, "kept and refreshed"),
        (KeyTooCoarse, "same key|kept and refreshed"),
        (LooksAcross, "when asked about"),
        (Scribbles, "changed the cluster"),
    ],
    ids=["reads", "key", "row_local", "writing"],
)
def test_a_broken_law_is_found_and_named(plugin: type[Plugin], complaint: str) -> None:
    with pytest.raises(LawBrokenError, match=complaint) as broken:
        check_plugin(plugin)
    assert str(broken.value).startswith(plugin.name)
    assert "seed" in str(broken.value)


def test_a_plugin_that_answers_for_no_nodes_is_refused() -> None:
    with pytest.raises(TypeError, match="answers for no nodes"):
        check_plugin(Plugin)
