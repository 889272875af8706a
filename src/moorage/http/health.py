"""/healthz, /livez and /readyz: all checks of one of them, and every check by its name.

Owns the texts. The reason of a failure is shown only at the check's own path, which not everybody
may ask.
"""

import logging
from collections.abc import Sequence

from aiohttp import web

from moorage.config.field_errors import quoted
from moorage.http.answers import error_text, text_answer
from moorage.http.endpoints import PING, Handler, HealthCheck
from moorage.http.observers import Observer
from moorage.log_fields import V

log = logging.getLogger(__name__)


def health_routes(
    endpoint: str, checks: Sequence[HealthCheck], observer: Observer
) -> dict[str, Handler]:
    """Handlers by path for `/<endpoint>` and below; without checks there is `ping`."""
    checks = tuple(checks) or (PING,)

    async def whole(request: web.Request) -> web.Response:
        return _whole(request, endpoint, checks, observer)

    return {f"/{endpoint}": whole} | {f"/{endpoint}/{c.name}": _single(c) for c in checks}


def _single(check: HealthCheck) -> Handler:
    async def single(_: web.Request) -> web.Response:
        reason = _run(check)
        if reason is not None:
            return error_text(f"internal server error: {reason}", 500)
        return text_answer("ok", sniff=True)

    return single


def _whole(
    request: web.Request, endpoint: str, checks: Sequence[HealthCheck], observer: Observer
) -> web.Response:
    excluded = set(request.query.getall("exclude", ()))
    lines: list[str] = []
    failed: dict[str, str] = {}
    for check in checks:
        if check.name in excluded:
            lines.append(f"[+]{check.name} excluded: ok")
            continue
        reason = _run(check)
        observer.health_checked(endpoint, check.name, reason is None)
        if reason is None:
            lines.append(f"[+]{check.name} ok")
        else:
            lines.append(f"[-]{check.name} failed: reason withheld")
            failed[check.name] = reason
    unknown = sorted(excluded - {check.name for check in checks})
    if unknown:
        named = ",".join(map(quoted, unknown))
        lines.append(f"warn: some health checks cannot be excluded: no matches for {named}")
    if failed:
        told = "\n".join(f"[-]{name} failed: {reason}" for name, reason in failed.items())
        log.log(V(2), "%s check failed: %s\n%s", ",".join(failed), endpoint, told)
        return error_text("\n".join([*lines, f"{endpoint} check failed"]), 500)
    if "verbose" not in request.query:
        return text_answer("ok")
    return text_answer("\n".join([*lines, f"{endpoint} check passed", ""]))


def _run(check: HealthCheck) -> str | None:
    """What is wrong; a check that itself fails is not a healthy one."""
    try:
        return check.check()
    except Exception as error:
        log.exception("the health check %s failed", check.name)
        return f"{type(error).__name__}: {error}"
