"""Metrics of the secure port: who was recognised, who was allowed, and the health checks.

Owns the counters that the HTTP side writes to, under the names of Kubernetes' API machinery. What
the HTTP side tells has the form of `http.endpoints.PortObserver`, which this layer does not know.
"""

from moorage.metrics.registry import MetricsRegistry

# Names that may be told apart; any user may send requests, and names must not become labels.
_KNOWN_USERS = frozenset(
    ("admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default")
)


class HealthMetrics:
    """Results of health checks, for /metrics/slis."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._latest = registry.gauge("kubernetes_healthcheck")
        self._results = registry.counter("kubernetes_healthchecks_total")

    def checked(self, endpoint: str, check: str, *, healthy: bool) -> None:
        """A check of `healthz`, `livez` or `readyz` ran."""
        self._latest.labels(check, endpoint).set(1 if healthy else 0)
        self._results.labels(check, endpoint, "success" if healthy else "error").add()


class ServingMetrics:
    """Authentication and authorisation of requests to this process, and its health."""

    def __init__(self, registry: MetricsRegistry, health: HealthMetrics) -> None:
        self._health = health
        counter, histogram = registry.counter, registry.histogram
        self._cached = counter("authentication_token_cache_request_total")
        self._cached_duration = histogram("authentication_token_cache_request_duration_seconds")
        self._fetches = counter("authentication_token_cache_fetch_total")
        self._attempts = counter("authentication_attempts")
        self._attempt_duration = histogram("authentication_duration_seconds")
        self._decisions = counter("authorization_attempts_total")
        self._decision_duration = histogram("authorization_duration_seconds")
        self._users = counter("authenticated_user_requests")
        self._certificates = histogram("apiserver_client_certificate_expiration_seconds")
        self._reviews = {
            kind: (
                counter(f"apiserver_delegated_{what}_request_total"),
                histogram(f"apiserver_delegated_{what}_request_duration_seconds"),
            )
            for kind, what in (("TokenReview", "authn"), ("SubjectAccessReview", "authz"))
        }

    def authenticated(self, result: str, user: str, seconds: float) -> None:
        """A request was recognised (`success`), was not (`failure`), or it broke (`error`)."""
        self._attempts.labels(result).add()
        self._attempt_duration.labels(result).observe(seconds)
        if user:
            self._users.labels(_kind_of_user(user)).add()

    def authorized(self, decision: str, seconds: float) -> None:
        """A request is `allowed`, `denied`, nobody has an opinion (`no-opinion`), or `error`."""
        self._decisions.labels(decision).add()
        self._decision_duration.labels(decision).observe(seconds)

    def token_cached(self, hit: bool, seconds: float) -> None:
        """A bearer token was looked up: was its holder known already?"""
        status = "hit" if hit else "miss"
        self._cached.labels(status).add()
        self._cached_duration.labels(status).observe(seconds)

    def reviewed(self, kind: str, code: str, seconds: float) -> None:
        """`TokenReview` or `SubjectAccessReview` was sent; `code` is the status or `<error>`."""
        total, duration = self._reviews[kind]
        total.labels(code).add()
        duration.labels(code).observe(seconds)
        if kind == "TokenReview":
            self._fetches.labels("ok" if code.startswith("2") else "error").add()

    def client_certificate(self, seconds_left: float) -> None:
        """A client certificate was shown that is still valid for so long."""
        self._certificates.observe(seconds_left)

    def health_checked(self, endpoint: str, check: str, healthy: bool) -> None:
        """A check was run on a request for all of them."""
        self._health.checked(endpoint, check, healthy=healthy)

    def requested(self, method: str, path: str, status: int, seconds: float) -> None:
        """A request was answered; kube-scheduler has no metric of that."""


def _kind_of_user(name: str) -> str:
    if name in _KNOWN_USERS:
        return name
    return "email_id" if "@" in name else "other"
