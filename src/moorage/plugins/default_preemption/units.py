"""What is evicted at once: a pod, or all pods of a group that may only be disrupted together.

Owns how units are made of the pods in the cluster, which of two units matters more, and which
eviction would break a disruption budget. Must not choose victims.
"""

from collections.abc import Iterable, Sequence

import msgspec

from moorage.cluster.listers import Lister
from moorage.cluster.pod_groups import group_of
from moorage.model.pod import Pod
from moorage.model.pod_group import PodGroup
from moorage.plugins.default_preemption.victims import Budget, breaks_budget, start_of


class Unit(msgspec.Struct, frozen=True):
    """Pods that are evicted together."""

    pods: tuple[Pod, ...]
    priority: int

    @property
    def grouped(self) -> bool:
        """Does it belong to a group? Of equal priority, groups matter more than single pods."""
        return group_of(self.pods[0]) is not None

    def importance(self, now: float) -> tuple[int, bool, int, float]:
        """Sorts the most important unit first: it started with the first of its pods."""
        started = min(start_of(pod, now) for pod in self.pods)
        return (-self.priority, not self.grouped, -len(self.pods), started)


def priority_of(pod: Pod, groups: Lister[PodGroup]) -> int:
    """How important a pod is among possible victims: as its group is, if it has one."""
    group = _group(pod, groups)
    return pod.priority if group is None else group.effective_priority


def units_of(pods: Iterable[Pod], groups: Lister[PodGroup]) -> list[Unit]:
    """The pods as units, in the order in which the first pod of each comes."""
    found: dict[str, list[Pod]] = {}
    for pod in pods:
        group = _group(pod, groups)
        whole = group is not None and group.disrupted_together
        uid = group.metadata.uid if group is not None and whole else pod.uid
        found.setdefault(uid, []).append(pod)
    return [Unit(tuple(members), priority_of(members[0], groups)) for members in found.values()]


def split_by_violation(
    units: Sequence[Unit], budgets: Sequence[Budget]
) -> tuple[list[tuple[Unit, int]], list[Unit]]:
    """(units whose eviction would break budgets, with how many pods do; the others), in order."""
    allowed = [budget.allowed for budget in budgets]
    violating: list[tuple[Unit, int]] = []
    others: list[Unit] = []
    for unit in units:
        broken = sum(breaks_budget(pod, budgets, allowed) for pod in unit.pods)
        if broken:
            violating.append((unit, broken))
        else:
            others.append(unit)
    return violating, others


def _group(pod: Pod, groups: Lister[PodGroup]) -> PodGroup | None:
    key = group_of(pod)
    return None if key is None else groups.get(key.name, key.namespace)
