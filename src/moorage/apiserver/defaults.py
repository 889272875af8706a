"""What the API server fills into objects of each kind when they are created, on plain JSON.

Plain values are in `defaults.yaml`; what depends on the object is here, as are ports, probes and
QoS. Upstream: kubernetes@v1.37.1 pkg/apis/core/v1/defaults.go, pkg/apis/core/v1/helper/qos.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

import msgspec

from moorage.apiserver.custom_resources import DEFINITIONS, default_definition, established
from moorage.apiserver.errors import Json, bad_request
from moorage.apiserver.resources import StorageKey
from moorage.model.quantity import parse_milli
from moorage.tables import read_table

_TOLERATED_SECONDS = 300
_NOT_READY = "node.kubernetes.io/not-ready"
_UNREACHABLE = "node.kubernetes.io/unreachable"
_MODE = 0o644
_NODE_INFO = (
    *("architecture", "bootID", "containerRuntimeVersion", "kernelVersion", "kubeProxyVersion"),
    *("kubeletVersion", "machineID", "operatingSystem", "osImage", "systemUUID"),
)
_POD = read_table("moorage.apiserver", "pod_defaults.yaml", dict[str, Json])


def default_pod_spec(spec: Json) -> None:
    """Defaults that pods and pod templates share."""
    _fill(spec, _POD["spec"])
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
        status["conditions"] = [dict(_POD["gated"])]
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
    _fill(container, _POD["container"])
    container.setdefault("imagePullPolicy", _pull_policy(str(container.get("image", ""))))
    for port in mappings(container.get("ports")):
        _fill(port, _POD["port"])
        if host and port.get("containerPort"):
            port.setdefault("hostPort", port["containerPort"])
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        settings = container.get(probe)
        if isinstance(settings, dict):
            _fill(settings, _POD["probe"])
            if isinstance(settings.get("httpGet"), dict):
                _fill(settings["httpGet"], _POD["httpGet"])
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


class _Kind(msgspec.Struct, forbid_unknown_fields=True):
    """What an object of a kind gets: fields of its own, of its spec, and its first status."""

    fields: Json = {}
    spec: Json | None = None
    status: Json | None = None
    template: bool = False
    """Does its spec hold a template of pods?"""


_KINDS = read_table("moorage.apiserver", "defaults.yaml", dict[StorageKey, _Kind])


def apply_defaults(storage: StorageKey, obj: Json) -> None:
    """Fill in an object that is being created or replaced."""
    try:
        _apply(storage, obj)
    except (AttributeError, TypeError, ValueError):
        # Only the types of fields that a scheduler reads have been checked.
        kind = obj.get("kind")
        raise bad_request(
            f"the {kind} cannot be given its defaults: a field is not of the type that {kind} has"
        ) from None


def _apply(storage: StorageKey, obj: Json) -> None:
    special = _SPECIAL.get(storage)
    if special is not None:
        special(obj)
    known = _KINDS.get(storage)
    if known is None:
        return
    _fill(obj, known.fields)
    if known.spec is not None:
        spec = _spec(obj)
        _fill(spec, known.spec)
        if known.template and isinstance(spec.get("template"), dict):
            default_pod_spec(_spec(spec["template"]))


def begin_status(storage: StorageKey, obj: Json) -> None:
    """Give a new object the status it starts with, whatever the client sent."""
    if storage == "pods":
        obj["status"] = initial_status(_spec(obj))
    elif storage == DEFINITIONS:
        obj["status"] = established(obj)
    known = _KINDS.get(storage)
    # Nodes keep theirs: kubelets register with a status.
    if known is not None and known.status is not None:
        obj["status"] = deepcopy(known.status)


def _spec(obj: Json) -> Json:
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        spec = obj["spec"] = {}
    return spec


def _fill(target: Json, values: Json) -> None:
    for name, value in values.items():
        if target.get(name) is None:
            target[name] = deepcopy(value)


def _node(obj: Json) -> None:
    status = obj.get("status")
    if not isinstance(status, dict):
        status = obj["status"] = {}
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])
    # Go writes these even if they are empty, and clients of other languages insist on them.
    _fill(status, {"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}, "nodeInfo": {}})
    _fill(status["nodeInfo"], dict.fromkeys(_NODE_INFO, ""))


def _event(obj: Json) -> None:
    """Times that are not known are null, so that `kubectl get --sort-by` finds the field."""
    for field in ("firstTimestamp", "lastTimestamp", "eventTime"):
        obj.setdefault(field, None)


def _namespace(obj: Json) -> None:
    metadata = obj["metadata"]
    labels = metadata.get("labels")
    if labels is None:
        labels = metadata["labels"] = {}
    labels["kubernetes.io/metadata.name"] = metadata.get("name", "")


def _service(obj: Json) -> None:
    for port in mappings(_spec(obj).get("ports")):
        _fill(port, {"protocol": "TCP", "targetPort": port.get("port")})


def _deployment(obj: Json) -> None:
    spec = _spec(obj)
    _fill(spec, {"strategy": {}})
    _fill(spec["strategy"], {"type": "RollingUpdate"})
    if spec["strategy"]["type"] == "RollingUpdate":
        rolling = {"maxUnavailable": "25%", "maxSurge": "25%"}
        _fill(spec["strategy"], {"rollingUpdate": rolling})


def _stateful_set(obj: Json) -> None:
    spec = _spec(obj)
    _fill(spec, {"updateStrategy": {}, "persistentVolumeClaimRetentionPolicy": {}})
    policy = {"whenDeleted": "Retain", "whenScaled": "Retain"}
    _fill(spec["persistentVolumeClaimRetentionPolicy"], policy)
    _fill(spec["updateStrategy"], {"type": "RollingUpdate"})
    if spec["updateStrategy"]["type"] == "RollingUpdate":
        _fill(spec["updateStrategy"], {"rollingUpdate": {}})
        _fill(spec["updateStrategy"]["rollingUpdate"], {"partition": 0, "maxUnavailable": 1})


TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


def _daemon_set(obj: Json) -> None:
    metadata = obj["metadata"]
    metadata["annotations"] = {TEMPLATE_GENERATION: "1", **(metadata.get("annotations") or {})}


def _replication_controller(obj: Json) -> None:
    spec = _spec(obj)
    template = spec.get("template")
    labels = (template.get("metadata") or {}).get("labels") if isinstance(template, dict) else None
    if labels:
        _fill(spec, {"selector": labels})
        _fill(obj["metadata"], {"labels": labels})


def _job(obj: Json) -> None:
    spec = _spec(obj)
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    finished = "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
    _fill(spec, {"manualSelector": False, "podReplacementPolicy": finished})
    metadata, template = obj["metadata"], spec.get("template")
    if spec.get("selector") or spec.get("manualSelector") or not isinstance(template, dict):
        return
    # A Job finds its pods by its own uid, unless it says how.
    own = {"batch.kubernetes.io/controller-uid": metadata.get("uid", "")}
    spec["selector"] = {"matchLabels": own}
    known = template.get("metadata") or {}
    name = metadata.get("name", "")
    more = {"batch.kubernetes.io/job-name": name, "controller-uid": metadata.get("uid", "")}
    labels = {**(known.get("labels") or {}), **own, **more, "job-name": name}
    template["metadata"] = {**known, "labels": labels}
    _fill(metadata, {"labels": labels})


def _persistent_volume(obj: Json) -> None:
    if isinstance(_spec(obj).get("hostPath"), dict):
        _fill(obj["spec"]["hostPath"], {"type": ""})


def _claim_spec(spec: Json) -> None:
    devices = spec.get("devices")
    for request in mappings(devices.get("requests") if isinstance(devices, dict) else None):
        for choice in mappings([request.get("exactly")]) + mappings(request.get("firstAvailable")):
            _fill(choice, {"allocationMode": "ExactCount"})
            if choice["allocationMode"] == "ExactCount" and not choice.get("count"):
                choice["count"] = 1


def _limit_range(obj: Json) -> None:
    """A container's defaults follow from its limits, where they are not given."""
    for limit in mappings(_spec(obj).get("limits")):
        for part in ("min", "max", "default", "defaultRequest", "maxLimitRequestRatio"):
            for amount in (limit.get(part) or {}).values():
                parse_milli(amount)
        if limit.get("type") == "Container":
            default = {**(limit.get("max") or {}), **(limit.get("default") or {})}
            request = {**(limit.get("min") or {}), **default, **(limit.get("defaultRequest") or {})}
            given = {"default": default, "defaultRequest": request}
            limit |= {part: amounts for part, amounts in given.items() if amounts}


def _claim_template(obj: Json) -> None:
    spec = _spec(obj)
    _fill(spec, {"metadata": {}})
    _claim_spec(_spec(spec))


_SPECIAL: Mapping[StorageKey, Filler] = {
    DEFINITIONS: default_definition,
    "daemonsets.apps": _daemon_set,
    "deployments.apps": _deployment,
    "events": _event,
    "jobs.batch": _job,
    "limitranges": _limit_range,
    "namespaces": _namespace,
    "nodes": _node,
    "persistentvolumes": _persistent_volume,
    "pods": default_pod,
    "replicationcontrollers": _replication_controller,
    "resourceclaims.resource.k8s.io": lambda claim: _claim_spec(_spec(claim)),
    "resourceclaimtemplates.resource.k8s.io": _claim_template,
    "services": _service,
    "statefulsets.apps": _stateful_set,
}
