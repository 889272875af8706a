"""What the secure port shows, as one value: the handlers here know nothing of the scheduler.

`app` fills it in. Callables are called on the event loop and must not block.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Page = tuple[str, bytes]
"""A content type and a body."""


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """A named check; `check` returns what is wrong, or None."""

    name: str
    check: Callable[[], str | None]


PING = HealthCheck("ping", lambda: None)


@dataclass(frozen=True, slots=True)
class Status:
    """What /statusz tells; without `paths` it lists those that are served."""

    started: float
    """Seconds since the epoch."""
    runtime_version: str
    binary_version: str
    emulation_version: str = ""
    paths: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Route:
    """One more page: for a path, and with `prefix` for all below it as well."""

    path: str
    handler: Handler
    prefix: bool = False
    listed: bool = True
    """Does /statusz name it?"""


def _no_metrics(accept: str) -> Page:
    return "text/plain; version=0.0.4; charset=utf-8; escaping=underscores", b""


def _nothing() -> None:
    return None


@dataclass(frozen=True, slots=True)
class Endpoints:
    """All pages of the port; the defaults show nothing."""

    healthz: Sequence[HealthCheck] = ()
    livez: Sequence[HealthCheck] = ()
    readyz: Sequence[HealthCheck] = ()
    metrics: Callable[[str], Page] = _no_metrics
    """The page for what an Accept header asks for."""
    reset_metrics: Callable[[], None] = _nothing
    resources: Callable[[str], Page | None] = _no_metrics
    """As `metrics`; None while another instance leads, which makes an empty page."""
    reset_resources: Callable[[], None] = _nothing
    slis: Callable[[str], Page] = _no_metrics
    reset_slis: Callable[[], None] = _nothing
    configz: Callable[[], object] = dict
    """The whole answer: a JSON object with one entry per configuration."""
    flags: Callable[[], Mapping[str, str]] | None = None
    statusz: Status | None = None
    profiling: bool = False
    set_verbosity: Callable[[int], None] = field(default=lambda level: None)
    extra: Sequence[Route] = ()
    component: str = "kube-scheduler"
    process_started: float | None = None
    """Seconds since the epoch; told in a header of the metrics pages."""
