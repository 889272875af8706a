"""The pages that kube-scheduler has too: health checks, metrics, /configz, /flagz, /statusz, -v.

Owns their texts and forms; the values come from `Endpoints`. The reason of a failed health check is
shown only at the check's own path, which not everybody may ask. Knows no metric and no flag.
"""

import asyncio
import gzip
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.resources import files

from aiohttp import web

from moorage.config.field_errors import go_json, quoted
from moorage.http.answers import (
    NO_SNIFF,
    Json,
    error_text,
    failure,
    object_answer,
    text_answer,
    wanted_kind,
)
from moorage.http.endpoints import (
    PING,
    Endpoints,
    Handler,
    HealthCheck,
    Page,
    PortObserver,
    ProcessStatus,
    Route,
)
from moorage.kube.timing import rfc3339
from moorage.log_fields import V

log = logging.getLogger(__name__)

_WORTH_A_THREAD = 1 << 16
_LEVEL = 5
_COMPONENT = "kube-scheduler"
_GROUP = "config.k8s.io"
_VERSIONS = ("v1beta1", "v1alpha1")
_DEPRECATED = ("v1alpha1",)
_MEDIA = "application/json, application/yaml, text/plain"
_HEADING = (
    "\n{component} {page}\n"
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility"
    " guarantees and is for debugging purposes only.\n"
)
# Upstream draws one of several separators by lot, so that nobody relies on one; one of them.
_SEPARATOR = ": "
_BODY_SECONDS = 32.0
_LARGEST = 2**31 - 1


def health_routes(
    endpoint: str, checks: Sequence[HealthCheck], observer: PortObserver
) -> Sequence[Route]:
    """`/<endpoint>` and below; without checks there is `ping`."""
    checks = tuple(checks) or (PING,)

    async def whole(request: web.Request) -> web.Response:
        return _whole(request, endpoint, checks, observer)

    single = [Route(f"/{endpoint}/{check.name}", _single(check)) for check in checks]
    return [Route(f"/{endpoint}", whole), *single]


def _single(check: HealthCheck) -> Handler:
    async def single(_: web.Request) -> web.Response:
        reason = _run(check)
        if reason is not None:
            return error_text(f"internal server error: {reason}", 500)
        return text_answer("ok", sniff=True)

    return single


