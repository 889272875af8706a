"""What the secure port of a scheduler process shows.

Owns the way from the parts of the process to `http.endpoints`. Imported only where a port is
served: the libraries behind it take a good part of a start.
"""

import platform
import time
from collections.abc import Callable, Mapping

from aiohttp import web

from moorage.app.completed import Completed
from moorage.app.health import Health
from moorage.http.endpoints import Endpoints, Handler, HealthCheck, Route, Status
from moorage.http.secure_port import SecurePort, secure_port
from moorage.kube.shadow import Shadow
from moorage.metrics.exporter import AllMetrics
from moorage.version import KUBERNETES_VERSION


def open_port(completed: Completed, metrics: AllMetrics) -> SecurePort | None:
    """The secure port of the flags, opened but not serving yet."""
    options = completed.options
    return secure_port(
        options.serving, options.authentication, options.authorization, observer=metrics.serving
    )


def endpoints(
    completed: Completed,
    health: Health,
    metrics: AllMetrics,
    *,
    resources: Callable[[str], tuple[str, bytes] | None],
    configz: Callable[[], Mapping[str, object]],
    set_verbosity: Callable[[int], None],
    shadow: Shadow | None,
) -> Endpoints:
    """All pages."""
    gates, started = completed.gates, time.time()
    statusz = Status(
        started=started,
        runtime_version=f"python{platform.python_version()}",
        binary_version=KUBERNETES_VERSION.removeprefix("v"),
        emulation_version=str(gates.version.emulation),
    )

    def flags() -> Mapping[str, str]:
        return dict(completed.flag_values)

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
        extra=() if shadow is None else (Route("/shadow", _shadow_page(shadow)),),
        process_started=started,
    )


def _shadow_page(shadow: Shadow) -> Handler:
    async def page(request: web.Request) -> web.StreamResponse:
        del request
        return web.json_response(body=shadow.report())

    return page
