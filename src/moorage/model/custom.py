"""Objects of kinds that the model has no type for, and the names that such kinds go by.

A custom resource is called `<plural>.<version>.<group>`, as upstream's event registrations call it;
for the core group, that ends in a dot (`secrets.v1.`). Knows no particular kind.
"""

import re
from typing import Any, NamedTuple

import msgspec

from moorage.errors import DecodeError
from moorage.model.meta import ApiObject, Json, ObjectMeta

_NAME = re.compile(r"([a-z][a-z0-9-]*)\.(v[a-z0-9]+)\.((?:[a-z0-9.-]*[a-z0-9])?)")


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


def custom_object(content: Any) -> CustomObject:
    """An object out of parsed JSON or YAML; `DecodeError` if it can be none."""
    if not isinstance(content, dict):
        raise DecodeError("an object is a mapping")
    try:
        plain = {k: v for k, v in (content.get("metadata") or {}).items() if v is not None}
        metadata = msgspec.convert(plain, ObjectMeta)
    except (msgspec.DecodeError, AttributeError) as error:
        raise DecodeError(str(error)) from None
    return CustomObject(
        metadata=metadata,
        api_version=str(content.get("apiVersion") or ""),
        kind=str(content.get("kind") or ""),
        content=content,
    )
