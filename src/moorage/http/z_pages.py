"""/configz, /flagz and /statusz: what the process was told and what it is.

Owns their text and structured forms. The values come from `Endpoints`.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from aiohttp import web

from moorage.http.answers import (
    NO_SNIFF,
    Json,
    escaped,
    failure,
    object_answer,
    text_answer,
    wanted_kind,
)
from moorage.http.endpoints import Handler, Status
from moorage.kube.timing import rfc3339

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


def configz(configuration: Callable[[], object]) -> Handler:
    """The configuration as JSON."""

    async def handle(_: web.Request) -> web.Response:
        body = escaped(json.dumps(configuration(), separators=(",", ":"), ensure_ascii=False))
        headers = {"Content-Type": "application/json", **NO_SNIFF}
        return web.Response(body=body.encode(), headers=headers)

    return handle


def flagz(component: str, flags: Callable[[], Mapping[str, str]]) -> Handler:
    """The flags with their values."""

    def text() -> str:
        lines = [f"{name}{_SEPARATOR}{value}\n" for name, value in sorted(flags().items())]
        return _HEADING.format(component=component, page="flagz") + "".join(lines)

    return _negotiated(component, "Flagz", text, lambda: {"flags": dict(sorted(flags().items()))})


def statusz(
    component: str, status: Status, paths: Sequence[str], now: Callable[[], float] = time.time
) -> Handler:
    """Versions, start and paths of the process."""
    listed = _folders(paths) if status.paths is None else list(status.paths)

    def text() -> str:
        started = datetime.fromtimestamp(status.started, UTC).strftime("%a %b %e %H:%M:%S UTC %Y")
        lines = {
            "Started": started,
            "Up": _uptime(now() - status.started),
            "Go version": status.runtime_version,
            "Binary version": status.binary_version,
            "Emulation version": status.emulation_version,
            "Paths": " ".join(listed),
        }
        shown = [f"{name}{_SEPARATOR}{value}\n" if value else "\n" for name, value in lines.items()]
        return _HEADING.format(component=component, page="statusz") + "\n" + "".join(shown)

    def fields() -> Json:
        emulated = {"emulationVersion": status.emulation_version}
        return {
            "startTime": rfc3339(status.started),
            "uptimeSeconds": max(0, int(now() - status.started)),
            "goVersion": status.runtime_version,
            "binaryVersion": status.binary_version,
            **(emulated if status.emulation_version else {}),
            "paths": listed,
        }

    return _negotiated(component, "Statusz", text, fields)


def _negotiated(
    component: str, kind: str, text: Callable[[], str], fields: Callable[[], Json]
) -> Handler:
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
        body |= {"metadata": {"name": component}, **fields()}
        content_type = f"{media};g={_GROUP};v={version};as={kind}"
        return object_answer(request, body, media, content_type, headers=headers)

    return handle


def _folders(paths: Sequence[str]) -> list[str]:
    """The first part of every path, each once."""
    return sorted({"/" + path.split("/")[1] for path in paths if path.strip("/")})


def _uptime(seconds: float) -> str:
    whole = max(0, int(seconds))
    return f"{whole // 3600} hr {whole // 60 % 60:02d} min {whole % 60:02d} sec"
