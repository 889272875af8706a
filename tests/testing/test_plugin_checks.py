"""check_plugin: in-tree plugins pass, and plugins with a fault are found."""

from collections.abc import Hashable
from random import Random
from typing import Any

import numpy as np
import pytest

from moorage.cluster.columns import Ints
from moorage.cluster.stamps import Aspect
from moorage.cluster.view import NodeRow, NodeView
from moorage.config import DEFAULT_FEATURE_GATES
from moorage.config.args import ARGS_OF_PLUGIN
from moorage.config.defaulting import default_args
from moorage.config.plugins import default_plugins
from moorage.framework.cluster_events import ActionType, EventResource, on
from moorage.framework.plugin import (
    FilterPlugin,
    NodeFilterPlugin,
    NodeScorePlugin,
    PermitPlugin,
    Plugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreScorePlugin,
    QueueSortPlugin,
    ReservePlugin,
    ScorePlugin,
    SingleRowMixin,
)
from moorage.framework.status import SKIP, Code, Reason, Skip, Status, Verdicts
from moorage.model.pod import Pod
from moorage.plugins.defaults import in_tree_registry
from moorage.testing import PluginCheckError, check_plugin, cluster, make_node, make_pod
from moorage.testing.plugin_checks import check_plugin_here, some_of

CROWDED = Reason("node(s) were crowded")

IN_TREE = [
    in_tree_registry()[ref.name]
    for ref in default_plugins(DEFAULT_FEATURE_GATES).multi_point.enabled
]


@pytest.mark.parametrize("plugin", IN_TREE, ids=lambda plugin: plugin.name)
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


class NoName(Honest):
    name = "  "


class NoPoint(Plugin):
    name = "NoPoint"


class NotDefined(NodeFilterPlugin):
    name = "NotDefined"


@pytest.mark.parametrize(
    ("plugin", "complaint"),
    [
        (NoName, "NoName: name is '  ' instead of a name"),
        (NoPoint, "NoPoint: it takes part in no extension point"),
        (NotDefined, "NotDefined: filter_node not defined"),
        (int, "<class 'int'> is not a subclass of moorage.framework.plugin.Plugin"),
    ],
)
def test_a_class_that_cannot_be_offered_is_refused(plugin: type[Plugin], complaint: str) -> None:
    with pytest.raises(PluginCheckError) as broken:
        check_plugin(plugin)
    assert str(broken.value) == complaint


def made(name: str, *bases: type[Plugin], **methods: Any) -> Any:
    """A plugin class; methods that are not callable are answers."""
    body = {
        method: answer if callable(answer) else lambda self, *_, answer=answer: answer
        for method, answer in methods.items()
    }
    return type(name, bases, {"name": name, **body})


def counting(self: Any, *_: Any) -> int:
    self.asked = getattr(self, "asked", 0) + 1
    return int(self.asked)


def raising(*_: Any) -> Any:
    raise KeyError("lost")


async def raising_later(*_: Any) -> Any:
    raise KeyError("lost")


def noting(self: Any, pod: Pod, *_: Any) -> None:
    self.__dict__.setdefault("noted", {})[pod.uid] = pod


def forgetting(self: Any, pod: Pod, *_: Any) -> None:
    self.__dict__.setdefault("noted", {}).pop(pod.uid, None)


def forgetting_twice(self: Any, pod: Pod, *_: Any) -> None:
    del self.noted[pod.uid]


def holding(self: Any, pod: Pod, *_: Any) -> Any:
    noting(self, pod)
    return Status(Code.WAIT), 5.0


def hinting(answer: Any) -> Any:
    return lambda self: [on(EventResource.NODE, ActionType.ADD, lambda *_: answer)]


@pytest.mark.parametrize(
    ("plugin", "complaint"),
    [
        (made("Raises", NodeFilterPlugin, filter_node=raising), "KeyError: 'lost' "),
        (made("Float", ScorePlugin, score=lambda s, p, n, t: np.ones(len(n))), "an integer"),
        (made("Range", NodeScorePlugin, score_node=101), "invalid score 101"),
        (made("Key", NodeFilterPlugin, filter_node=None, pod_key=[]), "unhashable"),
        (made("Gate", PreEnqueuePlugin, pre_enqueue=7), "a Status or None"),
        (made("Sort", QueueSortPlugin, sort_key=None), "something to be compared"),
        (made("Unsteady", QueueSortPlugin, sort_key=counting), "when asked again"),
        (
            made("Hint", NodeFilterPlugin, filter_node=None, events_to_register=hinting("yes")),
            "True or False",
        ),
        (
            made("Events", NodeFilterPlugin, filter_node=None, events_to_register=raising),
            "EventsToRegister",
        ),
        (
            made("Leaks", ReservePlugin, reserve=noting, unreserve=None),
            "goes on growing although all of them were unreserved",
        ),
        (
            made("Twice", ReservePlugin, reserve=noting, unreserve=forgetting_twice),
            "Unreserve",
        ),
        (
            made("Holds", PermitPlugin, permit=holding),
            "only a ReservePlugin is told of it",
        ),
        (
            made("Negative", PermitPlugin, permit=lambda *_: (Status(Code.WAIT), -1.0)),
            "lets it wait -1.0 s",
        ),
        (made("Later", PreBindPlugin, pre_bind=raising_later), "KeyError: 'lost' "),
        (made("Room", PostFilterPlugin, post_filter=5), "a PostFilterResult"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_what_is_wrong_at_any_point_is_found(plugin: type[Plugin], complaint: str) -> None:
    huge = make_pod("huge", cpu="4k")
    with pytest.raises(PluginCheckError) as broken:
        check_plugin(plugin, pods=[huge], rounds=1)
    assert str(broken.value).startswith(f"{plugin.name}: ")
    assert complaint in str(broken.value)


@pytest.mark.parametrize(
    "plugin",
    [
        made("Notes", ReservePlugin, reserve=noting, unreserve=forgetting),
        made(
            "HoldsAndForgets",
            ReservePlugin,
            PermitPlugin,
            reserve=noting,
            unreserve=forgetting,
            permit=holding,
        ),
        made("Gates", PreEnqueuePlugin, pre_enqueue=Status(Code.UNSCHEDULABLE, ("no",))),
        made("Hints", NodeFilterPlugin, filter_node=None, events_to_register=hinting(True)),
    ],
    ids=lambda plugin: plugin.name,
)
def test_what_is_right_passes(plugin: type[Plugin]) -> None:
    check_plugin(plugin, rounds=2)


def test_a_cluster_that_there_is_stays_as_it_is() -> None:
    nodes = [make_node(f"n{i}") for i in range(30)]
    guests = [make_pod(f"p{i}", node_name=f"n{i}") for i in range(30)]
    state = cluster(nodes, guests, guests)
    here = some_of(state, Random(0))
    assert len(here) == 12
    check_plugin_here(Honest, None, here, [make_pod("waiting")])
    with pytest.raises(PluginCheckError, match="same key"):
        check_plugin_here(
            KeyTooCoarse,
            None,
            some_of(state, Random(0)),
            [guests[0], make_pod("high", priority=100)],
        )
    assert len(state) == 30
    assert sorted(pod.name for pod, _ in state.placed_pods()) == sorted(p.name for p in guests)
    assert len(state.listers.of(Pod)) == 30


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
