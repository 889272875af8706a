"""How long to wait after failures in a row, as client-go's reflectors do.

Doubles from 0.8 s to 30 s, each time with up to as much again by chance, and begins anew after two
quiet minutes. Only counts; whoever asks does the waiting.
"""

from random import Random

from moorage.kube.timing import Timer

FIRST = 0.8
LONGEST = 30.0
FACTOR = 2.0
JITTER = 1.0
QUIET = 120.0


class Backoff:
    """The waits of one repeated effort."""

    def __init__(self, timer: Timer, random: Random) -> None:
        self._timer = timer
        self._random = random
        self._next = FIRST
        self._asked_at = float("-inf")

    def next(self) -> float:
        """Seconds to wait now."""
        now = self._timer.now()
        if now - self._asked_at > QUIET:
            self._next = FIRST
        wait = self._next
        self._next = min(LONGEST, self._next * FACTOR)
        self._asked_at = now
        return wait * (1.0 + JITTER * self._random.random())
