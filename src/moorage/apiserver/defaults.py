"""What the API server fills into objects of each kind when they are created.

One small function per resource, on plain JSON, in a table by storage key. Pods have their own
module. Upstream: kubernetes@v1.36.4 pkg/apis/*/v1/defaults.go and each registry's strategy.
"""

from collections.abc import Callable, Mapping

from moorage.apiserver.pod_defaults import default_pod, default_pod_spec, initial_status, mappings
from moorage.apiserver.resources import StorageKey
from moorage.apiserver.statuses import Json, bad_request

Filler = Callable[[Json], None]


def apply_defaults(storage: StorageKey, obj: Json) -> None:
    """Fill in an object that is being created or replaced."""
    fill = _DEFAULTS.get(storage)
    if fill is None:
        return
    try:
        fill(obj)
    except (AttributeError, TypeError, ValueError):
        # Only the types of fields that a scheduler reads have been checked.
        kind = obj.get("kind")
        raise bad_request(
            f"the {kind} cannot be given its defaults: a field is not of the type that {kind} has"
        ) from None


def begin_status(storage: StorageKey, obj: Json) -> None:
    """Give a new object the status it starts with, whatever the client sent."""
    begin = _BEGINNINGS.get(storage)
    if begin is not None:
        obj["status"] = begin(obj)


def _spec(obj: Json) -> Json:
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        spec = obj["spec"] = {}
    return spec


def _fill(target: Json, **values: object) -> None:
    for name, value in values.items():
        if target.get(name) is None:
            target[name] = value


def _template(spec: Json) -> Json:
    template = spec.get("template")
    if not isinstance(template, dict):
        return {}
    default_pod_spec(_spec(template))
    return template


def _node(obj: Json) -> None:
    _spec(obj)
    status = obj.get("status")
    if isinstance(status, dict) and status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])


def _namespace(obj: Json) -> None:
    metadata = obj["metadata"]
    labels = metadata.get("labels")
    if labels is None:
        labels = metadata["labels"] = {}
    labels["kubernetes.io/metadata.name"] = metadata.get("name", "")
    _fill(_spec(obj), finalizers=["kubernetes"])


def _service(obj: Json) -> None:
    spec = _spec(obj)
    _fill(spec, type="ClusterIP", sessionAffinity="None", internalTrafficPolicy="Cluster")
    for port in mappings(spec.get("ports")):
        _fill(port, protocol="TCP", targetPort=port.get("port"))


def _claim(obj: Json) -> None:
    _fill(_spec(obj), volumeMode="Filesystem")


def _volume(obj: Json) -> None:
    _fill(_spec(obj), volumeMode="Filesystem", persistentVolumeReclaimPolicy="Retain")


def _storage_class(obj: Json) -> None:
    _fill(obj, reclaimPolicy="Delete", volumeBindingMode="Immediate")


def _priority_class(obj: Json) -> None:
    _fill(obj, preemptionPolicy="PreemptLowerPriority")


def _deployment(obj: Json) -> None:
    spec = _spec(obj)
    _fill(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600, strategy={})
    _fill(spec["strategy"], type="RollingUpdate")
    if spec["strategy"]["type"] == "RollingUpdate":
        _fill(spec["strategy"], rollingUpdate={"maxUnavailable": "25%", "maxSurge": "25%"})
    _template(spec)


def _replica_set(obj: Json) -> None:
    _fill(_spec(obj), replicas=1)
    _template(obj["spec"])


def _replication_controller(obj: Json) -> None:
    spec = _spec(obj)
    _fill(spec, replicas=1)
    labels = (_template(spec).get("metadata") or {}).get("labels")
    if labels:
        _fill(spec, selector=dict(labels))


def _stateful_set(obj: Json) -> None:
    spec = _spec(obj)
    _fill(spec, replicas=1, revisionHistoryLimit=10, podManagementPolicy="OrderedReady")
    _fill(spec, updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 0}})
    _template(spec)


def _daemon_set(obj: Json) -> None:
    spec = _spec(obj)
    rolling = {"maxUnavailable": 1, "maxSurge": 0}
    _fill(spec, revisionHistoryLimit=10)
    _fill(spec, updateStrategy={"type": "RollingUpdate", "rollingUpdate": rolling})
    _template(spec)


def _job(obj: Json) -> None:
    spec = _spec(obj)
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    _fill(spec, parallelism=1, backoffLimit=6, suspend=False, completionMode="NonIndexed")
    _template(spec)


def _driver(obj: Json) -> None:
    spec = _spec(obj)
    _fill(spec, attachRequired=True, podInfoOnMount=False, storageCapacity=False)
    _fill(spec, fsGroupPolicy="ReadWriteOnceWithFSType", requiresRepublish=False)
    _fill(spec, volumeLifecycleModes=["Persistent"], seLinuxMount=False)


def _secret(obj: Json) -> None:
    _fill(obj, type="Opaque")


def _claim_spec(spec: Json) -> None:
    devices = spec.get("devices")
    for request in mappings(devices.get("requests") if isinstance(devices, dict) else None):
        exactly = request.get("exactly")
        choices = mappings(request.get("firstAvailable"))
        for choice in (*choices, *([exactly] if isinstance(exactly, dict) else [])):
            _fill(choice, allocationMode="ExactCount")
            if choice["allocationMode"] == "ExactCount" and not choice.get("count"):
                choice["count"] = 1


def _resource_claim(obj: Json) -> None:
    _claim_spec(_spec(obj))


def _resource_claim_template(obj: Json) -> None:
    _claim_spec(_spec(_spec(obj)))


def _pod_group(obj: Json) -> None:
    _fill(_spec(obj), disruptionMode="Pod")


_DEFAULTS: Mapping[StorageKey, Filler] = {
    "csidrivers.storage.k8s.io": _driver,
    "daemonsets.apps": _daemon_set,
    "deployments.apps": _deployment,
    "jobs.batch": _job,
    "namespaces": _namespace,
    "nodes": _node,
    "persistentvolumeclaims": _claim,
    "persistentvolumes": _volume,
    "podgroups.scheduling.k8s.io": _pod_group,
    "pods": default_pod,
    "priorityclasses.scheduling.k8s.io": _priority_class,
    "replicasets.apps": _replica_set,
    "replicationcontrollers": _replication_controller,
    "resourceclaims.resource.k8s.io": _resource_claim,
    "resourceclaimtemplates.resource.k8s.io": _resource_claim_template,
    "secrets": _secret,
    "services": _service,
    "statefulsets.apps": _stateful_set,
    "storageclasses.storage.k8s.io": _storage_class,
}

# Nodes are missing on purpose: kubelets register with a status, and the API keeps it.
_BEGINNINGS: Mapping[StorageKey, Callable[[Json], Json]] = {
    "daemonsets.apps": lambda _: {},
    "deployments.apps": lambda _: {},
    "jobs.batch": lambda _: {},
    "namespaces": lambda _: {"phase": "Active"},
    "persistentvolumeclaims": lambda _: {"phase": "Pending"},
    "persistentvolumes": lambda _: {"phase": "Pending"},
    "poddisruptionbudgets.policy": lambda _: {},
    "podgroups.scheduling.k8s.io": lambda _: {},
    "pods": lambda obj: initial_status(_spec(obj)),
    "replicasets.apps": lambda _: {"replicas": 0},
    "replicationcontrollers": lambda _: {"replicas": 0},
    "resourceclaims.resource.k8s.io": lambda _: {},
    "services": lambda _: {"loadBalancer": {}},
    "statefulsets.apps": lambda _: {"replicas": 0},
    "volumeattachments.storage.k8s.io": lambda _: {},
}
