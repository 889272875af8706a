"""Who has to go from one node: as few as possible, the least important first.

All less important pods are taken away at once; if the pod then fits, they are given back one by
one, the most important first, as long as the pod still fits. Those whose eviction would break a
disruption budget are given back before the others.
"""

from collections.abc import Sequence

from moorage.framework.attempt import AttemptResult
from moorage.framework.plugin import Candidate
from moorage.framework.runner import TrialNode
from moorage.framework.status import Code, Status
from moorage.model.pod import Pod
from moorage.plugins.default_preemption.budgets import Budget, split_by_violation
from moorage.plugins.default_preemption.importance import by_importance

NO_VICTIMS = Status(Code.UNRESOLVABLE, ("No preemption victims found for incoming pod",))


def select_victims(
    attempt: AttemptResult, row: int, budgets: Sequence[Budget]
) -> Candidate | Status:
    """The victims on one node, or why preemption does not help there."""
    pod = attempt.pod
    here = attempt.nodes.node(row)
    potential = [other for other in attempt.nodes.pods_on(row) if other.priority < pod.priority]
    if not potential:
        return NO_VICTIMS
    nominated = attempt.nominated.get(row, ())
    trial = TrialNode(attempt, row).removing(potential)
    rejection = _rejection(trial, nominated)
    if rejection is not None:
        return rejection
    violating, others = split_by_violation(by_importance(potential, attempt.now), budgets)
    victims: list[Pod] = []
    violations = 0
    for i, other in enumerate((*violating, *others)):
        reprieved = trial.adding((other,))
        if _rejection(reprieved, nominated) is None:
            trial = reprieved
        else:
            victims.append(other)
            violations += i < len(violating)
    if not victims:
        return no_victim_needed(here.name)
    return Candidate(here.name, tuple(by_importance(victims, attempt.now)), violations)


def no_victim_needed(node_name: str) -> Status:
    """The answer for a node that was refused, yet fits with every pod given back."""
    return Status(Code.ERROR, (f'expected at least one victim pod on node "{node_name}"',))


def _rejection(trial: TrialNode, nominated: Sequence[Pod]) -> Status | None:
    """Both with the pods nominated to the node and without them the pod must fit."""
    if nominated:
        status = trial.adding(nominated).rejection()
        if status is not None:
            return status
    return trial.rejection()
