"""What the secure port of a scheduler process shows.

Owns the way from the parts of the process to `http.endpoints`. Imported only where a port is
served: the libraries behind it take a good part of a start.
"""

import platform
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from aiohttp import web

from moorage.app.health import Health
from moorage.app.merged_config import Completed
from moorage.http.endpoints import Endpoints, Handler, HealthCheck, Route, Status
from moorage.http.explain_api import explain_routes
from moorage.http.explain_page import PUBLIC_PATHS, page_routes
from moorage.http.secure_port import SecurePort
from moorage.http.server import SecureServer
from moorage.kube.explainer import Explainer
from moorage.kube.shadow import Shadow
from moorage.metrics.exporter import AllMetrics
from moorage.redaction import redacted
from moorage.version import KUBERNETES_VERSION


def open_port(
    completed: Completed, metrics: AllMetrics, listener: socket.socket | None = None
) -> SecurePort:
    """The secure port of the flags, opened (unless `listener` is) but not serving yet."""
    options = completed.options
    authorization = options.authorization
    if options.moorage.explain_page:
        # The page tells nothing by itself, and must be there to ask for a token.
        open_paths = (*authorization.always_allow_paths, *PUBLIC_PATHS)
        authorization = replace(authorization, always_allow_paths=open_paths)
    return SecurePort(
        options.serving,
        options.authentication,
        authorization,
        observer=metrics.serving,
        server=None if listener is None else SecureServer(options.serving, listener),
    )


def endpoints(
    completed: Completed,
    health: Health,
    metrics: AllMetrics,
    *,
    started: float,
    resources: Callable[[str], tuple[str, bytes] | None],
    configz: Callable[[], Mapping[str, object]],
    set_verbosity: Callable[[int], None],
    shadow: Shadow | None,
    explainer: Explainer,
) -> Endpoints:
    """All pages; `started` is when the process was, in seconds since the epoch."""
    gates = completed.gates
    statusz = Status(
        started=started,
        runtime_version=f"python{platform.python_version()}",
        binary_version=KUBERNETES_VERSION.removeprefix("v"),
        emulation_version=str(gates.version.emulation),
    )

    def flags() -> Mapping[str, str]:
        return {name: redacted(value) for name, value in completed.flag_values.items()}

    return Endpoints(
        healthz=[HealthCheck(name, check) for name, check in health.healthz],
        readyz=[HealthCheck(name, check) for name, check in health.readyz],
        # In kube-scheduler's one format, whatever else a scraper would take: in OpenMetrics the
        # labels `le` are written differently.
        metrics=lambda accept: metrics.render(),
        reset_metrics=metrics.reset,
        resources=resources,
        slis=lambda accept: metrics.render_slis(),
        configz=lambda: {"componentconfig": configz()},
        flags=flags if gates.enabled("ComponentFlagz") else None,
        statusz=statusz if gates.enabled("ComponentStatusz") else None,
        profiling=completed.config.enable_profiling,
        set_verbosity=set_verbosity,
        extra=_extra_pages(completed, shadow, explainer),
        process_started=started,
    )


def _extra_pages(
    completed: Completed, shadow: Shadow | None, explainer: Explainer
) -> Sequence[Route]:
    """What kube-scheduler does not have."""
    pages = list(explain_routes(explainer))
    if completed.options.moorage.explain_page:
        pages += page_routes()
    if shadow is not None:
        pages.append(Route("/shadow", _shadow_page(shadow)))
    return pages


def _shadow_page(shadow: Shadow) -> Handler:
    async def page(request: web.Request) -> web.StreamResponse:
        del request
        return web.json_response(body=shadow.report())

    return page
