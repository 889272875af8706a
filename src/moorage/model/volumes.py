"""Volumes of a pod: where its data comes from, as far as that limits the choice of a node.

Owns the volume sources (a PersistentVolume has the same ones) and the request for storage that a
claim or a generic ephemeral volume makes. Sources that no plugin looks at (configMap, emptyDir,
hostPath, ...) are not modelled. Must not know PersistentVolumes: `storage` builds on this module.
"""

import msgspec

from moorage.model.labels import LabelSelector
from moorage.model.meta import Object, ObjectMeta
from moorage.model.quantity import Quantity


class GCEPersistentDisk(Object, frozen=True):
    """A disk of Google's cloud; many pods may share it if all only read."""

    pd_name: str = ""
    read_only: bool = False


class AWSElasticBlockStore(Object, frozen=True):
    """A disk of Amazon's cloud; never shared."""

    volume_id: str = msgspec.field(default="", name="volumeID")
    read_only: bool = False


class ISCSI(Object, frozen=True):
    """An iSCSI target, told from others by its qualified name alone."""

    iqn: str = ""
    read_only: bool = False


class RBD(Object, frozen=True):
    """A Ceph image; two are the same if they share a monitor, the pool and the image."""

    monitors: tuple[str, ...] = ()
    image: str = ""
    pool: str = "rbd"  # what the API server fills in
    read_only: bool = False


class AzureDisk(Object, frozen=True):
    """A disk of Microsoft's cloud; only a managed one has a CSI equivalent."""

    disk_name: str = ""
    disk_uri: str = msgspec.field(default="", name="diskURI")
    kind: str = "Shared"  # what the API server fills in


class AzureFile(Object, frozen=True):
    """A file share of Microsoft's cloud."""

    secret_name: str = ""
    share_name: str = ""
    secret_namespace: str | None = None


class Cinder(Object, frozen=True):
    """A disk of OpenStack."""

    volume_id: str = msgspec.field(default="", name="volumeID")


class PortworxVolume(Object, frozen=True):
    """A Portworx volume."""

    volume_id: str = msgspec.field(default="", name="volumeID")


class VsphereVolume(Object, frozen=True):
    """A disk of vSphere."""

    volume_path: str = ""


class VolumeSources(Object, frozen=True):
    """The kinds of disks that pods and PersistentVolumes name alike; at most one is set."""

    gce_persistent_disk: GCEPersistentDisk | None = None
    aws_elastic_block_store: AWSElasticBlockStore | None = None
    iscsi: ISCSI | None = None
    rbd: RBD | None = None
    azure_disk: AzureDisk | None = None
    azure_file: AzureFile | None = None
    cinder: Cinder | None = None
    portworx_volume: PortworxVolume | None = None
    vsphere_volume: VsphereVolume | None = None


class CSIVolume(Object, frozen=True):
    """A volume that a CSI driver makes for one pod."""

    driver: str = ""


class ImageVolume(Object, frozen=True):
    """The content of a container image."""

    reference: str = ""


class VolumeResources(Object, frozen=True):
    """How much storage a claim asks for."""

    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}


class PersistentVolumeClaimSpec(Object, frozen=True):
    """What a claim asks for, and the volume it got."""

    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: VolumeResources = VolumeResources()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimTemplate(Object, frozen=True):
    """The claim that is made for a generic ephemeral volume."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


class EphemeralVolume(Object, frozen=True):
    """A volume that lives and dies with its pod, through a claim of its own."""

    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class PersistentVolumeClaimVolume(Object, frozen=True):
    """A claim in the pod's namespace."""

    claim_name: str = ""
    read_only: bool = False


class Volume(VolumeSources, frozen=True):
    """One volume of a pod; at most one source is set."""

    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimVolume | None = None
    ephemeral: EphemeralVolume | None = None
    image: ImageVolume | None = None
    csi: CSIVolume | None = None

    @property
    def is_storage(self) -> bool:
        """May it tie the pod to a node? Files from images and the API do not."""
        return any(getattr(self, source) is not None for source in _STORAGE)

    def claim_name(self, pod_name: str) -> str | None:
        """The claim behind the volume: named by the user, or derived for an ephemeral volume."""
        if self.persistent_volume_claim is not None:
            return self.persistent_volume_claim.claim_name
        if self.ephemeral is not None:
            return f"{pod_name}-{self.name}"
        return None


_STORAGE = tuple({*Volume.__struct_fields__} - {"name", "image"})
