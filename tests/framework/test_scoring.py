"""PreScore, Score, normalising, weights and their limits (CYC-038..044)."""

from typing import Any

import numpy as np
import pytest

from framework.building import make_cycle, make_profile, make_state, only, profile_of
from moorage.cluster.columns import Ints
from moorage.cluster.view import NodeRow, NodeView
from moorage.engine.decisions import Bind
from moorage.errors import PluginError
from moorage.framework.attempt import AttemptResult
from moorage.framework.outcomes import Scores
from moorage.framework.plugin import NodeScorePlugin, Plugin, PreScorePlugin, ScorePlugin
from moorage.framework.runner import Runner
from moorage.framework.scores import normalize_to_max
from moorage.framework.status import SKIP, Skip
from moorage.model.meta import Json
from moorage.model.pod import Pod
from reference.objects import make_node, make_pod


def scoring(name_: str, points: dict[str, int], *, factor: int = 1) -> type[Plugin]:
    """A scorer with its points by node name; `normalize` multiplies them."""

    class FixedPoints(NodeScorePlugin):
        name = name_

        def score_node(self, pod: Pod, node: NodeRow) -> int:
            return points[node.name]

        def normalize(self, scores: Ints, state: None) -> Ints:
            return scores * factor

    return FixedPoints


def scored(document: Json, *plugins: type[Plugin], rows: tuple[int, ...] = (0, 1)) -> Scores:
    state = make_state([make_node(name) for name in ("a", "b")])
    profile = make_profile(state, document, plugins)
    attempt = AttemptResult(profile, make_pod("p"), NodeView(state), 0.0)
    Runner().score(attempt, np.array(rows))
    assert attempt.scores is not None
    return attempt.scores


def test_totals_are_weighted_sums_of_normalised_scores() -> None:
    document = only("A", "B")
    document["plugins"]["multiPoint"]["enabled"][-1]["weight"] = 5
    scores = scored(
        document,
        scoring("A", {"a": 10, "b": 20}, factor=2),
        scoring("B", {"a": 3, "b": 0}),
    )
    assert scores.totals.tolist() == [10 * 2 + 3 * 5, 20 * 2]
    assert [(part.plugin, part.raw.tolist(), part.weighted.tolist()) for part in scores.parts] == [
        ("A", [10, 20], [20, 40]),
        ("B", [3, 0], [15, 0]),
    ]


@pytest.mark.parametrize(
    ("points", "shown"),
    [({"a": 101, "b": 0}, 101), ({"a": 0, "b": -1}, -1)],
    ids=["too large", "negative"],
)
def test_a_score_out_of_range_after_normalising_is_an_error(
    points: dict[str, int], shown: int
) -> None:
    with pytest.raises(PluginError) as caught:
        scored(only("A"), scoring("A", points))
    assert (
        f'plugin "A" returns an invalid score {shown}, '
        f"it should in the range of [0, 100] after normalizing ({__file__}:"
    ) in str(caught.value)


def test_the_ends_of_the_range_are_allowed() -> None:
    assert scored(only("A"), scoring("A", {"a": 0, "b": 100})).totals.tolist() == [0, 100]


def test_a_scorer_that_skips_does_not_score() -> None:
    class Skips(PreScorePlugin[None], ScorePlugin[None]):
        name = "Skips"

        def pre_score(self, pod: Pod, nodes: NodeView) -> Skip:
            return SKIP

        def score(self, pod: Pod, nodes: NodeView, state: None) -> Ints:
            raise AssertionError("must not be asked")

    scores = scored(only("Skips", "A"), Skips, scoring("A", {"a": 1, "b": 2}))
    assert scores.skipped == {"Skips"}
    assert scores.totals.tolist() == [1, 2]


def test_a_scorer_that_has_nothing_to_say_counts_as_zeros() -> None:
    class Silent(ScorePlugin[None]):
        name = "Silent"

        def score(self, pod: Pod, nodes: NodeView, state: None) -> Skip:
            return SKIP

        def normalize(self, scores: Ints, state: None) -> Ints:
            raise AssertionError("must not be asked")

    scores = scored(only("Silent", "A"), Silent, scoring("A", {"a": 1, "b": 2}))
    assert scores.skipped == set(), "it was asked, unlike one that skips in PreScore"
    assert scores.totals.tolist() == [1, 2]
    assert [(part.plugin, part.raw.tolist(), part.weighted.tolist()) for part in scores.parts] == [
        ("Silent", [0, 0], [0, 0]),
        ("A", [1, 2], [1, 2]),
    ]


def test_scorers_see_only_the_feasible_nodes() -> None:
    seen: list[Any] = []

    class Looks(PreScorePlugin[str], ScorePlugin[str]):
        name = "Looks"

        def pre_score(self, pod: Pod, nodes: NodeView) -> str:
            seen.append(nodes.names())
            return "state"

        def score(self, pod: Pod, nodes: NodeView, state: str | None) -> Ints:
            seen.append((nodes.names(), state))
            return np.zeros(len(nodes), np.int64)

    scored(only("Looks"), Looks, rows=(1,))
    assert seen == [["b"], (["b"], "state")]


def test_a_single_feasible_node_is_taken_without_scoring() -> None:
    class Explodes(NodeScorePlugin):
        name = "Explodes"

        def score_node(self, pod: Pod, node: NodeRow) -> int:
            raise AssertionError("must not be asked")

    state = make_state([make_node("a"), make_node("b", unschedulable=True)])
    profile = make_profile(state, only("NodeUnschedulable", "Explodes"), [Explodes])
    decision, attempt = make_cycle(state).decide(profile, make_pod("p"))
    assert decision == Bind(decision.pod, "a", 1, evaluated_nodes=2)
    assert attempt is not None
    assert attempt.scores is None


def test_the_node_with_the_largest_total_is_taken() -> None:
    state = make_state([make_node("a"), make_node("b")])
    profile = profile_of(state, scoring("A", {"a": 1, "b": 2}))
    decision, _ = make_cycle(state).decide(profile, make_pod("p"))
    assert decision == Bind(decision.pod, "b", 2, 2, evaluated_nodes=2)


@pytest.mark.parametrize(
    ("scores", "reverse", "expected"),
    [
        ([0, 5, 10], False, [0, 50, 100]),
        ([0, 5, 10], True, [100, 50, 0]),
        ([0, 0], False, [0, 0]),
        ([0, 0], True, [100, 100]),
        ([1, 3], False, [33, 100]),
        ([1, 3], True, [67, 0]),
        ([], True, []),
    ],
    ids=["more", "fewer", "all zero", "all zero reversed", "cut", "cut reversed", "none"],
)
def test_scores_are_scaled_so_that_the_largest_is_100(
    scores: list[int], reverse: bool, expected: list[int]
) -> None:
    array = np.array(scores, np.int64)
    assert normalize_to_max(array, reverse=reverse).tolist() == expected
