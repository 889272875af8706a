"""Device selectors: CEL expressions over the `device` variable, as Kubernetes declares it.

Owns that variable, the `includes` function, and which attributes of a device a selector can see.
CEL itself is loaded with the first expression; most clusters have none.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from moorage.cel import Environment, EvaluationError, Function
from moorage.model.devices import Device, DeviceAttribute
from moorage.model.quantity import parse_nano

if TYPE_CHECKING:
    from moorage.cel.program import Program

Attribute = tuple[str, str]
"""Domain and identifier."""
Reads = frozenset[Attribute] | None
"""The attributes that matter; None if all may."""

_DEVICE = "kubernetes.DRADevice"


class DeviceSelectors:
    """Compiles selectors, and makes devices what selectors see, whatever the feature gates say."""

    def __init__(self) -> None:
        fields = {
            "driver": "string",
            "attributes": "map(string, map(string, dyn))",
            "capacity": "map(string, map(string, quantity))",
            "allowMultipleAllocations": "bool",
        }
        self._environment = Environment(
            {"device": _DEVICE},
            objects={_DEVICE: fields},
            functions=(Function("dyn.includes(dyn) -> bool", _includes),),
            results=("bool", "dyn"),
        )

    def compile(self, expression: str) -> "Program":
        """A selector, to be evaluated with `variables`; raises `CompileError`."""
        return self._environment.compile(expression)

    def reads(self, expression: str) -> Reads:
        """The attributes that a selector reads; raises `CompileError`."""
        paths = self.compile(expression).reads
        if paths is None:
            return None
        found = set()
        for _, *keys in paths:
            if keys and keys[0] != "attributes":
                continue
            if len(keys) < 3 or not isinstance(keys[1], str) or not isinstance(keys[2], str):
                return None
            found.add((keys[1], keys[2]))
        return frozenset(found)

    def variables(self, device: Device, driver: str) -> Mapping[str, Any]:
        """What a selector sees of a device; raises `EvaluationError` for an unusable attribute."""
        from moorage.cel.values import DefaultMap, Quantity

        attributes, capacity = DefaultMap(), DefaultMap()
        for name, attribute in device.attributes.items():
            domain, identifier = qualified(name, driver)
            try:
                value = _value(attribute)
            except EvaluationError as error:
                raise EvaluationError(f"attribute {name}: {error}") from None
            attributes.setdefault(domain, {})[identifier] = value
        for name, amount in device.capacity.items():
            domain, identifier = qualified(name, driver)
            try:
                quantity = Quantity(parse_nano(amount.value))
            except ValueError as error:
                raise EvaluationError(f"capacity {name}: {error}") from None
            capacity.setdefault(domain, {})[identifier] = quantity
        return {
            "device": {
                "driver": driver,
                "allowMultipleAllocations": bool(device.allow_multiple_allocations),
                "attributes": attributes,
                "capacity": capacity,
            }
        }


def _value(attribute: DeviceAttribute) -> Any:
    for values in (attribute.int_values, attribute.bool_values, attribute.string_values):
        if values:
            return list(values)
    if attribute.version_values:
        return [_version(text) for text in attribute.version_values]
    for value in (attribute.int_value, attribute.bool_value, attribute.string_value):
        if value is not None:
            return value
    if attribute.version_value is not None:
        return _version(attribute.version_value)
    raise EvaluationError("unsupported attribute value")


def qualified(name: str, driver: str) -> Attribute:
    """Domain and identifier of an attribute or capacity; without a domain it is the driver's."""
    domain, slash, identifier = name.partition("/")
    return (domain, identifier) if slash else (driver, name)


def _version(text: str) -> Any:
    from moorage.cel.values import parse_semver

    try:
        return parse_semver(text)
    except EvaluationError as error:
        raise EvaluationError(f"parse semantic version: {error}") from None


def _includes(target: Any, item: Any) -> bool:
    from moorage.cel.values import surely_equal

    if not isinstance(target, list):
        return surely_equal(target, item)
    return any(surely_equal(other, item) for other in target)
