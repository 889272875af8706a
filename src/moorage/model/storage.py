"""Storage objects of the cluster: volumes, claims, classes, CSI drivers and attachments.

Owns what follows from one such object alone (its class, whether it is bound, which nodes reach it),
and which claims a pod uses and whether they are really its own. Must not look claims up; matching
them with volumes and counting attachments belong to the plugins.
"""

from collections.abc import Iterator

import msgspec

from moorage.errors import SelectorError
from moorage.model.labels import NOTHING, Labels, LabelSelector, Selector, compile_selector
from moorage.model.meta import ApiObject, Int32, Object, cached
from moorage.model.node_selector import CompiledNodeSelector, NodeSelector, compile_node_selector
from moorage.model.pod import Pod
from moorage.model.quantity import Quantity, parse_milli
from moorage.model.volumes import PersistentVolumeClaimSpec, VolumeSources

STORAGE = "storage"
READ_WRITE_ONCE_POD = "ReadWriteOncePod"
FILESYSTEM = "Filesystem"
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
IMMEDIATE = "Immediate"
NO_PROVISIONER = "kubernetes.io/no-provisioner"

BETA_STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"
IS_DEFAULT_CLASS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


class ClaimReference(Object, frozen=True):
    """The claim that a volume belongs to."""

    kind: str = ""
    api_version: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""


class CSIPersistentVolume(Object, frozen=True):
    """A volume of a CSI driver."""

    driver: str = ""
    volume_handle: str = ""


class LocalVolume(Object, frozen=True):
    """A disk or directory of one node."""

    path: str = ""


class VolumeNodeAffinity(Object, frozen=True):
    """Which nodes can reach a volume."""

    required: NodeSelector | None = None


class PersistentVolumeSpec(VolumeSources, frozen=True):
    """What a volume offers, and where it is."""

    capacity: dict[str, Quantity] = {}
    access_modes: tuple[str, ...] = ()
    claim_ref: ClaimReference | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CSIPersistentVolume | None = None
    local: LocalVolume | None = None


class PersistentVolumeStatus(Object, frozen=True):
    """Where a volume is in its life."""

    phase: str = ""


class PersistentVolume(ApiObject, frozen=True, dict=True):
    """A piece of storage."""

    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()

    @property
    def storage_class(self) -> str:
        """The class's name; the old annotation outranks the field."""
        return self.metadata.annotations.get(BETA_STORAGE_CLASS, self.spec.storage_class_name)

    @property
    def volume_mode(self) -> str:
        """`Filesystem` unless the volume is a raw device."""
        return FILESYSTEM if self.spec.volume_mode is None else self.spec.volume_mode

    @cached
    def milli_capacity(self) -> int:
        """Its size in thousandths of a byte (exact, so that sizes compare as quantities do)."""
        return parse_milli(self.spec.capacity.get(STORAGE, 0))

    @cached
    def required_nodes(self) -> CompiledNodeSelector | None:
        """Which nodes reach it; None means all of them."""
        affinity = self.spec.node_affinity
        if affinity is None or affinity.required is None:
            return None
        return compile_node_selector(affinity.required)

    def reachable_from(self, labels: Labels) -> bool:
        """Can a node with these labels use it? Upstream does not look at the node's name here."""
        return self.required_nodes is None or self.required_nodes.matches(labels, "")

    def bound_to(self, claim: "PersistentVolumeClaim") -> bool:
        """Is it meant for this claim? A reference without uid was written by the user."""
        ref = self.spec.claim_ref
        if ref is None or (ref.namespace, ref.name) != (claim.namespace, claim.name):
            return False
        return ref.uid in ("", claim.metadata.uid)


class PersistentVolumeClaimStatus(Object, frozen=True):
    """Where a claim is in its life, and what it got."""

    phase: str = ""
    access_modes: tuple[str, ...] = ()
    capacity: dict[str, Quantity] = {}


class PersistentVolumeClaim(ApiObject, frozen=True, dict=True):
    """A request for storage."""

    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()

    @property
    def has_class(self) -> bool:
        """Does it name a class (be it the empty one), by field or by the old annotation?"""
        named = self.spec.storage_class_name is not None
        return named or BETA_STORAGE_CLASS in self.metadata.annotations

    @property
    def storage_class(self) -> str:
        """The class's name, empty if none was asked for."""
        return self.metadata.annotations.get(BETA_STORAGE_CLASS, self.spec.storage_class_name or "")

    @property
    def volume_mode(self) -> str:
        """`Filesystem` unless a raw device is wanted."""
        return FILESYSTEM if self.spec.volume_mode is None else self.spec.volume_mode

    @property
    def fully_bound(self) -> bool:
        """Has the volume controller finished binding it?"""
        return bool(self.spec.volume_name) and BIND_COMPLETED in self.metadata.annotations

    @property
    def selected_node(self) -> str | None:
        """The node that a scheduler chose for provisioning."""
        return self.metadata.annotations.get(SELECTED_NODE)

    @cached
    def milli_request(self) -> int | None:
        """The size asked for in thousandths of a byte, None where no size is given."""
        size = self.spec.resources.requests.get(STORAGE)
        return None if size is None else parse_milli(size)


