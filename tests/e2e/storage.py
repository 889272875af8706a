"""Builders of storage objects, and the part of the volume controller that a scenario must play."""

from e2e.client import Json, wait_for
from e2e.objects import HOSTNAME, must_be_on
from e2e.trial import Trial

DRIVER = "csi.example.com"
_WAITING = "WaitForFirstConsumer"


def storage_class(name: str, provisioner: str = "kubernetes.io/no-provisioner") -> Json:
    """A class whose volumes are chosen when the pod is scheduled."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": _WAITING,
    }


def local_volume(name: str, node: str, class_name: str, size: str = "10Gi") -> Json:
    """A volume that is on one node."""
    affinity = must_be_on(HOSTNAME, "In", node)["nodeAffinity"]
    (required,) = affinity.values()
    spec = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": class_name,
        "local": {"path": f"/disks/{name}"},
        "nodeAffinity": {"required": required},
    }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": spec,
    }


def driver_volume(name: str, modes: list[str] | None = None) -> Json:
    """A volume of a CSI driver that every node can reach."""
    spec = {
        "capacity": {"storage": "10Gi"},
        "accessModes": modes or ["ReadWriteOnce"],
        "csi": {"driver": DRIVER, "volumeHandle": name},
    }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": spec,
    }


def claim(name: str, class_name: str = "", modes: list[str] | None = None) -> Json:
    """A claim of ten gigabytes."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": modes or ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "10Gi"}},
            "storageClassName": class_name,
        },
    }


def claims(*names: str) -> list[Json]:
    """The volumes of a pod that uses these claims."""
    return [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]


def driver_limit(node: str, count: int) -> Json:
    """How many volumes of the driver a node takes."""
    driver = {"name": DRIVER, "nodeID": node, "allocatable": {"count": count}}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": node},
        "spec": {"drivers": [driver]},
    }


def add_volume(trial: Trial, volume: Json) -> None:
    """Create a volume and declare it available, as the volume controller does."""
    created = trial.add(volume)
    available = {"status": {"phase": "Available"}}
    name = created["metadata"]["name"]
    trial.api.patch("PersistentVolume", name, available, subresource="status")


def bind_claim(trial: Trial, claim_name: str, volume: str) -> None:
    """Bind a claim and a volume to each other, as the volume controller does."""
    found = trial.api.get("PersistentVolumeClaim", claim_name, trial.namespace)
    reference = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "name": claim_name,
        "namespace": trial.namespace,
        "uid": found["metadata"]["uid"],
    }
    trial.api.patch("PersistentVolume", volume, {"spec": {"claimRef": reference}})
    bound = {"status": {"phase": "Bound"}}
    trial.api.patch("PersistentVolume", volume, bound, subresource="status")
    done = {"pv.kubernetes.io/bind-completed": "yes"}
    trial.api.patch(
        "PersistentVolumeClaim",
        claim_name,
        {"metadata": {"annotations": done}, "spec": {"volumeName": volume}},
        trial.namespace,
    )
    trial.api.patch(
        "PersistentVolumeClaim", claim_name, bound, trial.namespace, subresource="status"
    )


def volume_chosen_for(trial: Trial, claim_name: str) -> str:
    """Wait until the scheduler has reserved a volume for the claim; the volume's name."""

    def chosen() -> str | None:
        for volume in trial.api.list("PersistentVolume"):
            reference = volume["spec"].get("claimRef", {})
            if (reference.get("namespace"), reference.get("name")) == (trial.namespace, claim_name):
                return str(volume["metadata"]["name"])
        return None

    return wait_for(f"a volume for claim {claim_name}", chosen)
