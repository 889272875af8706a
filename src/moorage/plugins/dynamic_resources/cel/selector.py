"""Device selectors: CEL expressions compiled once and asked about devices.

Owns the `device` variable, as upstream declares it. `cel.interface` loads this with the first
expression and keeps what was compiled.
"""

from collections.abc import Mapping
from typing import Any

from moorage.model.devices import Device, DeviceAttribute
from moorage.model.quantity import parse_nano
from moorage.plugins.dynamic_resources.cel.checker import Checker
from moorage.plugins.dynamic_resources.cel.closures import Closure
from moorage.plugins.dynamic_resources.cel.compiler import Compiler
from moorage.plugins.dynamic_resources.cel.costs import (
    COST,
    Checkpoint,
    Frame,
    new_frame,
    no_checkpoint,
)
from moorage.plugins.dynamic_resources.cel.errors import (
    EvaluationAbortedError,
    EvaluationError,
    Issue,
    report,
)
from moorage.plugins.dynamic_resources.cel.functions import function_table
from moorage.plugins.dynamic_resources.cel.interface import CelFeatures, Reads, qualified
from moorage.plugins.dynamic_resources.cel.limits import MAX_COST, exceeded
from moorage.plugins.dynamic_resources.cel.literals import literal_issues
from moorage.plugins.dynamic_resources.cel.native_bool import native_bool
from moorage.plugins.dynamic_resources.cel.parser import TOO_DEEP, parse
from moorage.plugins.dynamic_resources.cel.reads import attributes_read
from moorage.plugins.dynamic_resources.cel.types import (
    ANY,
    BOOL,
    DYN,
    QUANTITY,
    STRING,
    Type,
    map_of,
)
from moorage.plugins.dynamic_resources.cel.values import (
    DomainMap,
    Quantity,
    parse_semver,
)

DEVICE = "device"
_DEVICE_TYPE = Type("kubernetes.DRADevice")


class Selector:
    """A compiled expression."""

    __slots__ = ("_closure", "_frame_size", "_slot", "reads")

    def __init__(self, closure: Closure, slot: int, frame_size: int, reads: Reads) -> None:
        self.reads = reads
        self._closure = closure
        self._slot = slot
        self._frame_size = frame_size

    def matches(self, device: Mapping[str, Any], checkpoint: Checkpoint = no_checkpoint) -> bool:
        """Is the device selected? Raises `EvaluationError`; `device` comes from `device_value`.

        The checkpoint is called every millisecond or so; what it raises ends the evaluation.
        """
        frame = self._frame(device, checkpoint)
        try:
            result = self._closure(frame)
        except RecursionError:
            raise EvaluationError("evaluation nested too deeply") from None
        except EvaluationAbortedError as aborted:
            raise EvaluationError(str(aborted)) from None
        except EvaluationError:
            if frame[COST] <= MAX_COST:
                raise
        if frame[COST] > MAX_COST:
            raise EvaluationError(str(exceeded()))
        return result if type(result) is bool else native_bool(result)

    def cost(self, device: Mapping[str, Any]) -> int:
        """What an evaluation for a device costs, in upstream's units."""
        frame = self._frame(device, no_checkpoint)
        self._closure(frame)
        cost: int = frame[COST]
        return cost

    def _frame(self, device: Mapping[str, Any], checkpoint: Checkpoint) -> Frame:
        frame = new_frame(checkpoint, self._frame_size)
        frame[self._slot] = device
        return frame


def compiled(expression: str, consumable_capacity: bool, list_attributes: bool) -> Selector | str:
    """The compiled expression, or why there is none."""
    try:
        return _compiled(expression, consumable_capacity, list_attributes)
    except RecursionError:  # a chain of hundreds of operators
        return f"compilation failed: {report(expression, [Issue(0, TOO_DEEP)])}"


def _compiled(expression: str, consumable_capacity: bool, list_attributes: bool) -> Selector | str:
    functions = function_table(list_attributes=list_attributes)
    attribute = DYN if list_attributes else ANY
    fields = {
        "driver": STRING,
        "attributes": map_of(STRING, map_of(STRING, attribute)),
        "capacity": map_of(STRING, map_of(STRING, QUANTITY)),
    }
    if consumable_capacity:
        fields["allowMultipleAllocations"] = BOOL
    checker = Checker(functions, {_DEVICE_TYPE.name: fields})
    try:
        tree = parse(expression)
    except Issue as issue:
        return f"compilation failed: {report(expression, [issue])}"
    result = checker.check(tree, {DEVICE: _DEVICE_TYPE})
    issues = checker.issues or literal_issues(tree, checker.types)
    if issues:
        return f"compilation failed: {report(expression, issues)}"
    if result not in (BOOL, ANY) and not (list_attributes and result == DYN):
        return f"must evaluate to bool or the unknown type, not {result.full_name}"
    compiler = Compiler(functions, checker.overloads)
    slot = compiler.slot()
    try:
        closure = compiler.compile(tree, {DEVICE: slot})
    except EvaluationError as error:
        return f"program instantiation failed: {error}"
    return Selector(closure, slot, compiler.frame_size, attributes_read(tree, DEVICE))


def device_value(device: Device, driver: str, features: CelFeatures) -> dict[str, Any]:
    """The `device` variable for a device; an attribute without a usable value is an error."""
    attributes = DomainMap()
    for name, attribute in device.attributes.items():
        try:
            value = _attribute_value(attribute, features)
        except EvaluationError as error:
            raise EvaluationError(f"attribute {name}: {error}") from None
        domain, identifier = qualified(name, driver)
        attributes.setdefault(domain, {})[identifier] = value
    capacity = DomainMap()
    for name, amount in device.capacity.items():
        domain, identifier = qualified(name, driver)
        try:
            quantity = Quantity(parse_nano(amount.value))
        except ValueError as error:
            raise EvaluationError(f"capacity {name}: {error}") from None
        capacity.setdefault(domain, {})[identifier] = quantity
    return {
        "driver": driver,
        "allowMultipleAllocations": bool(device.allow_multiple_allocations),
        "attributes": attributes,
        "capacity": capacity,
    }


def _attribute_value(attribute: DeviceAttribute, features: CelFeatures) -> Any:
    if features.list_attributes:
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


def _version(text: str) -> Any:
    try:
        return parse_semver(text)
    except EvaluationError as error:
        raise EvaluationError(f"parse semantic version: {error}") from None
