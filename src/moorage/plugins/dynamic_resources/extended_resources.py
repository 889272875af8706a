"""Extended resources backed by devices: the claim for a pod that asks for `vendor/gpu`.

Owns which of a pod's extended resources a node has to provide as devices, the requests and mappings
that follow from it, and how many devices count as a node's allocatable and used amount when scores
are given. The claim is written to the API only when the pod is bound.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from moorage.cel import CompileError, EvaluationError
from moorage.cluster.columns import Ints
from moorage.cluster.view import NodeView
from moorage.framework.plugin import Handle
from moorage.model.devices import (
    EXACT_COUNT,
    EXTENDED_RESOURCE_CLAIM,
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from moorage.model.meta import ObjectMeta, OwnerReference
from moorage.model.node import Node
from moorage.model.pod import Container, ContainerExtendedResourceRequest, Pod
from moorage.model.quantity import parse_milli
from moorage.plugins.dynamic_resources.claim_plans import expressions_of
from moorage.plugins.dynamic_resources.claim_tracker import ClaimTracker, backed_by_devices
from moorage.plugins.dynamic_resources.slices import DeviceId, DeviceRecord, SliceRecord

IN_MEMORY_NAME = "<extended-resources>"
"""The name of a claim that is not in the API yet; no real claim can be called so."""


@dataclass(frozen=True, slots=True)
class NodeClaim:
    """The claim as one node has to meet it."""

    claim: ResourceClaim
    mappings: tuple[ContainerExtendedResourceRequest, ...] = ()


def extended_claim(pod: Pod, tracker: ClaimTracker) -> ResourceClaim | None:
    """The claim for a pod's extended resources: an earlier one, or a blank; None without need."""
    if not any(
        amount and backed_by_devices(name) and tracker.class_for(name) is not None
        for name, amount in pod.requests.incoming.items()
    ):
        return None
    earlier = tracker.for_extended_resources(pod)
    if earlier is not None:
        return earlier
    owner = OwnerReference(
        api_version="v1", kind="Pod", name=pod.name, uid=pod.uid, controller=True
    )
    return ResourceClaim(
        metadata=ObjectMeta(
            name=IN_MEMORY_NAME,
            generate_name=f"{pod.name}-extended-resources-",
            namespace=pod.namespace,
            uid=f"{pod.uid}{IN_MEMORY_NAME}",
            annotations={EXTENDED_RESOURCE_CLAIM: "true"},
            owner_references=(owner,),
        )
    )


class ExtendedResources:
    """A pod's extended resources and the claim that stands for them."""

    def __init__(self, pod: Pod, claim: ResourceClaim, tracker: ClaimTracker) -> None:
        self._pod = pod
        self.claim = claim
        self._wanted: Mapping[str, bool] = {
            name: tracker.class_for(name) is not None
            for name, amount in pod.requests.incoming.items()
            if amount and backed_by_devices(name)
        }
        """Resource -> is it backed by a class?"""
        self._tracker = tracker
        self._made: dict[tuple[str, ...], NodeClaim] = {}

    @property
    def left_over(self) -> bool:
        """Is the claim from an earlier attempt, to be deleted rather than used?"""
        return bool(self.claim.spec.devices.requests)

    def missing_on(self, node: Node) -> str | None:
        """A resource that the node offers in no way."""
        for name, backed in self._wanted.items():
            offered = node.allocatable.get(name)
            if not (backed and not offered) and offered is None:
                return name
        return None

    def on_node(self, node: Node, *, other_claims: bool) -> NodeClaim | None:
        """The claim for a node; None if its device plugins provide everything."""
        delegated = tuple(
            name
            for name, backed in sorted(self._wanted.items())
            if backed and not node.allocatable.get(name)
        )
        return self._claim_for(delegated, other_claims=other_claims)

    def on_all(self, nodes: NodeView, *, other_claims: bool) -> NodeClaim | None:
        """The claim for every node of a view; None if they differ, or one must be looked at."""
        if not all(self._wanted.values()):
            return None  # a node may not offer what no device stands for
        delegated = []
        for name in sorted(self._wanted):
            offering = np.count_nonzero(nodes.allocatable(name))
            if not offering:
                delegated.append(name)
            elif offering < len(nodes):
                return None
        return self._claim_for(tuple(delegated), other_claims=other_claims)

    def _claim_for(self, delegated: tuple[str, ...], *, other_claims: bool) -> NodeClaim | None:
        if not delegated and not other_claims:
            return None
        made = self._made.get(delegated)
        if made is None:
            requests, mappings = requests_and_mappings(self._pod, delegated, self._tracker)
            spec = ResourceClaimSpec(devices=DeviceClaim(requests=tuple(requests)))
            made = NodeClaim(msgspec.structs.replace(self.claim, spec=spec), tuple(mappings))
            self._made[delegated] = made
        return made


