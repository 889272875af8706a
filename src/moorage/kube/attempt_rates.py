"""How many decisions each of the last seconds saw, and how long they took.

Owns counting and forgetting: of a second that is over only a summary stays. `note` is called for
every decision and must stay cheap; percentiles are worked out once per second.
"""

import math
from collections import deque

from moorage.engine.observer import ERROR, SCHEDULED, UNSCHEDULABLE
from moorage.explain.listing import SecondRates

WINDOW = 120
"""How many seconds are remembered."""


class AttemptRates:
    """Counts by second, and totals since the beginning."""

    def __init__(self) -> None:
        self._past: deque[SecondRates] = deque(maxlen=WINDOW)
        self._totals = {SCHEDULED: 0, UNSCHEDULABLE: 0, ERROR: 0}
        self._time = 0
        self._until = 0.0
        self._results: list[str] = []
        self._seconds: list[float] = []

    def note(self, time: float, result: str, seconds: float) -> None:
        """A decision was made."""
        # Also where the clock was set back: else nothing would be over until it has caught up.
        if time >= self._until or time < self._time:
            self._roll(int(time))
        self._results.append(result)
        self._seconds.append(seconds)

    def total(self, result: str) -> int:
        """How many decisions ended so."""
        return self._totals[result] + self._results.count(result)

    def window(self, now: float) -> tuple[SecondRates, ...]:
        """The last two minutes up to the second that is not over, the oldest first."""
        known = {second.time: second for second in (*self._past, self._current())}
        last = int(now)
        return tuple(
            known.get(time) or SecondRates(time) for time in range(last - WINDOW + 1, last + 1)
        )

    def _roll(self, time: int) -> None:
        """Another second has begun."""
        if self._results:
            self._past.append(self._current())
            for result in self._totals:
                self._totals[result] += self._results.count(result)
            self._results.clear()
            self._seconds.clear()
        self._time, self._until = time, time + 1.0

    def _current(self) -> SecondRates:
        count, ordered = self._results.count, sorted(self._seconds)
        return SecondRates(
            self._time,
            count(SCHEDULED),
            count(UNSCHEDULABLE),
            count(ERROR),
            _percentile(ordered, 0.5),
            _percentile(ordered, 0.99),
        )


def _percentile(ordered: list[float], share: float) -> float:
    """What so large a share of the values does not exceed."""
    return ordered[math.ceil(len(ordered) * share) - 1] if ordered else 0.0
