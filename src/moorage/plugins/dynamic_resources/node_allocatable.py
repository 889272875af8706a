"""Devices that are, or cost, cpu, memory or huge pages of their node (DRANodeAllocatableResources).

Owns how much of a node's own resources the devices of a pod's claims take, how the pod's status
tells it, and whether the node has that much left. What other pods took counts as their requests do:
it is in their status (`model.pod_requests`).
"""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

import msgspec

from moorage.cluster.view import NodeView
from moorage.framework.status import Code, Reason
from moorage.model.devices import Device, NodeAllocatableMapping, ResourceClaim
from moorage.model.pod import (
    NodeAllocatableMappedResource,
    NodeAllocatableOverheadResource,
    NodeAllocatableResourceClaimStatus,
    Pod,
)
from moorage.model.pod_requests import (
    claim_demand,
    container_totals,
    requests_without_pod_level,
)
from moorage.model.quantity import (
    NANO,
    Quantity,
    QuantityFormat,
    parse_nano,
    quantity_format,
    quantity_text,
)
from moorage.model.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    in_scheduler_units,
    is_hugepages,
    is_pod_level,
    to_milli,
)
from moorage.plugins.errors import NodeAllocatableError

_ALWAYS_CHECKED = (CPU, MEMORY, EPHEMERAL_STORAGE)

Statuses = tuple[NodeAllocatableResourceClaimStatus, ...]


class AllocatedDevice(NamedTuple):
    """A device that a claim gets, and how much of its capacity."""

    device: Device
    consumed: Mapping[str, Quantity]


def is_mapped(devices: Iterable[Device]) -> bool:
    """Is one of the devices itself a part of its node's own resources?"""
    return any(
        taken.mapping is not None
        for device in devices
        for taken in device.node_allocatable_resources.values()
    )


def not_shareable(claim: ResourceClaim) -> Reason:
    """Why a pod cannot use a claim with such devices that others use."""
    return Reason(
        f"node allocatable resource claim {claim.name} has a mapped device and cannot be shared "
        "across pods",
        Code.UNRESOLVABLE,
    )


def claim_statuses(
    pod: Pod,
    claims: Iterable[tuple[ResourceClaim, Sequence[AllocatedDevice]]],
    uids: Mapping[str, str],
) -> Statuses:
    """What each claim takes of the node, by the claims' names; claims that take nothing are out.

    `uids` tells which claim each name in the pod's spec stands for.
    """
    found = []
    for claim, devices in claims:
        mapping = _mapping(f"{pod.namespace}/{claim.name}", devices)
        overhead = _overhead(devices)
        if not mapping and not overhead:
            continue
        names = {name for name, uid in uids.items() if uid == claim.metadata.uid}
        containers = [
            container.name
            for container in (*pod.spec.init_containers, *pod.spec.containers)
            for reference in container.resources.claims
            if reference.name in names
        ]
        found.append(
            NodeAllocatableResourceClaimStatus(claim.name, tuple(containers), mapping, overhead)
        )
    return tuple(sorted(found, key=lambda status: status.resource_claim_name))


