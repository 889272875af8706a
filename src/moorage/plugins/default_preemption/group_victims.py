"""Who has to go from the whole cluster so that a pod group can be placed.

The rule is that of a single pod, with units in place of pods: a unit is a pod, or all pods of a
group that may only be disrupted together. All less important units are taken away at once; if the
group then fits, they are given back one by one, the most important first, as long as its pods may
stay where they would go. Those whose eviction would break a disruption budget are given back before
the others.
"""

from collections.abc import Sequence

from moorage.cluster.listers import Lister
from moorage.framework.group_preemption import PodGroupPostFilterResult, Rehearsal
from moorage.framework.status import Code, Status
from moorage.model.pod import Pod
from moorage.model.pod_group import PodGroup
from moorage.plugins.default_preemption.units import priority_of
from moorage.plugins.default_preemption.victims import Budget, Unit, split_by_violation

NEVER = Status(Code.UNSCHEDULABLE, ("not eligible due to preemptionPolicy=Never.",))
NO_VICTIMS = Status(Code.UNRESOLVABLE, ("No preemption victims found for incoming preemptor",))
ONGOING = Status(Code.SUCCESS, ("ongoing preemption on nominated nodes",))


def may_preempt(group: PodGroup, pods: Sequence[Pod], *, by_group: bool) -> bool:
    """May others be evicted for a group? `by_group`: it says so itself, not its pods."""
    if by_group:
        return group.spec.preemption_policy != "Never"
    return all(pod.spec.preemption_policy != "Never" for pod in pods)


def select_group_victims(
    group: PodGroup, rehearsal: Rehearsal, units: Sequence[Unit], budgets: Sequence[Budget]
) -> PodGroupPostFilterResult:
    """The victims for a group, or why preemption does not help."""
    potential = [unit for unit in units if unit.priority < group.effective_priority]
    if not potential:
        return PodGroupPostFilterResult(NO_VICTIMS)
    for unit in potential:
        rehearsal.take(unit.pods)
    assignments = rehearsal.place()
    if isinstance(assignments, Status):
        return PodGroupPostFilterResult(assignments)
    potential.sort(key=lambda unit: unit.importance(rehearsal.now))
    violating, others = split_by_violation(potential, budgets)
    victims, violations = [], 0
    for unit, broken in (*violating, *((unit, 0) for unit in others)):
        rehearsal.give_back(unit.pods)
        if not rehearsal.still_fits(assignments):
            rehearsal.take(unit.pods)
            victims.append(unit)
            violations += broken
    victims.sort(key=lambda unit: unit.importance(rehearsal.now))
    pods = tuple(pod for unit in victims for pod in unit.pods)
    text = f"found a placement for podgroup, preempting {len(pods)} victims"
    return PodGroupPostFilterResult(
        Status(Code.SUCCESS, (text,)),
        pods,
        {pod.uid: node_name for pod, node_name in assignments},
        violations,
        sum(unit.grouped for unit in victims),
    )


def less_important(pod: Pod, group: PodGroup, groups: Lister[PodGroup]) -> bool:
    """May the pod be evicted for the group?"""
    return priority_of(pod, groups) < group.effective_priority
