"""A decision of the past explained: the ordinary explanation, given at its moment.

Owns what the record adds to it: the node that was chosen then, who refused it later, and a sentence
where the plugins asked again do not come to the same decision.
"""

from collections.abc import Sequence

import msgspec

from moorage.engine.decisions import Bind, Unschedulable
from moorage.engine.observer import ERROR
from moorage.errors import MoorageError
from moorage.explain.pods import explain_pod
from moorage.explain.report import (
    DecisionExplanation,
    NodeScores,
    PodExplanation,
    Rejection,
)
from moorage.framework.status import Code
from moorage.ledger.entries import RecordedDecision
from moorage.ledger.moment import Moment

SOURCE = "ledger"


def explain_decision(
    moment: Moment,
    decision: RecordedDecision,
    *,
    top: int,
    matrix: tuple[int, int] | None = None,
) -> DecisionExplanation:
    """Everything about a decision, at the moment before it."""
    refused = _refusals(decision)
    found = _asked(moment, decision, top=top, matrix=matrix, whole=False)
    if found is None:
        return DecisionExplanation(decision.summary, SOURCE, rejections=refused)
    return DecisionExplanation(
        decision.summary,
        SOURCE,
        rejections=(*refused, *found.rejections),
        scores=found.scores,
        matrix=found.matrix,
        skipped_filter_plugins=found.skipped_filter_plugins,
        skipped_score_plugins=found.skipped_score_plugins,
        note=disagreement(moment, decision),
    )


def explain_recorded_pod(
    moment: Moment,
    decision: RecordedDecision,
    *,
    top: int,
    nodes: Sequence[str] = (),
    matrix: tuple[int, int] | None = None,
    fixes: bool = True,
) -> PodExplanation:
    """Everything about a pod when it was last tried."""
    told = decision.summary
    found = _asked(
        moment, decision, top=top, nodes=nodes, matrix=matrix, fixes=fixes, whole=True
    ) or PodExplanation(told.pod, False, told.nodes, 0, "", SOURCE, ())
    return msgspec.structs.replace(
        found,
        schedulable=decision.scheduled,
        nodes=told.nodes,
        feasible=told.feasible,
        message=told.message,
        rejections=(*_refusals(decision), *found.rejections),
        uid=told.uid,
        scheduler_name=told.profile,
        node=told.node or None,
        decision=told.number,
        note=disagreement(moment, decision),
    )


def disagreement(moment: Moment, decision: RecordedDecision) -> str:
    """A sentence if the plugins, asked again, do not come to the same decision; else nothing."""
    if decision.binding:
        return ""
    told = decision.summary
    placed = bool(decision.node or told.feasible)
    try:
        again = moment.ask(decision)
    except MoorageError as error:
        return "" if told.result == ERROR else f"Asked again, the plugins fail: {error}."
    match again:
        case None:
            return "The pod is not on record, so nobody could be asked again."
        case Bind():
            same = (again.feasible_nodes, again.total_score) == (told.feasible, told.score)
            # Among nodes that extenders give the same, chance takes one.
            same &= again.node_name == decision.node or bool(moment.cycle.extenders)
            if placed and (same or not decision.node):
                return ""
            total = "" if again.total_score is None else f", which scores {again.total_score}"
            return (
                f"Asked again, the plugins choose {again.node_name}{total}, "
                f"of {again.feasible_nodes} feasible nodes: not what was decided then."
            )
        case Unschedulable():
            if not placed:
                return ""
            return f"Asked again, the plugins find no node: {again.message}"


def _asked(
    moment: Moment,
    decision: RecordedDecision,
    *,
    top: int,
    nodes: Sequence[str] = (),
    matrix: tuple[int, int] | None,
    fixes: bool = False,
    whole: bool,
) -> PodExplanation | None:
    """What plugins say at the moment; None if the decision was not about nodes.

    `whole`: preemption, too.
    """
    pod, known = moment.objects.pod_of(decision), moment.state.nodes.row_of
    if decision.binding or pod is None or not known:
        return None
    profile = moment.profile_of(decision)
    chosen = (decision.node,) if decision.node in known else ()
    found = explain_pod(
        moment.cycle,
        profile if whole else profile.without_post_filter(),
        pod,
        source=SOURCE,
        top=top,
        nodes=(*nodes, *chosen),
        matrix=matrix,
        fixes=fixes,
    )
    asked = found.asked[: len(nodes)]
    if not chosen:
        # Somebody decided against all nodes, so what scores they would have had does not matter.
        return msgspec.structs.replace(found, asked=asked, scores=())
    return msgspec.structs.replace(found, asked=asked, scores=_chosen(found.scores, decision.node))


def _chosen(scores: Sequence[NodeScores], node: str) -> tuple[NodeScores, ...]:
    """Scores with the recorded node as the chosen one, the first among equals."""
    marked = [msgspec.structs.replace(one, chosen=one.node == node) for one in scores]
    return tuple(sorted(marked, key=lambda one: (-one.total, not one.chosen)))


def _refusals(decision: RecordedDecision) -> tuple[Rejection, ...]:
    """Who refused the chosen node after all."""
    refused = decision.refused
    if refused is None:
        return ()
    return tuple(
        Rejection(
            plugin=refused.plugin,
            reason=reason,
            nodes=1,
            examples=(decision.node,) if decision.node else (),
            point=refused.point,
            code=refused.code,
            only=1,
            unresolvable=int(refused.code == Code.UNRESOLVABLE.value),
        )
        for reason in dict.fromkeys(refused.reasons or ("",))
    )
