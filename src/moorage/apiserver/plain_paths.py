"""Paths that are no resources: health, version, discovery, OpenAPI."""

from aiohttp import web

from moorage.apiserver import discovery, openapi
from moorage.apiserver.answers import answer_json, answer_text
from moorage.apiserver.negotiation import wants_aggregated_discovery
from moorage.apiserver.statuses import Json, method_not_allowed, no_such_path

_HEALTH = ("/healthz", "/livez", "/readyz")
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def is_public(path: str) -> bool:
    """May anybody ask this, whoever they are?"""
    return path.startswith(_HEALTH) or path == "/version"


def answer_plain(path: str, request: web.BaseRequest) -> web.Response:
    """Answer a path that is about no object."""
    if request.method not in ("GET", "HEAD"):
        raise method_not_allowed() if path.startswith("/api") else no_such_path()
    path = path.rstrip("/") or "/"
    if path.startswith(_HEALTH):
        return answer_text("ok")
    if path in ("/api", "/apis"):
        core = path == "/api"
        if wants_aggregated_discovery(request.headers.get("Accept", "")):
            response = answer_json(discovery.aggregated(core=core))
            response.headers["Content-Type"] = _AGGREGATED
            return response
        return answer_json(discovery.core_versions() if core else discovery.groups())
    if path == "/openapi/v2" and openapi.V2_PROTOBUF in request.headers.get("Accept", ""):
        # An empty message is a document without definitions; clients fall back to their types.
        return web.Response(body=b"", headers={"Content-Type": openapi.V2_PROTOBUF_TOLD})
    return answer_json(_document(path))


def _document(path: str) -> Json:
    if path == "/version":
        return discovery.version_info()
    if path == "/openapi/v2":
        return openapi.v2_document()
    if path == "/openapi/v3":
        return openapi.v3_index()
    if path.startswith("/openapi/v3/"):
        return openapi.v3_document(path.removeprefix("/openapi/v3/"))
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) == 2:
        return discovery.resources("", parts[1])
    if parts[0] == "apis" and len(parts) == 2:
        return discovery.group(parts[1])
    if parts[0] == "apis" and len(parts) == 3 and parts[1]:
        return discovery.resources(parts[1], parts[2])
    if path == "/":
        return {"paths": ["/api", "/apis", "/healthz", "/openapi/v2", "/openapi/v3", "/version"]}
    raise no_such_path()
