"""Things done every so many seconds, without a thread: somebody asks whether it is time.

Owns when the ticks are. A tick nobody asked about in time is made up for once, not repeated.
"""

import math


class Ticker:
    """Ticks at `first` and every `period` seconds from then on."""

    def __init__(self, first: float, period: float) -> None:
        self._next = first
        self._period = period

    @property
    def next(self) -> float:
        """The first tick that has not been asked about yet."""
        return self._next

    def due(self, now: float) -> bool:
        """Has a tick passed since this was last asked?"""
        if now < self._next:
            return False
        self._next = self.after(now)
        return True

    def after(self, time: float) -> float:
        """The first tick to come that is later than a time."""
        if time < self._next:
            return self._next
        ticks = math.floor((time - self._next) / self._period) + 1
        return self._next + ticks * self._period
