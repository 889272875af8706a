"""Who has to go from one node, as few as possible, and which node to take.

Owns which of two pods or groups matters more, which victims would break a disruption budget, and
how candidates compare: the rules in their order, each only breaking ties of the last.

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


class Unit(msgspec.Struct, frozen=True):
    """Pods that are evicted together: one, or all of a group that is disrupted as a whole."""

    pods: tuple[Pod, ...]
    priority: int
    grouped: bool = False
    """Does it belong to a group? Of equal priority, groups matter more than single pods."""

    def importance(self, now: float) -> tuple[int, bool, int, float]:
        """Sorts the most important unit first: it started with the first of its pods."""
        started = min(start_of(pod, now) for pod in self.pods)
        return (-self.priority, not self.grouped, -len(self.pods), started)


def single(pod: Pod) -> Unit:
    """A pod where groups mean nothing."""
    return Unit((pod,), pod.priority)


def split_by_violation(
    units: Iterable[Unit], budgets: Sequence[Budget]
) -> tuple[list[tuple[Unit, int]], list[Unit]]:
    """(units whose eviction would break budgets, with how many pods do; the others), in order."""
    allowed = [budget.allowed for budget in budgets]
    violating: list[tuple[Unit, int]] = []
    others: list[Unit] = []
    for unit in units:
        broken = sum(_breaks(pod, budgets, allowed) for pod in unit.pods)
        if broken:
            violating.append((unit, broken))
        else:
            others.append(unit)
    return violating, others


def _breaks(pod: Pod, budgets: Sequence[Budget], allowed: list[int]) -> bool:
    # A pod without labels is protected by no budget, whatever its selector says. Looking stops at
    # the first budget that the pod breaks; those after it are not charged.
    for i, budget in enumerate(budgets if pod.labels else ()):
        if budget.protects(pod):
            allowed[i] -= 1
            if allowed[i] < 0:
                return True
    return False


NO_VICTIMS = Status(Code.UNRESOLVABLE, ("No preemption victims found for incoming pod",))


def select_victims(
    attempt: AttemptResult, row: int, budgets: Sequence[Budget], units: Iterable[Unit] | None = None
) -> Candidate | Status:
    """The victims on one node, or why preemption does not help there.

    `units`: what may be evicted, if not every pod of the node by itself.
    """
    pod, now = attempt.pod, attempt.now
    here = attempt.nodes.node(row)
    if units is None:
        units = map(single, attempt.nodes.pods_on(row))
    potential = [unit for unit in units if unit.priority < pod.priority]
    if not potential:
        return NO_VICTIMS
    nominated = attempt.nominated.get(row, ())
    trial = TrialNode(attempt, row).removing([other for unit in potential for other in unit.pods])
    rejection = _rejection(trial, nominated)
    if rejection is not None:
        return rejection
    potential.sort(key=lambda unit: unit.importance(now))
    violating, others = split_by_violation(potential, budgets)
    victims: list[Unit] = []
    violations = 0
    for unit, broken in (*violating, *((unit, 0) for unit in others)):
        reprieved = trial.adding(unit.pods)
        if _rejection(reprieved, nominated) is None:
            trial = reprieved
        else:
            victims.append(unit)
            violations += broken
    if not victims:
        return no_victim_needed(here.name)
    victims.sort(key=lambda unit: unit.importance(now))
    return Candidate(here.name, tuple(one for unit in victims for one in unit.pods), violations)


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
