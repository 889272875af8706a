"""What stands in the cells of pods, nodes and workloads, where that is more than a field's value.

Upstream: kubernetes@v1.37.1 pkg/printers/internalversion/printers.go.
"""

from collections.abc import Mapping

from moorage.apiserver.cells import (
    NONE,
    UNKNOWN,
    Cell,
    age_of,
    boolean,
    section,
    selector_text,
    some,
)
from moorage.apiserver.defaults import mappings
from moorage.apiserver.errors import Json
from moorage.apiserver.metadata import seconds_of

# ---- pods ----


def _ready(obj: Json, _: float) -> str:
    statuses = mappings(section(obj, "status").get("containerStatuses"))
    containers = mappings(section(obj, "spec").get("containers"))
    return f"{sum(1 for s in statuses if s.get('ready'))}/{len(containers)}"


def _pod_status(obj: Json, _: float) -> str:
    status = section(obj, "status")
    shown = str(status.get("reason") or status.get("phase") or "Unknown")
    for condition in mappings(status.get("conditions")):
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            shown = "SchedulingGated"
    for container in mappings(status.get("containerStatuses")):
        state = container.get("state") or {}
        for kind in ("waiting", "terminated"):
            if kind in state and state[kind].get("reason"):
                shown = state[kind]["reason"]
    if obj["metadata"].get("deletionTimestamp"):
        shown = "Terminating"
    return shown


def _restarts(obj: Json, _: float) -> str:
    statuses = mappings(section(obj, "status").get("containerStatuses"))
    return str(sum(int(s.get("restartCount", 0)) for s in statuses))


def _gates(obj: Json, _: float) -> str:
    gates = mappings(section(obj, "spec").get("readinessGates"))
    if not gates:
        return NONE
    conditions = mappings(section(obj, "status").get("conditions"))
    true = {c.get("type") for c in conditions if c.get("status") == "True"}
    return f"{sum(1 for g in gates if g.get('conditionType') in true)}/{len(gates)}"


# ---- nodes ----


def _node_status(obj: Json, _: float) -> str:
    conditions = mappings(section(obj, "status").get("conditions"))
    ready = next((c for c in conditions if c.get("type") == "Ready"), None)
    if ready is None:
        shown = "Unknown"
    else:
        shown = "Ready" if ready.get("status") == "True" else "NotReady"
    return f"{shown},SchedulingDisabled" if section(obj, "spec").get("unschedulable") else shown


def _roles(obj: Json, _: float) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = obj["metadata"].get("labels") or {}
    roles = {key.removeprefix(prefix) for key in labels if key.startswith(prefix)} - {""}
    return ",".join(sorted(roles)) or NONE


def _address(kind: str) -> Cell:
    def cell(obj: Json, _: float) -> str:
        addresses = mappings(section(obj, "status").get("addresses"))
        return next((str(a["address"]) for a in addresses if a.get("type") == kind), NONE)

    return cell


# ---- workloads ----


def _containers(obj: Json) -> list[Json]:
    """The containers of the pods that a workload makes."""
    spec = section(obj, "spec")
    template = section(section(section(spec, "jobTemplate"), "spec") or spec, "template")
    return mappings(section(template or section(obj, "template"), "spec").get("containers"))


def _container_names(obj: Json, _: float) -> str:
    return ",".join(str(container.get("name", "")) for container in _containers(obj))


def _images(obj: Json, _: float) -> str:
    return ",".join(str(container.get("image", "")) for container in _containers(obj))


def _template(obj: Json) -> Json:
    return section(section(obj, "spec"), "template") or section(obj, "template")


def _node_selector(obj: Json, _: float) -> str:
    return selector_text(section(_template(obj), "spec").get("nodeSelector"))


def _template_labels(obj: Json, _: float) -> str:
    return selector_text(section(_template(obj), "metadata").get("labels"))


_JOB_STATES = ("Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet")


def _job_status(obj: Json, _: float) -> str:
    conditions = mappings(section(obj, "status").get("conditions"))
    true = {one.get("type") for one in conditions if one.get("status") == "True"}
    ended = next((state for state in _JOB_STATES[:2] if state in true), None)
    if ended is None and obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return ended or next((state for state in _JOB_STATES[2:] if state in true), "Running")


def _completions(obj: Json, _: float) -> str:
    spec, done = section(obj, "spec"), section(obj, "status").get("succeeded") or 0
    if spec.get("completions") is not None:
        return f"{done}/{spec['completions']}"
    parallelism = spec.get("parallelism") or 0
    return f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"


def _job_duration(obj: Json, now: float) -> str:
    status = section(obj, "status")
    if not status.get("startTime"):
        return ""
    ended = status.get("completionTime")
    return age_of(status["startTime"], seconds_of(ended) if ended else now)


def _last_schedule(obj: Json, now: float) -> str:
    last = section(obj, "status").get("lastScheduleTime")
    return age_of(last, now) if last else NONE


def _scale_target(obj: Json, _: float) -> str:
    target = section(section(obj, "spec"), "scaleTargetRef")
    return f"{target.get('kind', '')}/{target.get('name', '')}"


def _metrics(obj: Json, _: float) -> str:
    """The targets of an autoscaler; nothing measures how far they are reached."""
    shown: list[str] = []
    for metric in mappings(section(obj, "spec").get("metrics")):
        source = next((value for value in metric.values() if isinstance(value, dict)), {})
        target = section(source, "target")
        wanted = target.get("averageValue") or target.get("value")
        if target.get("averageUtilization") is not None:
            wanted = f"{target['averageUtilization']}%"
        name = f"{source['name']}: " if "name" in source else ""
        shown.append(f"{name}{UNKNOWN}/{wanted}")
    return some(shown, 2) or NONE


def _replicas_ready(obj: Json, _: float) -> str:
    ready = section(obj, "status").get("readyReplicas") or 0
    return f"{ready}/{section(obj, 'spec').get('replicas', 0)}"


WORKLOAD_CELLS: Mapping[str, Cell] = {
    "completions": _completions,
    "container names": _container_names,
    "external IP": _address("ExternalIP"),
    "images": _images,
    "internal IP": _address("InternalIP"),
    "job duration": _job_duration,
    "job status": _job_status,
    "last schedule": _last_schedule,
    "metrics": _metrics,
    "node selector": _node_selector,
    "node status": _node_status,
    "pod status": _pod_status,
    "readiness gates": _gates,
    "ready containers": _ready,
    "ready replicas": _replicas_ready,
    "restarts": _restarts,
    "roles": _roles,
    "scale target": _scale_target,
    "suspended": boolean("spec", "suspend"),
    "template labels": _template_labels,
}
"""Cells by the names that columns.yaml gives them."""
