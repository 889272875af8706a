"""What may be evicted where there are pod groups: pods, and groups that go as a whole.

Owns how such units are made of pods on nodes. Which of them matters more, and who has to go, is
told in `victims` and `group_victims`.
"""

from collections.abc import Iterable

from moorage.cluster.listers import Lister
from moorage.cluster.pod_groups import GroupKey, PodGroups, group_of
from moorage.model.pod import Pod
from moorage.model.pod_group import PodGroup
from moorage.plugins.default_preemption.victims import Unit, single


def units_of(pods: Iterable[Pod], groups: Lister[PodGroup], members: PodGroups) -> list[Unit]:
    """The pods as units, in the order in which the first pod of each comes.

    A group that is disrupted as a whole brings its pods on other nodes with it.
    """
    units: dict[GroupKey | str, Unit] = {}
    for pod in pods:
        key = group_of(pod)
        if key is None:
            units[pod.uid] = single(pod)
            continue
        group = groups.get(key.name, key.namespace)
        if group is None or not group.disrupted_together:
            units[pod.uid] = Unit((pod,), priority_of(pod, groups), grouped=True)
        elif key not in units:
            state = members.get(key)
            whole = () if state is None else tuple(one for one, _ in state.scheduled)
            units[key] = Unit(whole or (pod,), group.effective_priority, grouped=True)
    return list(units.values())


def priority_of(pod: Pod, groups: Lister[PodGroup]) -> int:
    """How important a pod is among possible victims: as its group is, if it has one."""
    key = group_of(pod)
    group = None if key is None else groups.get(key.name, key.namespace)
    return pod.priority if group is None else group.effective_priority
