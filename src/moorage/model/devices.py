"""Devices and the claims on them (`resource.k8s.io`): what drivers offer and what pods ask for.

Owns the shape of ResourceSlice, DeviceTaintRule, DeviceClass, ResourceClaim and its template.
Driver configuration is carried along as it is: no choice of a node depends on it, but an allocation
hands it to the driver. Allocating devices and evaluating CEL belong to the plugin. Quantities here
keep nine decimal places (`quantity.parse_nano`): unlike resource lists, the API server does not
round them.
"""

from typing import Any

import msgspec

from moorage.model.meta import ApiObject, Condition, Int64, Object, ObjectMeta, cached
from moorage.model.node_selector import CompiledNodeSelector, NodeSelector, compile_node_selector
from moorage.model.quantity import Quantity
from moorage.model.taints import Taint, Toleration

EXACT_COUNT = "ExactCount"
ALL = "All"
EXTENDED_RESOURCE_CLAIM = "resource.kubernetes.io/extended-resource-claim"
DEVICE_CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"
DELETE_PROTECTION = "resource.kubernetes.io/delete-protection"


class CELDeviceSelector(Object, frozen=True):
    """A CEL expression over a device."""

    expression: str = ""


class DeviceSelector(Object, frozen=True):
    """A test on a device."""

    cel: CELDeviceSelector | None = None


class DeviceTaint(Taint, frozen=True):
    """A device's mark that keeps claims away unless they tolerate it."""

    time_added: str | None = None


class DeviceToleration(Toleration, frozen=True):
    """A request's answer to device taints."""

    operator: str = "Equal"
    toleration_seconds: Int64 | None = None


class DeviceAttribute(Object, frozen=True):
    """A property of a device: exactly one of these is set."""

    int_value: Int64 | None = msgspec.field(default=None, name="int")
    bool_value: bool | None = msgspec.field(default=None, name="bool")
    string_value: str | None = msgspec.field(default=None, name="string")
    version_value: str | None = msgspec.field(default=None, name="version")
    int_values: tuple[Int64, ...] = msgspec.field(default=(), name="ints")
    bool_values: tuple[bool, ...] = msgspec.field(default=(), name="bools")
    string_values: tuple[str, ...] = msgspec.field(default=(), name="strings")
    version_values: tuple[str, ...] = msgspec.field(default=(), name="versions")


class CapacityRequestPolicyRange(Object, frozen=True):
    """Amounts that may be taken of a capacity: from, to, in steps of."""

    min: Quantity | None = None
    max: Quantity | None = None
    step: Quantity | None = None


class CapacityRequestPolicy(Object, frozen=True):
    """How a capacity is shared between several claims."""

    default: Quantity | None = None
    valid_values: tuple[Quantity, ...] = ()
    valid_range: CapacityRequestPolicyRange | None = None


class DeviceCapacity(Object, frozen=True):
    """How much of something a device has."""

    value: Quantity = 0
    request_policy: CapacityRequestPolicy | None = None


class DeviceCounter(Object, frozen=True):
    """An amount that devices of a pool share."""

    value: Quantity = 0


class CounterSet(Object, frozen=True):
    """Shared amounts under a name."""

    name: str = ""
    counters: dict[str, DeviceCounter] = {}


class DeviceCounterConsumption(Object, frozen=True):
    """What a device takes of a counter set while it is allocated."""

    counter_set: str = ""
    counters: dict[str, DeviceCounter] = {}
    compatibility_groups: tuple[str, ...] = ()


class NodeAllocatableMapping(Object, frozen=True):
    """How much of a node's own resource a device is: by its consumed capacity, or as a whole."""

    capacity_key: str | None = None
    capacity_multiplier: Quantity | None = None
    device_multiplier: Quantity | None = None


class NodeAllocatableOverhead(Object, frozen=True):
    """How much of a node's own resource the use of a device costs."""

    per_pod: Quantity | None = None
    per_container: Quantity | None = None


class NodeAllocatableResource(Object, frozen=True):
    """What a device takes of one of its node's own resources."""

    mapping: NodeAllocatableMapping | None = None
    overhead: NodeAllocatableOverhead | None = None


class Device(Object, frozen=True):
    """A device; node fields are set only if the slice says `perDeviceNodeSelection`."""

    name: str = ""
    attributes: dict[str, DeviceAttribute] = {}
    capacity: dict[str, DeviceCapacity] = {}
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: tuple[DeviceTaint, ...] = ()
    binds_to_node: bool | None = None
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool | None = None
    node_allocatable_resources: dict[str, NodeAllocatableResource] = {}


class ResourcePool(Object, frozen=True):
    """The pool a slice belongs to; slices of an older generation are void."""

    name: str = ""
    generation: Int64 = 0
    resource_slice_count: Int64 = 0


class ResourceSliceSpec(Object, frozen=True):
    """Devices of one driver, and the nodes that reach them."""

    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    devices: tuple[Device, ...] = ()
    per_device_node_selection: bool | None = None
    shared_counters: tuple[CounterSet, ...] = ()
    skip_node_operations: tuple[str, ...] = ()


class ResourceSlice(ApiObject, frozen=True, dict=True):
    """A part of a pool of devices."""

    spec: ResourceSliceSpec = ResourceSliceSpec()


