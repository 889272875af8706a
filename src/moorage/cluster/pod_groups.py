"""Pod groups: which pods each has, and how far those are.

Owns who is unscheduled, assumed or assigned in every group that has pods. Must not know the groups'
policies (they are API objects, see `listers`) nor decide anything.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from moorage.model.pod import Pod


class GroupKey(NamedTuple):
    """A group's place in the API; the group itself need not exist yet."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def group_of(pod: Pod) -> GroupKey | None:
    """The group a pod belongs to, if it belongs to one."""
    group = pod.spec.scheduling_group
    return None if group is None else GroupKey(pod.namespace, group.pod_group_name or "")


class PodGroupState:
    """The pods of one group; by uid, each kind in the order of arrival."""

    __slots__ = ("_assigned", "_assumed", "_pods", "_unscheduled")

    def __init__(self) -> None:
        self._pods: dict[str, Pod] = {}
        self._unscheduled: dict[str, None] = {}
        self._assumed: dict[str, str] = {}
        self._assigned: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._pods)

    @property
    def unscheduled(self) -> Sequence[Pod]:
        """The pods that have no place so far."""
        return [self._pods[uid] for uid in self._unscheduled]

    @property
    def assumed(self) -> Sequence[str]:
        """The uids of the pods that have a place, without confirmation so far."""
        return list(self._assumed)

    @property
    def scheduled_count(self) -> int:
        """How many pods have a place."""
        return len(self._assumed) + len(self._assigned)

    @property
    def scheduled(self) -> Iterator[tuple[Pod, str]]:
        """The pods that have a place, each with its node's name."""
        for uid in self._assigned:
            yield self._pods[uid], self._pods[uid].spec.node_name
        for uid, node_name in self._assumed.items():
            yield self._pods[uid], node_name

    def put(self, pod: Pod) -> None:
        """A pod as the API shows it now; an assumed pod stays so until it has a node there."""
        uid = pod.uid
        self._pods[uid] = pod
        if pod.spec.node_name:
            self._unscheduled.pop(uid, None)
            self._assumed.pop(uid, None)
            self._assigned[uid] = None
        elif uid not in self._assumed and uid not in self._assigned:
            self._unscheduled[uid] = None

    def remove(self, uid: str) -> None:
        """A pod is gone."""
        for pods in (self._pods, self._unscheduled, self._assumed, self._assigned):
            pods.pop(uid, None)

    def assume(self, pod: Pod, node_name: str) -> None:
        """A place was found; a pod that was deleted meanwhile does not count."""
        uid = pod.uid
        if uid in self._pods and uid not in self._assigned:
            self._unscheduled.pop(uid, None)
            self._assumed[uid] = node_name

    def forget(self, pod: Pod) -> None:
        """The place was given up."""
        if self._assumed.pop(pod.uid, None) is not None:
            self._unscheduled[pod.uid] = None


class PodGroups:
    """The groups that have pods. Pods without a group may be passed, and are ignored."""

    def __init__(self) -> None:
        self.enabled = True
        """The gate GenericWorkload: while it is off there are no groups."""
        self._groups: dict[GroupKey, PodGroupState] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def get(self, key: GroupKey) -> PodGroupState | None:
        """The state of one group; None if it has no pods."""
        return self._groups.get(key)

    def put(self, pod: Pod) -> None:
        """A pod appeared, changed or was bound."""
        key = group_of(pod)
        if key is None or not self.enabled:
            return
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = PodGroupState()
        group.put(pod)

    def remove(self, pod: Pod) -> None:
        """A pod is gone, and its group with the last of them."""
        key = group_of(pod)
        group = None if key is None else self._groups.get(key)
        if key is not None and group is not None:
            group.remove(pod.uid)
            if not len(group):
                del self._groups[key]

    def assume(self, pod: Pod, node_name: str) -> None:
        """A place was found for a pod."""
        group = self._of(pod)
        if group is not None:
            group.assume(pod, node_name)

    def forget(self, pod: Pod) -> None:
        """The place of an assumed pod was given up."""
        group = self._of(pod)
        if group is not None:
            group.forget(pod)

    def _of(self, pod: Pod) -> PodGroupState | None:
        key = group_of(pod)
        return None if key is None else self._groups.get(key)
