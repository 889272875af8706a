"""Pods: the parts of spec and status that a scheduler reads, and what follows from them alone.

Derived values are cached on the object. That is safe because pods are frozen: an update from the
API is a new object.
"""

from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

from moorage.model.affinity import Affinity, PodAffinityTerms, compile_affinity
from moorage.model.labels import LabelSelector
from moorage.model.meta import ApiObject, Condition, Int32, Object, cached
from moorage.model.node_selector import (
    CompiledNodeSelector,
    NodeAffinitySpec,
    compile_node_selector,
)
from moorage.model.pod_requests import PodRequests, requests_of
from moorage.model.quantity import Quantity
from moorage.model.taints import Toleration
from moorage.model.volumes import Volume

DEFAULT_SCHEDULER = "default-scheduler"
ALWAYS = "Always"
_NO_NODE_AFFINITY = NodeAffinitySpec()

ResourceMap = dict[str, Quantity]


class ContainerResourceClaim(Object, frozen=True):
    """A claim of the pod that a container uses."""

    name: str = ""
    request: str = ""


class ResourceRequirements(Object, frozen=True):
    """Requests and limits of a container or of a whole pod."""

    requests: ResourceMap = {}
    limits: ResourceMap = {}
    claims: tuple[ContainerResourceClaim, ...] = ()


class ContainerPort(Object, frozen=True):
    """A port of a container; only host ports matter to a scheduler."""

    container_port: Int32 = 0
    host_port: Int32 = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = ""


class ContainerRestartRule(Object, frozen=True):
    """What to do when a container exits in a certain way."""

    action: str = ""


class VolumeMount(Object, frozen=True):
    """How a container sees a volume."""

    bind_mount_options: tuple[str, ...] = ()


class Container(Object, frozen=True):
    """A container or init container."""

    name: str = ""
    image: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str | None = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()

    @property
    def is_sidecar(self) -> bool:
        """Among init containers: does it keep running beside the main containers?"""
        return self.restart_policy == ALWAYS


class TopologySpreadConstraint(Object, frozen=True):
    """How evenly matching pods are to be spread over the values of a node label."""

    max_skew: Int32 = 1
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


class PodSchedulingGate(Object, frozen=True):
    """A mark that keeps a pod out of the queue until it is removed."""

    name: str = ""


class PodResourceClaim(Object, frozen=True):
    """A claim for devices that a pod, or a pod group, refers to."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGroup(Object, frozen=True):
    """The pod group that the pod is scheduled with."""

    pod_group_name: str | None = None


class PodSpec(Object, frozen=True):
    """What a pod asks for."""

    node_name: str = ""
    scheduler_name: str = DEFAULT_SCHEDULER
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: ResourceMap = {}
    resources: ResourceRequirements | None = None
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    priority: Int32 | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    host_network: bool = False
    host_users: bool | None = None
    volumes: tuple[Volume, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    scheduling_group: PodSchedulingGroup | None = None

    @property
    def node_affinity(self) -> NodeAffinitySpec:
        """`affinity.nodeAffinity`, empty if there is none."""
        found = self.affinity.node_affinity if self.affinity is not None else None
        return _NO_NODE_AFFINITY if found is None else found


class ContainerStatus(Object, frozen=True):
    """What the kubelet reports of a container; its resources matter during a resize."""

    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceMap = {}


class PodResourceClaimStatus(Object, frozen=True):
    """Which claim was created for one of the claim templates."""

    name: str = ""
    resource_claim_name: str | None = None


class ContainerExtendedResourceRequest(Object, frozen=True):
    """Which request of a claim serves a container's extended resource."""

    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class ExtendedResourceClaimStatus(Object, frozen=True):
    """The claim behind a pod's extended resources."""

    request_mappings: tuple[ContainerExtendedResourceRequest, ...] = ()
    resource_claim_name: str = ""


class NodeAllocatableMappedResource(Object, frozen=True, omit_defaults=True):
    """How much of a node's own resource the devices of a claim are."""

    name: str = ""
    quantity: Quantity | None = None


class NodeAllocatableOverheadResource(Object, frozen=True, omit_defaults=True):
    """How much of a node's own resource it costs to use the devices of a claim."""

    name: str = ""
    per_pod: Quantity | None = None
    per_container: Quantity | None = None