def _whole(
    request: web.Request, endpoint: str, checks: Sequence[HealthCheck], observer: PortObserver
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
        reasons = "\n".join(f"[-]{name} failed: {reason}" for name, reason in failed.items())
        log.log(V(2), "%s check failed: %s\n%s", ",".join(failed), endpoint, reasons)
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


def metric_routes(endpoints: Endpoints) -> Sequence[Route]:
    """All pages of metrics, sent as scrapers want them."""
    started = endpoints.process_started
    return [
        Route("/metrics", _page(endpoints.metrics, started, endpoints.reset_metrics)),
        Route("/metrics/resources", _page(endpoints.resources, started)),
        Route("/metrics/slis", _page(endpoints.slis, started)),
    ]


def _page(
    page: Callable[[], Page | None], started: float | None, reset: Callable[[], None] | None = None
) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        made = page()
        if made is None:  # another instance leads: nothing to show, and nothing to reset
            return text_answer("", sniff=True)
        if request.method == "DELETE":
            if reset is not None:
                reset()
            return text_answer("metrics reset\n", sniff=True)
        content_type, body = made
        headers = {"Content-Type": content_type}
        if started is not None:
            headers["Process-Start-Time-Unix"] = str(int(started))
        if accepts_gzip(request.headers.get("Accept-Encoding", "")):
            headers["Content-Encoding"] = "gzip"
            body = await _compressed(body)
        return web.Response(body=body, headers=headers)

    return handle


def accepts_gzip(header: str) -> bool:
    """Does an Accept-Encoding header name gzip, and not only to refuse it?"""
    for text in header.split(","):
        name, *params = (part.strip().lower() for part in text.split(";"))
        if name in ("gzip", "x-gzip"):
            return not any(param.replace(" ", "").rstrip("0.") == "q=" for param in params)
    return False


async def _compressed(body: bytes) -> bytes:
    if len(body) < _WORTH_A_THREAD:
        return gzip.compress(body, _LEVEL)
    # The scheduling loop shares the event loop: a large page must not hold it up.
    return await asyncio.to_thread(gzip.compress, body, _LEVEL)


def configz(configuration: Callable[[], object]) -> Handler:
    """The configuration as JSON."""

    async def handle(_: web.Request) -> web.Response:
        headers = {"Content-Type": "application/json", **NO_SNIFF}
        return web.Response(body=go_json(configuration()).encode(), headers=headers)

    return handle


def flagz(flags: Callable[[], Mapping[str, str]]) -> Handler:
    """The flags with their values."""

    def text() -> str:
        lines = [f"{name}{_SEPARATOR}{value}\n" for name, value in sorted(flags().items())]
        return _HEADING.format(component=_COMPONENT, page="flagz") + "".join(lines)

    return _negotiated("Flagz", text, lambda: {"flags": dict(sorted(flags().items()))})


def statusz(
    status: ProcessStatus,
    paths: Sequence[str],
) -> Handler:
    """Versions, start and paths of the process."""
    listed = _folders(paths) if status.paths is None else list(status.paths)

    def text() -> str:
        started = datetime.fromtimestamp(status.started, UTC).strftime("%a %b %e %H:%M:%S UTC %Y")
        lines = {
            "Started": started,
            "Up": _uptime(time.time() - status.started),
            "Go version": status.runtime_version,
            "Binary version": status.binary_version,
            "Emulation version": status.emulation_version,
            "Paths": " ".join(listed),
        }
        shown = [f"{name}{_SEPARATOR}{value}\n" if value else "\n" for name, value in lines.items()]
        return _HEADING.format(component=_COMPONENT, page="statusz") + "\n" + "".join(shown)

    def fields() -> Json:
        emulated = {"emulationVersion": status.emulation_version}
        return {
            "startTime": rfc3339(status.started),
            "uptimeSeconds": max(0, int(time.time() - status.started)),
            "goVersion": status.runtime_version,
            "binaryVersion": status.binary_version,
            **(emulated if status.emulation_version else {}),
            "paths": listed,
        }

    return _negotiated("Statusz", text, fields)


def _negotiated(kind: str, text: Callable[[], str], fields: Callable[[], Json]) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        wanted = wanted_kind(request.headers.get("Accept", ""), kind, _GROUP, _VERSIONS)
        if wanted is None:
            message = f"only the following media types are accepted: {_MEDIA}"
            return failure(request, 406, "NotAcceptable", message)
        media, version = wanted
        if not version:
            return text_answer(text(), sniff=True)
        headers = {}
        if version in _DEPRECATED:
            headers["Warning"] = (
                f'299 - "This version of the {kind.lower()} endpoint is deprecated.'
                ' Please use a newer version."'
            )
        body: Json = {"kind": kind, "apiVersion": f"{_GROUP}/{version}"}
        body |= {"metadata": {"name": _COMPONENT}, **fields()}
        content_type = f"{media};g={_GROUP};v={version};as={kind}"
        return object_answer(request, body, media, content_type, headers=headers)

    return handle


def _folders(paths: Sequence[str]) -> list[str]:
    """The first part of every path, each once."""
    return sorted({"/" + path.split("/")[1] for path in paths if path.strip("/")})


def _uptime(seconds: float) -> str:
    whole = max(0, int(seconds))
    return f"{whole // 3600} hr {whole // 60 % 60:02d} min {whole % 60:02d} sec"


def verbosity_routes(set_verbosity: Callable[[int], None]) -> Sequence[Route]:
    """/debug/flags: the flags that can be changed while the process runs, of which there is one."""
    return [
        Route("/debug/flags", _flags_index, prefix=True, listed=False),
        Route("/debug/flags/v", _verbosity(set_verbosity), listed=False),
    ]


async def _flags_index(_: web.Request) -> web.Response:
    """The list of flags."""
    index = files("moorage.http").joinpath("debug_flags.html").read_text()
    return text_answer(index, content_type="text/html; charset=utf-8", sniff=True)


def _verbosity(apply: Callable[[int], None]) -> Handler:
    """PUT with a number sets the log verbosity."""

    async def handle(request: web.Request) -> web.Response:
        if request.method != "PUT":
            return _said("unsupported http method", 406)
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                text = await request.text()
        except (TimeoutError, UnicodeDecodeError) as error:
            return _said(f"error reading request body: {error or 'timeout'}", 400)
        if not (text.isascii() and text.isdigit()):
            return _said(f"strconv.ParseUint: parsing {quoted(text)}: invalid syntax", 400)
        if int(text) > _LARGEST:
            return _said(f"strconv.ParseUint: parsing {quoted(text)}: value out of range", 400)
        apply(int(text))
        return _said(f"successfully set klog.logging.verbosity to {text}", 200)

    return handle


def _said(text: str, status: int) -> web.Response:
    return text_answer(text + "\n", status, content_type="text/plain")