def requests_and_mappings(
    pod: Pod, resources: Sequence[str], tracker: ClaimTracker
) -> tuple[list[DeviceRequest], list[ContainerExtendedResourceRequest]]:
    """Requests for the devices of all containers, sorted by name, and who uses which.

    Ordinary init containers end before the others start: they use the devices of later containers
    first, and share one additional request, the largest that any of them needs.
    """
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    first_main = len(pod.spec.init_containers)
    passing = [i for i in range(first_main) if not containers[i].is_sidecar]
    requests: list[DeviceRequest] = []
    mappings: list[ContainerExtendedResourceRequest] = []
    for resource in resources:
        device_class = tracker.class_for(resource)
        if device_class is None:
            continue
        staying: list[DeviceRequest | None] = [None] * len(containers)
        for i, container in enumerate(containers):
            if i not in passing:
                staying[i], used = _container_request(i, container, resource, device_class.name)
                mappings += used
        largest: DeviceRequest | None = None
        extra: set[str] = set()
        passing_mappings: list[ContainerExtendedResourceRequest] = []
        for i in passing:
            request, used = _container_request(
                i, containers[i], resource, device_class.name, staying[i:]
            )
            if request is not None:
                extra.add(request.name)
                if largest is None or _count(largest) < _count(request):
                    largest = request
            passing_mappings += used
        if largest is not None:
            requests.append(largest)
            name = largest.name
            passing_mappings = [
                msgspec.structs.replace(mapping, request_name=name)
                if mapping.request_name in extra
                else mapping
                for mapping in passing_mappings
            ]
        requests += [request for request in staying if request is not None]
        mappings += passing_mappings
    return sorted(requests, key=lambda request: request.name), mappings


def _container_request(
    index: int,
    container: Container,
    resource: str,
    class_name: str,
    reusable: Sequence[DeviceRequest | None] = (),
) -> tuple[DeviceRequest | None, list[ContainerExtendedResourceRequest]]:
    """What a container has to request itself, beside the requests it can reuse."""
    quantity = container.resources.requests.get(resource)
    if quantity is None:
        return None, []
    wanted, rest = divmod(parse_milli(quantity), 1000)
    if rest or not wanted:
        return None, []
    covered = 0
    mappings = []
    for request in reusable:
        if request is None:
            continue
        covered += _count(request)
        mappings.append(_mapping(container, resource, request.name))
        if covered >= wanted:
            return None, mappings
    place = sorted(container.resources.requests).index(resource)
    name = f"container-{index}-request-{place}"
    exactly = ExactDeviceRequest(
        device_class_name=class_name, allocation_mode=EXACT_COUNT, count=wanted - covered
    )
    mappings.append(_mapping(container, resource, name))
    return DeviceRequest(name=name, exactly=exactly), mappings


def _mapping(container: Container, resource: str, request: str) -> ContainerExtendedResourceRequest:
    return ContainerExtendedResourceRequest(
        container_name=container.name, resource_name=resource, request_name=request
    )


def _count(request: DeviceRequest) -> int:
    return request.exactly.count if request.exactly is not None else 0


_MOST_KINDS = 64

Offers = dict[str, tuple[Node, tuple[DeviceId, ...]]]
"""By the node's name, with the node as it was: the devices of a kind within its reach."""


class DeviceBackedResources:
    """Which resources are backed by devices; quick to say no where there are no device classes."""

    def __init__(self, handle: Handle) -> None:
        self._tracker = ClaimTracker.shared(handle)
        self._offers: dict[tuple[str, ...], Offers] = {}
        """By selectors."""
        self._as_of = -1

    @property
    def possible(self) -> bool:
        """Are there any device classes at all?"""
        return bool(len(self._tracker.classes))

    def backs(self, resource: str) -> bool:
        """Do devices of some class stand for the resource?"""
        return self._tracker.class_for(resource) is not None

    def backed_requests(self, pod: Pod) -> tuple[str, ...]:
        """The resources a pod asks for that are backed by devices."""
        if not self.possible:
            return ()
        return tuple(name for name in pod.requests.incoming if self.backs(name))

    def with_devices(
        self, resource: str, nodes: NodeView, used: Ints, total: Ints
    ) -> tuple[Ints, Ints]:
        """Used and allocatable amounts, counted in devices on nodes that offer nothing else."""
        if not self.possible:
            return used, total
        device_class = self._tracker.class_for(resource)
        if device_class is None:
            return used, total
        self._tracker.refresh()
        offers, in_use = self._offers_of(device_class), self._tracker.usage.in_use
        used, total = used.copy(), total.copy()
        for place in np.flatnonzero(total == 0):
            node = nodes.node(int(place))
            kept = offers.get(node.name)
            if kept is None or (kept[0] is not node and kept[0].labels != node.labels):
                kept = offers[node.name] = (node, self._offered(device_class, node))
            devices = kept[1]
            if devices:
                used[place], total[place] = sum(map(in_use, devices)), len(devices)
        return used, total

    def _offers_of(self, device_class: DeviceClass) -> Offers:
        """What is known of a class; it holds until slices change."""
        inventory = self._tracker.inventory
        inventory.refresh()
        if inventory.generation != self._as_of or len(self._offers) >= _MOST_KINDS:
            self._as_of = inventory.generation
            self._offers.clear()
        return self._offers.setdefault(expressions_of(device_class.spec.selectors), {})

    def _offered(self, device_class: DeviceClass, node: Node) -> tuple[DeviceId, ...]:
        """The devices of the class within reach of a node, in use or not."""
        expressions = expressions_of(device_class.spec.selectors)
        try:
            return tuple(
                device.id
                for record in self._tracker.inventory.slices_for(node.name)
                for device in _within_reach(record, node)
                if all(map(device.selected_by, expressions))
            )
        except (CompileError, EvaluationError):
            return ()  # upstream logs it and scores the node without the resource


def _within_reach(record: SliceRecord, node: Node) -> Sequence[DeviceRecord]:
    """Upstream counts generously: a slice that names no nodes at all counts everywhere."""
    if record.per_device:
        return [d for d in record.devices if d.nodes is not None and d.nodes.matches(node)]
    if record.nodes.given and not record.nodes.matches(node):
        return ()
    return record.devices
