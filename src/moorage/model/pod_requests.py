"""What a pod takes from a node.

Containers run together and add up; init containers run one after another, so the largest counts,
beside the sidecars declared before it. Requests for the whole pod replace those sums, overhead
comes on top. Devices that count as a node's own resources count as containers' requests do. A
running pod whose resize is under way counts for the most it may be using.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import msgspec

from moorage.model.resources import (
    CPU,
    MEMORY,
    Resources,
    in_scheduler_units,
    is_pod_level,
    to_milli,
)

if TYPE_CHECKING:  # pod.py caches these values on the pod, so it is the one that imports us
    from moorage.model.pod import (
        Container,
        ContainerStatus,
        NodeAllocatableResourceClaimStatus,
        Pod,
        PodSpec,
    )

DEFAULT_MILLI_CPU = 100
DEFAULT_MEMORY = 200 * 1024 * 1024
_DEFAULTS_IN_MILLI = {CPU: DEFAULT_MILLI_CPU, MEMORY: DEFAULT_MEMORY * 1000}


class PodRequests(msgspec.Struct, frozen=True, eq=False, weakref=True):
    """A pod's demand, seen in the ways the plugins look at it.

    Pods that ask for the same in their spec share one object (`requests_of`), so the object itself
    serves as a key: comparing is by identity.

    `incoming`: of a pod that waits for a node (of its status only devices are looked at).
    `incoming_with_defaults`: the same without pod-level requests and with defaults for containers
    that ask for no cpu or memory; this is what NodeResourcesFit scores with.
    `occupied`: of a pod on a node, status included.
    `occupied_with_defaults`: its cpu and memory with those defaults, and nothing else.
    """

    incoming: Resources
    incoming_with_defaults: Resources
    occupied: Resources
    occupied_with_defaults: Resources


_Effective = Callable[["Container"], Resources]
"""How one container's requests are read."""


_shared: WeakValueDictionary[Hashable, PodRequests] = WeakValueDictionary()
"""The demands of the pods that there are."""


def requests_of(pod: "Pod") -> PodRequests:
    """A pod's demand; worked out once per distinct form, as replicas are many and alike."""
    signature = _signature(pod.spec)
    if _has_status(pod):
        signature = (signature, _status_signature(pod))
    requests = _shared.get(signature)
    if requests is None:
        requests = _shared[signature] = _compute(pod)
    return requests


def _has_status(pod: "Pod") -> bool:
    return bool(
        pod.status.container_statuses
        or pod.status.init_container_statuses
        or pod.status.resources is not None
        or pod.status.node_allocatable_resource_claim_statuses
        or _resize_is_infeasible(pod)
    )


def _signature(spec: "PodSpec") -> Hashable:
    """Everything in a spec that its demand depends on."""
    return (
        tuple(tuple(c.resources.requests.items()) for c in spec.containers),
        tuple((c.is_sidecar, tuple(c.resources.requests.items())) for c in spec.init_containers),
        tuple(spec.overhead.items()),
        None if spec.resources is None else tuple(spec.resources.requests.items()),
    )


def _status_signature(pod: "Pod") -> Hashable:
    """Everything else that the demand of a pod depends on once its status counts."""
    spec, status = pod.spec, pod.status
    return (
        tuple(container.name for container in spec.containers),
        tuple(container.name for container in spec.init_containers),
        tuple(map(_reported, status.container_statuses)),
        tuple(map(_reported, status.init_container_statuses)),
        None if status.resources is None else tuple(status.resources.requests.items()),
        tuple(status.allocated_resources.items()),
        status.node_allocatable_resource_claim_statuses,
        _resize_is_infeasible(pod),
    )


def _reported(status: "ContainerStatus") -> Hashable:
    """What one container's status says of its resources."""
    resources = status.resources
    return (
        status.name,
        None if resources is None else tuple(resources.requests.items()),
        tuple(status.allocated_resources.items()),
    )


def _compute(pod: "Pod") -> PodRequests:
    has_status = _has_status(pod)
    from_spec = _pod_requests(pod, {}, use_status=False)
    from_status = _pod_requests(pod, {}, use_status=True) if has_status else from_spec
    incoming = in_scheduler_units(from_spec)
    occupied = in_scheduler_units(from_status) if has_status else incoming
    defaults = _missing_defaults(pod, from_status)
    occupied_defaulted = occupied
    if defaults:
        occupied_defaulted = in_scheduler_units(_pod_requests(pod, defaults, use_status=has_status))
    scoring = container_totals(pod, _defaulting(_spec_requests, _DEFAULTS_IN_MILLI))
    _add(scoring, to_milli(pod.spec.overhead))
    return PodRequests(
        incoming=incoming,
        incoming_with_defaults=in_scheduler_units(scoring),
        occupied=occupied,
        occupied_with_defaults={name: occupied_defaulted.get(name, 0) for name in (CPU, MEMORY)},
    )


