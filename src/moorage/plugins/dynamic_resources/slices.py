"""Devices and slices prepared for allocation, with the taints that DeviceTaintRules put on them.

A record lives as long as the slice object it was made from. What selectors said is kept per shape
of device (its driver, attributes and capacity), so devices that differ only in their names are put
to an expression once, and an unchanged slice never again.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import msgspec

from moorage.cel import EvaluationError
from moorage.cluster.listers import Lister, Listers
from moorage.config.feature_gates import FeatureGates
from moorage.model.devices import (
    Device,
    DeviceAttribute,
    DeviceTaint,
    DeviceTaintRule,
    ResourceSlice,
)
from moorage.model.node import Node
from moorage.model.node_selector import CompiledNodeSelector, NodeSelector, compile_node_selector
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


class Features(NamedTuple):
    """The feature gates that allocation depends on."""

    admin_access: bool = True
    binding_conditions: bool = True
    compatibility_groups: bool = False
    consumable_capacity: bool = True
    device_taints: bool = True
    fractional_capacity: bool = False
    list_attributes: bool = False
    optional_node_operations: bool = False
    partitionable_devices: bool = True
    prioritized_list: bool = True


OPTIONAL_OPERATIONS = "DRAOptionalNodeOperations"
"""What a node declares that can leave out operations for devices."""


def decides_alike(node: Node, other: Node) -> bool:
    """Are two versions of a node equal in all that decides over its devices?"""
    return node is other or (
        node.labels == other.labels
        and node.status.declared_features == other.status.declared_features
    )


class NodeScope:
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


class DeviceShape:
    """Everything of a device that a selector can see, and what selectors said of it."""

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


class Alike:
    """Stands for what matters of a device, or of all devices of a node in their order.

    Never for names: where nothing else differs it is the same object.
    """

    __slots__ = ("__weakref__",)


class DeviceShapes:
    """The shapes of devices and nodes in use."""

    def __init__(
        self,
        selectors: DeviceSelectors,
        features: Features,
        checkpoint: Callable[[], None],
    ) -> None:
        self.selectors = selectors
        self.features = features
        self._checkpoint = checkpoint
        self._known: WeakValueDictionary[bytes, DeviceShape] = WeakValueDictionary()
        self._alike: WeakValueDictionary[Hashable, Alike] = WeakValueDictionary()

    def equivalence(self, device: Device, driver: str, reads: Reads) -> Alike:
        """The equivalence of a device to those who look only at some of its attributes."""
        attributes = device.attributes
        if reads is not None:
            attributes = {
                name: value
                for name, value in attributes.items()
                if qualified(name, driver) in reads or not _harmless(value)
            }
        seen = msgspec.structs.replace(device, name="", attributes=attributes)
        return self._alike.setdefault(msgspec.msgpack.encode((driver, seen)), Alike())

    def of_node(self, devices: tuple[Alike, ...]) -> Alike:
        """What nodes with devices like these have in common."""
        return self._alike.setdefault(devices, Alike())

    def of(self, device: Device, driver: str) -> DeviceShape:
        """The shape of a device."""
        parts = (driver, device.attributes, device.capacity, device.allow_multiple_allocations)
        key = msgspec.msgpack.encode(parts)
        shape = self._known.get(key)
        if shape is None:
            shape = self._known[key] = DeviceShape(device, driver, self.selectors, self._checkpoint)
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
        "skipped_operations",
        "slice",
        "taints",
    )

    def __init__(self, device: Device, owner: "SliceRecord", shapes: DeviceShapes) -> None:
        self.device = device
        self.slice = owner
        self.pool = owner.pool
        self.id: DeviceId = (*owner.pool, device.name)
        features = shapes.features
        self.shareable = features.consumable_capacity and bool(device.allow_multiple_allocations)
        self.skipped_operations: tuple[str, ...] = ()
        if features.optional_node_operations:
            self.skipped_operations = owner.slice.spec.skip_node_operations
        self.taints = tuple(taint for taint in device.taints if taint.effect in _BLOCKING)
        self.capacity = CapacityRecord(device, fractional=features.fractional_capacity)
        self.counters = tuple(
            ((consumption.counter_set, name), parse_nano(counter.value))
            for consumption in device.consumes_counters
            for name, counter in consumption.counters.items()
        )
        self.nodes: NodeScope | None = None
        if owner.per_device:
            self.nodes = NodeScope(device.node_name, device.all_nodes, device.node_selector)
        self.selected_by = shapes.of(device, self.id[0]).selected_by

    def equivalence(self, reads: Reads) -> Alike:
        """What devices alike have in common, of these attributes and of everything else."""
        return self.slice.shapes.equivalence(self.device, self.id[0], reads)

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

    def __init__(self, source: ResourceSlice, shapes: DeviceShapes) -> None:
        spec = source.spec
        self.slice = source
        self.name = source.name
        self.generation = spec.pool.generation
        """The pool's generation that the slice belongs to."""
        self.has_counters = bool(spec.shared_counters)
        """Does it bring shared counters rather than devices?"""
        self.shapes = shapes
        self.pool: PoolId = (spec.driver, spec.pool.name)
        self.per_device = bool(spec.per_device_node_selection)
        self.nodes = NodeScope(spec.node_name, spec.all_nodes, spec.node_selector)
        self.devices = tuple(DeviceRecord(device, self, shapes) for device in spec.devices)
        self.counts = {
            (counter_set.name, name): parse_nano(counter.value)
            for counter_set in spec.shared_counters
            for name, counter in counter_set.counters.items()
        }

    @property
    def has_compatibility_groups(self) -> bool:
        """Does a device say with which others it can be in use?"""
        return any(
            consumption.compatibility_groups
            for device in self.slice.spec.devices
            for consumption in device.consumes_counters
        )

    def relevant_to(self, node: Node) -> bool:
        """Does the node reach it? A slice that names no nodes is reached by none."""
        if self.nodes.given:
            return self.nodes.matches(node)
        return self.per_device and any(
            device.nodes is not None and device.nodes.matches(node) for device in self.devices
        )


