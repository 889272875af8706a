"""The columns `kubectl get` shows, per resource.

One table of small functions from an object to a cell. Upstream:
kubernetes@v1.36.4 pkg/printers/internalversion/printers.go.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from moorage.apiserver.defaults import mappings
from moorage.apiserver.errors import Json
from moorage.apiserver.metadata import seconds_of
from moorage.apiserver.resources import ApiResource, StorageKey
from moorage.printable import human_duration

Cell = Callable[[Json, float], Any]
_NONE = "<none>"
_UNKNOWN = "<unknown>"
INVALID = "<invalid>"


class TableColumn(NamedTuple):
    """One column; a priority above 0 shows only with `-o wide`."""

    name: str
    cell: Cell
    type: str = "string"
    priority: int = 0
    description: str = ""


def age_of(text: Any, now: float) -> str:
    """How long ago a timestamp was."""
    if not isinstance(text, str) or not text:
        return _UNKNOWN
    try:
        return human_duration(now - seconds_of(text))
    except ValueError:
        return _UNKNOWN


def at(*path: str, absent: Any = _NONE) -> Cell:
    """A cell with the value at a path."""

    def cell(obj: Json, _: float) -> Any:
        value: Any = obj
        for step in path:
            value = value.get(step) if isinstance(value, dict) else None
        return absent if value is None or value == "" else value

    return cell


def name(obj: Json, _: float) -> str:
    """The object's name."""
    return str(obj["metadata"].get("name", ""))


def age(obj: Json, now: float) -> str:
    """Time since creation."""
    return age_of(obj["metadata"].get("creationTimestamp"), now)


def _section(obj: Json, part: str) -> Json:
    section = obj.get(part)
    return section if isinstance(section, dict) else {}


# ---- pods ----


def _ready(obj: Json, _: float) -> str:
    statuses = mappings(_section(obj, "status").get("containerStatuses"))
    containers = mappings(_section(obj, "spec").get("containers"))
    return f"{sum(1 for s in statuses if s.get('ready'))}/{len(containers)}"


def _pod_status(obj: Json, _: float) -> str:
    status = _section(obj, "status")
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
    statuses = mappings(_section(obj, "status").get("containerStatuses"))
    return str(sum(int(s.get("restartCount", 0)) for s in statuses))


def _gates(obj: Json, _: float) -> str:
    gates = mappings(_section(obj, "spec").get("readinessGates"))
    if not gates:
        return _NONE
    conditions = mappings(_section(obj, "status").get("conditions"))
    true = {c.get("type") for c in conditions if c.get("status") == "True"}
    return f"{sum(1 for g in gates if g.get('conditionType') in true)}/{len(gates)}"


# ---- nodes ----


def _node_status(obj: Json, _: float) -> str:
    conditions = mappings(_section(obj, "status").get("conditions"))
    ready = next((c for c in conditions if c.get("type") == "Ready"), None)
    if ready is None:
        shown = "Unknown"
    else:
        shown = "Ready" if ready.get("status") == "True" else "NotReady"
    return f"{shown},SchedulingDisabled" if _section(obj, "spec").get("unschedulable") else shown


def _roles(obj: Json, _: float) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = obj["metadata"].get("labels") or {}
    roles = {key.removeprefix(prefix) for key in labels if key.startswith(prefix)} - {""}
    return ",".join(sorted(roles)) or _NONE


def _address(kind: str) -> Cell:
    def cell(obj: Json, _: float) -> str:
        addresses = mappings(_section(obj, "status").get("addresses"))
        return next((str(a["address"]) for a in addresses if a.get("type") == kind), _NONE)

    return cell


# ---- others ----


def _last_seen(obj: Json, now: float) -> str:
    series = obj.get("series") or {}
    seen = (
        series.get("lastObservedTime")
        or obj.get("lastTimestamp")
        or obj.get("deprecatedLastTimestamp")
        or obj.get("eventTime")
    )
    return age_of(seen or obj["metadata"].get("creationTimestamp"), now)


def _event_object(obj: Json, _: float) -> str:
    about = obj.get("involvedObject") or obj.get("regarding") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