class TopologySelectorLabelRequirement(Object, frozen=True):
    """A label that a node must carry, and its possible values."""

    key: str = ""
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Object, frozen=True):
    """Labels that must all match; several terms are alternatives."""

    match_label_expressions: tuple[TopologySelectorLabelRequirement, ...] = ()


class StorageClass(ApiObject, frozen=True, dict=True):
    """A way to provision volumes."""

    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()

    @property
    def waits_for_first_consumer(self) -> bool:
        """Are its claims bound only once a pod that uses them has a node?"""
        return self.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER

    @property
    def is_default(self) -> bool:
        """Do claims that name no class get this one?"""
        return any(self.metadata.annotations.get(key) == "true" for key in IS_DEFAULT_CLASS)


class VolumeNodeResources(Object, frozen=True):
    """How many volumes of a driver a node can attach."""

    count: Int32 | None = None


class CSINodeDriver(Object, frozen=True):
    """A CSI driver that runs on a node."""

    name: str = ""
    node_id: str = msgspec.field(default="", name="nodeID")
    topology_keys: tuple[str, ...] = ()
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(Object, frozen=True):
    """The drivers of a node."""

    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(ApiObject, frozen=True, dict=True):
    """What the CSI drivers say of a node; it has the node's name."""

    spec: CSINodeSpec = CSINodeSpec()

    @cached
    def limits(self) -> dict[str, int]:
        """Driver -> how many of its volumes fit; a driver without a limit is left out."""
        return {
            driver.name: driver.allocatable.count
            for driver in self.spec.drivers
            if driver.allocatable is not None and driver.allocatable.count is not None
        }

    @cached
    def migrated_plugins(self) -> frozenset[str]:
        """In-tree plugins whose volumes a CSI driver serves on this node."""
        text = self.metadata.annotations.get(MIGRATED_PLUGINS, "")
        return frozenset(text.split(",")) if text else frozenset()


class CSIDriverSpec(Object, frozen=True):
    """How a driver wants to be treated."""

    attach_required: bool | None = None
    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class CSIDriver(ApiObject, frozen=True, dict=True):
    """A CSI driver of the cluster."""

    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(ApiObject, frozen=True, dict=True):
    """How much a driver can still provision for some nodes."""

    node_topology: LabelSelector | None = None
    storage_class_name: str = ""
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None

    @cached
    def milli_limit(self) -> int | None:
        """The largest volume in thousandths of a byte; the exact figure outranks the total."""
        size = self.capacity if self.maximum_volume_size is None else self.maximum_volume_size
        return None if size is None else parse_milli(size)

    @cached
    def nodes(self) -> Selector:
        """Which nodes it is for; a selector that cannot be parsed selects none, as upstream."""
        try:
            return compile_selector(self.node_topology)
        except SelectorError:
            return NOTHING


class VolumeAttachmentSource(Object, frozen=True):
    """What is attached; an inline volume has no name."""

    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(Object, frozen=True):
    """Which volume goes to which node."""

    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeAttachment(ApiObject, frozen=True, dict=True):
    """A volume that is attached to a node, or soon will be."""

    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()


class PodClaim(msgspec.Struct, frozen=True):
    """A claim that one of a pod's volumes stands for."""

    name: str
    ephemeral: bool
    """Made for this pod alone from a template in its spec."""


def claims_of(pod: Pod) -> Iterator[PodClaim]:
    """The claims behind a pod's volumes, in the order of the volumes."""
    for volume in pod.spec.volumes:
        name = volume.claim_name(pod.name)
        if name is not None:
            yield PodClaim(name, volume.persistent_volume_claim is None)


def uses_claim(pod: Pod, claim: PersistentVolumeClaim, *, ephemeral: bool = True) -> bool:
    """Does the pod use the claim? Some plugins look at claims of ephemeral volumes, some do not."""
    return pod.namespace == claim.namespace and any(
        used.name == claim.name and (ephemeral or not used.ephemeral) for used in claims_of(pod)
    )


def not_made_for(pod: Pod, claim: PersistentVolumeClaim) -> str | None:
    """Why the claim of an ephemeral volume must not be used by the pod; None if it may."""
    controller = claim.metadata.controller()
    if (
        claim.namespace == pod.namespace
        and controller is not None
        and controller.uid == pod.metadata.uid
    ):
        return None
    return f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)"


def claim_not_found(name: str) -> str:
    """What upstream's lister says of a claim that does not exist."""
    return f'persistentvolumeclaim "{name}" not found'
