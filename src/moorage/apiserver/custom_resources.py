"""CustomResourceDefinitions: which resources they add, and what is wrong with one.

Objects of custom resources are stored as they come: schemas are not looked at, nothing is pruned or
defaulted, and versions differ in `apiVersion` alone.
Upstream: apiextensions-apiserver pkg/apis/apiextensions/validation.
"""

from collections.abc import Iterator
from typing import Any

from moorage.apiserver.errors import Cause, Json
from moorage.apiserver.resources import ALL_VERBS, ApiResource

DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"


def custom_rows(definition: Json) -> Iterator[ApiResource]:
    """The rows of a definition that has been checked, one for each version that is served."""
    spec = definition["spec"]
    names, group = spec["names"], spec["group"]
    stored = next(one["name"] for one in spec["versions"] if one.get("storage"))
    for version in spec["versions"]:
        if version.get("served"):
            yield ApiResource(
                group=group,
                version=version["name"],
                plural=names["plural"],
                kind=names["kind"],
                namespaced=spec["scope"] == "Namespaced",
                singular=str(names.get("singular") or names["kind"].lower()),
                short_names=tuple(map(str, _list(names.get("shortNames")))),
                subresources=("status",) if "status" in _map(version.get("subresources")) else (),
                categories=tuple(map(str, _list(names.get("categories")))),
                verbs=ALL_VERBS,
                storage=f"{names['plural']}.{group}",
                stored_as=f"{group}/{stored}",
            )


def established(definition: Json) -> Json:
    """The status of a definition: its kinds are served at once."""
    spec = definition["spec"]
    return {
        "acceptedNames": spec["names"],
        "storedVersions": [one["name"] for one in spec["versions"] if one.get("storage")],
        "conditions": [
            {"type": "NamesAccepted", "status": "True", "reason": "NoConflicts"},
            {"type": "Established", "status": "True", "reason": "InitialNamesAccepted"},
        ],
    }


def definition_causes(definition: Json) -> list[Cause]:
    """Why no resource can be made of a definition."""
    spec = _map(definition.get("spec"))
    names = _map(spec.get("names"))
    required = {
        "spec.group": spec.get("group"),
        "spec.names.plural": names.get("plural"),
        "spec.names.kind": names.get("kind"),
        "spec.scope": spec.get("scope"),
    }
    causes = [
        Cause(field, "Required value", "FieldValueRequired")
        for field, value in required.items()
        if not (isinstance(value, str) and value)
    ]
    if causes:
        return causes
    if spec["scope"] not in ("Cluster", "Namespaced"):
        text = f'Unsupported value: "{spec["scope"]}": supported values: "Cluster", "Namespaced"'
        causes.append(Cause("spec.scope", text, "FieldValueNotSupported"))
    name, wanted = definition["metadata"].get("name"), f"{names['plural']}.{spec['group']}"
    if name != wanted:
        text = f'Invalid value: "{name}": must be spec.names.plural+"."+spec.group'
        causes.append(Cause("metadata.name", text))
    versions = [_map(one) for one in _list(spec.get("versions"))]
    if not all(isinstance(one.get("name"), str) for one in versions) or (
        sum(one.get("storage") is True for one in versions) != 1
    ):
        text = "Invalid value: must have exactly one version marked as storage version"
        causes.append(Cause("spec.versions", text))
    return causes


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _map(value: Any) -> Json:
    return value if isinstance(value, dict) else {}
