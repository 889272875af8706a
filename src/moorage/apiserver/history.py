"""What happened to one resource lately: a bounded run of changes that watches read from.

Watches keep a position, not a queue: a slow one costs nothing, holds nothing back, and learns that
it has fallen behind when it next reads. Knows nothing of HTTP or selectors.
"""

import asyncio
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from moorage.apiserver.errors import too_old

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"

_OBJECT_BYTES = 800
"""About what a new object takes beside its bytes: labels, fields and Python objects."""
_CHANGE_BYTES = 400
"""The same for a later change, which shares most of it with the state before."""

KEPT_SECONDS = 75.0
"""How long a watch may be away; changes that are older go first, once they fill a quarter."""

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class Stored(msgspec.Struct, frozen=True):
    """One object in one version; the bytes are what every reader gets.

    Objects are kept encoded: reads need no work, nobody can change what is stored, and a cluster
    takes a tenth of the memory. The other members are what selectors and deletion ask for.
    """

    key: str
    version: int
    data: bytes
    labels: Mapping[str, str]
    fields: tuple[str, ...]
    uid: str
    owners: tuple[str, ...] = ()

    @property
    def namespace(self) -> str:
        """The namespace, `""` for a cluster-scoped object."""
        return self.key.rpartition("/")[0]

    @property
    def name(self) -> str:
        """The name."""
        return self.key.rpartition("/")[2]

    def object(self) -> dict[str, Any]:
        """A fresh copy, free to be changed."""
        obj: dict[str, Any] = _decode(self.data)
        return obj

    def under(self, version: int) -> "Stored":
        """The same state under a newer version: what clients see of an object that is gone."""
        obj = self.object()
        obj["metadata"]["resourceVersion"] = str(version)
        return msgspec.structs.replace(self, version=version, data=_encode(obj))


class StoredChange(msgspec.Struct, frozen=True):
    """One change: the state before, the state after (of a deletion none), and its version."""

    type: str
    version: int
    after: Stored | None
    previous: Stored | None

    @property
    def last(self) -> Stored:
        """The latest state: the new one, of a deletion the one before it."""
        stored = self.after or self.previous
        assert stored is not None, "nothing changes without an object"
        return stored

    @property
    def stored(self) -> Stored:
        """What clients see: the latest state under the change's version.

        Of a deletion it is made when it is asked for, so that history holds it only once.
        """
        return self.last if self.after is not None else self.last.under(self.version)


class History:
    """Changes in order of version, and whoever waits for the next one.

    Invariant: every change with a version above `compacted` is present.
    """

    def __init__(
        self,
        max_changes: int,
        max_bytes: int,
        compacted: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.compacted = compacted
        self._clock = clock
        self._max_changes = max_changes
        self._max_bytes = max_bytes
        self._bytes = 0
        self._changes: list[StoredChange] = []
        self._times: list[float] = []
        self._first = 0  # the position of _changes[0]; positions are never reused
        self._waiting: set[asyncio.Event] = set()

    def append(self, change: StoredChange) -> None:
        """Take a change and wake everybody who waits."""
        self._changes.append(change)
        self._times.append(self._clock())
        self._bytes += _cost(change)
        quarter = max(1, len(self._changes) // 4)
        full = len(self._changes) > self._max_changes or self._bytes > self._max_bytes
        old = self._times[quarter - 1] < self._times[-1] - KEPT_SECONDS
        if full or (old and self._bytes > self._max_bytes // 4):
            # Many at once, so that the cost of moving the rest is spread over many changes.
            self._drop(quarter)
        for waiting in self._waiting:
            waiting.set()

    def _drop(self, count: int) -> None:
        if count:
            self.compacted = max(self.compacted, self._changes[count - 1].version)
        self._bytes -= sum(map(_cost, self._changes[:count]))
        del self._changes[:count]
        del self._times[:count]
        self._first += count

    def _reached(self, version: int) -> int:
        """How many of the changes are up to that version."""
        return bisect_right(self._changes, version, key=lambda change: change.version)

    def compact(self, version: int) -> None:
        """Forget everything up to `version`."""
        self._drop(self._reached(version))
        self.compacted = max(self.compacted, version)

    def position_after(self, version: int) -> int:
        """Where to read on for a client that has seen everything up to `version`."""
        if version < self.compacted:
            raise too_old(version, self.compacted)
        return self._first + self._reached(version)

    @property
    def end(self) -> int:
        """The position of the next change."""
        return self._first + len(self._changes)

    def read(self, position: int, limit: int) -> list[StoredChange]:
        """Up to `limit` changes from `position`; raises once history no longer reaches there."""
        start = position - self._first
        if start < 0:
            raise too_old(self.compacted - 1, self.compacted)
        return self._changes[start : start + limit]

    def newest_first(self, above: int) -> Iterator[StoredChange]:
        """Changes with a version above `above`, latest first: for undoing them."""
        if above < self.compacted:
            raise too_old(above, self.compacted)
        return reversed(self._changes[self._reached(above) :])

    @contextmanager
    def listening(self) -> Iterator[asyncio.Event]:
        """An event that is set at every change while the context lasts."""
        wake = asyncio.Event()
        self._waiting.add(wake)
        try:
            yield wake
        finally:
            self._waiting.discard(wake)

    def wake_all(self) -> None:
        """Wake everybody who waits, as when the server stops."""
        for waiting in self._waiting:
            waiting.set()


def _cost(change: StoredChange) -> int:
    beside = _OBJECT_BYTES if change.previous is None else _CHANGE_BYTES
    return beside + len(change.last.data)
