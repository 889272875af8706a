"""Claims prepared for allocation: classes looked up, tolerations and amounts ready, constraints.

Owns what is checked of a request before any device is looked at, in upstream's words, and when one
more device keeps a constraint satisfied.
"""

from collections.abc import Callable, Iterable
from itertools import chain

from moorage.cel import CompileError, EvaluationError
from moorage.model.devices import (
    ALL,
    EXACT_COUNT,
    DeviceAttribute,
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
from moorage.plugins.dynamic_resources.selectors import Attribute, DeviceSelectors, Reads
from moorage.plugins.dynamic_resources.slices import DeviceRecord, Features
from moorage.plugins.errors import AllocationError

FindClass = Callable[[str], DeviceClass | None]


class RequestPlan:
    """A request or sub-request."""

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
        """The request's name where this is one of its alternatives."""
        self.name = name
        self.full_name = f"{parent}/{name}" if parent else name
        self.base_name = parent or name
        self.class_name = request.device_class_name
        self.device_class = device_class
        self.take_all = request.allocation_mode == ALL
        self.count = request.count
        self.admin_access = isinstance(request, ExactDeviceRequest) and bool(request.admin_access)
        self.tolerations: tuple[DeviceToleration, ...] = request.tolerations
        self.amounts: dict[str, Amount] = requested_amounts(request.capacity)
        self._selectors = (
            (f"class {self.class_name}", expressions_of(device_class.spec.selectors)),
            (f"claim {claim}", expressions_of(request.selectors)),
        )
        self.expressions = self._selectors[0][1] + self._selectors[1][1]
        """What devices have to satisfy."""

    def selects(self, device: DeviceRecord) -> bool:
        """Do the class and the request want a device like this? Raises `AllocationError`."""
        for owner, expressions in self._selectors:
            for number, expression in enumerate(expressions):
                try:
                    if not device.selected_by(expression):
                        return False
                except (CompileError, EvaluationError) as error:
                    raise AllocationError(_complaint(owner, number, device, error)) from None
        return True

    def tolerates(self, device: DeviceRecord) -> bool:
        """Are all taints of the device that keep claims away tolerated?"""
        return all(
            any(toleration.tolerates(taint) for toleration in self.tolerations)
            for taint in device.taints
        )


_MISSING_KEY = "no such key:"
_HINT = (
    "consider using CEL optional chaining (.? followed by orValue()) or guarding the check with "
    "has() for optional fields"
)


def _complaint(
    owner: str, number: int, device: DeviceRecord, error: CompileError | EvaluationError
) -> str:
    where = f"{owner}: selector #{number}"
    if isinstance(error, CompileError):
        return f"{where}: CEL compile error: {error}"
    hint = f". {_HINT}" if _MISSING_KEY in str(error) else ""
    return f"{where} on device {'/'.join(device.id)}: CEL runtime error: {error}{hint}"


class ClaimPlan:
    """A claim to allocate; each request is a list of alternatives, mostly of one."""

    def __init__(self, claim: ResourceClaim, features: Features, find_class: FindClass) -> None:
        self.claim = claim
        self.constraints: tuple[DeviceConstraint, ...] = claim.spec.devices.constraints
        self.requests: list[list[RequestPlan]] = [
            _alternatives(claim, request, features, find_class)
            for request in claim.spec.devices.requests
        ]


def attributes_read(plans: Iterable[ClaimPlan], selectors: DeviceSelectors) -> Reads:
    """The attributes that selectors and constraints read; None if all may be."""
    found: set[Attribute] = set()
    for plan in plans:
        for request in chain.from_iterable(plan.requests):
            for expression in request.expressions:
                try:
                    reads = selectors.reads(expression)
                except CompileError:
                    return None
                if reads is None:
                    return None
                found |= reads
        for constraint in plan.constraints:
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
    if request.derived_attributes:
        raise AllocationError(
            f"{where}: cannot handle request with derived attributes, the feature is disabled"
        )
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


def expressions_of(selectors: tuple[DeviceSelector, ...]) -> tuple[str, ...]:
    """The CEL expressions of selectors."""
    return tuple(selector.cel.expression for selector in selectors if selector.cel is not None)


Values = tuple[str, frozenset[object]] | None
"""The kind of an attribute and its values; None for lists, unless the feature is on."""


class Constraint:
    """A constraint while devices are being chosen: all share a value, or no two do."""

    def __init__(self, constraint: DeviceConstraint, features: Features) -> None:
        """Raises `ValueError` if it is of a kind that is not known."""
        self._lists = features.list_attributes
        self._distinct = constraint.match_attribute is None
        attribute = constraint.distinct_attribute if self._distinct else constraint.match_attribute
        if attribute is None:
            raise ValueError("empty constraint (unsupported constraint type?)")
        self._attribute = attribute
        self._requests = frozenset(constraint.requests)
        self._chosen: list[Values] = []
        """By device; where values must match, what the devices up to this one have in common."""

    def applies(self, request: RequestPlan) -> bool:
        """Is it about the devices of a request? Naming none means all of them."""
        names = self._requests
        return not names or request.base_name in names or request.full_name in names

    def add(self, request: RequestPlan, device: DeviceRecord) -> bool:
        """One more device is to be chosen; False if it must not be."""
        if not self.applies(request):
            return True
        attribute = device.attribute(self._attribute)
        if attribute is None:
            return False
        values = _values(attribute, lists=self._lists)
        if values is None and (self._lists or self._chosen):
            return False
        if self._distinct:
            if any(_common(values, other) is not None for other in self._chosen):
                return False
        elif self._chosen:
            values = _common(values, self._chosen[-1])
            if values is None:
                return False
        self._chosen.append(values)
        return True

    def remove(self, request: RequestPlan) -> None:
        """The last device, which is the request's, is given back."""
        if self.applies(request):
            self._chosen.pop()


def _values(attribute: DeviceAttribute, *, lists: bool) -> Values:
    for kind in ("int", "bool", "string", "version") if lists else ():
        several = getattr(attribute, f"{kind}_values")
        if several:
            return kind, frozenset(several)
    for kind in ("int", "bool", "string", "version"):
        value = getattr(attribute, f"{kind}_value")
        if value is not None:
            return kind, frozenset((value,))
    return None


def _common(values: Values, others: Values) -> Values:
    if values is None or others is None or values[0] != others[0]:
        return None
    shared = values[1] & others[1]
    return (values[0], shared) if shared else None
