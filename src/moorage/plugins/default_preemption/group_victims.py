"""Who has to go from the whole cluster so that a pod group can be placed.

The rule is that of a single pod, with units in place of pods: a unit is a pod, or all pods of a
group that may only be disrupted together. All less important units are taken away at once; if the
group then fits, they are given back one by one, the most important first, as long as it still fits.
Those whose eviction would break a disruption budget are given back before the others.
"""

from collections.abc import Iterable, Sequence

import msgspec

from moorage.cluster.listers import Lister
from moorage.cluster.pod_groups import group_of
from moorage.framework.group_preemption import GroupVictims, Rehearsal
from moorage.framework.status import Code, Status
from moorage.model.pod import Pod
from moorage.model.pod_group import PodGroup
from moorage.plugins.default_preemption.victims import Budget, start_of

NEVER = Status(Code.UNSCHEDULABLE, ("not eligible due to preemptionPolicy=Never.",))
NO_VICTIMS = Status(Code.UNRESOLVABLE, ("No preemption victims found for incoming preemptor",))


class Unit(msgspec.Struct, frozen=True):
    """Pods that are evicted together."""

    pods: tuple[Pod, ...]
    priority: int

    @property
    def grouped(self) -> bool:
        """Does it belong to a group? Of equal priority, groups matter more than single pods."""
        return group_of(self.pods[0]) is not None

    def importance(self, now: float) -> tuple[int, bool, int, float]:
        """Sorts the most important unit first.

        Upstream takes a group to have started with the first of its pods that it comes across.
        """
        size = len(self.pods) if self.grouped else 0
        return (-self.priority, not self.grouped, -size, start_of(self.pods[0], now))


def select_group_victims(
    group: PodGroup,
    pods: Sequence[Pod],
    rehearsal: Rehearsal,
    groups: Lister[PodGroup],
    budgets: Sequence[Budget],
) -> GroupVictims:
    """The victims for a group, or why preemption does not help."""
    if any(pod.spec.preemption_policy == "Never" for pod in pods):
        return GroupVictims(NEVER)
    units = units_of(rehearsal.pods(), groups)
    potential = [unit for unit in units if unit.priority < group.effective_priority]
    if not potential:
        return GroupVictims(NO_VICTIMS)
    for unit in potential:
        rehearsal.take(unit.pods)
    rejection = rehearsal.rejection()
    if rejection is not None:
        return GroupVictims(rejection)
    potential.sort(key=lambda unit: unit.importance(rehearsal.now))
    violating, others = split_by_violation(potential, budgets)
    victims = []
    for unit in (*violating, *others):
        rehearsal.give_back(unit.pods)
        if rehearsal.rejection() is not None:
            rehearsal.take(unit.pods)
            victims.append(unit)
    victims.sort(key=lambda unit: unit.importance(rehearsal.now))
    return GroupVictims(victims=tuple(pod for unit in victims for pod in unit.pods))


def units_of(pods: Iterable[Pod], groups: Lister[PodGroup]) -> list[Unit]:
    """The pods as units, in the order in which the first pod of each comes."""
    found: dict[str, list[Pod]] = {}
    priorities: dict[str, int] = {}
    for pod in pods:
        key = group_of(pod)
        group = None if key is None else groups.get(key.name, key.namespace)
        if group is None or not group.disrupted_together:
            uid, priority = pod.uid, pod.priority
        else:
            uid, priority = group.metadata.uid, group.effective_priority
        found.setdefault(uid, []).append(pod)
        priorities[uid] = priority
    return [Unit(tuple(members), priorities[uid]) for uid, members in found.items()]


def split_by_violation(
    units: Sequence[Unit], budgets: Sequence[Budget]
) -> tuple[list[Unit], list[Unit]]:
    """(units whose eviction would break a budget, the others), each in the given order.

    Unlike for a single pod, looking stops at the first budget that a unit breaks, so that budgets
    and pods after it are not charged.
    """
    allowed = [budget.allowed for budget in budgets]
    violating: list[Unit] = []
    others: list[Unit] = []
    for unit in units:
        broken = any(_breaks(pod, budgets, allowed) for pod in unit.pods)
        (violating if broken else others).append(unit)
    return violating, others


def _breaks(pod: Pod, budgets: Sequence[Budget], allowed: list[int]) -> bool:
    if not pod.labels:
        return False
    for i, budget in enumerate(budgets):
        if budget.protects(pod):
            allowed[i] -= 1
            if allowed[i] < 0:
                return True
    return False
