"""What the API server adds to an object when it is created, as far as a scheduler can notice.

Files hold objects as people write them; plugins expect them as the API server stores them. These
functions close the gap. They are pure, and applied to a stored object they change nothing that a
scheduling decision depends on. Objects from a cluster do not pass here.
Upstream: kubernetes@v1.37.1 pkg/apis/*/v1/defaults.go, pkg/registry/core/pod/strategy.go,
plugin/pkg/admission/{priority,storage/storageclass/setdefault}.
"""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Self, TypeVar

import msgspec
from msgspec.structs import replace

from moorage.errors import DecodeError
from moorage.model.affinity import Affinity, PodAffinity, PodAffinityTerm, WeightedPodAffinityTerm
from moorage.model.decode import describe, sentence
from moorage.model.devices import (
    EXACT_COUNT,
    DeviceRequest,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
)
from moorage.model.labels import Labels, LabelSelector, LabelSelectorRequirement
from moorage.model.meta import ApiObject
from moorage.model.node import Node
from moorage.model.pod import (
    DEFAULT_SCHEDULER,
    Container,
    ContainerPort,
    Pod,
    ResourceRequirements,
    TopologySpreadConstraint,
)
from moorage.model.pod_group import DisruptionMode, PodGroup, SingleDisruptionMode
from moorage.model.pod_requests import container_totals
from moorage.model.quantity import Quantity
from moorage.model.resources import is_hugepages, is_pod_level, to_milli
from moorage.model.storage import IMMEDIATE, PersistentVolumeClaim, StorageClass
from moorage.model.workloads import (
    SYSTEM_PRIORITIES,
    Namespace,
    PriorityClass,
    ReplicationController,
    default_class,
)

T = TypeVar("T", bound=ApiObject)

PREEMPT_LOWER_PRIORITY = "PreemptLowerPriority"
NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"

_UIDS = uuid.UUID("6d6f6f72-6167-4520-8e6f-6f6273657276")


class Classes(msgspec.Struct, frozen=True):
    """The classes that new pods and claims take values from."""

    priorities: Mapping[str, PriorityClass]
    default_priority: PriorityClass | None
    default_storage: StorageClass | None

    @classmethod
    def among(cls, objects: Iterable[ApiObject]) -> Self:
        """The classes found in `objects`, and the two that every cluster has."""
        priorities = {name: PriorityClass(value=value) for name, value in SYSTEM_PRIORITIES.items()}
        storage: list[StorageClass] = []
        for obj in objects:
            if isinstance(obj, PriorityClass):
                priorities[obj.name] = obj
            elif isinstance(obj, StorageClass) and obj.is_default:
                storage.append(obj)
        # Of several default storage classes the newest wins, then the first by name.
        storage.sort(key=lambda item: item.name)
        storage.sort(key=lambda item: item.metadata.creation_timestamp or "", reverse=True)
        return cls(priorities, default_class(priorities.values()), storage[0] if storage else None)


NO_CLASSES = Classes.among(())


def with_defaults(obj: T, classes: Classes, where: str = "") -> T:
    """The object as the API server would store it; raises where it would refuse it."""
    result: ApiObject = obj
    match obj:
        case Pod():
            result = default_pod(obj, classes, where)
        case Node():
            result = default_node(obj)
        case PersistentVolumeClaim():
            result = _default_claim(obj, classes)
        case StorageClass() if obj.volume_binding_mode is None:
            result = replace(obj, volume_binding_mode=IMMEDIATE)
        case PriorityClass() if obj.preemption_policy is None:
            result = replace(obj, preemption_policy=PREEMPT_LOWER_PRIORITY)
        case Namespace() if obj.name:
            labels = {**obj.labels, NAMESPACE_NAME_LABEL: obj.name}
            result = replace(obj, metadata=replace(obj.metadata, labels=labels))
        case ReplicationController():
            result = _default_replication_controller(obj)
        case ResourceClaim():
            result = replace(obj, spec=_default_claim_spec(obj.spec))
        case ResourceClaimTemplate():
            spec = replace(obj.spec, spec=_default_claim_spec(obj.spec.spec))
            result = replace(obj, spec=spec)
        case PodGroup():
            result = _default_group(obj, classes, where)
    if result.name and not result.metadata.uid:
        uid = make_uid(result.kind or type(result).__name__, result.namespace, result.name)
        result = replace(result, metadata=replace(result.metadata, uid=uid))
    assert isinstance(result, type(obj))
    return result


