"""Nodes: labels, taints, capacity, images and declared features."""

from moorage.model.meta import ApiObject, Int64, Object, cached
from moorage.model.quantity import Quantity
from moorage.model.resources import Resources, in_scheduler_units, to_milli
from moorage.model.taints import Taint

HOSTNAME_LABEL = "kubernetes.io/hostname"
ZONE_LABEL = "topology.kubernetes.io/zone"
REGION_LABEL = "topology.kubernetes.io/region"
BETA_ZONE_LABEL = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION_LABEL = "failure-domain.beta.kubernetes.io/region"


class ContainerImage(Object, frozen=True):
    """An image the node has pulled, under all its names."""

    names: tuple[str, ...] = ()
    size_bytes: Int64 = 0


class NodeCondition(Object, frozen=True):
    """A condition of the node's status."""

    type: str = ""
    status: str = ""


class NodePodPreemptionPolicy(Object, frozen=True):
    """Who keeps pods from being evicted on a node because another one is to grow."""

    disable_resize_preemption: tuple[str, ...] = ()


class NodeSpec(Object, frozen=True):
    """What an administrator says of a node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    pod_preemption_policy: NodePodPreemptionPolicy | None = None


class NodeStatus(Object, frozen=True):
    """What the kubelet says of a node."""

    capacity: dict[str, Quantity] = {}
    allocatable: dict[str, Quantity] = {}
    images: tuple[ContainerImage, ...] = ()
    conditions: tuple[NodeCondition, ...] = ()
    declared_features: tuple[str, ...] = ()


class Node(ApiObject, frozen=True, dict=True):
    """A node."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @cached
    def allocatable(self) -> Resources:
        """What the node offers, in the scheduler's units."""
        return in_scheduler_units(to_milli(self.status.allocatable))

    @property
    def zone(self) -> str:
        """The key that node order interleaves by: region and zone, beta labels before GA ones."""
        labels = self.metadata.labels
        region = labels.get(BETA_REGION_LABEL, labels.get(REGION_LABEL, ""))
        zone = labels.get(BETA_ZONE_LABEL, labels.get(ZONE_LABEL, ""))
        return f"{region}:\x00:{zone}" if region or zone else ""
