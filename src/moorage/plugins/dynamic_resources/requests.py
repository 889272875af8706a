"""The requests of claims, prepared for allocation: class looked up, tolerations and amounts ready.

Owns what is checked of a request before any device is looked at, in upstream's words.
"""

from collections.abc import Callable
from typing import NamedTuple

from moorage.cel import CompileError, EvaluationError
from moorage.model.devices import (
    ALL,
    EXACT_COUNT,
    DeviceClass,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
)
from moorage.plugins.dynamic_resources.capacity import Amount, requested_amounts
from moorage.plugins.dynamic_resources.records import DeviceRecord
from moorage.plugins.dynamic_resources.selectors import Attribute, DeviceSelectors, Reads

FindClass = Callable[[str], DeviceClass | None]


class AllocationError(Exception):
    """Something is wrong with a claim or class: the whole attempt is given up."""


class NodeAllocationError(Exception):
    """Something is wrong with the devices of one node: others may still do."""


class Features(NamedTuple):
    """The feature gates that allocation depends on."""

    admin_access: bool = True
    binding_conditions: bool = True
    consumable_capacity: bool = True
    device_taints: bool = True
    partitionable_devices: bool = True
    prioritized_list: bool = True


class RequestPlan:
    """A request or sub-request."""

    __slots__ = (
        "_class_selectors",
        "_selectors",
        "admin_access",
        "amounts",
        "claim",
        "class_name",
        "count",
        "device_class",
        "expressions",
        "name",
        "parent",
        "take_all",
        "tolerations",
    )

    def __init__(
        self,
        claim: str,
        parent: str,
        name: str,
        request: ExactDeviceRequest | DeviceSubRequest,
        device_class: DeviceClass,
    ) -> None:
        self.claim = claim
        self.parent = parent
        self.name = name
        self.class_name = request.device_class_name
        self.device_class = device_class
        self.take_all = request.allocation_mode == ALL
        self.count = request.count
        self.admin_access = isinstance(request, ExactDeviceRequest) and bool(request.admin_access)
        self.tolerations: tuple[DeviceToleration, ...] = request.tolerations
        self.amounts: dict[str, Amount] = requested_amounts(request.capacity)
        self._class_selectors = _expressions(device_class.spec.selectors)
        self._selectors = _expressions(request.selectors)
        self.expressions = (*self._class_selectors, *self._selectors)
        """What devices have to satisfy."""

    @property
    def full_name(self) -> str:
        """`request` or `request/sub-request`."""
        return f"{self.parent}/{self.name}" if self.parent else self.name

    @property
    def base_name(self) -> str:
        """The name of the request itself."""
        return self.parent or self.name

    @property
    def sub_name(self) -> str:
        """The name of the sub-request, if it is one."""
        return self.name if self.parent else ""

    def selects(self, device: DeviceRecord) -> bool:
        """Do the class and the request want a device like this? Raises `AllocationError`."""
        return self._selected(device, self._class_selectors, of_class=True) and self._selected(
            device, self._selectors, of_class=False
        )

    def _selected(
        self, device: DeviceRecord, expressions: tuple[str, ...], *, of_class: bool
    ) -> bool:
        for number, expression in enumerate(expressions):
            try:
                if not device.selected_by(expression):
                    return False
            except (CompileError, EvaluationError) as error:
                owner = f"class {self.class_name}" if of_class else f"claim {self.claim}"
                kind = "compile" if isinstance(error, CompileError) else "runtime"
                raise AllocationError(
                    f"{owner}: selector #{number}: CEL {kind} error: {error}"
                ) from None
        return True

    def reads(self, selectors: DeviceSelectors) -> Reads:
        """The attributes that the selectors read; None if all may be."""
        found: set[Attribute] = set()
        for expression in self.expressions:
            try:
                reads = selectors.reads(expression)
            except CompileError:
                return None
            if reads is None:
                return None
            found |= reads
        return frozenset(found)

    def tolerates(self, device: DeviceRecord) -> bool:
        """Are all taints of the device that keep claims away tolerated?"""
        return all(
            any(toleration.tolerates(taint) for toleration in self.tolerations)
            for taint in device.taints
        )


