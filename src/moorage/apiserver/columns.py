"""The columns `kubectl get` shows, per resource: `columns.yaml`, and the cells it names.

Upstream:
kubernetes@v1.37.1 pkg/printers/internalversion/printers.go.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from moorage.apiserver.defaults import mappings
from moorage.apiserver.errors import Json
from moorage.apiserver.metadata import seconds_of, value_at
from moorage.apiserver.resources import ApiResource, StorageKey
from moorage.printable import human_duration
from moorage.tables import read_table

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


def _at(path: Sequence[str], absent: Any) -> Cell:
    def cell(obj: Json, _: float) -> Any:
        value = value_at(obj, path)
        return absent if value is None or value == "" else value

    return cell


def _count(path: Sequence[str]) -> Cell:
    def cell(obj: Json, _: float) -> int:
        value = value_at(obj, path)
        return len(value) if isinstance(value, dict | list) else int(value or 0)

    return cell


def _age(obj: Json, now: float) -> str:
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


_CELLS: Mapping[str, Cell] = {
    "access modes": _access_modes,
    "claim": _claim,
    "event message": _event_message,
    "event object": _event_object,
    "external IP": _address("ExternalIP"),
    "external IPs": _external,
    "images": _images,
    "internal IP": _address("InternalIP"),
    "last seen": _last_seen,
    "node status": _node_status,
    "pod status": _pod_status,
    "ports": _ports,
    "readiness gates": _gates,
    "ready containers": _ready,
    "ready replicas": _replicas_ready,
    "restarts": _restarts,
    "roles": _roles,
    "selector": _selector,
}


NAME = TableColumn(
    "Name", _at(("metadata", "name"), ""), description="Name must be unique within a namespace."
)
AGE = TableColumn("Age", _age, description="Time since creation.")


def _column(entry: Json | str) -> TableColumn:
    if isinstance(entry, str):
        return {"NAME": NAME, "AGE": AGE}[entry]
    if "cell" in entry:
        cell = _CELLS[entry["cell"]]
    elif "count" in entry:
        cell = _count(entry["count"].split("."))
    else:
        cell = _at(entry["at"].split("."), entry.get("absent", ""))
    return TableColumn(entry["name"], cell, entry.get("type", "string"), int("wide" in entry))


_COLUMNS: Mapping[StorageKey, tuple[TableColumn, ...]] = {
    storage: tuple(map(_column, entries))
    for storage, entries in read_table(
        "moorage.apiserver", "columns.yaml", dict[StorageKey, list[Json | str]]
    ).items()
}


def columns_of(resource: ApiResource) -> tuple[TableColumn, ...]:
    """The columns of a resource; name and age where nothing better is known."""
    return _COLUMNS.get(resource.storage, (NAME, AGE))
