"""Pods of groups, on their way into their group's entity and out of it.

Owns which groups exist as far as the queue has heard, and the pods that cannot be part of an entity
now: `incomplete` ones, whose group is not there, and `pending` ones, whose group is being tried.
Every other waiting pod of a group is in the group's one entity. Must not order entities nor judge
events; `places` does the moves.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from moorage import log_lines
from moorage.cluster.pod_groups import GroupKey
from moorage.engine.clock import Clock
from moorage.engine.events import SCHEDULE_ATTEMPT_FAILURE
from moorage.engine.queue.entities import (
    INCOMPLETE,
    PENDING,
    QueuedPodGroupInfo,
    QueuedPodInfo,
    entity_key,
)
from moorage.engine.queue.places import NAMES, POD_ADDED, Places
from moorage.framework.status import Status
from moorage.model.pod import Pod
from moorage.model.pod_group import PodGroup


class WaitingMembers:
    """Pods of groups by group, each in the order of arrival."""

    def __init__(self) -> None:
        self._by_group: dict[GroupKey, dict[str, QueuedPodInfo]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_group)

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        for infos in self._by_group.values():
            yield from infos.values()

    def put(self, group: GroupKey, info: QueuedPodInfo) -> None:
        """A pod waits here from now on."""
        self._by_group.setdefault(group, {})[info.key] = info

    def get(self, group: GroupKey, key: str) -> QueuedPodInfo | None:
        """A pod, if it is here."""
        return self._by_group.get(group, {}).get(key)

    def remove(self, group: GroupKey, key: str) -> QueuedPodInfo | None:
        """Take a pod out."""
        infos = self._by_group.get(group, {})
        info = infos.pop(key, None)
        if info is not None and not infos:
            del self._by_group[group]
        return info

    def take(self, group: GroupKey) -> Sequence[QueuedPodInfo]:
        """Take all pods of a group out."""
        return list(self._by_group.pop(group, {}).values())


class QueuedPodGroups:
    """The pods of groups in the queue."""

    def __init__(self, places: Places, clock: Clock) -> None:
        self._places = places
        self._clock = clock
        self._known: dict[GroupKey, PodGroup] = {}
        self._popped: GroupKey | None = None
        """The group that is being tried."""
        self.incomplete = WaitingMembers()
        self.pending = WaitingMembers()

    # Pods.

    def add(self, key: GroupKey, info: QueuedPodInfo) -> None:
        """A pod waits: with the others of its group, or for the group."""
        group = self._known.get(key)
        if group is None:
            self.incomplete.put(key, info)
            return
        taken = self._places.take(entity_key(key))
        if taken is not None:
            entity, strategy = taken
            assert isinstance(entity, QueuedPodGroupInfo), "pods have keys of another form"
            entity.add(info)
            self._places.requeue(entity, strategy, POD_ADDED)
        elif key == self._popped:
            self.pending.put(key, info)
        else:
            entity = QueuedPodGroupInfo(group, [info], timestamp=info.timestamp)
            entity.initial_attempt_timestamp = info.initial_attempt_timestamp
            self._places.to_active(entity, POD_ADDED)

    def remove(self, key: GroupKey, pod: str) -> QueuedPodInfo | None:
        """Take a pod out, wherever it is; the others of its group are looked at again."""
        if key not in self._known:
            return self.incomplete.remove(key, pod)
        taken = self._places.take(entity_key(key))
        if taken is None:
            return self.pending.remove(key, pod)
        entity, strategy = taken
        assert isinstance(entity, QueuedPodGroupInfo), "pods have keys of another form"
        info = entity.find(pod)
        if info is not None:
            entity.remove(info)
        if entity.infos:
            self._places.requeue(entity, strategy, POD_ADDED)
        return info

    def find_apart(self, key: GroupKey, pod: str) -> QueuedPodInfo | None:
        """A pod that is not part of its group's entity."""
        return self.incomplete.get(key, pod) or self.pending.get(key, pod)

    def place_apart(self, key: GroupKey) -> str:
        """Where such a pod waits: INCOMPLETE or PENDING."""
        return PENDING if key in self._known else INCOMPLETE

    def keep(self, stays: Callable[[Pod], bool]) -> list[QueuedPodInfo]:
        """Take the pods out that need not stay; those in places are somebody else's business."""
        gone = []
        for members in (self.incomplete, self.pending):
            for info in [info for info in members if not stays(info.pod)]:
                group = info.pod.spec.scheduling_group
                name = "" if group is None else group.pod_group_name or ""
                members.remove(GroupKey(info.pod.namespace, name), info.key)
                gone.append(info)
        return gone

    # Attempts.

    def begin(self, entity: QueuedPodGroupInfo) -> None:
        """A group is tried from now on."""
        self._popped = entity.group_key

    def attempted(self, entity: QueuedPodGroupInfo, status: Status | None, cycle: int) -> None:
        """The attempt ended like this (None: success): what is left of the group waits again."""
        key, now = entity.group_key, self._clock.now()
        self._popped = None
        left = self.pending.take(key)
        group = self._known.get(key)
        if not left or group is None:
            for info in left:
                self.incomplete.put(key, info)
            return
        tried = {info.pod.uid for info in entity.infos}
        entity.group = group
        entity.infos = []
        for info in left:
            entity.add(info)
        entity.flush_timestamp = None
        if status is None:
            entity.unschedulable_count = entity.consecutive_errors_count = 0
        else:
            entity.backoff_expiration = None
            if status.code.rejected:
                entity.unschedulable_count += 1
                entity.consecutive_errors_count = 0
            else:
                entity.consecutive_errors_count += 1
        # What the group could do without comes again at once, and before others: it may have to
        # preempt.
        if status is not None or tried.isdisjoint(info.pod.uid for info in left):
            entity.timestamp = now
        places, event = self._places, SCHEDULE_ATTEMPT_FAILURE
        if status is not None and places.backoff.backing_off(entity):
            places.to_backoff(entity, event)
        else:
            places.to_active(entity, event)
        if log_lines.GROUP_MOVED_BACK:
            place = NAMES.get(places.place_of(entity), NAMES["unschedulable"])
            log_lines.GROUP_MOVED_BACK(group, event, place, cycle, entity.rejectors)

    # Groups.

    def group_added(self, group: PodGroup) -> None:
        """A group is there, and with it the pods that waited for it."""
        key = _key_of(group)
        self._known[key] = group
        for info in self.incomplete.take(key):
            self.add(key, info)

    def group_updated(self, group: PodGroup) -> None:
        """A group changed; its place in the queue stays, as upstream, until it moves."""
        key = _key_of(group)
        self._known[key] = group
        entity: Any = self._places.get(entity_key(key))
        if entity is not None:
            entity.group = group

    def group_deleted(self, group: PodGroup) -> None:
        """A group is gone; its pods wait for one of that name."""
        key = _key_of(group)
        self._known.pop(key, None)
        taken = self._places.take(entity_key(key))
        for info in (*(taken[0].infos if taken else ()), *self.pending.take(key)):
            self.incomplete.put(key, info)


def _key_of(group: PodGroup) -> GroupKey:
    return GroupKey(group.namespace, group.name)
