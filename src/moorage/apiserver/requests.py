"""What a request asks for: its path, its query, and the form its `Accept` header wants.

A path becomes a resource, a namespace, a name and a subresource. Must not read bodies (`bodies`).
"""

import re
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from urllib.parse import parse_qsl, unquote

import msgspec

from moorage.apiserver.errors import bad_request, no_such_path, not_acceptable, simulated
from moorage.apiserver.resources import BY_PLURAL, ApiResource

ByPlural = Mapping[tuple[str, str, str], ApiResource]

_INTEGER = re.compile(r"[-+]?[0-9]{1,19}")
# What only a process on a real node could answer, and why a simulated one does not.
_PROCESSES = {
    "attach": "has no process to attach to",
    "ephemeralcontainers": "takes no debugging containers",
    "exec": "has no process to run a command beside",
    "log": "has no logs",
    "portforward": "listens on no port",
    "proxy": "answers no requests",
}
_HOSTS = ("nodes", "pods", "services")
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


def parse_target(path: str, known: ByPlural = BY_PLURAL) -> Target | None:
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
    resource = known.get((group, version, rest[0]))
    if resource is None or len(rest) > 3:
        raise no_such_path()
    if namespace and not resource.namespaced:
        raise no_such_path()
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    if subresource and subresource not in resource.subresources:
        if subresource in _PROCESSES and resource.group == "" and resource.plural in _HOSTS:
            raise simulated(resource.singular, _PROCESSES[subresource])
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


JSON = "application/json"
_JSON_TYPES = (JSON, "application/*", "*/*")


class Form(Enum):
    """How objects are written in an answer."""

    OBJECT = "the object itself"
    TABLE = "rows for kubectl"
    METADATA = "only metadata"


@lru_cache(maxsize=256)
def negotiate(accept: str) -> Form:
    """The first form the client names that this server can write.

    Protobuf is passed over: clients that prefer it also accept JSON.
    """
    if not accept:
        return Form.OBJECT
    for choice in accept.split(","):
        media, parameters = _parse(choice)
        if media not in _JSON_TYPES:
            continue
        wanted = parameters.get("as", "")
        if not wanted:
            return Form.OBJECT
        if parameters.get("g") != "meta.k8s.io" or parameters.get("v") != "v1":
            continue
        if wanted == "Table":
            return Form.TABLE
        if wanted.startswith("PartialObjectMetadata"):
            return Form.METADATA
    raise not_acceptable(JSON)


@lru_cache(maxsize=64)
def wants_aggregated_discovery(accept: str) -> bool:
    """Does the client prefer all groups with all resources in one document?"""
    for choice in accept.split(","):
        media, parameters = _parse(choice)
        if media == JSON:
            return parameters.get("as") == "APIGroupDiscoveryList" and parameters.get("v") == "v2"
    return False


def _parse(choice: str) -> tuple[str, dict[str, str]]:
    media, *rest = (part.strip() for part in choice.split(";"))
    pairs = (part.partition("=") for part in rest)
    return media.lower(), {name: value for name, _, value in pairs}
