"""OpenAPI: what `kubectl explain` reads, and where kubectl learns that the server checks fields.

Schemas are made from `messages`, and those of custom resources taken from their definitions; they
tell names and types, but describe nothing. No patch says which media types it takes, so kubectl
goes by its own types when it merges.
Upstream: kube-openapi pkg/{builder3,handler3}.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache

from moorage.apiserver.errors import Json, no_such_path
from moorage.apiserver.messages import (
    ANY,
    BOOLEAN,
    BYTES,
    DOUBLE,
    INT32,
    INT64,
    MAP,
    QUANTITY,
    REPEATED,
    STRING,
    TIMES,
    Field,
    Message,
    message_of,
    messages,
)
from moorage.apiserver.resources import ApiResource, ResourceTable
from moorage.apiserver.schemas import schema_of
from moorage.version import KUBERNETES_VERSION

V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
V2_PROTOBUF_TOLD = V2_PROTOBUF.replace("@", ".")
"""What is answered to it: an @ may stand where types are asked for, not where they are told."""
_INFO = {"title": "Kubernetes", "version": KUBERNETES_VERSION}
# A document without definitions, so that clients use their own types.
V2: Json = {"swagger": "2.0", "info": _INFO, "paths": {}, "definitions": {}}
# The parameters of writes; `fieldValidation` lets kubectl leave that to the server.
_PARAMETERS = [
    {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
    for name in ("dryRun", "fieldManager", "fieldValidation")
]
_PLAIN: dict[str, Json] = {
    STRING: {"type": "string"},
    INT32: {"type": "integer", "format": "int32"},
    INT64: {"type": "integer", "format": "int64"},
    BOOLEAN: {"type": "boolean"},
    BYTES: {"type": "string", "format": "byte"},
    DOUBLE: {"type": "number", "format": "double"},
    QUANTITY: {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "IntOrString": {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    "ExtraValue": {"type": "array", "items": {"type": "string"}},
    **{key: {"type": "object"} for key in (ANY, "RawExtension", "FieldsV1")},
    **{key: {"type": "string", "format": "date-time"} for key in TIMES},
}


def _path(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


@lru_cache(maxsize=1)
def v3_index(table: ResourceTable) -> Json:
    """`/openapi/v3`: where the documents are."""
    paths = {
        _path(group, version): {"serverRelativeURL": f"/openapi/v3/{_path(group, version)}"}
        for group, versions in table.group_versions().items()
        for version in versions
    }
    return {"paths": paths}


@lru_cache(maxsize=64)
def v3_document(table: ResourceTable, path: str) -> Json:
    """`/openapi/v3/<path>`: one group and version."""
    for group, versions in table.group_versions().items():
        for version in versions:
            if _path(group, version) == path:
                return _document(table.rows(group, version))
    raise no_such_path()


def _document(rows: list[ApiResource]) -> Json:
    used = _used(message for row in rows if (message := message_of(row)) is not None)
    schemas = {_message_name(message): _message_schema(message) for message in used}
    if any(row.schema for row in rows):
        used = _used([messages()["meta.v1.ObjectMeta"]])
        schemas |= {_message_name(message): _message_schema(message) for message in used}
    for row in rows:
        schemas.setdefault(_schema_name(row), _custom_schema(row))
        schemas[_schema_name(row)]["x-kubernetes-group-version-kind"] = [_kind(row)]
    return {
        "openapi": "3.0.0",
        "info": _INFO,
        "paths": dict(_operations(row) for row in rows),
        "components": {"schemas": schemas},
    }


def _used(messages_of_kinds: Iterable[Message]) -> list[Message]:
    """The messages and all that stand in their fields."""
    found: dict[str, Message] = {}
    waiting = list(messages_of_kinds)
    while waiting:
        message = waiting.pop()
        if message.name not in found:
            found[message.name] = message
            waiting += [messages()[field.type] for field in message.fields if _has_fields(field)]
    return list(found.values())


def _has_fields(field: Field) -> bool:
    return field.type.rpartition(".")[2] not in _PLAIN


def _message_name(message: Message) -> str:
    package = "apimachinery.pkg.apis" if message.name.startswith("meta.") else "api"
    return f"io.k8s.{package}.{message.name}"


def _schema_name(row: ApiResource) -> str:
    message = message_of(row)
    if message is not None:
        return _message_name(message)
    return ".".join([*reversed(row.group.split(".")), row.version, row.kind])


def _message_schema(message: Message) -> Json:
    return {"type": "object", "properties": dict(_properties(message))}


def _custom_schema(row: ApiResource) -> Json:
    if not row.schema:
        return {"type": "object"}
    schema = schema_of(row.schema)
    metadata = {"$ref": f"#/components/schemas/{_message_name(messages()['meta.v1.ObjectMeta'])}"}
    texts = dict.fromkeys(("apiVersion", "kind"), _PLAIN[STRING])
    properties = {**schema.get("properties", {}), **texts, "metadata": metadata}
    return {**schema, "properties": properties}


def _properties(message: Message) -> Iterator[tuple[str, Json]]:
    for field in message.fields:
        if field.name:
            yield field.name, _schema(field)
        else:
            yield from _properties(messages()[field.type])


def _schema(field: Field) -> Json:
    if _has_fields(field):
        value = {"$ref": f"#/components/schemas/{_message_name(messages()[field.type])}"}
    else:
        value = _PLAIN[field.type.rpartition(".")[2]]
    if field.form == REPEATED:
        return {"type": "array", "items": value}
    if field.form == MAP:
        return {"type": "object", "additionalProperties": value}
    return value


def _kind(row: ApiResource) -> Json:
    return {"group": row.group, "version": row.version, "kind": row.kind}


def _operations(row: ApiResource) -> tuple[str, Json]:
    scope = "namespaces/{namespace}/" if row.namespaced else ""
    kind = {"x-kubernetes-group-version-kind": _kind(row)}
    answer = {"schema": {"$ref": f"#/components/schemas/{_schema_name(row)}"}}
    responses = {"200": {"description": "OK", "content": {"application/json": answer}}}
    operation = {"parameters": _PARAMETERS, "responses": responses, **kind}
    get = {"responses": responses, "x-kubernetes-action": "get", **kind}
    path = f"/{_path(row.group, row.version)}/{scope}{row.plural}/{{name}}"
    return path, {
        "get": get,
        "put": {**operation, "x-kubernetes-action": "put"},
        "patch": {**operation, "x-kubernetes-action": "patch"},
    }
