"""Objects as they go into a recording: what a scheduler reads of them, without defaults.

The model has no commands, environment variables or data of Secrets and ConfigMaps; what it has
beyond a scheduler's interest (most annotations, messages, versions) is left out here.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from moorage.controllers.kubelet import FINISH_AFTER
from moorage.model.devices import (
    EXTENDED_RESOURCE_CLAIM,
    DeviceAllocationConfiguration,
    DeviceClaimConfiguration,
    DeviceClassConfiguration,
)
from moorage.model.meta import ApiObject, Condition, Json, ObjectMeta
from moorage.model.storage import (
    BETA_STORAGE_CLASS,
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    IS_DEFAULT_CLASS,
    MIGRATED_PLUGINS,
    SELECTED_NODE,
)

KEPT_ANNOTATIONS = frozenset(
    {
        *(BETA_STORAGE_CLASS, BIND_COMPLETED, BOUND_BY_CONTROLLER, *IS_DEFAULT_CLASS),
        *(MIGRATED_PLUGINS, SELECTED_NODE, EXTENDED_RESOURCE_CLAIM, FINISH_AFTER),
    }
)
"""What plugins look at. Others may hold anything: `last-applied-configuration` has whole specs."""

_LEFT_OUT: Mapping[type[msgspec.Struct], tuple[str, ...]] = {
    ObjectMeta: ("generation",),
    Condition: ("message",),
    # What drivers are told is theirs alone.
    DeviceClassConfiguration: ("opaque",),
    DeviceClaimConfiguration: ("opaque",),
    DeviceAllocationConfiguration: ("opaque",),
}
_Field = tuple[str, str, Callable[[Any], bool]]


def reduced(obj: ApiObject) -> Json:
    """An object as JSON that reads back as the same object, as far as scheduling goes."""
    found: Json = _plain(obj)
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        found = {}
        for name, written, is_default in _fields(type(value)):
            part = getattr(value, name)
            if not is_default(part):
                found[written] = _annotations(part) if name == "annotations" else _plain(part)
        return found
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(part) for part in value]
    return value


def _annotations(found: dict[str, str]) -> dict[str, str]:
    return {name: text for name, text in found.items() if name in KEPT_ANNOTATIONS}


@lru_cache(maxsize=256)
def _fields(struct: type[msgspec.Struct]) -> tuple[_Field, ...]:
    """Name, name in JSON, and whether a value need not be written."""
    left_out = _LEFT_OUT.get(struct, ())
    return tuple(
        (field.name, field.encode_name, _default_test(field))
        for field in msgspec.structs.fields(struct)
        if field.name not in left_out
    )


def _default_test(field: msgspec.structs.FieldInfo) -> Callable[[Any], bool]:
    default: Any = field.default
    if field.default_factory is not msgspec.NODEFAULT:
        default = field.default_factory()
    # Of equal values only those of one type are written alike: 0 is False, too.
    return lambda value: value == default and type(value) is type(default)
