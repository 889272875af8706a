"""Devices and slices prepared for allocation: quantities parsed, taints sorted out, answers kept.

A record lives as long as the slice object it was made from. What selectors said is kept per shape
of device (its driver, attributes and capacity), so devices that differ only in their names are put
to an expression once, and an unchanged slice never again.
"""

from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from moorage.cel import EvaluationError
from moorage.model.devices import Device, DeviceAttribute, ResourceSlice
from moorage.model.node import Node
from moorage.model.node_selector import (
    CompiledNodeSelector,
    NodeSelector,
    compile_node_selector,
)
from moorage.model.quantity import parse_nano
from moorage.plugins.dynamic_resources.capacity import CapacityRecord
from moorage.plugins.dynamic_resources.selectors import DeviceSelectors, Reads, qualified

DeviceId = tuple[str, str, str]
"""Driver, pool and device."""
PoolId = tuple[str, str]
"""Driver and pool."""

_MOST_ANSWERS = 1024
_NO_VALUE = DeviceAttribute()
_BLOCKING = frozenset(("NoSchedule", "NoExecute"))


class NodeChoice:
    """Which nodes reach something: one by name, all, or those a selector matches."""

    __slots__ = ("_selector", "all_nodes", "node_name")

    def __init__(
        self, node_name: str | None, all_nodes: bool | None, selector: NodeSelector | None
    ) -> None:
        self.node_name = node_name or ""
        self.all_nodes = bool(all_nodes)
        self._selector: CompiledNodeSelector | None = None
        if selector is not None:
            self._selector = compile_node_selector(selector)

    @property
    def given(self) -> bool:
        """Is anything said at all?"""
        return bool(self.node_name) or self.all_nodes or self._selector is not None

    def matches(self, node: Node) -> bool:
        """Does the node reach it?"""
        if self.node_name:
            return node.name == self.node_name
        if self.all_nodes:
            return True
        return self._selector is not None and self._selector.matches(node.labels, node.name)


class Shape:
    """Everything of a device that a selector can see, and what selectors said of it."""

    __slots__ = (
        "__weakref__",
        "_answers",
        "_checkpoint",
        "_device",
        "_driver",
        "_selectors",
        "_variables",
    )

    def __init__(
        self,
        device: Device,
        driver: str,
        selectors: DeviceSelectors,
        checkpoint: Callable[[], None],
    ) -> None:
        self._checkpoint = checkpoint
        self._device = device
        self._driver = driver
        self._selectors = selectors
        self._variables: Mapping[str, Any] | None = None
        self._answers: dict[str, bool | EvaluationError] = {}

    def selected_by(self, expression: str) -> bool:
        """Does a CEL expression select it? Raises `CompileError`, `EvaluationError`."""
        answer = self._answers.get(expression)
        if answer is None:
            if len(self._answers) >= _MOST_ANSWERS:
                self._answers.clear()
            answer = self._answers[expression] = self._ask(expression)
        if isinstance(answer, EvaluationError):
            raise answer
        return answer

    def _ask(self, expression: str) -> bool | EvaluationError:
        self._checkpoint()
        selector = self._selectors.compile(expression)
        try:
            if self._variables is None:
                self._variables = self._selectors.variables(self._device, self._driver)
            return selector.evaluate_bool(self._variables, checkpoint=self._checkpoint)
        except EvaluationError as error:
            # The frames it was raised from would be kept alive with it.
            return error.with_traceback(None)


def _harmless(value: DeviceAttribute) -> bool:
    """Is it a plain value, which cannot fail those who do not look at it?"""
    plain = (value.int_value, value.bool_value, value.string_value)
    others = msgspec.structs.replace(value, int_value=None, bool_value=None, string_value=None)
    return any(one is not None for one in plain) and others == _NO_VALUE


class Likeness:
    """Stands for what matters of a device, never its name: devices alike have the same one."""

    __slots__ = ("__weakref__",)


class Layout:
    """Stands for what the devices of a node are like, in order: equal ones are the same object."""

    __slots__ = ("__weakref__", "likenesses", "unused")

    def __init__(self, likenesses: tuple[Likeness, ...] = ()) -> None:
        self.likenesses = likenesses
        self.unused: tuple[Layout, tuple[int, ...]] = (self, ())
        """The layout together with the places in use, as long as there are none."""


