"""How many calls may be on their way at once, learnt from how the server takes them.

One more after every full round that went well, a fraction fewer when calls take much longer than
the best of late, half when the server says that it has too much. Knows no calls and keeps no
connections: it counts.
"""

import asyncio
from collections import deque

from moorage.kube.timing import Timer

LEAST = 4
MOST = 64
FIRST = 12
SLOW_FACTOR = 4.0
"""Calls that take so many times as long as the best are waiting for each other."""
SLOW_SECONDS = 0.02
"""Below that nothing counts as slow: such calls keep a scheduler busy as it is."""
SLOW_CUT = 0.85
OVERLOAD_CUT = 0.5
OVERLOAD_PAUSE = 1.0
"""Refusals of one moment are one piece of news."""
_SMOOTHING = 0.1
_FORGETTING = 1.002
"""The best grows by so much with every call, so that a server may have become slower."""


class AdaptiveLimit:
    """`await enter()` before a call, `leave(seconds)` after it."""

    def __init__(
        self, timer: Timer, *, least: int = LEAST, most: int = MOST, first: int = FIRST
    ) -> None:
        self._timer = timer
        self._least = least
        self._most = most
        self._limit = float(min(max(first, least), most))
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._best = float("inf")
        self._usual = 0.0
        self._round = 0
        self._was_full = False
        self._cut_at = float("-inf")
        self.running = 0
        """How many calls are on their way."""

    @property
    def limit(self) -> int:
        """How many may be."""
        return int(self._limit)

    @property
    def is_full(self) -> bool:
        """Would the next one have to wait?"""
        return bool(self._waiting) or self.running >= self.limit

    async def enter(self) -> None:
        """Wait for leave to call; the first to come are the first to go."""
        if not self.is_full:
            self.running += 1
            return
        self._was_full = True
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.running -= 1  # the leave came too late
                self._admit()
            raise

    def leave(self, seconds: float | None = None) -> None:
        """A call has ended; `seconds` that it took, None if it ended in a way that tells nothing."""
        self.running -= 1
        if seconds is not None:
            self._learn(seconds)
        self._admit()

    def overloaded(self) -> None:
        """The server has said (429, or 503 with a time to wait) that it is asked too much."""
        now = self._timer.now()
        if now - self._cut_at >= OVERLOAD_PAUSE:
            self._cut_at = now
            self._cut(OVERLOAD_CUT)

    def _learn(self, seconds: float) -> None:
        self._best = min(self._best * _FORGETTING, seconds)
        self._usual += _SMOOTHING * (seconds - self._usual) if self._usual else seconds
        self._was_full = self._was_full or self.running + 1 >= self.limit
        self._round += 1
        if self._round < self.limit:
            return
        if self._usual > SLOW_SECONDS and self._usual > SLOW_FACTOR * self._best:
            self._cut(SLOW_CUT)
        elif self._was_full:
            self._limit = min(self._limit + 1.0, float(self._most))
        self._round = 0
        self._was_full = bool(self._waiting)

    def _cut(self, factor: float) -> None:
        self._limit = max(self._limit * factor, float(self._least))
        self._round = 0

    def _admit(self) -> None:
        while self._waiting and self.running < self.limit:
            place = self._waiting.popleft()
            if not place.done():
                self.running += 1
                place.set_result(None)
