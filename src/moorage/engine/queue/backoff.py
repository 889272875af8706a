"""Entities that may be tried again, but not yet.

Owns how long an entity waits after a failed attempt, and the two heaps it waits in: rejected pods,
which an idle scheduler may take early, and those that no plugin rejected. These must wait: where an
attempt broke, trying again at once would load an API server that may be struggling, and a pod group
is rejected by nobody. Must not run plugins.

With early pops on (`aligned`), back-off ends count in whole seconds, so that entities which end
within one second leave together and in the order of the active queue.
"""

import math
from collections.abc import Iterator, Sequence

from moorage.engine.clock import Clock
from moorage.engine.queue.entities import QueuedEntity
from moorage.engine.queue.entity_heap import EntityHeap, SortKey

_NEVER_BACKED_OFF = -math.inf
_MOST_DOUBLINGS = 62
"""More would overflow upstream's 64-bit nanoseconds; any limit is reached long before."""


class BackoffQueue:
    """Entities whose back-off has not ended."""

    def __init__(
        self,
        clock: Clock,
        sort_key: SortKey,
        *,
        initial_seconds: float,
        max_seconds: float,
        aligned: bool,
    ) -> None:
        self._clock = clock
        self.initial_seconds = initial_seconds
        self.max_seconds = max_seconds
        self._aligned = aligned
        self.rejected = EntityHeap(
            (lambda entity: (self.expiration(entity), sort_key(entity)))
            if aligned
            else self.expiration
        )
        """What may be taken early, the nearest to its end first."""
        self._broken = EntityHeap(self.expiration)

    def __len__(self) -> int:
        return len(self.rejected) + len(self._broken)

    def __contains__(self, key: str) -> bool:
        return key in self.rejected or key in self._broken

    @property
    def entities(self) -> Sequence[QueuedEntity]:
        """All entities, per heap in the order they will leave."""
        return [*self.rejected, *self._broken]

    def values(self) -> Iterator[QueuedEntity]:
        """All entities, in no order."""
        yield from self.rejected.values()
        yield from self._broken.values()

    def get(self, key: str) -> QueuedEntity | None:
        """The entity of that key, if it is here."""
        return self.rejected.get(key) or self._broken.get(key)

    def expiration(self, entity: QueuedEntity) -> float:
        """When the entity's back-off ends, in whole seconds if aligned."""
        failures = entity.consecutive_errors_count or entity.unschedulable_count
        if not failures or not self.max_seconds:
            return _NEVER_BACKED_OFF
        if entity.backoff_expiration is None:
            doubled = self.initial_seconds * (1 << min(failures - 1, _MOST_DOUBLINGS))
            longest = self.max_seconds * math.sqrt(len(entity.infos))
            entity.backoff_expiration = self._align(entity.timestamp + min(doubled, longest))
        return entity.backoff_expiration

    def backing_off(self, entity: QueuedEntity) -> bool:
        """Must the entity still wait? In the very second its back-off ends, it must."""
        return self.expiration(entity) >= self._align(self._clock.now())

    def add(self, entity: QueuedEntity) -> None:
        """An entity starts to wait."""
        (self._broken if entity.failed_with_error else self.rejected).put(entity)

    def reorder(self, entity: QueuedEntity) -> None:
        """An entity that is here was changed."""
        (self.rejected if entity.key in self.rejected else self._broken).put(entity)

    def remove(self, key: str) -> QueuedEntity | None:
        """Take an entity out before its time."""
        return self.rejected.remove(key) or self._broken.remove(key)

    def take_all(self) -> list[QueuedEntity]:
        """Take everything out, whatever its time."""
        return self.rejected.take_all() + self._broken.take_all()

    def pop_completed(self) -> Sequence[QueuedEntity]:
        """Take all entities whose back-off has ended."""
        completed = []
        for heap in (self.rejected, self._broken):
            while (entity := heap.peek()) is not None and not self.backing_off(entity):
                heap.pop()
                completed.append(entity)
        return completed

    def earliest_end(self) -> float | None:
        """When the first back-off of all ends."""
        first = (heap.peek() for heap in (self.rejected, self._broken))
        return min(
            (self.expiration(entity) for entity in first if entity is not None), default=None
        )

    def _align(self, time: float) -> float:
        return math.floor(time) if self._aligned else time
