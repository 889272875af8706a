"""A priority queue of pods that can also be looked up, changed and removed by name.

Owns the order and nothing else: it knows neither what the order means nor why pods come and go.
Entries that are removed or re-ordered stay in the heap as blanks and are dropped when they come
up, or all at once when they outnumber the rest.
"""

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any

from moorage.engine.queue.queued_pod import QueuedPodInfo

SortKey = Callable[[QueuedPodInfo], Any]

_FEWEST_BLANKS = 64

# [sort key, serial, pod or None]: a list, because removing a pod blanks its entry in place. The
# serial is unique, so pods themselves are never compared and equal keys keep their order.
_Entry = list[Any]


class PodHeap:
    """Pods by `namespace/name`, the one with the smallest sort key first."""

    def __init__(self, sort_key: SortKey) -> None:
        self._sort_key = sort_key
        self._heap: list[_Entry] = []
        self._entries: dict[str, _Entry] = {}
        self._serials = count()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        """All pods, first ones first."""
        for entry in sorted(self._entries.values()):
            yield entry[2]

    def get(self, key: str) -> QueuedPodInfo | None:
        """The pod of that name, if it is here."""
        entry = self._entries.get(key)
        return None if entry is None else entry[2]

    def put(self, info: QueuedPodInfo) -> bool:
        """Add a pod, or take note that its place in the order may have changed. Was it new?"""
        key, sort_key = info.key, self._sort_key(info)
        old = self._entries.get(key)
        if old is not None and old[0] == sort_key:
            old[2] = info
            return False
        entry = self._entries[key] = [sort_key, next(self._serials), info]
        heappush(self._heap, entry)
        if old is None:
            return True
        old[2] = None
        self._drop_blanks()
        return False

    def remove(self, key: str) -> QueuedPodInfo | None:
        """Take a pod out, wherever it stands."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        info: QueuedPodInfo = entry[2]
        entry[2] = None
        self._drop_blanks()
        return info

    def peek(self) -> QueuedPodInfo | None:
        """The first pod."""
        heap = self._heap
        while heap and heap[0][2] is None:
            heappop(heap)
        return heap[0][2] if heap else None

    def pop(self) -> QueuedPodInfo | None:
        """Take the first pod out."""
        info = self.peek()
        if info is not None:
            heappop(self._heap)
            del self._entries[info.key]
        return info

    def take_all(self) -> list[QueuedPodInfo]:
        """Take every pod out, first ones first."""
        infos = list(self)
        self._heap.clear()
        self._entries.clear()
        return infos

    def _drop_blanks(self) -> None:
        if len(self._heap) > 2 * len(self._entries) + _FEWEST_BLANKS:
            self._heap = list(self._entries.values())
            heapify(self._heap)
