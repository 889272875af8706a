"""What the secure port shows and whom it informs, as values: it knows nothing of the scheduler.

`app` fills in `Endpoints`. Callables are called on the event loop and must not block. An `Observer`
gets one call per fact; names and labels of metrics are its own business.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from aiohttp import web

Handler = Callable[["web.Request"], Awaitable["web.StreamResponse"]]
Page = tuple[str, bytes]
"""A content type and a body."""


class PortObserver(Protocol):
    """Gets a call for what happens at the port; must not raise and must not block."""

    def authenticated(self, result: str, user: str, seconds: float) -> None:
        """A request was looked at: `success`, `failure` or `error`; `user` only with success."""
        return

    def authorized(self, decision: str, seconds: float) -> None:
        """A decision: `allowed`, `denied`, `no-opinion` or `error`."""
        return

    def token_cached(self, hit: bool, seconds: float) -> None:
        """A bearer token was looked up: was its holder known already?"""
        return

    def reviewed(self, kind: str, code: str, seconds: float) -> None:
        """`TokenReview` or `SubjectAccessReview` was sent; `code` is the status or `<error>`."""
        return

    def client_certificate(self, seconds_left: float) -> None:
        """A client certificate was shown that is still valid for so long."""
        return

    def health_checked(self, endpoint: str, check: str, healthy: bool) -> None:
        """A check of `healthz`, `livez` or `readyz` was run on a request for all of them."""
        return


class NoObserver(PortObserver):
    """Counts nothing."""


SILENT = NoObserver()


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """A named check; `check` returns what is wrong, or None."""

    name: str
    check: Callable[[], str | None]


PING = HealthCheck("ping", lambda: None)


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """What /statusz shows; without `paths` it lists those that are served."""

    started: float
    """Seconds since the epoch."""
    runtime_version: str
    binary_version: str
    emulation_version: str = ""
    paths: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Route:
    """A page: for a path, and with `prefix` for all below it as well."""

    path: str
    handler: Handler
    prefix: bool = False
    listed: bool = True
    """Does /statusz name it?"""


def _no_metrics() -> Page:
    return "text/plain; version=0.0.4; charset=utf-8; escaping=underscores", b""


@dataclass(frozen=True, slots=True)
class Endpoints:
    """All pages of the port; the defaults show nothing."""

    healthz: Sequence[HealthCheck] = ()
    livez: Sequence[HealthCheck] = ()
    readyz: Sequence[HealthCheck] = ()
    metrics: Callable[[], Page] = _no_metrics
    reset_metrics: Callable[[], None] = lambda: None
    resources: Callable[[], Page | None] = _no_metrics
    """None while another instance leads, which makes an empty page."""
    slis: Callable[[], Page] = _no_metrics
    configz: Callable[[], object] = dict
    """The whole answer: a JSON object with one entry per configuration."""
    flags: Callable[[], Mapping[str, str]] | None = None
    statusz: ProcessStatus | None = None
    profiling: bool = False
    set_verbosity: Callable[[int], None] = field(default=lambda level: None)
    extra: Sequence[Route] = ()
    process_started: float | None = None
    """Seconds since the epoch; sent in a header of the metrics pages."""