class DeviceTaintSelector(Object, frozen=True):
    """Which devices a rule is about: those that fit everything that is set."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(Object, frozen=True):
    """A taint, and the devices that have it; without a selector none, with an empty one all."""

    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint = DeviceTaint()


class DeviceTaintRule(ApiObject, frozen=True, dict=True):
    """A taint put on devices by an administrator rather than by their driver."""

    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()

    def taints_slice(self, offered: ResourceSlice) -> bool:
        """May devices of the slice be meant?"""
        selector = self.spec.device_selector
        return selector is not None and (
            selector.driver in (None, offered.spec.driver)
            and selector.pool in (None, offered.spec.pool.name)
            and (
                selector.device is None
                or any(device.name == selector.device for device in offered.spec.devices)
            )
        )

    def taints_device(self, device: Device) -> bool:
        """Is a device of such a slice meant?"""
        selector = self.spec.device_selector
        return selector is not None and selector.device in (None, device.name)


class DeviceClassConfiguration(Object, frozen=True, omit_defaults=True):
    """What a class tells the driver about its devices."""

    opaque: dict[str, Any] | None = None


class DeviceClassSpec(Object, frozen=True):
    """Which devices belong to the class, and the extended resource it stands for."""

    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[DeviceClassConfiguration, ...] = ()
    extended_resource_name: str | None = None


class DeviceClass(ApiObject, frozen=True, dict=True):
    """A kind of device that requests can name."""

    spec: DeviceClassSpec = DeviceClassSpec()


class CapacityRequirements(Object, frozen=True):
    """How much of each capacity of a device a request needs."""

    requests: dict[str, Quantity] = {}


class DeviceDerivedAttribute(Object, frozen=True):
    """An attribute that a request computes from those of a device."""

    name: str = ""
    expression: str = ""


class DevicesWanted(Object, frozen=True):
    """A number of devices of a class, or all of them."""

    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = EXACT_COUNT
    count: Int64 = 0
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None
    derived_attributes: tuple[DeviceDerivedAttribute, ...] = ()


class ExactDeviceRequest(DevicesWanted, frozen=True):
    """A request for devices that are known by their class."""

    admin_access: bool | None = None


class DeviceSubRequest(DevicesWanted, frozen=True):
    """One of several alternatives, tried in order."""

    name: str = ""


class DeviceRequest(Object, frozen=True):
    """A named request: either `exactly` or `first_available` is set."""

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceConstraint(Object, frozen=True):
    """An attribute in which the devices of some requests must agree, or all differ."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaimConfiguration(Object, frozen=True, omit_defaults=True):
    """What a claim tells the driver about the devices of some requests, or of all of them."""

    requests: tuple[str, ...] = ()
    opaque: dict[str, Any] | None = None


class DeviceClaim(Object, frozen=True):
    """What a claim asks for."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceClaimConfiguration, ...] = ()


class ResourceClaimSpec(Object, frozen=True):
    """What a claim asks for, one level down as the API has it."""

    devices: DeviceClaim = DeviceClaim()


class DeviceRequestAllocationResult(Object, frozen=True):
    """One device that was given to a claim; `request` may be `request/subrequest`."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: dict[str, Quantity] = {}
    skip_node_operations: tuple[str, ...] = ()


class DeviceAllocationConfiguration(Object, frozen=True, omit_defaults=True):
    """Configuration handed to the driver, and whether the class or the claim brought it."""

    source: str = ""
    requests: tuple[str, ...] = ()
    opaque: dict[str, Any] | None = None


class DeviceAllocationResult(Object, frozen=True):
    """All devices that were given to a claim."""

    results: tuple[DeviceRequestAllocationResult, ...] = ()
    config: tuple[DeviceAllocationConfiguration, ...] = ()


class AllocationResult(Object, frozen=True, dict=True, gc=True):
    """An allocation, and the nodes from which it can be used."""

    devices: DeviceAllocationResult = DeviceAllocationResult()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None

    @cached
    def available_nodes(self) -> CompiledNodeSelector | None:
        """The nodes; None means all of them."""
        return None if self.node_selector is None else compile_node_selector(self.node_selector)


class ResourceClaimConsumerReference(Object, frozen=True):
    """Who uses a claim."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class AllocatedDeviceStatus(Object, frozen=True):
    """The state of an allocated device; binding waits for its conditions."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = msgspec.field(default=None, name="shareID")
    conditions: tuple[Condition, ...] = ()


class ResourceClaimStatus(Object, frozen=True):
    """What a claim got, and who uses it."""

    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumerReference, ...] = ()
    devices: tuple[AllocatedDeviceStatus, ...] = ()


class ResourceClaim(ApiObject, frozen=True, dict=True):
    """A claim on devices."""

    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()

    @property
    def allocated(self) -> bool:
        """Does it have its devices?"""
        return self.status.allocation is not None

    def reserved_by(self, pod_uid: str) -> bool:
        """May the pod with this uid use it?"""
        return any(user.uid == pod_uid for user in self.status.reserved_for)


class ResourceClaimTemplateSpec(Object, frozen=True):
    """The claim to be made for each pod."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(ApiObject, frozen=True, dict=True):
    """A pattern for claims."""

    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()