def with_names(objects: Sequence[ApiObject]) -> list[ApiObject]:
    """Objects that only say `generateName` get numbers for names, the same in every run."""
    taken = {_identity(obj) for obj in objects if obj.name}
    numbers: dict[tuple[str, str, str], int] = {}
    named: list[ApiObject] = []
    for obj in objects:
        prefix = obj.metadata.generate_name
        if obj.name or not prefix:
            named.append(obj)
            continue
        series = (type(obj).__name__, obj.namespace, prefix)
        number = numbers.get(series, 0)
        while (*series[:2], f"{prefix}{number}") in taken:
            number += 1
        numbers[series] = number + 1
        named.append(replace(obj, metadata=replace(obj.metadata, name=f"{prefix}{number}")))
        taken.add(_identity(named[-1]))
    return named


def _identity(obj: ApiObject) -> tuple[str, str, str]:
    return type(obj).__name__, obj.namespace, obj.name


def make_uid(kind: str, namespace: str, name: str) -> str:
    """A uid that is the same in every run, so that runs can be compared."""
    return str(uuid.uuid5(_UIDS, f"{kind}/{namespace}/{name}"))


def default_node(node: Node) -> Node:
    """A node that does not say what is allocatable offers all it has."""
    if node.status.allocatable or not node.status.capacity:
        return node
    return replace(node, status=replace(node.status, allocatable=dict(node.status.capacity)))


def default_pod(pod: Pod, classes: Classes, where: str = "") -> Pod:
    """Requests from limits, host ports, merged label keys, scheduler name and priority."""
    spec = pod.spec
    spec = replace(
        spec,
        scheduler_name=spec.scheduler_name or DEFAULT_SCHEDULER,
        containers=tuple(_container(c, host=spec.host_network) for c in spec.containers),
        init_containers=tuple(_container(c, host=spec.host_network) for c in spec.init_containers),
        affinity=_affinity(spec.affinity, pod.labels),
        topology_spread_constraints=tuple(
            _spread_constraint(c, pod.labels) for c in spec.topology_spread_constraints
        ),
    )
    pod = _prioritised(replace(pod, spec=spec), classes, where)
    if pod.spec.resources is not None:
        # Comes last: what the whole pod asks for follows from its containers.
        resources = _pod_level_resources(pod, pod.spec.resources)
        pod = replace(pod, spec=replace(pod.spec, resources=resources))
    return pod


# ---- containers ----


def _container(container: Container, *, host: bool) -> Container:
    return replace(
        container,
        resources=_requests_from_limits(container.resources),
        ports=tuple(_port(port, host=host) for port in container.ports),
    )


def _requests_from_limits(resources: ResourceRequirements) -> ResourceRequirements:
    requests = dict(resources.requests)
    for name, limit in resources.limits.items():
        requests.setdefault(name, limit)
    return replace(resources, requests=requests)


def _port(port: ContainerPort, *, host: bool) -> ContainerPort:
    return replace(
        port,
        protocol=port.protocol or "TCP",
        host_port=port.host_port or (port.container_port if host else 0),
    )


def _pod_level_resources(pod: Pod, resources: ResourceRequirements) -> ResourceRequirements:
    if not resources.limits and not resources.requests:
        return resources
    limits, requests = dict(resources.limits), dict(resources.requests)
    for name, milli in container_totals(pod, lambda c: to_milli(c.resources.limits)).items():
        if is_hugepages(name) and name not in requests:
            limits.setdefault(name, _quantity(milli))
    if limits:
        # Huge pages cannot be overcommitted: their request is the limit, never the sum.
        totals = container_totals(pod, lambda c: to_milli(c.resources.requests))
        for name, milli in totals.items():
            if is_pod_level(name) and not is_hugepages(name):
                requests.setdefault(name, _quantity(milli))
        for name, limit in limits.items():
            if is_pod_level(name):
                requests.setdefault(name, limit)
    return replace(resources, limits=limits, requests=requests)


