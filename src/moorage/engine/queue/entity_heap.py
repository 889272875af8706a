"""A priority queue of entities that can also be looked up, changed and removed by key.

Owns the order and nothing else: it knows neither what the order means nor why they come and go.
Entries that are removed or re-ordered stay in the heap as blanks and are dropped when they come
up, or all at once when they outnumber the rest.

The order comes from a plugin. An entity for which it gives no sort key comes last; if sort keys
cannot be compared with one another, all come in the order of their arrival.
"""

import logging
from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any

from moorage.engine.queue.entities import QueuedEntity
from moorage.framework.guard import FAULTS

log = logging.getLogger(__name__)

SortKey = Callable[[QueuedEntity], Any]

_FEWEST_BLANKS = 64

# [rank, sort key, serial, entity or None]: a list, because removing one blanks its entry in place.
# The serial is unique, so entities are never compared and equal keys keep their order.
_Entry = list[Any]
_SORTED, _UNSORTED = 0, 1
_KEY, _ENTITY = 1, 3


class EntityHeap:
    """Entities by key, the one with the smallest sort key first."""

    def __init__(self, sort_key: SortKey) -> None:
        self._sort_key = sort_key
        self._heap: list[_Entry] = []
        self._entries: dict[str, _Entry] = {}
        self._serials = count()
        self._ordered = True

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[QueuedEntity]:
        """All entities, first ones first."""
        try:
            entries = sorted(self._entries.values())
        except FAULTS as error:
            self._forget_order(error)
            entries = sorted(self._entries.values())
        for entry in entries:
            yield entry[_ENTITY]

    def values(self) -> Iterator[QueuedEntity]:
        """All entities, in no order: that costs no sorting."""
        return (entry[_ENTITY] for entry in self._entries.values())

    def get(self, key: str) -> QueuedEntity | None:
        """The entity of that key, if it is here."""
        entry = self._entries.get(key)
        return None if entry is None else entry[_ENTITY]

    def put(self, entity: QueuedEntity) -> None:
        """Add an entity, or take note that its place in the order may have changed."""
        key, rank, sort_key = entity.key, _SORTED, None
        old = self._entries.get(key)
        try:
            sort_key = self._sort_key(entity)
            if old is not None and old[0] == rank and bool(old[_KEY] == sort_key):
                old[_ENTITY] = entity
                return
        except FAULTS as error:
            log.error("%s comes after all others: %s", key, error)
            rank = _UNSORTED
        self._ordered = self._ordered or not self._entries
        if rank == _UNSORTED or not self._ordered:
            rank, sort_key = _UNSORTED, 0
        entry = self._entries[key] = [rank, sort_key, next(self._serials), entity]
        if old is not None:
            old[_ENTITY] = None
        self._change_heap(heappush, entry)
        self._drop_blanks()

    def remove(self, key: str) -> QueuedEntity | None:
        """Take an entity out, wherever it stands."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        entity: QueuedEntity = entry[_ENTITY]
        entry[_ENTITY] = None
        self._drop_blanks()
        return entity

    def peek(self) -> QueuedEntity | None:
        """The first entity."""
        while self._heap and self._heap[0][_ENTITY] is None:
            self._change_heap(heappop)
        return self._heap[0][_ENTITY] if self._heap else None

    def pop(self) -> QueuedEntity | None:
        """Take the first entity out."""
        entity = self.peek()
        if entity is not None:
            del self._entries[entity.key]
            self._change_heap(heappop)
        return entity

    def take_all(self) -> list[QueuedEntity]:
        """Take everything out, first ones first."""
        entities = list(self)
        self._heap.clear()
        self._entries.clear()
        return entities

    def _drop_blanks(self) -> None:
        if len(self._heap) > 2 * len(self._entries) + _FEWEST_BLANKS:
            self._heap = list(self._entries.values())
            self._change_heap(heapify)

    def _change_heap(self, change: Callable[..., object], *arguments: object) -> None:
        """Call a function of `heapq`, which compares keys."""
        try:
            change(self._heap, *arguments)
        except FAULTS as error:
            self._forget_order(error)

    def _forget_order(self, error: BaseException) -> None:
        """Keys cannot be compared: all come in the order of arrival until none is left."""
        log.error(
            "the queue's entities cannot be compared and keep their order of arrival: %s", error
        )
        self._ordered = False
        for entry in self._entries.values():
            entry[0], entry[_KEY] = _UNSORTED, 0
        self._heap = list(self._entries.values())
        heapify(self._heap)
