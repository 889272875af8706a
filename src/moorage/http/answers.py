"""Answers in Kubernetes' form: Status objects, plain texts, and which form a client asks for.

Owns headers and bodies that several pages share. Decides nothing about who gets them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import yaml
from aiohttp import web

from moorage.config.feature_gates import TRUE
from moorage.config.field_errors import go_json

Json = dict[str, Any]

_PRETTY_AGENTS = ("curl", "Wget", "Mozilla/5.0")
PLAIN = "text/plain; charset=utf-8"
NO_SNIFF = {"X-Content-Type-Options": "nosniff"}


class Accepted(NamedTuple):
    """One entry of an Accept header."""

    type: str
    subtype: str
    params: Mapping[str, str]

    def matches(self, media: str) -> bool:
        kind, _, sub = media.partition("/")
        return self.type in ("*", kind) and self.subtype in ("*", sub)


def accepted(header: str) -> list[Accepted]:
    """The entries of an Accept header, the most wanted first."""
    found: list[tuple[float, Accepted]] = []
    for text in header.split(","):
        media, *rest = (part.strip() for part in text.split(";"))
        kind, slash, sub = media.partition("/")
        if not slash and kind == "*":
            sub = "*"
        params = dict(_parameter(part) for part in rest)
        try:
            quality = float(params.pop("q", "1"))
        except ValueError:
            quality = 1.0
        found.append((quality, Accepted(kind, sub, params)))
    return [entry for _, entry in sorted(found, key=lambda pair: -pair[0])]


def _parameter(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name.strip(), value.strip().strip('"')


def text_answer(
    text: str, status: int = 200, *, content_type: str = PLAIN, sniff: bool = False
) -> web.Response:
    """A plain text; browsers must not guess what it is unless `sniff`."""
    headers = {"Content-Type": content_type} | ({} if sniff else NO_SNIFF)
    return web.Response(status=status, body=text.encode(), headers=headers)


def error_text(text: str, status: int) -> web.Response:
    """An error as plain text, with the line break that upstream puts behind it."""
    return text_answer(text + "\n", status)


def failure(
    request: web.Request,
    code: int,
    reason: str,
    message: str,
    *,
    details: bool = False,
    headers: Mapping[str, str] | None = None,
) -> web.Response:
    """A Status object, as JSON or, for those who ask for it, as YAML."""
    body: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    body |= {"message": message, "reason": reason}
    if details:
        body["details"] = {}
    body["code"] = code
    media = _form(request.headers.get("Accept", ""))
    if media:
        return object_answer(request, body, media, media, status=code, headers=headers)
    # A client that accepts neither gets JSON; upstream then always indents.
    text = go_json(body, indent=2)
    all_headers = {"Content-Type": "application/json", **(headers or {})}
    return web.Response(status=code, body=text.encode(), headers=all_headers)


def _form(header: str) -> str:
    """Which of the two forms an Accept header asks for; empty if neither."""
    if not header.strip():
        return "application/json"
    return next(
        (
            media
            for entry in accepted(header)
            for media in ("application/json", "application/yaml")
            if entry.matches(media) and "as" not in entry.params
        ),
        "",
    )


def object_answer(
    request: web.Request,
    body: Json,
    media: str,
    content_type: str,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> web.Response:
    """An object in one of the two forms; people's tools get their JSON indented."""
    if media == "application/yaml":
        text = yaml.safe_dump(body, default_flow_style=False, allow_unicode=True)
    elif _pretty(request):
        text = go_json(body, indent=2)
    else:
        text = go_json(body) + "\n"
    return web.Response(
        status=status, body=text.encode(), headers={"Content-Type": content_type, **(headers or {})}
    )


def _pretty(request: web.Request) -> bool:
    wish = request.query.get("pretty", "")
    if wish:
        return wish in TRUE
    return request.headers.get("User-Agent", "").startswith(_PRETTY_AGENTS)


def wanted_kind(
    header: str, kind: str, group: str, versions: Sequence[str]
) -> tuple[str, str] | None:
    """Media type and version that an Accept header asks for; version "" is plain text.

    Structured forms must be asked for by kind, group and version; None if nothing fits.
    """
    if not header.strip():
        return "text/plain", ""
    for entry in accepted(header):
        version = entry.params.get("v", "")
        named = entry.params.get("as") == kind and entry.params.get("g") == group
        for media in ("application/json", "application/yaml"):
            if entry.matches(media) and named and version in versions:
                return media, version
        if entry.matches("text/plain") and "as" not in entry.params:
            return "text/plain", ""
    return None