def _quantity(milli: int) -> Quantity:
    return f"{milli}m" if milli % 1000 else str(milli // 1000)


# ---- label keys that the API server turns into selectors ----


def _affinity(affinity: Affinity | None, labels: Labels) -> Affinity | None:
    if affinity is None:
        return None
    return replace(
        affinity,
        pod_affinity=_pod_affinity(affinity.pod_affinity, labels),
        pod_anti_affinity=_pod_affinity(affinity.pod_anti_affinity, labels),
    )


def _pod_affinity(side: PodAffinity | None, labels: Labels) -> PodAffinity | None:
    if side is None:
        return None

    def merged(weighted: WeightedPodAffinityTerm) -> WeightedPodAffinityTerm:
        return replace(weighted, pod_affinity_term=_term(weighted.pod_affinity_term, labels))

    required = side.required
    preferred = side.preferred
    return PodAffinity(
        required=tuple(_term(term, labels) for term in required),
        preferred=tuple(map(merged, preferred)),
    )


def _term(term: PodAffinityTerm, labels: Labels) -> PodAffinityTerm:
    selector = _with_keys(term.label_selector, term.match_label_keys, "In", labels)
    selector = _with_keys(selector, term.mismatch_label_keys, "NotIn", labels)
    return replace(term, label_selector=selector)


def _spread_constraint(
    constraint: TopologySpreadConstraint, labels: Labels
) -> TopologySpreadConstraint:
    selector = _with_keys(constraint.label_selector, constraint.match_label_keys, "In", labels)
    return replace(constraint, label_selector=selector)


def _with_keys(
    selector: LabelSelector | None, keys: tuple[str, ...], operator: str, labels: Labels
) -> LabelSelector | None:
    """Ask for the pod's own values of `keys`; no selector means no pods, whatever the keys."""
    if selector is None:
        return None
    # A stored pod has them already, perhaps with the labels it had when it was created. Nobody
    # else can have written one: the API forbids a key in both places.
    present = {expr.key for expr in selector.match_expressions if expr.operator == operator}
    added = tuple(
        LabelSelectorRequirement(key=key, operator=operator, values=(labels[key],))
        for key in keys
        if key in labels and key not in present
    )
    return replace(selector, match_expressions=selector.match_expressions + added)


# ---- priority ----


def _prioritised(pod: Pod, classes: Classes, where: str) -> Pod:
    """Priority and preemption policy of the pod's class; what the pod itself says is kept.

    The API server refuses a pod that contradicts its class, but a stored pod may be older than
    the class it names, and a priority without a class is handy in a simulation.
    """
    spec = pod.spec
    if spec.priority is not None:
        return pod
    chosen = _priority_class(pod, spec.priority_class_name, classes, where)
    spec = replace(
        spec,
        priority=chosen.value,
        priority_class_name=spec.priority_class_name or chosen.name,
        preemption_policy=spec.preemption_policy
        or chosen.preemption_policy
        or PREEMPT_LOWER_PRIORITY,
    )
    return replace(pod, spec=spec)


def _priority_class(
    obj: Pod | PodGroup, wanted: str, classes: Classes, where: str
) -> PriorityClass:
    """The class that a pod or a group names, or the default one."""
    chosen = classes.priorities.get(wanted) if wanted else classes.default_priority
    if chosen is None and wanted:
        kind = type(obj).__name__
        subject = describe(kind, obj.namespace, obj.name or obj.metadata.generate_name)
        text = f"no PriorityClass with name {wanted} was found"
        raise DecodeError(sentence(where, subject, text))
    return chosen or PriorityClass()


# ---- other kinds ----


def _default_group(group: PodGroup, classes: Classes, where: str) -> PodGroup:
    spec = group.spec
    if spec.disruption_mode is None:
        spec = replace(spec, disruption_mode=DisruptionMode(single=SingleDisruptionMode()))
    if spec.priority is None:
        chosen = _priority_class(group, spec.priority_class_name, classes, where)
        name = spec.priority_class_name or chosen.name
        spec = replace(spec, priority=chosen.value, priority_class_name=name)
    return replace(group, spec=spec)


def _default_claim(claim: PersistentVolumeClaim, classes: Classes) -> PersistentVolumeClaim:
    # A bound claim without a class is older than the default class and stays without.
    if claim.has_class or claim.fully_bound or classes.default_storage is None:
        return claim
    spec = replace(claim.spec, storage_class_name=classes.default_storage.name)
    return replace(claim, spec=spec)


def _default_replication_controller(owner: ReplicationController) -> ReplicationController:
    if owner.spec.selector or owner.spec.template is None:
        return owner
    selector = dict(owner.spec.template.metadata.labels)
    return replace(owner, spec=replace(owner.spec, selector=selector))


def _default_claim_spec(spec: ResourceClaimSpec) -> ResourceClaimSpec:
    requests = tuple(_device_request(request) for request in spec.devices.requests)
    return replace(spec, devices=replace(spec.devices, requests=requests))


def _device_request(request: DeviceRequest) -> DeviceRequest:
    exactly = request.exactly
    return replace(
        request,
        exactly=None if exactly is None else _counted(exactly),
        first_available=tuple(_counted(sub) for sub in request.first_available),
    )


R = TypeVar("R", ExactDeviceRequest, DeviceSubRequest)


def _counted(request: R) -> R:
    mode = request.allocation_mode or EXACT_COUNT
    count = 1 if mode == EXACT_COUNT and request.count == 0 else request.count
    return replace(request, allocation_mode=mode, count=count)
