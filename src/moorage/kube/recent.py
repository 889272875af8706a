"""A cache of recently used values, bounded by about how many bytes it takes.

Entries live in two generations: when the newer one is full, the older one is dropped. A hit in the
older one moves its entry to the newer, so what is used stays. Knows nothing of the values.
"""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_DECODED = 4
"""A decoded value takes about so many times the bytes of its JSON."""
_ENTRY_BYTES = 400


class Recent(Generic[K, V]):
    """Values by key; `length` gives the bytes of JSON that a key stands for."""

    def __init__(self, limit_bytes: int, length: Callable[[K], int]) -> None:
        self._limit = limit_bytes // 2
        self._length = length
        self._newer: dict[K, V] = {}
        self._older: dict[K, V] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._newer) + len(self._older)

    def get(self, key: K) -> V | None:
        """The value, if it is cached."""
        found = self._newer.get(key)
        if found is None:
            found = self._older.pop(key, None)
            if found is not None:
                self.put(key, found)
        return found

    def put(self, key: K, value: V) -> None:
        """Cache a value."""
        if key in self._newer:
            self._newer[key] = value
            return
        cost = _ENTRY_BYTES + (1 + _DECODED) * self._length(key)
        if self._bytes + cost > self._limit:
            self._older, self._newer, self._bytes = self._newer, {}, 0
            if cost > self._limit:
                return
        self._newer[key] = value
        self._bytes += cost
