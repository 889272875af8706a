"""How good each feasible node is: PreScore, Score, normalising and weights."""

from typing import Any

import msgspec
import numpy as np

from moorage.cluster.columns import Ints, Rows
from moorage.cluster.view import NodeView
from moorage.errors import PluginError
from moorage.framework.filtering import guarded
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
    profile: Profile, pod: Pod, nodes: NodeView, feasible: Rows, answers: Answers
) -> Scores:
    """Score the feasible rows of `nodes` (the whole cluster)."""
    rows = None if len(feasible) == len(nodes) else feasible
    chosen = nodes if rows is None else nodes.take(rows)
    states: dict[str, Any] = {}
    skipped: set[str] = set()
    for pre_scorer in profile.pre_score:
        answer = guarded(pre_scorer.name, "PreScore", lambda p=pre_scorer: p.pre_score(pod, chosen))
        if answer is SKIP:
            skipped.add(pre_scorer.name)
        else:
            states[pre_scorer.name] = answer
    totals: Ints = np.zeros(len(feasible), np.int64)
    parts = []
    for scorer in profile.score:
        if scorer.name in skipped:
            continue
        state = states.get(scorer.name)
        raw = guarded(
            scorer.name,
            "Score",
            lambda p=scorer, s=state: answers.scores(p, pod, nodes, s, rows),
        )
        normalized = guarded(
            scorer.name, "Score", lambda p=scorer, s=state, r=raw: p.normalize(r, s)
        )
        _check_range(scorer.name, normalized)
        weighted = normalized * profile.weights[scorer.name]
        totals += weighted
        parts.append(PluginScores(scorer.name, raw, weighted))
    return Scores(totals, tuple(parts), frozenset(skipped))


def _check_range(plugin: str, scores: Ints) -> None:
    if not len(scores):
        return
    for extreme in (int(scores.min()), int(scores.max())):
        if not 0 <= extreme <= MAX_NODE_SCORE:
            raise PluginError(
                plugin,
                "Score",
                f'plugin "{plugin}" returns an invalid score {extreme}, it should in the range '
                f"of [0, {MAX_NODE_SCORE}] after normalizing",
            )
