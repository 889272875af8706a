"""Metrics of the API client and of leader election, under client-go's names.

Owns `rest_client_*` as far as something stands behind them, and `leader_election_*`. Which requests
there are is told by whoever sends them (`kube.client`), by host and method.
"""

from moorage.metrics.families import Counter, Gauge, Histogram
from moorage.metrics.registry import MetricsRegistry

_SECONDS = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0]
_BYTES = [64.0, 256.0, 512.0, 1024.0] + [4096.0 * 4**power for power in range(7)]
_BY_VERB = ("verb", "host")
_NO_ANSWER = "<error>"


class ClientMetrics:
    """Records requests to the API server."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._requests = registry.register(
            Counter(
                "rest_client_requests_total",
                "Number of HTTP requests, partitioned by status code, method, and host.",
                ("code", "method", "host"),
            )
        )
        self._duration = registry.register(
            Histogram(
                "rest_client_request_duration_seconds",
                "Request latency in seconds. Broken down by verb, and host.",
                _BY_VERB,
                buckets=_SECONDS,
            )
        )
        self._limiter = registry.register(
            Histogram(
                "rest_client_rate_limiter_duration_seconds",
                "Client side rate limiter latency in seconds. Broken down by verb, and host.",
                _BY_VERB,
                buckets=_SECONDS,
            )
        )
        self._sent = registry.register(
            Histogram(
                "rest_client_request_size_bytes",
                "Request size in bytes. Broken down by verb and host.",
                _BY_VERB,
                buckets=_BYTES,
            )
        )
        self._received = registry.register(
            Histogram(
                "rest_client_response_size_bytes",
                "Response size in bytes. Broken down by verb and host.",
                _BY_VERB,
                buckets=_BYTES,
            )
        )
        self._retries = registry.register(
            Counter(
                "rest_client_request_retries_total",
                "Number of request retries, partitioned by status code, verb, and host.",
                ("code", "verb", "host"),
            )
        )

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
        self._status = registry.register(
            Gauge(
                "leader_election_master_status",
                "Gauge of if the reporting system is master of the relevant lease, 0 indicates "
                "backup, 1 indicates master. 'name' is the string used to identify the lease. "
                "Please make sure to group by name.",
                ("name",),
            )
        )
        self._slow = registry.register(
            Counter(
                "leader_election_slowpath_total",
                "Total number of slow path exercised in renewing leader leases. 'name' is the "
                "string used to identify the lease. Please make sure to group by name.",
                ("name",),
            )
        )

    def on(self, name: str) -> None:
        """Leading now."""
        self._status.labels(name).set(1)

    def off(self, name: str) -> None:
        """Not leading, or not any more."""
        self._status.labels(name).set(0)

    def slowpath(self, name: str) -> None:
        """The lease had to be read before it could be renewed."""
        self._slow.labels(name).add()
