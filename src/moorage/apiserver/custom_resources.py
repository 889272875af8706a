"""CustomResourceDefinitions: which resources they add, and what is wrong with one.

Objects are checked, pruned and defaulted by the schema of their version (`schemas`); versions
differ in `apiVersion` alone, as nothing converts them.
Upstream: apiextensions-apiserver pkg/apis/apiextensions/{v1/defaults.go,validation},
pkg/apiserver/schema/validation.go.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from moorage.apiserver.errors import Cause, Json
from moorage.apiserver.json_paths import parse
from moorage.apiserver.resources import ALL_VERBS, ApiResource, CustomColumn
from moorage.model.spelling import DNS_1035_LABEL

_AGE: list[Json] = [{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]
DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
_REQUIRED = "FieldValueRequired"
_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")


def custom_rows(definition: Json) -> Iterator[ApiResource]:
    """The rows of a definition that has been checked, one for each version that is served."""
    spec = definition["spec"]
    names, group = spec["names"], spec["group"]
    stored = next(one["name"] for one in spec["versions"] if one.get("storage"))
    for version in spec["versions"]:
        if version.get("served"):
            parts = _map(version.get("subresources"))
            scale = _map(parts.get("scale"))
            yield ApiResource(
                group=group,
                version=version["name"],
                plural=names["plural"],
                kind=names["kind"],
                namespaced=spec["scope"] == "Namespaced",
                singular=str(names.get("singular") or names["kind"].lower()),
                short_names=tuple(map(str, _list(names.get("shortNames")))),
                subresources=tuple(name for name in ("status", "scale") if name in parts),
                categories=tuple(map(str, _list(names.get("categories")))),
                verbs=ALL_VERBS,
                storage=f"{names['plural']}.{group}",
                stored_as=f"{group}/{stored}",
                schema=msgspec.json.encode(_schema(version)),
                columns=tuple(_columns(version)),
                scale=tuple(
                    str(scale.get(f"{part}Path") or "")
                    for part in ("specReplicas", "statusReplicas", "labelSelector")
                ),
            )


def _schema(version: Json) -> Json:
    return _map(_map(version.get("schema")).get("openAPIV3Schema"))


def _columns(version: Json) -> Iterator[CustomColumn]:
    for column in _list(version.get("additionalPrinterColumns")) or _AGE:
        path = column["jsonPath"]
        told = (
            column.get("description")
            or f"Custom resource definition column (in JSONPath format): {path}"
        )
        yield CustomColumn(
            column["name"],
            column["type"],
            path,
            column.get("priority") or 0,
            told,
            column.get("format") or "",
        )


def default_definition(definition: Json) -> None:
    """Fill in the names that follow from others."""
    spec = _map(definition.get("spec"))
    names = spec.get("names")
    if isinstance(names, dict) and names.get("kind"):
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", f"{names['kind']}List")
    spec.setdefault("conversion", {"strategy": "None"})


def established(definition: Json) -> Json:
    """The status of a definition: its kinds are served at once."""
    spec = definition["spec"]
    since = {"lastTransitionTime": definition["metadata"].get("creationTimestamp")}
    accepted = {"reason": "NoConflicts", "message": "no conflicts found"}
    served = {
        "reason": "InitialNamesAccepted",
        "message": "the initial names have been accepted",
    }
    return {
        "acceptedNames": spec["names"],
        "storedVersions": [one["name"] for one in spec["versions"] if one.get("storage")],
        "conditions": [
            {"type": "NamesAccepted", "status": "True", **since, **accepted},
            {"type": "Established", "status": "True", **since, **served},
        ],
    }


def definition_causes(definition: Json) -> list[Cause]:
    """Why no resource can be made of a definition."""
    spec = _map(definition.get("spec"))
    names, versions = _map(spec.get("names")), _list(spec.get("versions"))
    causes: list[Cause] = []
    name, wanted = (
        definition["metadata"].get("name"),
        f"{names.get('plural', '')}.{spec.get('group', '')}",
    )
    if name != wanted:
        text = f'Invalid value: "{name}": must be spec.names.plural+"."+spec.group'
        causes.append(Cause("metadata.name", text))
    if not spec.get("group"):
        causes.append(Cause("spec.group", "Required value", _REQUIRED))
    causes += _scope_causes(str(spec.get("scope", "")))
    for place, version in enumerate(versions):
        causes += _version_causes(version, place, alone=len(versions) == 1)
    if sum(bool(one.get("storage")) for one in versions) != 1:
        shown = msgspec.json.encode([one.get("name") for one in versions] or spec.get("versions"))
        why = "must have exactly one version marked as storage version"
        text = f"Invalid value: {shown.decode()}: {why}"
        causes.append(Cause("spec.versions", text))
    causes += _name_causes(names)
    if not any(one.get("storage") for one in versions):
        text = "Invalid value: null: must have at least one stored version"
        causes.append(Cause("status.storedVersions", text))
    return causes


def _name_causes(names: Json) -> Iterator[Cause]:
    for part in ("plural", "singular", "kind", "listKind"):
        name = str(names.get(part) or "")
        if not name:
            yield Cause(f"spec.names.{part}", "Required value", _REQUIRED)
        elif not DNS_1035_LABEL.matches(name.lower() if part in ("kind", "listKind") else name):
            text = f'Invalid value: "{name}": {DNS_1035_LABEL.complaint}'
            yield Cause(f"spec.names.{part}", text)


def _scope_causes(scope: str) -> Iterator[Cause]:
    if not scope:
        yield Cause("spec.scope", "Required value", _REQUIRED)
    elif scope not in ("Cluster", "Namespaced"):
        text = f'Unsupported value: "{scope}": supported values: "Cluster", "Namespaced"'
        yield Cause("spec.scope", text, "FieldValueNotSupported")


def _version_causes(version: Json, place: int, *, alone: bool) -> Iterator[Cause]:
    at, name = f"spec.versions[{place}]", str(version.get("name", ""))
    if not DNS_1035_LABEL.matches(name):
        text = f'Invalid value: "{name}": {DNS_1035_LABEL.complaint}'
        yield Cause(f"{at}.name", text)
        if name:
            yield Cause("spec.version", text)
    # What one version says alone is said of all, and upstream calls it so.
    where = "spec.validation.openAPIV3Schema" if alone else f"{at}.schema.openAPIV3Schema"
    if version.get("schema") is None or "openAPIV3Schema" not in version["schema"]:
        yield Cause(f"{at}.schema.openAPIV3Schema", "Required value", _REQUIRED)
    elif not _schema(version).get("type"):
        yield Cause(f"{where}.type", "Required value: must not be empty at the root", _REQUIRED)
    else:
        yield from _root_causes(version, where)
        yield from _schema_causes(_schema(version), where)
    columns = "spec.additionalPrinterColumns" if alone else f"{at}.additionalPrinterColumns"
    for number, column in enumerate(_list(version.get("additionalPrinterColumns"))):
        kind, path = column.get("type", ""), column.get("jsonPath", "")
        if kind not in _COLUMN_TYPES:
            text = f'Invalid value: "{kind}": must be one of {",".join(_COLUMN_TYPES)}'
            yield Cause(f"{columns}[{number}].type", text)
        if not path.startswith(".") or parse(path) is None:
            text = f'Invalid value: "{path}": must be a simple json path starting with .'
            yield Cause(f"{columns}[{number}].JSONPath", text)


def _root_causes(version: Json, at: str) -> Iterator[Cause]:
    kind = _schema(version)["type"]
    if kind != "object":
        if "status" in _map(version.get("subresources")):
            why = 'only "object" is allowed as the type at the root of the schema'
            text = f'Invalid value: "{kind}": {why} if the status subresource is enabled'
            yield Cause(f"{at}.type", text)
        yield Cause(f"{at}.type", f'Invalid value: "{kind}": must be object at the root')


def _schema_causes(schema: Json, at: str) -> Iterator[Cause]:
    """What keeps a schema from being structural."""
    kind = schema.get("type")
    if kind and kind not in _TYPES:
        listed = ", ".join(f'"{one}"' for one in _TYPES)
        text = f'Unsupported value: "{kind}": supported values: {listed}'
        yield Cause(f"{at}.type", text, "FieldValueNotSupported")
    if not (
        kind
        or schema.get("x-kubernetes-int-or-string")
        or schema.get("x-kubernetes-preserve-unknown-fields")
    ):
        why = "must not be empty for specified object fields"
        yield Cause(f"{at}.type", f"Required value: {why}", _REQUIRED)
    if kind == "array" and not isinstance(schema.get("items"), dict):
        yield Cause(f"{at}.items", "Required value: must be specified", _REQUIRED)
    for name, inner in _map(schema.get("properties")).items():
        yield from _schema_causes(inner, f"{at}.properties[{name}]")
    for part in ("items", "additionalProperties"):
        if isinstance(schema.get(part), dict):
            yield from _schema_causes(schema[part], f"{at}.{part}")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _map(value: Any) -> Json:
    return value if isinstance(value, dict) else {}
