"""Short ways to write storage objects, and pods that use them."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from moorage.model.decode import decode_object
from moorage.model.meta import ApiObject, Json
from moorage.model.pod import Pod
from moorage.model.storage import (
    BIND_COMPLETED,
    MIGRATED_PLUGINS,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from moorage.testing import make_pod

HOSTNAME = "kubernetes.io/hostname"
SLOW = "slow"
DRIVER = "disks.example.com"

Kind = TypeVar("Kind", bound=ApiObject)


def _decoded(kind: type[Kind], group: str, body: Json) -> Kind:
    found = decode_object({"apiVersion": group, "kind": kind.__name__, **body}, "test object")
    assert isinstance(found, kind)
    return found


def on_nodes(*names: str, key: str = HOSTNAME) -> Json:
    """The node affinity of a volume that only these nodes reach."""
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": list(names)}]}
    return {"required": {"nodeSelectorTerms": [term]}}


def volume(
    name: str,
    size: str = "10Gi",
    *,
    nodes: Sequence[str] | None = None,
    claim_ref: Json | None = None,
    version: str = "1",
    labels: Mapping[str, str] | None = None,
    phase: str = "Available",
    **spec: object,
) -> PersistentVolume:
    """A volume of class SLOW; `nodes` are the host names that reach it."""
    return _decoded(
        PersistentVolume,
        "v1",
        {
            "metadata": {"name": name, "resourceVersion": version, "labels": dict(labels or {})},
            "spec": {
                "capacity": {"storage": size},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": SLOW,
                **({"nodeAffinity": on_nodes(*nodes)} if nodes is not None else {}),
                **({"claimRef": claim_ref} if claim_ref is not None else {}),
                **spec,
            },
            "status": {"phase": phase},
        },
    )


def claim(
    name: str,
    size: str | None = "5Gi",
    *,
    bound_to: str = "",
    version: str = "1",
    annotations: Mapping[str, str] | None = None,
    metadata: Json | None = None,
    phase: str = "Pending",
    **spec: object,
) -> PersistentVolumeClaim:
    """A claim of class SLOW."""
    complete = {BIND_COMPLETED: "yes"} if bound_to else {}
    return _decoded(
        PersistentVolumeClaim,
        "v1",
        {
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": f"uid-{name}",
                "resourceVersion": version,
                "annotations": {**complete, **(annotations or {})},
                **(metadata or {}),
            },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": SLOW,
                "resources": {"requests": {"storage": size} if size else {}},
                "volumeName": bound_to,
                **spec,
            },
            "status": {"phase": phase},
        },
    )


def storage_class(
    name: str = SLOW,
    *,
    provisioner: str = "kubernetes.io/no-provisioner",
    mode: str = "WaitForFirstConsumer",
    allowed: Sequence[Json] = (),
) -> StorageClass:
    """A class whose claims wait for their first pod."""
    return _decoded(
        StorageClass,
        "storage.k8s.io/v1",
        {
            "metadata": {"name": name},
            "provisioner": provisioner,
            "volumeBindingMode": mode,
            "allowedTopologies": list(allowed),
        },
    )


def csi_node(
    name: str, limit: int | None = None, *, driver: str = DRIVER, migrated: str = ""
) -> CSINode:
    """A CSINode with one driver and its limit."""
    allocatable = {} if limit is None else {"allocatable": {"count": limit}}
    return _decoded(
        CSINode,
        "storage.k8s.io/v1",
        {
            "metadata": {"name": name, "annotations": {MIGRATED_PLUGINS: migrated}},
            "spec": {"drivers": [{"name": driver, "nodeID": name, **allocatable}]},
        },
    )


def csi_driver(**spec: object) -> CSIDriver:
    """DRIVER as a cluster-wide object."""
    body: Json = {"metadata": {"name": DRIVER}, "spec": spec}
    return _decoded(CSIDriver, "storage.k8s.io/v1", body)


def capacity(name: str, size: str, zone: str) -> CSIStorageCapacity:
    """Room of DRIVER in a zone, for class SLOW."""
    return _decoded(
        CSIStorageCapacity,
        "storage.k8s.io/v1",
        {
            "metadata": {"name": name, "namespace": "default"},
            "storageClassName": SLOW,
            "nodeTopology": {"matchLabels": {"topology.kubernetes.io/zone": zone}},
            "capacity": size,
        },
    )


def attachment(name: str, volume_name: str, node: str) -> VolumeAttachment:
    """A volume of DRIVER attached to a node."""
    return _decoded(
        VolumeAttachment,
        "storage.k8s.io/v1",
        {
            "metadata": {"name": name},
            "spec": {
                "attacher": DRIVER,
                "nodeName": node,
                "source": {"persistentVolumeName": volume_name},
            },
        },
    )


def pod_with(*sources: Json, name: str = "pod", node: str = "", namespace: str = "default") -> Pod:
    """A pod with these volume sources."""
    volumes = [{"name": f"v{i}", **source} for i, source in enumerate(sources)]
    return make_pod(name, namespace=namespace, node_name=node, spec={"volumes": volumes})


def uses(*names: str) -> tuple[Json, ...]:
    """Volume sources that stand for claims."""
    return tuple({"persistentVolumeClaim": {"claimName": name}} for name in names)
