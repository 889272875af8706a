"""How many decisions the last seconds saw, or spans of a whole ledger, and how long they took.

Owns counting and forgetting: of a second that is over only a summary stays. `note` is called for
every decision and must stay cheap; percentiles are worked out once per second.
"""

import math
from array import array
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from moorage.engine.observer import ERROR, SCHEDULED, UNSCHEDULABLE
from moorage.explain.listing import LedgerRates, SecondRates
from moorage.ledger.entries import AttemptSummary

WINDOW = 120
"""How many seconds are remembered."""
_DAY = 86_400
_WIDTHS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 28_800, 43_200)
"""Spans of time that people count in, in seconds; beyond these whole days."""
_CODES = {SCHEDULED: 0, UNSCHEDULABLE: 1, ERROR: 2}
"""Places of results in `SecondRates`."""


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


def throughput(
    attempts: Iterable[Sequence[AttemptSummary]], points: int, now: float
) -> Generator[None, None, LedgerRates]:
    """All attempts in spans of equal length, `points` at most; in steps."""
    times, seconds, codes = array("d"), array("d"), array("b")
    for some in attempts:
        times.extend(one.time for one in some)
        seconds.extend(one.seconds for one in some)
        codes.extend(_CODES.get(one.result, len(_CODES)) for one in some)
        yield
    if not times:
        return LedgerRates(1)
    first, last = min(times), max(times)
    # Two minutes at least, if so many have passed: the bars of a young ledger stay narrow.
    last = max(last, min(now, first + WINDOW - 1))
    width = next(one for one in _widths() if last // one - first // one < points)
    begin, end = int(first // width), int(last // width) + 1
    spans = (np.asarray(times) // width).astype(np.int64)
    order = np.argsort(spans, kind="stable")
    edges = np.searchsorted(spans[order], np.arange(begin, end + 1))
    took, results = np.asarray(seconds)[order], np.asarray(codes)[order]
    return LedgerRates(
        width,
        tuple(
            _rates(span * width, results[at:until], took[at:until])
            for span, at, until in zip(range(begin, end), edges[:-1], edges[1:], strict=True)
        ),
    )


def _widths() -> Iterator[int]:
    yield from _WIDTHS
    days = _DAY
    while True:
        yield days
        days *= 2


def _rates(time: int, codes: NDArray[np.int8], seconds: NDArray[np.float64]) -> SecondRates:
    counts = np.bincount(codes, minlength=len(_CODES)).tolist()
    scheduled, unschedulable, errors = counts[: len(_CODES)]
    ordered = np.sort(seconds).tolist()
    p50, p99 = _percentile(ordered, 0.5), _percentile(ordered, 0.99)
    return SecondRates(time, scheduled, unschedulable, errors, p50, p99)


def _percentile(ordered: list[float], share: float) -> float:
    """What so large a share of the values does not exceed."""
    return ordered[math.ceil(len(ordered) * share) - 1] if ordered else 0.0