class _Sums:
    """Amounts of resources; each sum is written as its first part was."""

    def __init__(self) -> None:
        self._sums: dict[str, tuple[Fraction, QuantityFormat]] = {}

    def add(self, name: str, amount: Fraction, form: QuantityFormat) -> None:
        known = self._sums.get(name)
        self._sums[name] = (amount, form) if known is None else (known[0] + amount, known[1])

    def texts(self) -> dict[str, Quantity]:
        return {
            name: quantity_text(-(-total.numerator * NANO // total.denominator), form)
            for name, (total, form) in sorted(self._sums.items())
        }


def _mapping(
    claim: str, devices: Sequence[AllocatedDevice]
) -> tuple[NodeAllocatableMappedResource, ...]:
    sums = _Sums()
    for drawn in devices:
        for name, taken in drawn.device.node_allocatable_resources.items():
            if taken.mapping is None:
                continue
            amount = _amount(claim, name, taken.mapping, drawn)
            if amount is not None:
                sums.add(name, *amount)
    return tuple(NodeAllocatableMappedResource(*one) for one in sums.texts().items())


def _overhead(devices: Sequence[AllocatedDevice]) -> tuple[NodeAllocatableOverheadResource, ...]:
    per_pod, per_container = _Sums(), _Sums()
    for drawn in devices:
        for name, taken in drawn.device.node_allocatable_resources.items():
            if taken.overhead is not None:
                for sums, cost in (
                    (per_pod, taken.overhead.per_pod),
                    (per_container, taken.overhead.per_container),
                ):
                    if cost is not None:
                        sums.add(name, _exact(cost), quantity_format(cost))
    pods, containers = per_pod.texts(), per_container.texts()
    return tuple(
        NodeAllocatableOverheadResource(name, pods.get(name), containers.get(name))
        for name in sorted(pods.keys() | containers.keys())
    )


def _amount(
    claim: str, resource: str, mapping: NodeAllocatableMapping, drawn: AllocatedDevice
) -> tuple[Fraction, QuantityFormat] | None:
    """How much of a resource, and how it is written; None: does not apply."""
    key = mapping.capacity_key
    if not key:
        whole = mapping.device_multiplier
        return None if whole is None else (_exact(whole), quantity_format(whole))
    if not drawn.consumed:
        raise NodeAllocatableError(
            f"claim {claim}, device {drawn.device.name}: ConsumedCapacity is nil, but Capacity key "
            f"'{key}' is set in NodeAllocatableResources for resource {resource}"
        )
    consumed = drawn.consumed.get(key)
    if consumed is None:
        return None
    factor = mapping.capacity_multiplier
    return _exact(consumed) * (1 if factor is None else _exact(factor)), quantity_format(consumed)


def rejections(pod: Pod, statuses: Statuses, nodes: NodeView, place: int) -> Sequence[Reason]:
    """Why the node cannot give what the pod and its claims take together."""
    complete = with_statuses(pod, statuses)
    demand = complete.requests.incoming
    uncovered = _uncovered(complete) or _beyond_limits(complete)
    if uncovered is not None:
        return (uncovered,)
    short = []
    hopeless = False
    for name, amount in demand.items():
        if not (is_hugepages(name) or (name in _ALWAYS_CHECKED and amount > 0)):
            continue
        total = int(nodes.allocatable(name)[place])
        if amount > total - int(nodes.requested(name)[place]):
            short.append(name)
            hopeless |= amount > total
    code = Code.UNRESOLVABLE if hopeless else Code.UNSCHEDULABLE
    ordered = sorted(short, key=lambda name: (*_ALWAYS_CHECKED, name).index(name))
    return [Reason(f"Insufficient {name}", code) for name in ordered]


def _uncovered(pod: Pod) -> Reason | None:
    """Requests for the whole pod must cover containers and devices."""
    if pod.spec.resources is None or not pod.spec.resources.requests:
        return None
    needed = requests_without_pod_level(pod)
    for name, amount in sorted(in_scheduler_units(to_milli(pod.spec.resources.requests)).items()):
        if is_pod_level(name) and needed.get(name, 0) > amount:
            text = (
                f"pod level request for {name} is insufficient to cover the aggregated container "
                "and node-allocatable DRA requests"
            )
            return Reason(text, Code.UNRESOLVABLE)
    return None


def _beyond_limits(pod: Pod) -> Reason | None:
    """Limits for the whole pod must cover those of containers and devices."""
    if pod.spec.resources is None or not pod.spec.resources.limits:
        return None
    limits = to_milli(pod.spec.resources.limits)
    statuses = pod.status.node_allocatable_resource_claim_statuses
    together = container_totals(pod, lambda container: to_milli(container.resources.limits))
    for status in statuses:
        for name, amount in claim_demand(status, len(status.containers)).items():
            together[name] = together.get(name, 0) + amount
    for name in sorted(together):
        if is_hugepages(name) and name in limits and together[name] > limits[name]:
            text = (
                f"pod level limit for {name} is insufficient to cover the aggregated container "
                "and node-allocatable DRA limits"
            )
            return Reason(text, Code.UNRESOLVABLE)
    for container in pod.spec.containers:
        drawn = [claim_demand(one, 1) for one in statuses if container.name in one.containers]
        for name, limit in sorted(to_milli(container.resources.limits).items()):
            whole = limits.get(name)
            if whole is None or is_hugepages(name):
                continue
            if limit + sum(demand.get(name, 0) for demand in drawn) > whole:
                text = (
                    f"pod level limit for {name} is insufficient to cover the limit and DRA "
                    f"overhead for container {container.name}"
                )
                return Reason(text, Code.UNRESOLVABLE)
    return None


def with_statuses(pod: Pod, statuses: Statuses) -> Pod:
    """The pod as it will be once the status is written."""
    replace = msgspec.structs.replace
    status = replace(pod.status, node_allocatable_resource_claim_statuses=statuses)
    return replace(pod, status=status)


def _exact(quantity: Quantity) -> Fraction:
    return Fraction(parse_nano(quantity), NANO)
