"""Metrics of the secure port: who was recognised, who was allowed, and the health checks.

Owns the counters that the HTTP side writes to, under the names of Kubernetes' API machinery. What
the HTTP side tells has the form of `http.endpoints.PortObserver`, which this layer does not know.
"""

from moorage.metrics.registry import MetricsRegistry

# Names that may be told apart; any user may send requests, and names must not become labels.
_KNOWN_USERS = frozenset(
    ("admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default")
)
_REVIEWS = {
    "TokenReview": "apiserver_delegated_authn_request",
    "SubjectAccessReview": "apiserver_delegated_authz_request",
}


class ServingMetrics:
    """Authentication and authorisation of requests, and on a page of its own (`slis`) health."""

    def __init__(self, registry: MetricsRegistry, slis: MetricsRegistry) -> None:
        self._registry = registry
        self._slis = slis

    def authenticated(self, result: str, user: str, seconds: float) -> None:
        self._registry.add("authentication_attempts", result)
        self._registry.observe("authentication_duration_seconds", seconds, result)
        if user:
            self._registry.add("authenticated_user_requests", _kind_of_user(user))

    def authorized(self, decision: str, seconds: float) -> None:
        self._registry.add("authorization_attempts_total", decision)
        self._registry.observe("authorization_duration_seconds", seconds, decision)

    def token_cached(self, hit: bool, seconds: float) -> None:
        name, status = "authentication_token_cache_request", "hit" if hit else "miss"
        self._registry.add(f"{name}_total", status)
        self._registry.observe(f"{name}_duration_seconds", seconds, status)

    def reviewed(self, kind: str, code: str, seconds: float) -> None:
        self._registry.add(f"{_REVIEWS[kind]}_total", code)
        self._registry.observe(f"{_REVIEWS[kind]}_duration_seconds", seconds, code)
        if kind == "TokenReview":
            result = "ok" if code.startswith("2") else "error"
            self._registry.add("authentication_token_cache_fetch_total", result)

    def client_certificate(self, seconds_left: float) -> None:
        self._registry.observe("apiserver_client_certificate_expiration_seconds", seconds_left)

    def health_checked(self, endpoint: str, check: str, healthy: bool) -> None:
        self._slis.set("kubernetes_healthcheck", 1 if healthy else 0, check, endpoint)
        result = "success" if healthy else "error"
        self._slis.add("kubernetes_healthchecks_total", check, endpoint, result)


def _kind_of_user(name: str) -> str:
    if name in _KNOWN_USERS:
        return name
    return "email_id" if "@" in name else "other"
