"""Metrics of the API client and of leader election, under client-go's names.

Owns `rest_client_*` as far as something stands behind them, and `leader_election_*`. Which requests
there are is told by whoever sends them (`kube.client`), by host and method.
"""

from moorage.metrics.registry import MetricsRegistry

_NO_ANSWER = "<error>"


class ClientMetrics:
    """Records requests to the API server."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._requests = registry.counter("rest_client_requests_total")
        self._duration = registry.histogram("rest_client_request_duration_seconds")
        self._limiter = registry.histogram("rest_client_rate_limiter_duration_seconds")
        self._sent = registry.histogram("rest_client_request_size_bytes")
        self._received = registry.histogram("rest_client_response_size_bytes")
        self._retries = registry.counter("rest_client_request_retries_total")

    def answered(self, host: str, method: str, status: int) -> None:
        """The headers of an answer came (status 0: none came)."""
        self._requests.labels(_code(status), method, host).add()

    def finished(self, host: str, method: str, seconds: float, sent: int, received: int) -> None:
        """A request that is no watch is through, with so many bytes each way."""
        self._duration.labels(method, host).observe(seconds)
        self._sent.labels(method, host).observe(sent)
        self._received.labels(method, host).observe(received)

    def throttled(self, host: str, method: str, seconds: float) -> None:
        """The client made a request wait so long to keep its own rate."""
        self._limiter.labels(method, host).observe(seconds)

    def retried(self, host: str, method: str, status: int) -> None:
        """A request is sent again after such an answer."""
        self._retries.labels(_code(status), method, host).add()


def _code(status: int) -> str:
    return str(status) if status else _NO_ANSWER


class ElectionMetrics:
    """Is told by the elector how its lease stands, by the lease's name."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._status = registry.gauge("leader_election_master_status")
        self._slow = registry.counter("leader_election_slowpath_total")

    def on(self, name: str) -> None:
        """Leading now."""
        self._status.labels(name).set(1)

    def off(self, name: str) -> None:
        """Not leading, or not any more."""
        self._status.labels(name).set(0)

    def slowpath(self, name: str) -> None:
        """The lease had to be read before it could be renewed."""
        self._slow.labels(name).add()
