"""Objects of kinds that the model has no type for, and the names that such kinds go by.

A custom resource is called `<plural>.<version>.<group>`, as upstream's event registrations call it;
for the core group, that ends in a dot (`secrets.v1.`). Knows no particular kind.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from moorage.errors import DecodeError
from moorage.model.decode import explain, without_nulls
from moorage.model.meta import ApiObject, Json

_NAME = re.compile(r"([a-z][a-z0-9-]*)\.(v[a-z0-9]+)\.((?:[a-z0-9.-]*[a-z0-9])?)")

CUSTOM_RESOURCE_DEFINITION = "CustomResourceDefinition"


class CustomObject(ApiObject, frozen=True, dict=True):
    """An object as the API server has it: everything is in `content`."""

    content: Json = {}


class ResourceName(NamedTuple):
    """Where the API has a custom resource."""

    plural: str
    version: str
    group: str

    def __str__(self) -> str:
        return ".".join(self)


def parse_resource_name(text: str) -> ResourceName | None:
    """`jobs.v1.batch` taken apart; None if it is no such name."""
    found = _NAME.fullmatch(text)
    return None if found is None else ResourceName(*found.groups())


def plural_of(kind: str) -> str:
    """The plural that nearly every kind has."""
    word = kind.lower()
    if word.endswith("y"):
        return word[:-1] + "ies"
    return word + ("es" if word.endswith("s") else "s")


class Definitions:
    """What CustomResourceDefinitions say of kinds; others have the usual plural and a namespace."""

    def __init__(self, objects: Iterable[Mapping[str, Any]]) -> None:
        self._plurals: dict[tuple[str, str], str] = {}
        self._cluster_wide: set[tuple[str, str]] = set()
        for obj in objects:
            if obj.get("kind") == CUSTOM_RESOURCE_DEFINITION:
                spec = _map(obj.get("spec"))
                names = _map(spec.get("names"))
                key = str(spec.get("group")), str(names.get("kind"))
                self._plurals[key] = str(names.get("plural"))
                if spec.get("scope") == "Cluster":
                    self._cluster_wide.add(key)

    def define(self, content: Json) -> bool:
        """Is the kind of an object defined here?"""
        group, _, _ = str(content.get("apiVersion")).rpartition("/")
        return (group, str(content.get("kind"))) in self._plurals

    def place(self, content: Json) -> tuple[ResourceName, Json]:
        """The resource of an object, and the object with its namespace set."""
        group, _, version = str(content.get("apiVersion")).rpartition("/")
        key = group, str(content.get("kind"))
        name = ResourceName(self._plurals.get(key) or plural_of(key[1]), version, group)
        metadata = dict(_map(content.get("metadata")))
        if key in self._cluster_wide:
            metadata.pop("namespace", None)
        else:
            metadata["namespace"] = metadata.get("namespace") or "default"
        return name, {**content, "metadata": metadata}


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def kind_of(obj: ApiObject) -> type[ApiObject] | str:
    """What listers have an object under; the plural of a custom kind is guessed."""
    if not isinstance(obj, CustomObject):
        return type(obj)
    return str(Definitions(()).place(obj.content)[0])


def custom_object(content: Any) -> CustomObject:
    """An object out of parsed JSON or YAML; `DecodeError` if it can be none."""
    if not isinstance(content, dict):
        raise DecodeError("an object is a mapping")
    plain = without_nulls({"metadata": content.get("metadata")})
    try:
        common = msgspec.convert(plain, ApiObject)
    except msgspec.DecodeError as error:
        raise DecodeError(explain(str(error), plain)) from None
    return CustomObject(
        metadata=common.metadata,
        api_version=str(content.get("apiVersion") or ""),
        kind=str(content.get("kind") or ""),
        content=content,
    )