def _event_message(obj: Json, _: float) -> str:
    return str(obj.get("message") or obj.get("note") or "").strip()


def _ports(obj: Json, _: float) -> str:
    ports = mappings(_section(obj, "spec").get("ports"))
    return ",".join(f"{p.get('port')}/{p.get('protocol', 'TCP')}" for p in ports) or _NONE


def _external(obj: Json, _: float) -> str:
    return ",".join(_section(obj, "spec").get("externalIPs") or []) or _NONE


def selector_text(value: Any) -> str:
    """A selector or plain map as `a=b,c in (d)`."""
    if not isinstance(value, dict) or not value:
        return _NONE
    labels = value.get("matchLabels") if "matchLabels" in value else value
    if not isinstance(labels, dict) or not all(isinstance(v, str) for v in labels.values()):
        labels = {}
    parts = [f"{key}={text}" for key, text in sorted(labels.items())]
    for expr in mappings(value.get("matchExpressions")):
        values = ",".join(expr.get("values") or [])
        operator = str(expr.get("operator", "")).lower()
        parts.append(f"{expr.get('key')} {operator} ({values})")
    return ",".join(parts) or _NONE


def _selector(obj: Json, _: float) -> str:
    return selector_text(_section(obj, "spec").get("selector"))


def _replicas_ready(obj: Json, _: float) -> str:
    ready = _section(obj, "status").get("readyReplicas") or 0
    return f"{ready}/{_section(obj, 'spec').get('replicas', 0)}"


def _images(obj: Json, _: float) -> str:
    template = _section(_section(obj, "spec"), "template")
    containers = mappings(_section(template, "spec").get("containers"))
    return ",".join(str(c.get("image", "")) for c in containers)


_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX"}


def _access_modes(obj: Json, _: float) -> str:
    modes = _section(obj, "spec").get("accessModes") or []
    return ",".join(_MODES.get(mode, "RWOP") for mode in modes)


def _claim(obj: Json, _: float) -> str:
    claim = _section(obj, "spec").get("claimRef") or {}
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""


def _count(part: str, field: str) -> Cell:
    def cell(obj: Json, _: float) -> int:
        value = _section(obj, part).get(field) if part else obj.get(field)
        return len(value) if isinstance(value, dict | list) else int(value or 0)

    return cell


NAME = TableColumn("Name", name, description="Name must be unique within a namespace.")
AGE = TableColumn("Age", age, description="Time since creation.")
_WIDE = 1


def _columns(*middle: TableColumn, after: tuple[TableColumn, ...] = ()) -> tuple[TableColumn, ...]:
    return (NAME, *middle, AGE, *after)


