"""Metrics of the API client and of leader election, under client-go's names.

Owns `rest_client_*` as far as something stands behind them, and `leader_election_*`. Which requests
there are is told by whoever sends them (`kube.client`), by host and method.
"""

import time
from collections.abc import Callable, Mapping
from math import inf

from moorage.metrics.registry import MetricsRegistry

_NO_ANSWER = "<error>"
_INFORMERS = "kube-scheduler"
_SHOWN_DIGITS = 15


class ClientMetrics:
    """Records requests to the API server; `clock` is the time of day."""

    def __init__(self, registry: MetricsRegistry, clock: Callable[[], float] = time.time) -> None:
        self._registry = registry
        self._clock = clock
        self._certificate: tuple[float, float] | None = None
        registry.distribution("rest_client_exec_plugin_certificate_rotation_age")
        registry.before_render(self._tell_ttl)

    def answered(self, host: str, method: str, status: int) -> None:
        self._registry.add("rest_client_requests_total", _code(status), method, host)

    def finished(self, host: str, method: str, seconds: float, sent: int, received: int) -> None:
        observe = self._registry.observe
        observe("rest_client_request_duration_seconds", seconds, method, host)
        observe("rest_client_request_size_bytes", sent, method, host)
        observe("rest_client_response_size_bytes", received, method, host)

    def throttled(self, host: str, method: str, seconds: float) -> None:
        name = "rest_client_rate_limiter_duration_seconds"
        self._registry.observe(name, seconds, method, host)

    def retried(self, host: str, method: str, status: int) -> None:
        self._registry.add("rest_client_request_retries_total", _code(status), method, host)

    def tell_followed(self, followed: Callable[[], Mapping[tuple[str, str, str], str]]) -> None:
        """Tell how far each kind has been followed whenever the metrics are read.

        `followed` has resource versions by group, version and kind.
        """

        def refresh() -> None:
            for (group, version, kind), seen in followed().items():
                if seen.isdecimal():
                    # client-go makes up its plurals.
                    labels = (_INFORMERS, group, version, f"{kind.lower()}s")
                    number = int(seen[-_SHOWN_DIGITS:])
                    self._registry.set("informer_store_resource_version", number, *labels)

        self._registry.before_render(refresh)

    def plugin_ran(self, code: int, status: str) -> None:
        """A credential plugin was called; no policy forbids any here."""
        self._registry.add("rest_client_exec_plugin_call_total", str(code), status)

    def plugin_certificate(self, begins: float, ends: float) -> None:
        """A credential plugin has issued another client certificate."""
        if self._certificate is not None:
            name, age = "rest_client_exec_plugin_certificate_rotation_age", self._certificate[0]
            self._registry.observe(name, self._clock() - age)
        self._certificate = (begins, ends)

    def _tell_ttl(self) -> None:
        left = inf if self._certificate is None else self._certificate[1] - self._clock()
        self._registry.set("rest_client_exec_plugin_ttl_seconds", left)


def _code(status: int) -> str:
    return str(status) if status else _NO_ANSWER


class ElectionMetrics:
    """Is told by the elector how its lease stands, by the lease's name."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._registry = registry

    def on(self, name: str) -> None:
        self._registry.set("leader_election_master_status", 1, name)

    def off(self, name: str) -> None:
        self._registry.set("leader_election_master_status", 0, name)

    def slowpath(self, name: str) -> None:
        self._registry.add("leader_election_slowpath_total", name)
