"""Disruption budgets: which victims would break one."""

from collections.abc import Iterable, Sequence

import msgspec

from moorage.errors import SelectorError
from moorage.model.labels import Selector, compile_selector
from moorage.model.pod import Pod
from moorage.model.workloads import PodDisruptionBudget


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
    """(pods whose eviction would break a budget, the others), each in the given order.

    Every budget that protects a pod is charged for it, also after one of them is broken.
    """
    allowed = [budget.allowed for budget in budgets]
    violating: list[Pod] = []
    others: list[Pod] = []
    for pod in pods:
        violates = False
        # A pod without labels is protected by no budget, whatever its selector says.
        for i, budget in enumerate(budgets if pod.labels else ()):
            if budget.protects(pod):
                allowed[i] -= 1
                violates = violates or allowed[i] < 0
        (violating if violates else others).append(pod)
    return violating, others
