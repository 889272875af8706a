"""How many requests a client sends: per second, and at the same time.

`TokenBucket` is the client's own rate, as golang.org/x/time/rate keeps it for client-go.
`AdaptiveLimit` learns from the server how many requests may be in flight: one more after every
round that used the limit up and went well, a fraction fewer when requests take much longer than the
best of late, half when the server says that it has too much. Both only calculate; `client` and
`connection_pool` do the waiting.
"""

from moorage.kube.timing import Timer

LEAST = 8
FIRST = 16
SLOW_FACTOR = 4.0
"""Requests that take so many times as long as the best are waiting for each other."""
SLOW_SECONDS = 0.05
"""Below that nothing counts as slow: such answers keep a scheduler busy as it is."""
SLOW_CUT = 0.85
OVERLOAD_CUT = 0.5
OVERLOAD_PAUSE = 1.0
"""Refusals of one moment count once."""
_SMOOTHING = 0.1
_FORGETTING = 1.002
"""The best grows by so much with every request, so that a server may have become slower."""


class TokenBucket:
    """`qps` tokens flow in each second, at most `burst` are stored; no limit when `qps` <= 0."""

    def __init__(self, qps: float, burst: int, timer: Timer) -> None:
        self._qps = qps
        self._burst = max(1, burst)
        self._timer = timer
        self._tokens = float(self._burst)
        self._counted_at = timer.now()

    def reserve(self) -> float:
        """Take a token, possibly one that is still to come; how long to wait for it.

        Callers that wait that long are served in the order in which they came.
        """
        if self._qps <= 0:
            return 0.0
        now = self._timer.now()
        passed = max(0.0, now - self._counted_at)  # clocks have been seen to go backwards
        self._tokens = min(self._burst, self._tokens + passed * self._qps)
        self._counted_at = now
        self._tokens -= 1.0
        return max(0.0, -self._tokens / self._qps)


class AdaptiveLimit:
    """Between `least` and `most`; `ended` is to be called for every request."""

    def __init__(self, timer: Timer, most: int, *, least: int = LEAST, first: int = FIRST) -> None:
        self._timer = timer
        self._most = float(most)
        self._least = float(min(least, most))
        self._limit = min(max(float(first), self._least), self._most)
        self.limit = int(self._limit)
        """How many may be on their way."""
        self._best = float("inf")
        self._usual = 0.0
        self._round = 0
        self._was_full = False
        self._cut_at = float("-inf")

    def ended(self, seconds: float, *, full: bool) -> None:
        """A request was answered after so long; `full` if as many as may be were on their way."""
        self._best = min(self._best * _FORGETTING, seconds)
        self._usual += _SMOOTHING * (seconds - self._usual) if self._usual else seconds
        self._was_full = self._was_full or full
        self._round += 1
        if self._round < self.limit:
            return
        if self._usual > SLOW_SECONDS and self._usual > SLOW_FACTOR * self._best:
            self._cut(SLOW_CUT)
        elif self._was_full:
            self._set(min(self._limit + 1.0, self._most))
        self._round = 0
        self._was_full = False

    def overloaded(self) -> None:
        """The server answered 429, or 503 with a time to wait: it gets too many requests."""
        now = self._timer.now()
        if now - self._cut_at >= OVERLOAD_PAUSE:
            self._cut_at = now
            self._cut(OVERLOAD_CUT)
            self._round = 0

    def _cut(self, factor: float) -> None:
        self._set(max(self._limit * factor, self._least))

    def _set(self, limit: float) -> None:
        self._limit = limit
        self.limit = int(limit)
