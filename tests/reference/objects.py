"""Short ways to write nodes, pods and other objects in tests."""

from collections.abc import Mapping, Sequence

from moorage.model.affinity import (
    Affinity,
    PodAffinity,
    PodAffinityTerm,
    WeightedPodAffinityTerm,
)
from moorage.model.labels import LabelSelector, LabelSelectorRequirement
from moorage.model.meta import Condition, ObjectMeta, OwnerReference
from moorage.model.node import ContainerImage, Node, NodeSpec, NodeStatus
from moorage.model.node_selector import (
    NodeAffinitySpec,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PreferredSchedulingTerm,
)
from moorage.model.pod import (
    Container,
    ContainerPort,
    Pod,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    TopologySpreadConstraint,
)
from moorage.model.quantity import Quantity
from moorage.model.taints import Taint, Toleration
from moorage.model.volumes import Volume
from moorage.model.workloads import (
    Namespace,
    OwnerSpec,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
    ReplicaSet,
    Service,
    ServiceSpec,
)

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"

Amounts = Mapping[str, Quantity]


def make_node(
    name: str,
    *,
    labels: Mapping[str, str] | None = None,
    zone: str | None = None,
    taints: Sequence[Taint] = (),
    unschedulable: bool = False,
    images: Mapping[str, int] | None = None,
    features: Sequence[str] = (),
    **allocatable: Quantity,
) -> Node:
    """A node with a hostname label, 4 CPUs, 4 GiB and 10 pods unless told otherwise."""
    own = {HOSTNAME: name} if labels is None else dict(labels)
    if zone is not None:
        own[ZONE] = zone
    offered: dict[str, Quantity] = {"cpu": "4", "memory": "4Gi", "pods": 10}
    offered.update({key.replace("__", "/").replace("_", "-"): v for key, v in allocatable.items()})
    return Node(
        metadata=ObjectMeta(name=name, labels=own),
        spec=NodeSpec(unschedulable=unschedulable, taints=tuple(taints)),
        status=NodeStatus(
            allocatable=offered,
            images=tuple(
                ContainerImage(names=(n,), size_bytes=s) for n, s in (images or {}).items()
            ),
            declared_features=tuple(features),
        ),
    )


def make_pod(
    name: str,
    *,
    namespace: str = "default",
    uid: str | None = None,
    labels: Mapping[str, str] | None = None,
    node: str = "",
    requests: Amounts | None = None,
    cpu: Quantity | None = None,
    memory: Quantity | None = None,
    containers: Sequence[Container] | None = None,
    init_containers: Sequence[Container] = (),
    ports: Sequence[ContainerPort] = (),
    image: str = "",
    priority: int | None = None,
    tolerations: Sequence[Toleration] = (),
    node_selector: Mapping[str, str] | None = None,
    affinity: Affinity | None = None,
    spread: Sequence[TopologySpreadConstraint] = (),
    terminating: bool = False,
    started: str | None = None,
    nominated: str = "",
    owner: OwnerReference | None = None,
    conditions: Sequence[Condition] = (),
    preemption_policy: str | None = None,
    host_network: bool = False,
    host_users: bool | None = None,
    pod_level: Amounts | None = None,
    overhead: Amounts | None = None,
    scheduler: str = "default-scheduler",
    volumes: Sequence[Volume] = (),
) -> Pod:
    """A pod with one container."""
    wanted = dict(requests or {})
    if cpu is not None:
        wanted["cpu"] = cpu
    if memory is not None:
        wanted["memory"] = memory
    if containers is None:
        containers = [
            Container(
                name="main",
                image=image,
                resources=ResourceRequirements(requests=wanted),
                ports=tuple(ports),
            )
        ]
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=uid or f"uid-{namespace}-{name}",
            labels=dict(labels or {}),
            owner_references=(owner,) if owner is not None else (),
            deletion_timestamp="2026-01-01T00:00:00Z" if terminating else None,
        ),
        spec=PodSpec(
            node_name=node,
            scheduler_name=scheduler,
            containers=tuple(containers),
            init_containers=tuple(init_containers),
            overhead=dict(overhead or {}),
            resources=ResourceRequirements(requests=dict(pod_level)) if pod_level else None,
            node_selector=dict(node_selector or {}),
            affinity=affinity,
            tolerations=tuple(tolerations),
            topology_spread_constraints=tuple(spread),
            priority=priority,
            preemption_policy=preemption_policy,
            host_network=host_network,
            host_users=host_users,
            volumes=tuple(volumes),
        ),
        status=PodStatus(
            nominated_node_name=nominated, start_time=started, conditions=tuple(conditions)
        ),
    )


