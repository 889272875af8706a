"""Everything about one pod: where it is or could go, and who is against it where.

Owns the joining of the parts (`survey`, `scores`, `preemption`, `fixes`) into one value. The
scheduler that is asked about decides afterwards as if nobody had asked: everything runs beside it,
on `explain.trials`.
"""

from collections.abc import Sequence

import msgspec
import numpy as np

from moorage.cluster.columns import Rows
from moorage.cluster.view import NodeView
from moorage.engine.cycle import Cycle
from moorage.engine.decisions import Bind
from moorage.errors import InputError, MoorageError
from moorage.explain.fixes import smallest_fixes
from moorage.explain.preemption import explain_preemption
from moorage.explain.report import PodExplanation, Preemption, QueueState
from moorage.explain.scores import Scored, best_nodes, matrix_page, matrix_rows
from moorage.explain.survey import PRE_ENQUEUE, Survey, grouped_rejections, survey
from moorage.explain.trials import Trial, trial
from moorage.framework.attempt import AttemptResult
from moorage.framework.outcomes import Scores
from moorage.framework.profile import Profile
from moorage.framework.runner import Runner
from moorage.model.pod import Pod


def explain_pod(
    cycle: Cycle,
    profile: Profile,
    pod: Pod,
    *,
    source: str,
    placed_on: str | None = None,
    top: int = 10,
    nodes: Sequence[str] = (),
    matrix: tuple[int, int] | None = None,
    fixes: bool = True,
    queue: QueueState | None = None,
) -> PodExplanation:
    """Explain a pod that waits, or one on a node as if it were not there.

    `nodes` are asked about by name, beside the `top` best ones; `matrix` is the page of the node x
    plugin matrix, as its offset and its length.
    """
    for name in nodes:
        if name not in cycle.state.nodes.row_of:
            raise InputError(f"node {name} is not one of the {len(cycle.state)} nodes known")
    beside = trial(cycle, profile)
    where = placed_on or cycle.state.node_of(pod)
    findings = _placed(beside, pod, where) if where else _waiting(beside, pod)
    found, scored = findings.survey, findings.scored
    no_node = not findings.placed and bool(found.rejected.all())
    asked = [cycle.state.nodes.row_of[name] for name in nodes]
    return PodExplanation(
        pod=pod.key,
        schedulable=findings.node is not None,
        nodes=len(found.nodes),
        feasible=int(np.count_nonzero(~found.rejected)),
        message=findings.message,
        source=source,
        rejections=grouped_rejections(found),
        uid=pod.uid,
        scheduler_name=profile.name,
        node=findings.node,
        placed=findings.placed,
        scores=()
        if scored is None
        else best_nodes(scored, chosen=findings.node, top=top, named=nodes),
        skipped_filter_plugins=tuple(sorted(found.skipped)),
        skipped_score_plugins=() if scored is None else scored.skipped,
        queue=queue,
        preemption=findings.preemption,
        fixes=smallest_fixes(cycle, profile, pod) if fixes and no_node else (),
        matrix=None if matrix is None else matrix_page(found, scored, *matrix),
        asked=matrix_rows(found, scored, asked),
    )


class _Findings(msgspec.Struct, frozen=True):
    """What was found out about a pod."""

    survey: Survey
    message: str
    node: str | None = None
    placed: bool = False
    scored: Scored | None = None
    preemption: Preemption | None = None


def _waiting(beside: Trial, pod: Pod) -> _Findings:
    cycle, profile = beside.cycle, beside.profile
    bare = profile.without_post_filter()
    attempt: AttemptResult | None = None
    node: str | None = None
    preemption: Preemption | None = None
    scored: Scored | None = None
    try:
        decision, attempt = cycle.attempt(bare, pod)
        if isinstance(decision, Bind):
            node, message = decision.node_name, f"would be assigned to {decision.node_name}"
        else:
            message = decision.message
    except MoorageError as error:
        message = str(error)
    if node is not None and attempt is not None:
        scored = _scored_by(beside, attempt)
    elif attempt is not None:
        preemption, message = _failed(profile, attempt)
    found = _survey(beside, pod, NodeView(cycle.state), gates=True)
    gates = [one for one in found.rejections if one.point == PRE_ENQUEUE]
    if pod.terminating:
        return _Findings(found, f"skip schedule deleting pod: {pod.key}", preemption=preemption)
    if gates:
        message = ", ".join(dict.fromkeys(one.reason.text for one in gates))
        return _Findings(found, message, preemption=preemption)
    return _Findings(found, message, node, scored=scored, preemption=preemption)


def _failed(profile: Profile, attempt: AttemptResult) -> tuple[Preemption, str]:
    """What making room could do, and the sentence of the event."""
    try:
        preemption, proposal = explain_preemption(profile, attempt)
    except MoorageError as error:
        return Preemption(False, str(error)), str(error)
    return preemption, attempt.diagnosis.message(proposal)


def _placed(beside: Trial, pod: Pod, node_name: str) -> _Findings:
    state = beside.cycle.state
    row = state.nodes.row_of.get(node_name)
    known = None
    if row is not None:
        known = next((other for other in state.pods.on(row) if other.uid == pod.uid), None)
    view = NodeView(state)
    if row is not None and known is not None:
        view = view.changed({}, {row: (known,)})
    free = _without_node(pod)
    found = _survey(beside, free, view, gates=False)
    scored = None
    rows = np.flatnonzero(~found.rejected)
    if len(rows):
        try:
            scores = _score(beside, free, view, rows)
            scored = Scored(view, rows, scores)
        except MoorageError:
            scored = None
    message = f"Successfully assigned {pod.key} to {node_name}"
    if row is None:
        message = f"{pod.key} is on node {node_name}, not among the {len(state)} nodes known"
    return _Findings(found, message, node_name, True, scored)


def _without_node(pod: Pod) -> Pod:
    """The pod as it was before it was placed."""
    free = pod.on_node("")
    status = msgspec.structs.replace(free.status, nominated_node_name="")
    return msgspec.structs.replace(free, status=status)


def _survey(beside: Trial, pod: Pod, view: NodeView, *, gates: bool) -> Survey:
    cycle = beside.cycle
    return survey(
        beside.profile,
        pod,
        view,
        nominated=cycle.nominated.ahead_of(pod, view),
        extenders=cycle.extenders,
        gates=gates,
    )


def _scored_by(beside: Trial, attempt: AttemptResult) -> Scored | None:
    """The scores of an attempt that found a node, also where it had no need of them."""
    outcome = attempt.outcome
    assert outcome is not None, "a pod is placed only after its nodes were filtered"
    rows, scores = attempt.scored, attempt.scores
    if rows is None or scores is None:
        rows = outcome.feasible
        looked_at = beside.cycle.search.looked_at
        if len(looked_at):
            rows = np.intersect1d(rows, looked_at)
        try:
            scores = _score(beside, attempt.pod, attempt.nodes, rows)
        except MoorageError:
            return None  # as the cycle had no need of them, this stops nobody
    return Scored(attempt.nodes, rows, scores)


def _score(beside: Trial, pod: Pod, nodes: NodeView, rows: Rows) -> Scores:
    attempt = AttemptResult(beside.profile, pod, nodes, beside.cycle.clock.now())
    Runner().score(attempt, rows)
    assert attempt.scores is not None, "just scored"
    return attempt.scores
