"""Everything the plugins said of one pod, node by node, as plain values to print or encode.

Owns the full table: unlike the cycle, which stops at a node's first refusal, every Filter plugin
is asked about every node. Must be made before the decision is carried out, since an attempt is
valid only until the state changes.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from moorage.engine.cycle import Cycle
from moorage.engine.decisions import Bind, Decision, Gated, Unschedulable
from moorage.explain.report import Verdict
from moorage.explain.scores import NOT_CONSIDERED, OK, REJECTED, SKIPPED
from moorage.framework.attempt import Attempt
from moorage.framework.filtering import FilterOutcome
from moorage.framework.guard import guard
from moorage.framework.plugin import Candidate
from moorage.framework.profile import Profile
from moorage.framework.scoring import score_nodes
from moorage.framework.status import Status, Verdicts, worst
from moorage.model.pod import Pod


class NodeScore(msgspec.Struct, frozen=True):
    """What one Score plugin says of one node."""

    plugin: str
    raw: int
    weighted: int


class ExplainedNode(msgspec.Struct, frozen=True, rename="camel"):
    """One row of the table."""

    name: str
    feasible: bool
    filters: tuple[Verdict, ...]
    with_nominated_pods: Verdict | None = None
    """A refusal that only the pods nominated to the node bring about."""
    scores: tuple[NodeScore, ...] = ()
    total: int | None = None


class ExplainedCandidate(msgspec.Struct, frozen=True, rename="camel"):
    """A node that preemption could free."""

    node: str
    victims: tuple[str, ...]
    pdb_violations: int


class Explanation(msgspec.Struct, frozen=True, rename="camel"):
    """One attempt to place a pod."""

    pod: str
    scheduler_name: str
    outcome: str
    """One sentence."""
    node: str | None = None
    gate: Verdict | None = None
    pre_filter: Verdict | None = None
    """The refusal of a PreFilter plugin; no node was looked at then."""
    pre_filter_nodes: tuple[str, ...] | None = None
    skipped_filter_plugins: tuple[str, ...] = ()
    skipped_score_plugins: tuple[str, ...] = ()
    weights: dict[str, int] = {}
    nodes: tuple[ExplainedNode, ...] = ()
    nominated_node: str | None = None
    victims: tuple[str, ...] = ()
    candidates: tuple[ExplainedCandidate, ...] = ()


def explain(
    cycle: Cycle, profile: Profile, pod: Pod, decision: Decision, attempt: Attempt | None
) -> Explanation:
    """The whole story of a decision that was made just now."""
    details: dict[str, Any] = {}
    match decision:
        case Gated(status=status):
            outcome = f"kept out of the queue by {status.plugin}: {status.message}"
            details["gate"] = _rejection(status)
        case Bind():
            outcome = f"placed on {decision.node_name}"
            details["node"] = decision.node_name
        case Unschedulable():
            outcome = decision.message
            if decision.nominated_node:
                details["nominated_node"] = decision.nominated_node
                details["victims"] = tuple(victim.key for victim in decision.victims)
    if attempt is not None:
        details |= _attempt(cycle, attempt)
    return Explanation(pod.key, profile.name, outcome, **details)


def _attempt(cycle: Cycle, attempt: Attempt) -> dict[str, Any]:
    before, profile = attempt.before, attempt.profile
    details: dict[str, Any] = {"skipped_filter_plugins": tuple(sorted(before.skipped))}
    if before.rejection is not None:
        details["pre_filter"] = _rejection(before.rejection)
    if before.node_names is not None:
        details["pre_filter_nodes"] = tuple(sorted(before.node_names))
    if attempt.post_filter is not None:
        details["candidates"] = _candidates(attempt.post_filter.candidates)
    if attempt.outcome is not None:
        scores, skipped = _scores(cycle, attempt, attempt.outcome)
        details["skipped_score_plugins"] = skipped
        details["weights"] = {
            p.name: profile.weights[p.name] for p in profile.score if p.name not in skipped
        }
        details["nodes"] = _nodes(attempt, attempt.outcome, scores)
    return details


def _candidates(candidates: Sequence[Candidate]) -> tuple[ExplainedCandidate, ...]:
    return tuple(
        ExplainedCandidate(c.node_name, tuple(pod.key for pod in c.victims), c.pdb_violations)
        for c in sorted(candidates, key=lambda candidate: candidate.node_name)
    )


def _scores(
    cycle: Cycle, attempt: Attempt, outcome: FilterOutcome
) -> tuple[dict[int, tuple[NodeScore, ...]], tuple[str, ...]]:
    """Row -> the scores of every feasible row, also where the cycle had no need of them."""
    rows = outcome.feasible
    if not len(rows):
        return {}, ()
    scores = attempt.scores
    if scores is None or len(scores.totals) != len(rows):
        scores = score_nodes(attempt.profile, attempt.pod, attempt.nodes, rows, cycle.answers)
    by_row = {
        int(row): tuple(
            NodeScore(part.plugin, int(part.raw[place]), int(part.weighted[place]))
            for part in scores.parts
        )
        for place, row in enumerate(rows)
    }
    return by_row, tuple(sorted(scores.skipped))


def _nodes(
    attempt: Attempt, outcome: FilterOutcome, scores: dict[int, tuple[NodeScore, ...]]
) -> tuple[ExplainedNode, ...]:
    verdicts = _every_verdict(attempt)
    nodes = []
    for row, name in enumerate(attempt.nodes.names()):
        considered = bool(outcome.considered[row])
        filters = tuple(_verdict(plugin, answer, row, considered) for plugin, answer in verdicts)
        overruled = outcome.overruled.get(row)
        clean = all(verdict.verdict != REJECTED for verdict in filters)
        nodes.append(
            ExplainedNode(
                name,
                feasible=row in scores,
                filters=filters,
                with_nominated_pods=_rejection(overruled) if overruled and clean else None,
                scores=scores.get(row, ()),
                total=sum(s.weighted for s in scores[row]) if row in scores else None,
            )
        )
    return tuple(nodes)


def _every_verdict(attempt: Attempt) -> list[tuple[str, Verdicts | None]]:
    """Per Filter plugin the answer for all rows; None if the plugin was skipped."""
    before, pod, nodes = attempt.before, attempt.pod, attempt.nodes
    answers: list[tuple[str, Verdicts | None]] = []
    for plugin in attempt.profile.filter:
        if plugin.name in before.skipped:
            answers.append((plugin.name, None))
            continue
        with guard(plugin, "Filter"):
            verdicts = plugin.filter(pod, nodes, before.states.get(plugin.name))
        answers.append((plugin.name, verdicts))
    return answers


def _verdict(plugin: str, answer: Verdicts | None, row: int, considered: bool) -> Verdict:
    if answer is None:
        return Verdict(plugin, SKIPPED)
    if not considered:
        return Verdict(plugin, NOT_CONSIDERED)
    reasons = answer.reasons_of(row)
    if not reasons:
        return Verdict(plugin, OK)
    texts = tuple(reason.text for reason in reasons)
    return Verdict(plugin, REJECTED, worst(reasons).value, texts)


def _rejection(status: Status) -> Verdict:
    return Verdict(status.plugin, REJECTED, status.code.value, status.reasons)
