"""Devices that stand for a node's cpu, memory or huge pages (DRANodeAllocatableResources).

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
from moorage.model.devices import Device, NodeAllocatableResourceMapping, ResourceClaim
from moorage.model.pod import NodeAllocatableResourceClaimStatus, Pod
from moorage.model.pod_requests import requests_without_pod_level
from moorage.model.quantity import (
    NANO,
    Quantity,
    QuantityFormat,
    parse_nano,
    quantity_format,
    quantity_text,
)
from moorage.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, is_hugepages
from moorage.plugins.errors import NodeAllocatableError

_ALWAYS_CHECKED = (CPU, MEMORY, EPHEMERAL_STORAGE)

Statuses = tuple[NodeAllocatableResourceClaimStatus, ...]


class AllocatedDevice(NamedTuple):
    """A device that a claim gets, and how much of its capacity."""

    device: Device
    consumed: Mapping[str, Quantity]


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
        if not any(drawn.device.node_allocatable_resource_mappings for drawn in devices):
            continue
        resources = _resources(f"{pod.namespace}/{claim.name}", devices)
        if resources is None:
            continue
        names = {name for name, uid in uids.items() if uid == claim.metadata.uid}
        containers = [
            container.name
            for container in (*pod.spec.init_containers, *pod.spec.containers)
            for reference in container.resources.claims
            if reference.name in names
        ]
        found.append(NodeAllocatableResourceClaimStatus(claim.name, tuple(containers), resources))
    return tuple(sorted(found, key=lambda status: status.resource_claim_name))


def _resources(claim: str, devices: Sequence[AllocatedDevice]) -> dict[str, Quantity] | None:
    totals: dict[str, tuple[Fraction, QuantityFormat]] = {}
    for drawn in devices:
        for name, mapping in drawn.device.node_allocatable_resource_mappings.items():
            amount = _amount(claim, name, mapping, drawn)
            if amount is not None:
                known = totals.get(name)
                # The sum is written as its first part was.
                totals[name] = amount if known is None else (known[0] + amount[0], known[1])
    return {name: _text(*total) for name, total in totals.items()} if totals else None


def _text(total: Fraction, form: QuantityFormat) -> str:
    return quantity_text(-(-total.numerator * NANO // total.denominator), form)


def _amount(
    claim: str, resource: str, mapping: NodeAllocatableResourceMapping, drawn: AllocatedDevice
) -> tuple[Fraction, QuantityFormat] | None:
    """How much of a resource, and how it is written; None: does not apply."""
    factor = mapping.allocation_multiplier
    key = mapping.capacity_key
    if not key:
        if factor is None:
            return Fraction(0), QuantityFormat.DECIMAL
        return _exact(factor), quantity_format(factor)
    if not drawn.consumed:
        raise NodeAllocatableError(
            f"claim {claim}, device {drawn.device.name}: ConsumedCapacity is nil, but Capacity key "
            f"'{key}' is set in NodeAllocatableResourceMappings for resource {resource}"
        )
    consumed = drawn.consumed.get(key)
    if consumed is None:
        return None
    return _exact(consumed) * (1 if factor is None else _exact(factor)), quantity_format(consumed)


def rejections(pod: Pod, statuses: Statuses, nodes: NodeView, place: int) -> Sequence[Reason]:
    """Why the node cannot give what the pod and its claims take together."""
    for status in statuses:
        if not status.containers:
            text = (
                f"claim {status.resource_claim_name}: node-allocatable resource claim not "
                "referenced by any container within the pod"
            )
            return (Reason(text, Code.UNRESOLVABLE),)
    complete = with_statuses(pod, statuses)
    demand = complete.requests.incoming
    uncovered = _uncovered(complete, demand)
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


def _uncovered(pod: Pod, demand: Mapping[str, int]) -> Reason | None:
    """Requests for the whole pod must cover containers and devices."""
    if pod.spec.resources is None or not pod.spec.resources.requests:
        return None
    needed = requests_without_pod_level(pod)
    for name in sorted(demand):
        if needed.get(name, 0) > demand[name]:
            text = (
                f"pod level request for {name} is insufficient to cover the aggregated container "
                "and node-allocatable DRA requests"
            )
            return Reason(text, Code.UNRESOLVABLE)
    return None


def sharing(pod: Pod, claims: Sequence[ResourceClaim], others: Sequence[Pod]) -> Reason | None:
    """Such a claim serves one pod; why one of these, which is allocated, cannot serve this one."""
    for claim in claims:
        if not claim.allocated:
            continue
        users = {
            other.uid
            for other in others
            if other.namespace == pod.namespace
            for status in other.status.node_allocatable_resource_claim_statuses
            if status.resource_claim_name == claim.name
        }
        if len(users) > 1:
            text = f"node allocatable resource claim {claim.name} shared by multiple pods"
            return Reason(text, Code.UNRESOLVABLE)
        if users and pod.uid not in users:
            text = f"node allocatable resource claim {claim.name} is already used by another pod"
            return Reason(text, Code.UNRESOLVABLE)
    return None


def with_statuses(pod: Pod, statuses: Statuses) -> Pod:
    """The pod as it will be once the status is written."""
    replace = msgspec.structs.replace
    status = replace(pod.status, node_allocatable_resource_claim_statuses=statuses)
    return replace(pod, status=status)


def _exact(quantity: Quantity) -> Fraction:
    return Fraction(parse_nano(quantity), NANO)