class Shapes:
    """The shapes, likenesses and layouts in use."""

    def __init__(self, selectors: DeviceSelectors, checkpoint: Callable[[], None]) -> None:
        self.selectors = selectors
        self._checkpoint = checkpoint
        self._known: WeakValueDictionary[bytes, Shape] = WeakValueDictionary()
        self._likenesses: WeakValueDictionary[bytes, Likeness] = WeakValueDictionary()
        self._layouts: WeakValueDictionary[tuple[Likeness, ...], Layout] = WeakValueDictionary()

    def likeness(self, device: Device, driver: str, reads: Reads) -> Likeness:
        """The likeness of a device to those who look only at some of its attributes."""
        attributes = device.attributes
        if reads is not None:
            attributes = {
                name: value
                for name, value in attributes.items()
                if qualified(name, driver) in reads or not _harmless(value)
            }
        seen = msgspec.structs.replace(device, name="", attributes=attributes)
        return self._likenesses.setdefault(msgspec.msgpack.encode((driver, seen)), Likeness())

    def layout(self, likenesses: tuple[Likeness, ...]) -> Layout:
        """The layout of devices like these."""
        return self._layouts.setdefault(likenesses, Layout(likenesses))

    def of(self, device: Device, driver: str) -> Shape:
        """The shape of a device."""
        parts = (driver, device.attributes, device.capacity, device.allow_multiple_allocations)
        key = msgspec.msgpack.encode(parts)
        shape = self._known.get(key)
        if shape is None:
            shape = self._known[key] = Shape(device, driver, self.selectors, self._checkpoint)
        return shape


class DeviceRecord:
    """One device of a slice."""

    __slots__ = (
        "capacity",
        "counters",
        "device",
        "id",
        "nodes",
        "pool",
        "selected_by",
        "shareable",
        "slice",
        "taints",
    )

    def __init__(self, device: Device, owner: "SliceRecord", shapes: Shapes) -> None:
        self.device = device
        self.slice = owner
        self.pool = owner.pool
        self.id: DeviceId = (*owner.pool, device.name)
        self.shareable = shapes.selectors.consumable_capacity and bool(
            device.allow_multiple_allocations
        )
        self.taints = tuple(taint for taint in device.taints if taint.effect in _BLOCKING)
        self.capacity = CapacityRecord(device)
        self.counters = tuple(
            ((consumption.counter_set, name), parse_nano(counter.value))
            for consumption in device.consumes_counters
            for name, counter in consumption.counters.items()
        )
        self.nodes: NodeChoice | None = None
        if owner.per_device:
            self.nodes = NodeChoice(device.node_name, device.all_nodes, device.node_selector)
        self.selected_by = shapes.of(device, self.id[0]).selected_by

    def likeness(self, reads: Reads) -> Likeness:
        """What devices alike have in common, of these attributes and of everything else."""
        return self.slice.shapes.likeness(self.device, self.id[0], reads)

    def attribute(self, name: str) -> DeviceAttribute | None:
        """An attribute by its full name; the driver's own may be written without the domain."""
        found = self.device.attributes.get(name)
        if found is not None:
            return found
        domain, slash, identifier = name.partition("/")
        if not slash or domain != self.id[0]:
            return None
        return self.device.attributes.get(identifier)


class SliceRecord:
    """One slice."""

    __slots__ = ("counts", "devices", "nodes", "per_device", "pool", "shapes", "slice")

    def __init__(self, source: ResourceSlice, shapes: Shapes) -> None:
        spec = source.spec
        self.slice = source
        self.shapes = shapes
        self.pool: PoolId = (spec.driver, spec.pool.name)
        self.per_device = bool(spec.per_device_node_selection)
        self.nodes = NodeChoice(spec.node_name, spec.all_nodes, spec.node_selector)
        self.devices = tuple(DeviceRecord(device, self, shapes) for device in spec.devices)
        self.counts = {
            (counter_set.name, name): parse_nano(counter.value)
            for counter_set in spec.shared_counters
            for name, counter in counter_set.counters.items()
        }

    @property
    def name(self) -> str:
        """The slice's name."""
        return self.slice.name

    @property
    def generation(self) -> int:
        """The pool's generation that the slice belongs to."""
        return self.slice.spec.pool.generation

    @property
    def has_counters(self) -> bool:
        """Does it bring shared counters rather than devices?"""
        return bool(self.slice.spec.shared_counters)

    def relevant_to(self, node: Node) -> bool:
        """Does the node need it? Counters always are; a slice that names no nodes never is."""
        if self.has_counters:
            return True
        if self.nodes.given:
            return self.nodes.matches(node)
        return self.per_device and any(
            device.nodes is not None and device.nodes.matches(node) for device in self.devices
        )