def _pod_requests(pod: "Pod", defaults: Resources, *, use_status: bool) -> Resources:
    total = container_totals(pod, _defaulting(_spec_requests, defaults))
    _add_devices(total, pod)
    if use_status:
        _resize(total, pod, _running_totals(pod, defaults))
    pod_level = pod.spec.resources
    if pod_level is not None and any(map(is_pod_level, pod_level.requests)):
        whole = to_milli(pod_level.requests)
        status = pod.status.resources
        if use_status and status is not None:
            reported = (to_milli(status.requests), to_milli(pod.status.allocated_resources))
            _resize(whole, pod, reported)
        total |= {name: value for name, value in whole.items() if is_pod_level(name)}
    _add(total, to_milli(pod.spec.overhead))
    return total


def _resize(total: Resources, pod: "Pod", running: Sequence[Resources]) -> None:
    """Let what the kubelet runs count as well; what it cannot change to does not count at all."""
    if _resize_is_infeasible(pod):
        total.clear()
    for one in running:
        _raise_to(total, one)


def _running_totals(pod: "Pod", defaults: Resources) -> tuple[Resources, Resources]:
    """What the kubelet has given to a pod, and what the pod may be using still."""
    status = pod.status
    if status.allocated_resources and status.resources is not None and status.resources.requests:
        return to_milli(status.allocated_resources), to_milli(status.resources.requests)
    reported = (*status.container_statuses, *status.init_container_statuses)
    statuses = {one.name: one for one in reversed(reported)}  # of one name the first counts
    is_infeasible = _resize_is_infeasible(pod)

    def allocated(container: "Container") -> Resources:
        found = statuses.get(container.name)
        if found is not None and found.allocated_resources:
            return to_milli(found.allocated_resources)
        return {} if is_infeasible else _spec_requests(container)

    def actuated(container: "Container") -> Resources:
        found = statuses.get(container.name)
        if found is not None and found.resources is not None and found.resources.requests:
            return to_milli(found.resources.requests)
        return allocated(container)

    given = container_totals(pod, _defaulting(allocated, defaults))
    _add_devices(given, pod)
    return given, container_totals(pod, _defaulting(actuated, defaults))


def requests_without_pod_level(pod: "Pod") -> Resources:
    """What containers and devices need together, whatever is asked for the pod."""
    total = container_totals(pod, _spec_requests)
    _add_devices(total, pod)
    return in_scheduler_units(total)


def _add_devices(total: Resources, pod: "Pod") -> None:
    for claim in pod.status.node_allocatable_resource_claim_statuses:
        _add(total, claim_demand(claim, len(claim.containers)))


def claim_demand(claim: "NodeAllocatableResourceClaimStatus", containers: int) -> Resources:
    """What the devices of a claim take of their node, in thousandths, for so many containers."""
    total: Resources = {}
    for mapped in claim.mapping:
        if mapped.quantity is not None:
            _add(total, to_milli({mapped.name: mapped.quantity}))
    for cost in claim.overhead:
        if cost.per_pod is not None:
            _add(total, to_milli({cost.name: cost.per_pod}))
        if cost.per_container is not None:
            each = to_milli({cost.name: cost.per_container})
            _add(total, {name: amount * containers for name, amount in each.items()})
    return total


def container_totals(pod: "Pod", read: _Effective) -> Resources:
    """What the containers need together, in thousandths, given how one of them is read."""
    total: Resources = {}
    for container in pod.spec.containers:
        _add(total, read(container))
    sidecars: Resources = {}
    largest_init: Resources = {}
    for container in pod.spec.init_containers:
        requests = read(container)
        if container.is_sidecar:
            _add(total, requests)
            _add(sidecars, requests)
            _raise_to(largest_init, sidecars)
        else:
            during = dict(requests)
            _add(during, sidecars)
            _raise_to(largest_init, during)
    _raise_to(total, largest_init)
    return total


def _spec_requests(container: "Container") -> Resources:
    return to_milli(container.resources.requests)


def _resize_is_infeasible(pod: "Pod") -> bool:
    for condition in pod.status.conditions:
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return False


def _missing_defaults(pod: "Pod", requests: Resources) -> Resources:
    """Which defaults apply to containers without a request, given what the pod level covers."""
    pod_level = pod.spec.resources
    if pod_level is None or not any(is_pod_level(name) for name in pod_level.requests):
        return _DEFAULTS_IN_MILLI
    return {name: value for name, value in _DEFAULTS_IN_MILLI.items() if name not in requests}


def _defaulting(read: _Effective, defaults: Resources) -> _Effective:
    if not defaults:
        return read

    def read_with_defaults(container: "Container") -> Resources:
        return {**defaults, **read(container)}

    return read_with_defaults


def _add(total: Resources, more: Mapping[str, int]) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0) + value


def _raise_to(total: Resources, other: Mapping[str, int]) -> None:
    for name, value in other.items():
        if name not in total or value > total[name]:
            total[name] = value
