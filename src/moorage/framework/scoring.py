"""How good each feasible node is: PreScore, Score, normalising and weights."""

from typing import Any

import msgspec
import numpy as np

from moorage.cluster.columns import Ints, Rows
from moorage.cluster.view import NodeView
from moorage.errors import PluginError
from moorage.framework.guard import checked_scores, guard
from moorage.framework.metering import SILENT, SKIPPED, SUCCESS, Meter
from moorage.framework.plugin import MAX_NODE_SCORE
from moorage.framework.profile import Profile
from moorage.framework.reuse import Answers
from moorage.framework.status import SKIP
from moorage.model.pod import Pod


class PluginScores(msgspec.Struct, frozen=True):
    """One plugin's part in the totals, over the feasible rows."""

    plugin: str
    raw: Ints
    weighted: Ints


class Scores(msgspec.Struct, frozen=True):
    """The totals over the feasible rows, and how they came about."""

    totals: Ints
    parts: tuple[PluginScores, ...]
    skipped: frozenset[str]


def score_nodes(
    profile: Profile,
    pod: Pod,
    nodes: NodeView,
    feasible: Rows,
    answers: Answers,
    meter: Meter = SILENT,
) -> Scores:
    """Score the feasible rows of `nodes` (the whole cluster)."""
    rows = None if len(feasible) == len(nodes) else feasible
    chosen = nodes if rows is None else nodes.take(rows)
    states, skipped = _pre_score(profile, pod, chosen, meter)
    totals: Ints = np.zeros(len(feasible), np.int64)
    parts = []
    with meter.point("Score", profile.name) as span:
        for scorer in profile.score:
            if scorer.name in skipped:
                continue
            state = states.get(scorer.name)
            with guard(scorer, "Score"):
                raw = answers.scores(scorer, pod, nodes, state, rows)
                given = scorer.normalize(raw, state)
                normalized = checked_scores(scorer, given, len(feasible), "NormalizeScore")
            _check_range(scorer.name, normalized)
            weighted = normalized * profile.weights[scorer.name]
            totals += weighted
            if span.closely:
                span.ran(scorer.name, SUCCESS)
            parts.append(PluginScores(scorer.name, raw, weighted))
        span.answered(profile.score, skipped, len(feasible))
    return Scores(totals, tuple(parts), frozenset(skipped))


def _pre_score(
    profile: Profile, pod: Pod, nodes: NodeView, meter: Meter
) -> tuple[dict[str, Any], set[str]]:
    states: dict[str, Any] = {}
    skipped: set[str] = set()
    with meter.point("PreScore", profile.name) as span:
        for plugin in profile.pre_score:
            with guard(plugin, "PreScore"):
                answer = plugin.pre_score(pod, nodes)
            if answer is SKIP:
                skipped.add(plugin.name)
            else:
                states[plugin.name] = answer
            if span.closely:
                span.ran(plugin.name, SKIPPED if answer is SKIP else SUCCESS)
        span.answered(profile.pre_score, skipped, 1)
    return states, skipped


def _check_range(plugin: str, scores: Ints) -> None:
    if not len(scores):
        return
    # As unsigned numbers negative scores are huge, so one reduction tests both ends.
    if int(scores.view(np.uint64).max()) <= MAX_NODE_SCORE:
        return
    wrong = scores[(scores < 0) | (scores > MAX_NODE_SCORE)][0]
    raise PluginError(
        plugin,
        "Score",
        f'plugin "{plugin}" returns an invalid score {wrong}, it should in the range '
        f"of [0, {MAX_NODE_SCORE}] after normalizing",
    )
