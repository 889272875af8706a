"""Paths that are no resources: health, version, discovery, and the documents of `openapi`.

Everything here follows from the resource table, which changes only with custom resources.
Upstream: apiserver pkg/endpoints/discovery and .../discovery/aggregated.
"""

from functools import lru_cache

from aiohttp import web

from moorage.apiserver.errors import Json, method_not_allowed, no_such_path
from moorage.apiserver.openapi import (
    V2,
    V2_PROTOBUF,
    V2_PROTOBUF_TOLD,
    v3_document,
    v3_index,
)
from moorage.apiserver.requests import wants_aggregated_discovery
from moorage.apiserver.resources import ApiResource, ResourceTable, subresource_kind
from moorage.apiserver.responses import answer_json, answer_text
from moorage.tables import read_table
from moorage.version import KUBERNETES_VERSION

_TABLE = read_table("moorage.apiserver", "discovery.yaml", Json)
_UPDATES = ("get", "patch", "update")


def _subresource(row: ApiResource, name: str) -> tuple[str, str, str, tuple[str, ...]]:
    """The group, version, kind and verbs of a subresource."""
    verbs = ("create",) if name in ("binding", "eviction") else _UPDATES
    return *subresource_kind(row, name), verbs


def _group(group: str, versions: list[str]) -> Json:
    listed = [
        {"groupVersion": f"{group}/{version}" if group else version, "version": version}
        for version in versions
    ]
    return {"name": group, "versions": listed, "preferredVersion": listed[0]}


@lru_cache(maxsize=1)
def groups(table: ResourceTable) -> Json:
    """`/apis`."""
    listed = [_group(name, versions) for name, versions in table.group_versions().items() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}


def group(table: ResourceTable, name: str) -> Json:
    """`/apis/<group>`."""
    versions = table.group_versions().get(name)
    if not name or versions is None:
        raise no_such_path()
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)}


@lru_cache(maxsize=64)
def resources(table: ResourceTable, group_name: str, version: str) -> Json:
    """`/api/v1` and `/apis/<group>/<version>`."""
    rows = table.rows(group_name, version)
    if not rows:
        raise no_such_path()
    listed: list[Json] = []
    for row in rows:
        common = {"namespaced": row.namespaced}
        names = {"name": row.plural, "singularName": row.singular, "kind": row.kind}
        listed.append({**names, **common, **_described(row)})
        for name in row.subresources:
            sub_group, sub_version, kind, verbs = _subresource(row, name)
            names = {"name": f"{row.plural}/{name}", "singularName": "", "kind": kind}
            entry: Json = {**names, **common, "verbs": list(verbs)}
            if (sub_group, sub_version) != (row.group, row.version):
                entry |= {"group": sub_group, "version": sub_version}
            listed.append(entry)
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": rows[0].api_version,
        "resources": listed,
    }


def _described(row: ApiResource) -> Json:
    entry: Json = {"verbs": list(row.verbs)}
    if row.short_names:
        entry["shortNames"] = list(row.short_names)
    if row.categories:
        entry["categories"] = list(row.categories)
    return entry


# ---- everything in one document ----


@lru_cache(maxsize=2)
def aggregated(table: ResourceTable, *, core: bool) -> Json:
    """The aggregated form of `/api` (the core group) or `/apis` (all others)."""
    items = [
        {
            "metadata": {"name": name, "creationTimestamp": None} if name else {},
            "versions": [
                {
                    "version": version,
                    "resources": [_aggregated_resource(row) for row in table.rows(name, version)],
                    "freshness": "Current",
                }
                for version in versions
            ],
        }
        for name, versions in table.group_versions().items()
        if (name == "") is core
    ]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }


def _aggregated_resource(row: ApiResource) -> Json:
    entry: Json = {
        "resource": row.plural,
        "responseKind": _kind(row.group, row.version, row.kind),
        "scope": "Namespaced" if row.namespaced else "Cluster",
        "singularResource": row.singular,
        **_described(row),
    }
    if row.subresources:
        entry["subresources"] = []
    for name in row.subresources:
        group_name, version, kind, verbs = _subresource(row, name)
        response = _kind(group_name, version, kind)
        made = {"subresource": name, "responseKind": response, "verbs": list(verbs)}
        entry["subresources"].append(made)
    return entry


def _kind(group: str, version: str, kind: str) -> Json:
    return {"group": group, "version": version, "kind": kind}


# ---- requests ----

_HEALTH = ("/healthz", "/livez", "/readyz")
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def is_public(path: str) -> bool:
    """May anybody ask this, whoever they are?"""
    return path.startswith(_HEALTH) or path == "/version"


def answer_plain(path: str, request: web.BaseRequest, table: ResourceTable) -> web.Response:
    """Answer a path that is about no object."""
    if request.method not in ("GET", "HEAD"):
        raise method_not_allowed() if path.startswith("/api") else no_such_path()
    path = path.rstrip("/") or "/"
    if path.startswith(_HEALTH):
        return answer_text("ok")
    if path in ("/api", "/apis"):
        core = path == "/api"
        if wants_aggregated_discovery(request.headers.get("Accept", "")):
            response = answer_json(aggregated(table, core=core))
            response.headers["Content-Type"] = _AGGREGATED
            return response
        return answer_json(_TABLE["core"] if core else groups(table))
    if path == "/openapi/v2" and V2_PROTOBUF in request.headers.get("Accept", ""):
        # An empty message is a document without definitions; clients fall back to their types.
        return web.Response(body=b"", headers={"Content-Type": V2_PROTOBUF_TOLD})
    return answer_json(_document(path, table))


def _document(path: str, table: ResourceTable) -> Json:
    if path == "/version":
        major, minor, _ = KUBERNETES_VERSION.removeprefix("v").split(".")
        return {
            "major": major,
            "minor": minor,
            "gitVersion": KUBERNETES_VERSION,
            **_TABLE["version"],
        }
    if path == "/openapi/v2":
        return V2
    if path == "/openapi/v3":
        return v3_index(table)
    if path.startswith("/openapi/v3/"):
        return v3_document(table, path.removeprefix("/openapi/v3/"))
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) == 2:
        return resources(table, "", parts[1])
    if parts[0] == "apis" and len(parts) == 2:
        return group(table, parts[1])
    if parts[0] == "apis" and len(parts) == 3 and parts[1]:
        return resources(table, parts[1], parts[2])
    if path == "/":
        return dict(_TABLE["paths"])
    raise no_such_path()