def host_port(port: int, *, ip: str = "", protocol: str = "") -> ContainerPort:
    """A container port on the host."""
    return ContainerPort(container_port=port, host_port=port, host_ip=ip, protocol=protocol)


def selector(
    labels: Mapping[str, str] | None = None, *expressions: tuple[str, str, Sequence[str]]
) -> LabelSelector:
    """A label selector."""
    return LabelSelector(
        match_labels=dict(labels or {}),
        match_expressions=tuple(
            LabelSelectorRequirement(key=key, operator=operator, values=tuple(values))
            for key, operator, values in expressions
        ),
    )


def pod_term(
    key: str,
    labels: LabelSelector | None,
    *,
    namespaces: Sequence[str] = (),
    namespace_selector: LabelSelector | None = None,
) -> PodAffinityTerm:
    """A term of pod affinity or anti-affinity."""
    return PodAffinityTerm(
        topology_key=key,
        label_selector=labels,
        namespaces=tuple(namespaces),
        namespace_selector=namespace_selector,
    )


def pod_terms(
    required: Sequence[PodAffinityTerm] = (),
    preferred: Sequence[tuple[int, PodAffinityTerm]] = (),
) -> PodAffinity:
    """One side of a pod's affinity."""
    return PodAffinity(
        required=tuple(required),
        preferred=tuple(
            WeightedPodAffinityTerm(weight=weight, pod_affinity_term=term)
            for weight, term in preferred
        ),
    )


def near(*required: PodAffinityTerm) -> Affinity:
    """Required pod affinity."""
    return Affinity(pod_affinity=pod_terms(required))


def away(*required: PodAffinityTerm) -> Affinity:
    """Required pod anti-affinity."""
    return Affinity(pod_anti_affinity=pod_terms(required))


def node_term(
    *labels: tuple[str, str, Sequence[str]], names: tuple[str, Sequence[str]] | None = None
) -> NodeSelectorTerm:
    """A node selector term: label requirements, and perhaps (operator, values) for the name."""
    fields: tuple[NodeSelectorRequirement, ...] = ()
    if names is not None:
        fields = (
            NodeSelectorRequirement(key="metadata.name", operator=names[0], values=tuple(names[1])),
        )
    return NodeSelectorTerm(
        match_expressions=tuple(
            NodeSelectorRequirement(key=key, operator=operator, values=tuple(values))
            for key, operator, values in labels
        ),
        match_fields=fields,
    )


def node_affinity(
    required: Sequence[NodeSelectorTerm] | None = None,
    preferred: Sequence[tuple[int, NodeSelectorTerm]] = (),
) -> NodeAffinitySpec:
    """Node affinity; `required=[]` is a demand that nothing meets."""
    return NodeAffinitySpec(
        required=(
            NodeSelector(node_selector_terms=tuple(required)) if required is not None else None
        ),
        preferred=tuple(
            PreferredSchedulingTerm(weight=weight, preference=term) for weight, term in preferred
        ),
    )


def make_namespace(name: str, **labels: str) -> Namespace:
    """A namespace."""
    return Namespace(metadata=ObjectMeta(name=name, labels=labels))


def make_service(name: str, wanted: Mapping[str, str], *, namespace: str = "default") -> Service:
    """A service."""
    return Service(
        metadata=ObjectMeta(name=name, namespace=namespace),
        spec=ServiceSpec(selector=dict(wanted)),
    )


def make_replica_set(
    name: str, wanted: LabelSelector | None, *, namespace: str = "default"
) -> ReplicaSet:
    """A replica set."""
    return ReplicaSet(
        metadata=ObjectMeta(name=name, namespace=namespace), spec=OwnerSpec(selector=wanted)
    )


def owned_by(name: str, kind: str = "ReplicaSet", api_version: str = "apps/v1") -> OwnerReference:
    """A controller reference."""
    return OwnerReference(api_version=api_version, kind=kind, name=name, controller=True)


def make_budget(
    name: str,
    wanted: LabelSelector | None,
    allowed: int,
    *,
    namespace: str = "default",
    disrupted: Sequence[str] = (),
) -> PodDisruptionBudget:
    """A disruption budget."""
    return PodDisruptionBudget(
        metadata=ObjectMeta(name=name, namespace=namespace),
        spec=PodDisruptionBudgetSpec(selector=wanted),
        status=PodDisruptionBudgetStatus(
            disruptions_allowed=allowed, disrupted_pods=dict.fromkeys(disrupted, "")
        ),
    )