class ClaimPlan:
    """A claim to allocate; each request is a list of alternatives, mostly of one."""

    __slots__ = ("claim", "constraints", "requests")

    def __init__(self, claim: ResourceClaim, features: Features, find_class: FindClass) -> None:
        self.claim = claim
        self.constraints: tuple[DeviceConstraint, ...] = claim.spec.devices.constraints
        self.requests: list[list[RequestPlan]] = [
            _alternatives(claim, request, features, find_class)
            for request in claim.spec.devices.requests
        ]

    def reads(self, selectors: DeviceSelectors) -> Reads:
        """The attributes that selectors and constraints read; None if all may be."""
        found: set[Attribute] = set()
        for alternatives in self.requests:
            for request in alternatives:
                reads = request.reads(selectors)
                if reads is None:
                    return None
                found |= reads
        for constraint in self.constraints:
            name = constraint.match_attribute or constraint.distinct_attribute or ""
            domain, _, identifier = name.partition("/")
            found.add((domain, identifier))
        return frozenset(found)


def _alternatives(
    claim: ResourceClaim, request: DeviceRequest, features: Features, find_class: FindClass
) -> list[RequestPlan]:
    where = f"claim {claim.key}, request {request.name}"
    subs, exact = request.first_available, request.exactly
    if subs and not features.prioritized_list:
        raise AllocationError(
            f"{where}: has subrequests, but the DRAPrioritizedList feature is disabled"
        )
    if not features.consumable_capacity:
        _refuse_capacity(claim, request)
    if subs:
        return [_plan(claim, request.name, sub.name, sub, features, find_class) for sub in subs]
    if exact is None:
        exact = ExactDeviceRequest()  # refused below, for want of a class
    return [_plan(claim, "", request.name, exact, features, find_class)]


def _refuse_capacity(claim: ResourceClaim, request: DeviceRequest) -> None:
    disabled = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
    if request.exactly is not None and request.exactly.capacity is not None:
        raise AllocationError(f"claim {claim.key}, request {request.name}: {disabled}")
    for sub in request.first_available:
        if sub.capacity is not None:
            raise AllocationError(f"claim {claim.key}, subrequest {sub.name}: {disabled}")


def _plan(
    claim: ResourceClaim,
    parent: str,
    name: str,
    request: ExactDeviceRequest | DeviceSubRequest,
    features: Features,
    find_class: FindClass,
) -> RequestPlan:
    where = f"claim {claim.key}, request {name}"
    for number, selector in enumerate(request.selectors):
        if selector.cel is None:
            raise AllocationError(
                f"{where}, selector #{number}: CEL expression empty (unsupported selector type?)"
            )
    asks_admin = isinstance(request, ExactDeviceRequest) and request.admin_access is not None
    if asks_admin and not features.admin_access:
        raise AllocationError(f"{where}: admin access is requested, but the feature is disabled")
    class_name = request.device_class_name
    if not class_name:
        raise AllocationError(f"{where}: missing device class name (unsupported request type?)")
    device_class = find_class(class_name)
    if device_class is None:
        raise AllocationError(
            f"{where}: could not retrieve device class {class_name}: "
            f'deviceclass.resource.k8s.io "{class_name}" not found'
        )
    if request.allocation_mode not in (ALL, EXACT_COUNT):
        raise AllocationError(f"{where}: unsupported count mode {request.allocation_mode}")
    return RequestPlan(claim.key, parent, name, request, device_class)


def _expressions(selectors: tuple[DeviceSelector, ...]) -> tuple[str, ...]:
    return tuple(selector.cel.expression for selector in selectors if selector.cel is not None)
