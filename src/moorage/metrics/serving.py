"""Metrics of the secure port: who was recognised, who was allowed, and the health checks.

Owns the counters that the HTTP side writes to, under the names of Kubernetes' API machinery. What
the HTTP side tells has the form of `http.observers.Observer`, which this layer does not know.
"""

from moorage.metrics.families import Counter, Gauge, Histogram, exponential
from moorage.metrics.registry import MetricsRegistry

_DELEGATED = [0.25, 0.5, 0.7, 1.0, 1.5, 3.0, 5.0, 10.0]
_REQUESTS = exponential(0.001, 2, 15)
_LIFETIMES = [
    *(0.0, 1800.0, 3600.0, 7200.0, 21600.0, 43200.0, 86400.0, 172800.0, 345600.0, 604800.0),
    *(2592000.0, 7776000.0, 15552000.0, 31104000.0),
]
# Names that may be told apart; any user may send requests, and names must not become labels.
_KNOWN_USERS = frozenset(
    ("admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default")
)


class HealthMetrics:
    """Results of health checks, for /metrics/slis."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._latest = registry.register(
            Gauge(
                "kubernetes_healthcheck",
                "This metric records the result of a single healthcheck.",
                ("name", "type"),
                "STABLE",
            )
        )
        self._results = registry.register(
            Counter(
                "kubernetes_healthchecks_total",
                "This metric records the results of all healthcheck.",
                ("name", "type", "status"),
                "STABLE",
            )
        )

    def checked(self, endpoint: str, check: str, *, healthy: bool) -> None:
        """A check of `healthz`, `livez` or `readyz` ran."""
        self._latest.labels(check, endpoint).set(1 if healthy else 0)
        self._results.labels(check, endpoint, "success" if healthy else "error").add()


class ServingMetrics:
    """Authentication and authorisation of requests to this process, and its health."""

    def __init__(self, registry: MetricsRegistry, health: HealthMetrics) -> None:
        self._health = health
        self._register_token_cache(registry)
        self._attempts, self._attempt_duration = _timed(
            registry,
            ("authentication_attempts", "Counter of authenticated attempts."),
            (
                "authentication_duration_seconds",
                "Authentication duration in seconds broken out by result.",
            ),
        )
        self._decisions, self._decision_duration = _timed(
            registry,
            (
                "authorization_attempts_total",
                "Counter of authorization attempts broken down by result. It can be either "
                "'allowed', 'denied', 'no-opinion' or 'error'.",
            ),
            (
                "authorization_duration_seconds",
                "Authorization duration in seconds broken out by result.",
            ),
        )
        self._users = registry.register(
            Counter(
                "authenticated_user_requests",
                "Counter of authenticated requests broken out by username.",
                ("username",),
            )
        )
        self._certificates = registry.register(
            Histogram(
                "apiserver_client_certificate_expiration_seconds",
                "Distribution of the remaining lifetime on the certificate used to authenticate "
                "a request.",
                buckets=_LIFETIMES,
            )
        )
        self._reviews = {
            "TokenReview": _delegated(registry, "authn"),
            "SubjectAccessReview": _delegated(registry, "authz"),
        }

    def _register_token_cache(self, registry: MetricsRegistry) -> None:
        # Upstream says nothing of these three in their HELP.
        self._cached = registry.register(
            Counter("authentication_token_cache_request_total", "", ("status",))
        )
        self._cached_duration = registry.register(
            Histogram(
                "authentication_token_cache_request_duration_seconds",
                "",
                ("status",),
                buckets=[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0],
            )
        )
        self._fetches = registry.register(
            Counter("authentication_token_cache_fetch_total", "", ("status",))
        )

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


def _timed(
    registry: MetricsRegistry, total: tuple[str, str], duration: tuple[str, str]
) -> tuple[Counter, Histogram]:
    """A counter and a histogram by result."""
    return (
        registry.register(Counter(*total, ("result",))),
        registry.register(Histogram(*duration, ("result",), buckets=_REQUESTS)),
    )


def _delegated(registry: MetricsRegistry, what: str) -> tuple[Counter, Histogram]:
    """A counter and a histogram by status code."""
    total = Counter(
        f"apiserver_delegated_{what}_request_total",
        "Number of HTTP requests partitioned by status code.",
        ("code",),
    )
    duration = Histogram(
        f"apiserver_delegated_{what}_request_duration_seconds",
        "Request latency in seconds. Broken down by status code.",
        ("code",),
        buckets=_DELEGATED,
    )
    return registry.register(total), registry.register(duration)


def _kind_of_user(name: str) -> str:
    if name in _KNOWN_USERS:
        return name
    return "email_id" if "@" in name else "other"