_COLUMNS: Mapping[StorageKey, tuple[TableColumn, ...]] = {
    "pods": _columns(
        TableColumn("Ready", _ready),
        TableColumn("Status", _pod_status),
        TableColumn("Restarts", _restarts),
        after=(
            TableColumn("IP", at("status", "podIP"), priority=_WIDE),
            TableColumn("Node", at("spec", "nodeName"), priority=_WIDE),
            TableColumn("Nominated Node", at("status", "nominatedNodeName"), priority=_WIDE),
            TableColumn("Readiness Gates", _gates, priority=_WIDE),
        ),
    ),
    "nodes": (
        NAME,
        TableColumn("Status", _node_status),
        TableColumn("Roles", _roles),
        AGE,
        TableColumn("Version", at("status", "nodeInfo", "kubeletVersion", absent="")),
        TableColumn("Internal-IP", _address("InternalIP"), priority=_WIDE),
        TableColumn("External-IP", _address("ExternalIP"), priority=_WIDE),
        TableColumn(
            "OS-Image", at("status", "nodeInfo", "osImage", absent=_UNKNOWN), priority=_WIDE
        ),
        TableColumn(
            "Kernel-Version",
            at("status", "nodeInfo", "kernelVersion", absent=_UNKNOWN),
            priority=_WIDE,
        ),
        TableColumn(
            "Container-Runtime",
            at("status", "nodeInfo", "containerRuntimeVersion", absent=_UNKNOWN),
            priority=_WIDE,
        ),
    ),
    "events": (
        TableColumn("Last Seen", _last_seen),
        TableColumn("Type", at("type", absent="")),
        TableColumn("Reason", at("reason", absent="")),
        TableColumn("Object", _event_object),
        TableColumn("Message", _event_message),
        TableColumn("Name", name, priority=_WIDE),
    ),
    "namespaces": _columns(TableColumn("Status", at("status", "phase", absent=""))),
    "services": _columns(
        TableColumn("Type", at("spec", "type", absent="")),
        TableColumn("Cluster-IP", at("spec", "clusterIP")),
        TableColumn("External-IP", _external),
        TableColumn("Port(s)", _ports),
        after=(TableColumn("Selector", _selector, priority=_WIDE),),
    ),
    "deployments.apps": _columns(
        TableColumn("Ready", _replicas_ready),
        TableColumn("Up-to-date", _count("status", "updatedReplicas"), "integer"),
        TableColumn("Available", _count("status", "availableReplicas"), "integer"),
        after=(
            TableColumn("Images", _images, priority=_WIDE),
            TableColumn("Selector", _selector, priority=_WIDE),
        ),
    ),
    "replicasets.apps": _columns(
        TableColumn("Desired", _count("spec", "replicas"), "integer"),
        TableColumn("Current", _count("status", "replicas"), "integer"),
        TableColumn("Ready", _count("status", "readyReplicas"), "integer"),
    ),
    "statefulsets.apps": _columns(TableColumn("Ready", _replicas_ready)),
    "persistentvolumeclaims": _columns(
        TableColumn("Status", at("status", "phase", absent="")),
        TableColumn("Volume", at("spec", "volumeName", absent="")),
        TableColumn("Capacity", at("status", "capacity", "storage", absent="")),
        TableColumn("Access Modes", _access_modes),
        TableColumn("StorageClass", at("spec", "storageClassName", absent="")),
    ),
    "persistentvolumes": _columns(
        TableColumn("Capacity", at("spec", "capacity", "storage", absent="")),
        TableColumn("Access Modes", _access_modes),
        TableColumn("Reclaim Policy", at("spec", "persistentVolumeReclaimPolicy", absent="")),
        TableColumn("Status", at("status", "phase", absent="")),
        TableColumn("Claim", _claim),
        TableColumn("StorageClass", at("spec", "storageClassName", absent="")),
    ),
    "leases.coordination.k8s.io": _columns(
        TableColumn("Holder", at("spec", "holderIdentity", absent=""))
    ),
    "priorityclasses.scheduling.k8s.io": (
        NAME,
        TableColumn("Value", at("value", absent=0), "integer"),
        TableColumn("Global-Default", at("globalDefault", absent=False), "boolean"),
        AGE,
        TableColumn("PreemptionPolicy", at("preemptionPolicy", absent="")),
    ),
    "poddisruptionbudgets.policy": _columns(
        TableColumn("Min Available", at("spec", "minAvailable", absent="N/A")),
        TableColumn("Max Unavailable", at("spec", "maxUnavailable", absent="N/A")),
        TableColumn("Allowed Disruptions", _count("status", "disruptionsAllowed"), "integer"),
    ),
    "storageclasses.storage.k8s.io": _columns(
        TableColumn("Provisioner", at("provisioner", absent="")),
        TableColumn("ReclaimPolicy", at("reclaimPolicy", absent="")),
        TableColumn("VolumeBindingMode", at("volumeBindingMode", absent="")),
    ),
    "configmaps": _columns(TableColumn("Data", _count("", "data"), "integer")),
    "secrets": _columns(
        TableColumn("Type", at("type", absent="")),
        TableColumn("Data", _count("", "data"), "integer"),
    ),
}
_DEFAULT = _columns()


def columns_of(resource: ApiResource) -> tuple[TableColumn, ...]:
    """The columns of a resource; name and age where nothing better is known."""
    return _COLUMNS.get(resource.storage, _DEFAULT)
