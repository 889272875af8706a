"""What the allocator sees of CEL, without loading it: most clusters have no expression at all.

Owns the cache of compiled expressions. Parser, checker and compiler are loaded with the first one,
which spares every other start a tenth of its time.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from moorage.model.devices import Device
from moorage.plugins.dynamic_resources.cel.errors import CompileError

if TYPE_CHECKING:
    from moorage.plugins.dynamic_resources.cel.selector import Selector

Attribute = tuple[str, str]
"""Domain and identifier."""
Reads = frozenset[Attribute] | None
"""The attributes that matter; None if all may."""


class CelFeatures:
    """Which optional parts of the environment are there; a value."""

    __slots__ = ("consumable_capacity", "list_attributes")

    def __init__(self, *, consumable_capacity: bool = True, list_attributes: bool = False) -> None:
        self.consumable_capacity = consumable_capacity
        self.list_attributes = list_attributes


def compile_selector(expression: str, features: CelFeatures) -> "Selector":
    """Compile an expression, or raise `CompileError` with upstream's complaint."""
    found = _compile(expression, features.consumable_capacity, features.list_attributes)
    if isinstance(found, str):
        raise CompileError(found)
    return found


@lru_cache(maxsize=1024)
def _compile(expression: str, consumable_capacity: bool, list_attributes: bool) -> "Selector | str":
    """The compiled expression, or why there is none; the failure is kept as well."""
    from moorage.plugins.dynamic_resources.cel.selector import compiled

    return compiled(expression, consumable_capacity, list_attributes)


def device_value(device: Device, driver: str, features: CelFeatures) -> dict[str, Any]:
    """The `device` variable for a device; an attribute without a usable value is an error."""
    from moorage.plugins.dynamic_resources.cel import selector

    return selector.device_value(device, driver, features)


def qualified(name: str, driver: str) -> Attribute:
    """Domain and identifier of an attribute or capacity; without a domain it is the driver's."""
    domain, slash, identifier = name.partition("/")
    return (domain, identifier) if slash else (driver, name)
