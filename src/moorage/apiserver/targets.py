"""From a URL path to what it means: a resource, a namespace, a name, a subresource."""

import re
from urllib.parse import parse_qsl, unquote

import msgspec

from moorage.apiserver.resources import BY_PLURAL, ApiResource
from moorage.apiserver.statuses import bad_request, no_such_path

_INTEGER = re.compile(r"[-+]?[0-9]{1,19}")
_NAMESPACE_SUBRESOURCES = ("status", "finalize")


class Target(msgspec.Struct, frozen=True):
    """What a request is about; empty strings where the path names nothing."""

    resource: ApiResource
    namespace: str
    name: str
    subresource: str


def split_path(raw: str) -> tuple[str, dict[str, str]]:
    """The decoded path and the query; of repeated parameters the first counts, as upstream."""
    # Error messages quote parts of the path, so it must be valid text.
    raw = raw.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    path, _, text = raw.partition("?")
    query: dict[str, str] = {}
    if text:
        for name, value in parse_qsl(text, keep_blank_values=True):
            query.setdefault(name, value)
    return (unquote(path) if "%" in path else path), query


def parse_target(path: str) -> Target | None:
    """The resource a path is about; None for discovery, health and other plain paths."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
        namespace, rest = rest[1], rest[2:]
    resource = BY_PLURAL.get((group, version, rest[0]))
    if resource is None or len(rest) > 3:
        raise no_such_path()
    if namespace and not resource.namespaced:
        raise no_such_path()
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    if subresource and subresource not in resource.subresources:
        raise no_such_path()
    if name and resource.namespaced and not namespace:
        raise no_such_path()
    return Target(resource, namespace, name, subresource)


def flag(query: dict[str, str], name: str) -> bool:
    """A boolean parameter."""
    return query.get(name, "").lower() in ("true", "1")


def number(query: dict[str, str], name: str) -> int | None:
    """An integer parameter, of 64 bits as upstream's are."""
    text = query.get(name)
    if not text:
        return None
    value = int(text) if _INTEGER.fullmatch(text) else None
    if value is None or not -(2**63) <= value < 2**63:
        raise bad_request(f'{name}: Invalid value: "{text}": must be an integer')
    return value
