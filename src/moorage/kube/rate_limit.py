"""A token bucket: so many requests a second on average, so many at once.

Owns the counting (as golang.org/x/time/rate, which client-go uses); who is limited by it is the
client's business.
"""

from moorage.kube.timing import Timer


class TokenBucket:
    """`qps` tokens flow in each second, at most `burst` are kept; no limit when `qps` <= 0."""

    def __init__(self, qps: float, burst: int, timer: Timer) -> None:
        self._qps = qps
        self._burst = max(1, burst)
        self._timer = timer
        self._tokens = float(self._burst)
        self._counted_at = timer.now()

    def reserve(self) -> float:
        """Take a token, possibly one that is still to come; how long to wait for it.

        Callers that wait as long as they are told are served in the order in which they came.
        """
        if self._qps <= 0:
            return 0.0
        now = self._timer.now()
        passed = max(0.0, now - self._counted_at)  # clocks have been seen to go backwards
        self._tokens = min(self._burst, self._tokens + passed * self._qps)
        self._counted_at = now
        self._tokens -= 1.0
        return max(0.0, -self._tokens / self._qps)
