"""OpenAPI documents: just enough for kubectl to leave validation to the server.

kubectl looks for two things: a schema per kind (`kubectl explain`) and the query parameter
`fieldValidation` on patches, without which it validates by itself. Fields below the top level are
not described. Upstream's documents are megabytes; these follow from the resource table.
"""

from functools import lru_cache

from moorage.apiserver.discovery import GIT_VERSION
from moorage.apiserver.resources import ApiResource, group_versions, resources_of
from moorage.apiserver.statuses import Json, no_such_path

V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
V2_PROTOBUF_TOLD = V2_PROTOBUF.replace("@", ".")
"""What is answered to it: an @ may stand where types are asked for, not where they are told."""
_INFO = {"title": "Kubernetes", "version": GIT_VERSION}
_OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _path(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


@lru_cache(maxsize=1)
def v3_index() -> Json:
    """`/openapi/v3`: where the documents are."""
    paths = {
        _path(group, version): {"serverRelativeURL": f"/openapi/v3/{_path(group, version)}"}
        for group, versions in group_versions().items()
        for version in versions
    }
    return {"paths": paths}


@lru_cache(maxsize=64)
def v3_document(path: str) -> Json:
    """`/openapi/v3/<path>`: one group and version."""
    for group, versions in group_versions().items():
        for version in versions:
            if _path(group, version) == path:
                return _document(group, version)
    raise no_such_path()


@lru_cache(maxsize=1)
def v2_document() -> Json:
    """`/openapi/v2`: a document without definitions, so that clients use their own types."""
    return {"swagger": "2.0", "info": _INFO, "paths": {}, "definitions": {}}


def _document(group: str, version: str) -> Json:
    rows = resources_of(group, version)
    return {
        "openapi": "3.0.0",
        "info": _INFO,
        "paths": dict(_operations(row) for row in rows),
        "components": {"schemas": {_schema_name(row): _schema(row) for row in rows}},
    }


def _schema_name(row: ApiResource) -> str:
    group = row.group.partition(".")[0] or "core"
    return f"io.k8s.api.{group}.{row.version}.{row.kind}"


def _identity(row: ApiResource) -> Json:
    return {"group": row.group, "version": row.version, "kind": row.kind}


def _operations(row: ApiResource) -> tuple[str, Json]:
    scope = "namespaces/{namespace}/" if row.namespaced else ""
    kind = {"x-kubernetes-group-version-kind": _identity(row)}
    parameters = [
        {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
        for name in ("dryRun", "fieldManager", "fieldValidation")
    ]
    answer = {"schema": {"$ref": f"#/components/schemas/{_schema_name(row)}"}}
    responses = {"200": {"description": "OK", "content": {"application/json": answer}}}
    operation = {"parameters": parameters, "responses": responses, **kind}
    get = {"responses": responses, "x-kubernetes-action": "get", **kind}
    path = f"/{_path(row.group, row.version)}/{scope}{row.plural}/{{name}}"
    return path, {
        "get": get,
        "put": {**operation, "x-kubernetes-action": "put"},
        "patch": {**operation, "x-kubernetes-action": "patch"},
    }


def _schema(row: ApiResource) -> Json:
    def text(description: str) -> Json:
        return {"type": "string", "description": description}

    properties: Json = {
        "apiVersion": text("The version of this representation of an object."),
        "kind": text("The kind of the object."),
        "metadata": {**_OPEN, "description": "Standard object's metadata."},
        "spec": {**_OPEN, "description": "What is asked for."},
    }
    if "status" in row.subresources:
        properties["status"] = {**_OPEN, "description": "What was observed."}
    return {
        "type": "object",
        "description": f"{row.kind} of {row.api_version}.",
        "properties": properties,
        "x-kubernetes-preserve-unknown-fields": True,
        "x-kubernetes-group-version-kind": [_identity(row)],
    }
