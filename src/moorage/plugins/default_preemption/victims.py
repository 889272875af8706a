"""Who has to go from one node, as few as possible, and which node to take.

Owns which of two pods matters more (the higher priority, then the longer run), which victims would
break a disruption budget, and how candidates compare: the rules in their order, each only breaking
ties of the last.

All less important pods are taken away at once; if the pod then fits, they are given back one by
one, the most important first, as long as the pod still fits. Those whose eviction would break a
disruption budget are given back before the others.
"""

from collections.abc import Iterable, Sequence

import msgspec

from moorage.errors import SelectorError
from moorage.framework.attempt import AttemptResult
from moorage.framework.plugin import Candidate
from moorage.framework.runner import TrialNode
from moorage.framework.status import Code, Status
from moorage.model.labels import Selector, compile_selector
from moorage.model.pod import Pod
from moorage.model.workloads import PodDisruptionBudget


def start_of(pod: Pod, now: float) -> float:
    """When a pod started; one that has not started yet starts now."""
    return now if pod.started is None else pod.started


def by_importance(pods: Iterable[Pod], now: float) -> list[Pod]:
    """The pods, most important first; equals keep their order."""
    return sorted(pods, key=lambda pod: (-pod.priority, start_of(pod, now)))


class Budget(msgspec.Struct, frozen=True):
    """A budget with its selector compiled."""

    namespace: str
    selector: Selector
    allowed: int
    disrupted: frozenset[str]

    def protects(self, pod: Pod) -> bool:
        """Is the pod one of those the budget counts, and not on its way out already?"""
        return (
            pod.namespace == self.namespace
            and self.selector.matches(pod.labels)
            and pod.name not in self.disrupted
        )


def compile_budgets(budgets: Iterable[PodDisruptionBudget]) -> list[Budget]:
    """Budgets that protect anything; one with an empty or broken selector protects nothing."""
    compiled = []
    for budget in budgets:
        try:
            selector = compile_selector(budget.spec.selector)
        except SelectorError:
            continue
        if not selector.empty:
            compiled.append(
                Budget(
                    budget.namespace,
                    selector,
                    budget.status.disruptions_allowed,
                    frozenset(budget.status.disrupted_pods),
                )
            )
    return compiled


def split_by_violation(
    pods: Sequence[Pod], budgets: Sequence[Budget]
) -> tuple[list[Pod], list[Pod]]:
    """(pods whose eviction would break a budget, the others), each in the given order."""
    allowed = [budget.allowed for budget in budgets]
    violating: list[Pod] = []
    others: list[Pod] = []
    for pod in pods:
        (violating if breaks_budget(pod, budgets, allowed) else others).append(pod)
    return violating, others


def breaks_budget(pod: Pod, budgets: Sequence[Budget], allowed: list[int]) -> bool:
    """Charge the budgets that protect a pod, up to the first that its eviction breaks."""
    if not pod.labels:
        return False  # such a pod is protected by no budget, whatever its selector says
    for i, budget in enumerate(budgets):
        if budget.protects(pod):
            allowed[i] -= 1
            if allowed[i] < 0:
                return True
    return False


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


# Priorities may be negative; shifted above zero, fewer pods always weigh less than more.
PRIORITY_SHIFT = 2**31


def pick(candidates: Sequence[Candidate], now: float) -> Candidate:
    """The candidate that hurts least; of equals the first."""

    def harm(candidate: Candidate) -> tuple[int, int, int, int, float]:
        victims = candidate.victims
        highest = max(pod.priority for pod in victims)
        longest_run = min(start_of(pod, now) for pod in victims if pod.priority == highest)
        return (
            candidate.pdb_violations,
            victims[0].priority,
            sum(pod.priority + PRIORITY_SHIFT for pod in victims),
            len(victims),
            -longest_run,
        )

    return min(candidates, key=harm)
