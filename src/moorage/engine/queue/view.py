"""What can be seen of the queue from outside: what waits, where, and how much of it.

Must not change anything.
"""

from collections.abc import Iterable, Mapping

from moorage.cluster.pod_groups import GroupKey, group_of
from moorage.engine.queue.entities import (
    ACTIVE,
    BACKOFF,
    GATED,
    INCOMPLETE,
    PENDING,
    POD,
    POD_GROUP,
    UNSCHEDULABLE,
    PendingPods,
    QueuedEntity,
    QueuedPodInfo,
    entity_key,
)
from moorage.engine.queue.in_flight import InFlight
from moorage.engine.queue.places import Places
from moorage.engine.queue.pod_groups import QueuedPodGroups
from moorage.model.pod import Pod

_PLACES = (ACTIVE, BACKOFF, UNSCHEDULABLE, GATED)


class QueueView:
    """A queue as others may look at it; always up to date.

    Without `generic_workload` no pod is part of a group.
    """

    def __init__(
        self,
        places: Places,
        groups: QueuedPodGroups,
        in_flight: InFlight,
        *,
        generic_workload: bool,
    ) -> None:
        self._places = places
        self._groups = groups
        self._in_flight = in_flight
        self._generic_workload = generic_workload

    @property
    def has_pods(self) -> bool:
        """Does any pod wait, ready or not?"""
        places, groups = self._places, self._groups
        apart = groups.incomplete or groups.pending
        return bool(places.active or places.backoff or places.unschedulable or apart)

    def sizes(self) -> Mapping[str, int]:
        """How many pods wait in each place; gated ones do not count as unschedulable here."""
        counts = dict.fromkeys(_PLACES, 0)
        for entity in self._places:
            counts[self._places.place_of(entity)] += len(entity.infos)
        apart = {INCOMPLETE: self._groups.incomplete, PENDING: self._groups.pending}
        return counts | {place: sum(1 for _ in members) for place, members in apart.items()}

    def entities(self) -> Mapping[tuple[str, str], int]:
        """How many entities of each kind wait in each place."""
        kinds = (POD, POD_GROUP) if self._generic_workload else (POD,)
        counts = {(place, kind): 0 for place in _PLACES for kind in kinds}
        for entity in self._places:
            counts[self._places.place_of(entity), entity.kind] += 1
        return counts

    def pending_pods(self) -> PendingPods:
        """What waits where."""
        places, groups = self._places, self._groups
        return PendingPods(
            active=_pods_of(places.active),
            backoff=_pods_of(places.backoff.entities),
            unschedulable=_pods_of(places.unschedulable),
            gated=_pods_of(entity for entity in places.unschedulable if entity.gated),
            in_flight=tuple(self._in_flight.pods),
            pending=_pods_of(groups.pending),
            incomplete=_pods_of(groups.incomplete),
            groups=self._generic_workload,
        )

    def group_of(self, pod: Pod) -> GroupKey | None:
        """The group with which a pod is queued."""
        return group_of(pod) if self._generic_workload else None

    def entity_of(self, pod: Pod) -> QueuedEntity | None:
        """The entity that a pod is or would be part of, looked up by its name."""
        group = self.group_of(pod)
        return self._places.get(pod.key if group is None else entity_key(group))

    def find(self, pod: Pod) -> QueuedPodInfo | None:
        """What is known of a waiting pod, looked up by its name."""
        group, entity = self.group_of(pod), self.entity_of(pod)
        info = None if entity is None else entity.find(pod.key)
        if info is None and group is not None:
            info = self._groups.find_apart(group, pod.key)
        return info

    def place_of(self, info: QueuedPodInfo) -> str:
        """Where a waiting pod is: ACTIVE, BACKOFF, UNSCHEDULABLE, GATED, INCOMPLETE or PENDING."""
        entity = self.entity_of(info.pod)
        if entity is not None and entity.find(info.key) is not None:
            return self._places.place_of(entity)
        group = self.group_of(info.pod)
        assert group is not None, "only pods of groups wait apart from their entity"
        return self._groups.place_apart(group)


def _pods_of(entities: Iterable[QueuedEntity]) -> tuple[Pod, ...]:
    return tuple(info.pod for entity in entities for info in entity.infos)
