"""What the API server fills into a pod or a pod template, on plain JSON.

Fields a scheduler reads are computed by `moorage.model.defaulting` and copied back in
`admission`; these are the others, without which `kubectl` shows gaps.
Upstream: kubernetes@v1.36.4 pkg/apis/core/v1/defaults.go, pkg/apis/core/v1/helper/qos.
"""

from typing import Any

from moorage.apiserver.statuses import Json
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
        _volume(volume)


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


def _volume(volume: Json) -> None:
    if set(volume) <= {"name"}:
        volume["emptyDir"] = {}
    for source in ("secret", "configMap", "downwardAPI", "projected"):
        if isinstance(volume.get(source), dict):
            volume[source].setdefault("defaultMode", _MODE)
    if isinstance(volume.get("hostPath"), dict):
        volume["hostPath"].setdefault("type", "")
