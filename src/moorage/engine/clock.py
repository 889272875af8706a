"""Time as an argument, so that everything timed can be tested without waiting."""

import math
import time
from typing import Protocol


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> float:
        """Seconds since the epoch."""
        ...


class WallClock:
    """The time of day."""

    def now(self) -> float:
        return time.time()


class VirtualClock:
    """A clock that stands still until it is moved."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = start

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds


class Ticker:
    """Ticks at `first` and every `period` seconds from then on, if somebody asks.

    A tick that nobody asked about in time is made up for once, not repeated.
    """

    def __init__(self, first: float, period: float) -> None:
        self.next = first
        """The first tick that has not been asked about yet."""
        self._period = period

    def due(self, now: float) -> bool:
        """Has a tick passed since this was last asked?"""
        if now < self.next:
            return False
        self.next = self.after(now)
        return True

    def after(self, time: float) -> float:
        """The first tick to come that is later than a time."""
        if time < self.next:
            return self.next
        ticks = math.floor((time - self.next) / self._period) + 1
        return self.next + ticks * self._period
