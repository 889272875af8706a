"""What the API server fills into objects of each kind when they are created, on plain JSON.

One small function per resource, in a table by storage key. What a scheduler reads of a pod is
computed by `moorage.model.defaulting` and copied back in kubectl's spelling; the rest (ports,
probes, QoS) is here. Upstream: kubernetes@v1.36.4 pkg/apis/core/v1/defaults.go,
pkg/apis/core/v1/helper/qos.
"""

from collections.abc import Callable, Mapping
from typing import Any

from moorage.apiserver.custom_resources import DEFINITIONS, established
from moorage.apiserver.errors import Json, bad_request
from moorage.apiserver.resources import StorageKey
from moorage.model.quantity import parse_milli

_TOLERATED_SECONDS = 300
_NOT_READY = "node.kubernetes.io/not-ready"
_UNREACHABLE = "node.kubernetes.io/unreachable"
_MODE = 0o644
_PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}


def default_pod_spec(spec: Json) -> None:
    """Defaults that pods and pod templates share."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    host = bool(spec.get("hostNetwork"))
    for field in ("containers", "initContainers"):
        for container in mappings(spec.get(field)):
            _container(container, host=host)
    for volume in mappings(spec.get("volumes")):
        _pod_volume(volume)


def default_pod(obj: Json) -> None:
    """Defaults of a pod proper."""
    spec: Json = obj.setdefault("spec", {})
    default_pod_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    account = spec.setdefault("serviceAccountName", spec.get("serviceAccount") or "default")
    spec["serviceAccount"] = account
    for field in ("containers", "initContainers"):
        for container in mappings(spec.get(field)):
            _requests_from_limits(container.setdefault("resources", {}))


def default_tolerations(spec: Json) -> None:
    """Stay five minutes on a node that fails, as the DefaultTolerationSeconds plugin adds."""
    tolerations: list[Json] = spec.get("tolerations") or []
    for key in (_NOT_READY, _UNREACHABLE):
        if not any(_tolerates(toleration, key) for toleration in mappings(tolerations)):
            toleration = {"key": key, "operator": "Exists", "effect": "NoExecute"}
            tolerations.append({**toleration, "tolerationSeconds": _TOLERATED_SECONDS})
    spec["tolerations"] = tolerations


def _tolerates(toleration: Json, key: str) -> bool:
    return toleration.get("key", "") in (key, "") and toleration.get("effect", "") in (
        "NoExecute",
        "",
    )


def initial_status(spec: Json) -> Json:
    """The status of a new pod."""
    status: Json = {"phase": "Pending", "qosClass": quality_of_service(spec)}
    if spec.get("schedulingGates"):
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": None,
            "lastTransitionTime": None,
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }
        status["conditions"] = [condition]
    return status


def quality_of_service(spec: Json) -> str:
    """`Guaranteed`, `Burstable` or `BestEffort`."""
    # Resources of the whole pod, where given, decide alone.
    whole = spec.get("resources")
    if whole:
        parts = [whole]
    else:
        containers = (*mappings(spec.get("containers")), *mappings(spec.get("initContainers")))
        parts = [container.get("resources") or {} for container in containers]
    asked = False
    guaranteed = True
    for part in parts:
        limits, requests = _compute(part.get("limits")), _compute(part.get("requests"))
        asked = asked or bool(limits) or bool(requests)
        if limits.keys() != {"cpu", "memory"} or any(
            requests.get(name, amount) != amount for name, amount in limits.items()
        ):
            guaranteed = False
    if not asked:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _compute(amounts: Json | None) -> dict[str, int]:
    given = {name: parse_milli((amounts or {}).get(name, 0)) for name in ("cpu", "memory")}
    return {name: milli for name, milli in given.items() if milli > 0}


def mappings(value: Any) -> list[Json]:
    """The members of a list that are objects; wrong ones are left to validation."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _requests_from_limits(resources: Json) -> None:
    limits = resources.get("limits")
    if limits:
        requests = resources.get("requests")
        if requests is None:
            requests = resources["requests"] = {}
        for name, amount in limits.items():
            requests.setdefault(name, amount)


def _container(container: Json, *, host: bool) -> None:
    container.setdefault("resources", {})
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("imagePullPolicy", _pull_policy(str(container.get("image", ""))))
    for port in mappings(container.get("ports")):
        port.setdefault("protocol", "TCP")
        if host and port.get("containerPort"):
            port.setdefault("hostPort", port["containerPort"])
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        settings = container.get(probe)
        if isinstance(settings, dict):
            for name, value in _PROBE.items():
                settings.setdefault(name, value)
            if isinstance(settings.get("httpGet"), dict):
                settings["httpGet"].setdefault("path", "/")
                settings["httpGet"].setdefault("scheme", "HTTP")
    for variable in mappings(container.get("env")):
        reference = (variable.get("valueFrom") or {}).get("fieldRef")
        if isinstance(reference, dict):
            reference.setdefault("apiVersion", "v1")


def _pull_policy(image: str) -> str:
    last = image.rpartition("/")[2]
    latest = "@" not in last and (":" not in last or last.endswith(":latest"))
    return "Always" if latest else "IfNotPresent"


def _pod_volume(volume: Json) -> None:
    if set(volume) <= {"name"}:
        volume["emptyDir"] = {}
    for source in ("secret", "configMap", "downwardAPI", "projected"):
        if isinstance(volume.get(source), dict):
            volume[source].setdefault("defaultMode", _MODE)
    if isinstance(volume.get("hostPath"), dict):
        volume["hostPath"].setdefault("type", "")


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
    DEFINITIONS: established,
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