_Added = tuple[tuple[DeviceTaint, ...], ...]
"""The taints that rules add, device by device."""


class TaintedSlices:
    """All slices, with the taints of rules where the feature is on."""

    def __init__(self, listers: Listers, gates: FeatureGates) -> None:
        self._slices = listers.of(ResourceSlice)
        self._rules: Lister[DeviceTaintRule] | None = None
        if gates.enabled("DRADeviceTaintRules"):
            self._rules = listers.of(DeviceTaintRule)
        self._tainted: dict[str, tuple[ResourceSlice, _Added, ResourceSlice]] = {}

    @property
    def generation(self) -> int:
        """Grows with every change."""
        return self._slices.generation + (self._rules.generation if self._rules is not None else 0)

    def __iter__(self) -> Iterator[ResourceSlice]:
        before, self._tainted = self._tainted, {}
        rules = tuple(self._rules) if self._rules is not None else ()
        for source in self._slices:
            concerning = [rule for rule in rules if rule.taints_slice(source)]
            if not concerning:
                yield source
                continue
            added = tuple(_added(device, concerning) for device in source.spec.devices)
            kept = before.get(source.name)
            if kept is None or kept[0] is not source or kept[1] != added:
                kept = (source, added, _with_taints(source, added))
            self._tainted[source.name] = kept
            yield kept[2]


def _added(device: Device, rules: list[DeviceTaintRule]) -> tuple[DeviceTaint, ...]:
    return tuple(rule.spec.taint for rule in rules if rule.taints_device(device))


def _with_taints(source: ResourceSlice, added: _Added) -> ResourceSlice:
    replace = msgspec.structs.replace
    devices = tuple(
        replace(device, taints=(*device.taints, *taints)) if taints else device
        for device, taints in zip(source.spec.devices, added, strict=True)
    )
    return replace(source, spec=replace(source.spec, devices=devices))