class NodeAllocatableResourceClaimStatus(Object, frozen=True, omit_defaults=True):
    """What a claim takes of the node's own resources, and which containers use it.

    The API server keeps it only with DRANodeAllocatableResources.
    """

    resource_claim_name: str = ""
    containers: tuple[str, ...] = ()
    mapping: tuple[NodeAllocatableMappedResource, ...] = ()
    overhead: tuple[NodeAllocatableOverheadResource, ...] = ()


class PodStatus(Object, frozen=True):
    """What is known of a pod."""

    phase: str = ""
    nominated_node_name: str = ""
    conditions: tuple[Condition, ...] = ()
    start_time: str | None = None
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceMap = {}
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: ExtendedResourceClaimStatus | None = None
    node_allocatable_resource_claim_statuses: tuple[NodeAllocatableResourceClaimStatus, ...] = ()


class HostPort(msgspec.Struct, frozen=True, order=True):
    """A port on the node that a pod wants for itself."""

    protocol: str
    port: int
    ip: str


class RequiredNodes(msgspec.Struct, frozen=True):
    """Which nodes a pod insists on: `nodeSelector` and required node affinity together."""

    labels: tuple[tuple[str, str], ...] = ()
    terms: CompiledNodeSelector | None = None

    @property
    def anywhere(self) -> bool:
        """No demand at all."""
        return not self.labels and self.terms is None


class Pod(ApiObject, frozen=True, dict=True):
    """A pod."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def uid(self) -> str:
        """`metadata.uid`: what tells a pod from a later one of the same name."""
        return self.metadata.uid

    @property
    def priority(self) -> int:
        """`spec.priority`, 0 where absent."""
        return self.spec.priority or 0

    @property
    def terminating(self) -> bool:
        """Has its deletion begun?"""
        return self.metadata.deletion_timestamp is not None

    @property
    def finished(self) -> bool:
        """Has it run to its end? Such pods occupy nothing and are ignored entirely."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def uses_storage(self) -> bool:
        """Has it a volume that may tie it to a node?"""
        return any(volume.is_storage for volume in self.spec.volumes)

    def derived(self) -> Mapping[str, object]:
        """What follows from namespace, spec and status, for others that are equal in these."""
        return {
            "requests": self.requests,
            "affinity_terms": self.affinity_terms,
            "required_nodes": self.required_nodes,
            "host_ports": self.host_ports,
            "started": self.started,
        }

    def take_over(self, derived: Mapping[str, object]) -> None:
        """Use what another pod worked out, as if it had been worked out here."""
        self.__dict__.update(derived)

    def on_node(self, node_name: str) -> "Pod":
        """The same pod with a node: what the API will show once it is bound."""
        spec = msgspec.structs.replace(self.spec, node_name=node_name)
        return msgspec.structs.replace(self, spec=spec)

    @cached
    def started(self) -> float | None:
        """`status.startTime` as a Unix time; None if it has not started or cannot be read."""
        text = self.status.start_time
        if text is None:
            return None
        try:
            time = datetime.fromisoformat(text)
            return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            return None

    @cached
    def label_set(self) -> tuple[tuple[str, str], ...]:
        """The labels as a value that can be a key."""
        return tuple(sorted(self.metadata.labels.items()))

    @cached
    def requests(self) -> PodRequests:
        """What the pod takes from a node."""
        return requests_of(self)

    @cached
    def affinity_terms(self) -> PodAffinityTerms:
        """The compiled inter-pod affinity and anti-affinity terms."""
        return compile_affinity(self.spec.affinity, self.namespace)

    @cached
    def required_nodes(self) -> RequiredNodes:
        """The compiled demand on nodes."""
        required = self.spec.node_affinity.required
        return RequiredNodes(
            labels=tuple(sorted(self.spec.node_selector.items())),
            terms=compile_node_selector(required) if required is not None else None,
        )

    @cached
    def host_ports(self) -> tuple[HostPort, ...]:
        """Host ports of containers and sidecars, with the API's defaults filled in."""
        sidecars = (c for c in self.spec.init_containers if c.is_sidecar)
        return tuple(
            HostPort(port.protocol or "TCP", port.host_port, port.host_ip or "0.0.0.0")
            for container in (*self.spec.containers, *sidecars)
            for port in container.ports
            if port.host_port > 0
        )
