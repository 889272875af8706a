"""Deletes events after an hour, like kube-apiserver's `--event-ttl`, or when there are too many.

Each pod leaves at least one, so without the second rule a busy hour would fill the memory.

An event written again lives on: its version moves, and versions are what this goes by.
"""

import asyncio
from collections import deque

from moorage.apiserver.history import Stored
from moorage.apiserver.metadata import Clock
from moorage.apiserver.storage import Storage

EVENT_TTL_SECONDS = 3600.0
MAX_EVENTS = 5_000
_SWEEP_SECONDS = 10.0
_BATCH = 500


class EventExpiry:
    """Deletes old events."""

    def __init__(
        self,
        store: Storage,
        clock: Clock,
        *,
        ttl: float = EVENT_TTL_SECONDS,
        max_events: int = MAX_EVENTS,
    ) -> None:
        self._store = store
        self._events = store.collection("events")
        self._clock = clock
        self._ttl = ttl
        self._max_events = max_events
        # (time, version at that time): everything up to that version is at least that old.
        self._marks: deque[tuple[float, int]] = deque()

    async def run(self) -> None:
        """Sweep for ever."""
        while True:
            while self.sweep(_BATCH) == _BATCH:
                await asyncio.sleep(0)  # clients come first
            await asyncio.sleep(_SWEEP_SECONDS)

    def sweep(self, most: int | None = None) -> int:
        """Delete up to `most` events that are too old or too many, oldest first. How many were?"""
        now = self._clock()
        self._marks.append((now, self._store.version))
        expired = -1
        while self._marks and self._marks[0][0] <= now - self._ttl:
            expired = self._marks.popleft()[1]
        by_age = sorted(self._events.items.values(), key=_version)
        surplus = len(by_age) - self._max_events
        gone = [s for i, s in enumerate(by_age) if s.version <= expired or i < surplus]
        for stored in gone[:most]:
            self._store.delete(self._events, stored)
        return len(gone[:most])


def _version(stored: Stored) -> int:
    return stored.version
