"""What stands in a cell of `kubectl get`, where that is more than the value of a field.

Cells are functions of an object and the time; which column shows which is said in `columns`. Those
of pods, nodes and workloads are in `workload_cells`.
Upstream: kubernetes@v1.37.1 pkg/printers/internalversion/printers.go.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from moorage.apiserver.defaults import mappings
from moorage.apiserver.errors import Json
from moorage.apiserver.metadata import seconds_of, value_at
from moorage.printable import human_duration

Cell = Callable[[Json, float], Any]
NONE = "<none>"
UNKNOWN = "<unknown>"
_UNSET = "<unset>"


def age_of(text: Any, now: float) -> str:
    """How long ago a timestamp was."""
    if not isinstance(text, str) or not text:
        return UNKNOWN
    try:
        return human_duration(now - seconds_of(text))
    except ValueError:
        return UNKNOWN


def age(obj: Json, now: float) -> str:
    """How old the object is."""
    return age_of(obj["metadata"].get("creationTimestamp"), now)


def section(obj: Json, part: str) -> Json:
    """A part of an object, empty if it is none."""
    section = obj.get(part)
    return section if isinstance(section, dict) else {}


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
    ports = mappings(section(obj, "spec").get("ports"))
    return ",".join(f"{p.get('port')}/{p.get('protocol', 'TCP')}" for p in ports) or NONE


def _external(obj: Json, _: float) -> str:
    return ",".join(section(obj, "spec").get("externalIPs") or []) or NONE


def selector_text(value: Any) -> str:
    """A selector or plain map as `a=b,c in (d)`."""
    if not isinstance(value, dict) or not value:
        return NONE
    labels = value.get("matchLabels") if "matchLabels" in value else value
    if not isinstance(labels, dict) or not all(isinstance(v, str) for v in labels.values()):
        labels = {}
    parts = [f"{key}={text}" for key, text in sorted(labels.items())]
    for expr in mappings(value.get("matchExpressions")):
        values = ",".join(expr.get("values") or [])
        operator = str(expr.get("operator", "")).lower()
        parts.append(f"{expr.get('key')} {operator} ({values})")
    return ",".join(parts) or NONE


def _selector(obj: Json, _: float) -> str:
    return selector_text(section(obj, "spec").get("selector"))


_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX"}


def _access_modes(obj: Json, _: float) -> str:
    modes = section(obj, "spec").get("accessModes") or []
    return ",".join(_MODES.get(mode, "RWOP") for mode in modes)


def _claim(obj: Json, _: float) -> str:
    claim = section(obj, "spec").get("claimRef") or {}
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""


def boolean(*path: str) -> Cell:
    """A boolean as text, which may be unset."""

    def cell(obj: Json, _: float) -> str:
        value = value_at(obj, path)
        return _UNSET if value is None else str(value).capitalize()

    return cell


def _pod_selector(obj: Json, _: float) -> str:
    return selector_text(section(obj, "spec").get("podSelector"))


# ---- networks ----


def some(texts: Iterable[str], most: int = 3) -> str:
    """The first of some texts, and how many more there are."""
    listed = list(texts)
    joined = ",".join(listed[:most])
    return f"{joined} + {len(listed) - most} more..." if len(listed) > most else joined


def _endpoints(obj: Json, _: float) -> str:
    shown: list[str] = []
    for subset in mappings(obj.get("subsets")):
        addresses = [str(one.get("ip", "")) for one in mappings(subset.get("addresses"))]
        ports = [f":{port.get('port')}" for port in mappings(subset.get("ports"))]
        shown += [address + port for port in ports or [""] for address in addresses]
    return some(shown) or NONE


def _slice_ports(obj: Json, _: float) -> str:
    ports = mappings(obj.get("ports"))
    return some(str(port.get("port") or port.get("name") or "*") for port in ports) or _UNSET


def _slice_endpoints(obj: Json, _: float) -> str:
    endpoints = mappings(obj.get("endpoints"))
    return some(str(one) for each in endpoints for one in each.get("addresses") or []) or _UNSET


def _hosts(obj: Json, _: float) -> str:
    rules = mappings(section(obj, "spec").get("rules"))
    return some(str(rule["host"]) for rule in rules if rule.get("host")) or "*"


def _ingress_ports(obj: Json, _: float) -> str:
    return "80, 443" if section(obj, "spec").get("tls") else "80"


def _ingress_addresses(obj: Json, _: float) -> str:
    balancer = section(section(obj, "status"), "loadBalancer")
    found = mappings(balancer.get("ingress"))
    return ",".join(str(one.get("ip") or one.get("hostname") or "") for one in found)


def _parameters(obj: Json, _: float) -> str:
    parameters = section(section(obj, "spec"), "parameters")
    if not parameters:
        return NONE
    group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") else ""
    return f"{parameters.get('kind', '')}{group}/{parameters.get('name', '')}"


# ---- rights, quotas, definitions ----


def _role(obj: Json, _: float) -> str:
    reference = section(obj, "roleRef")
    return f"{reference.get('kind', '')}/{reference.get('name', '')}"


def _subjects(kind: str) -> Cell:
    def cell(obj: Json, _: float) -> str:
        found = [one for one in mappings(obj.get("subjects")) if one.get("kind") == kind]
        spaces = (f"{one['namespace']}/" if one.get("namespace") else "" for one in found)
        return ", ".join(
            f"{space}{one.get('name')}" for space, one in zip(spaces, found, strict=True)
        )

    return cell


def _quota(*, limits: bool) -> Cell:
    def cell(obj: Json, _: float) -> str:
        status = section(obj, "status")
        hard, used = section(status, "hard"), section(status, "used")
        names = [name for name in sorted(hard) if name.startswith("limits.") is limits]
        return ", ".join(f"{name}: {used.get(name, 0)}/{hard[name]}" for name in names)

    return cell


def _controller(obj: Json, _: float) -> str:
    owners = mappings(obj["metadata"].get("ownerReferences"))
    owner = next((one for one in owners if one.get("controller")), None)
    if owner is None:
        return NONE
    group = str(owner.get("apiVersion", "")).rpartition("/")[0]
    kind = str(owner.get("kind", "")).lower()
    return f"{kind}.{group}/{owner.get('name')}" if group else f"{kind}/{owner.get('name')}"


def _versions(obj: Json, _: float) -> str:
    versions = mappings(section(obj, "spec").get("versions"))
    return ",".join(str(one.get("name")) for one in versions)


def _established(obj: Json, _: float) -> bool:
    conditions = mappings(section(obj, "status").get("conditions"))
    return any(c.get("type") == "Established" and c.get("status") == "True" for c in conditions)


# ---- scheduling and devices ----


def _policy(obj: Json, _: float) -> str:
    return "Gang" if "gang" in section(section(obj, "spec"), "schedulingPolicy") else "Basic"


def _group_status(obj: Json, _: float) -> str:
    conditions = mappings(section(obj, "status").get("conditions"))
    known = {one.get("type"): one for one in conditions}
    if "DisruptionTarget" in known:
        return str(known["DisruptionTarget"].get("reason", ""))
    scheduled = known.get("PodGroupInitiallyScheduled")
    if scheduled is None:
        return "Pending"
    return "Scheduled" if scheduled.get("status") == "True" else "Unschedulable"


def _claim_state(obj: Json, _: float) -> str:
    status = section(obj, "status")
    deleted = ["deleted"] if obj["metadata"].get("deletionTimestamp") else []
    if not status.get("allocation"):
        return ",".join(deleted or ["pending"])
    return ",".join([*deleted, "allocated", *(["reserved"] if status.get("reservedFor") else [])])


def _joined(*path: str) -> Cell:
    """The texts of a list."""

    def cell(obj: Json, _: float) -> str:
        return ",".join(map(str, value_at(obj, path) or [])) or NONE

    return cell


def _token_requests(obj: Json, _: float) -> str:
    requests = section(obj, "spec").get("tokenRequests")
    if requests is None:
        return _UNSET
    return ",".join(str(one.get("audience", "")) for one in mappings(requests))


# ---- events ----


def _event_source(obj: Json, _: float) -> str:
    source = obj.get("source") or obj.get("deprecatedSource") or {}
    controller = obj.get("reportingComponent") or obj.get("reportingController")
    parts = (
        source.get("component") or controller,
        source.get("host") or obj.get("reportingInstance"),
    )
    return ", ".join(str(part) for part in parts if part)


def _first_seen(obj: Json, now: float) -> str:
    first = obj.get("firstTimestamp") or obj.get("deprecatedFirstTimestamp")
    return age_of(first or obj.get("eventTime"), now)


def _event_count(obj: Json, _: float) -> int:
    count = (obj.get("series") or {}).get("count")
    return int(count or obj.get("count") or obj.get("deprecatedCount") or 1)


CELLS: Mapping[str, Cell] = {
    "access modes": _access_modes,
    "age": age,
    "claim": _claim,
    "claim state": _claim_state,
    "controller": _controller,
    "endpoints": _endpoints,
    "established": _established,
    "event count": _event_count,
    "event message": _event_message,
    "event object": _event_object,
    "event source": _event_source,
    "external IPs": _external,
    "first seen": _first_seen,
    "group status": _group_status,
    "groups": _subjects("Group"),
    "hosts": _hosts,
    "ingress addresses": _ingress_addresses,
    "ingress ports": _ingress_ports,
    "last seen": _last_seen,
    "lifecycle modes": _joined("spec", "volumeLifecycleModes"),
    "parameters": _parameters,
    "pod selector": _pod_selector,
    "policy": _policy,
    "ports": _ports,
    "quota limits": _quota(limits=True),
    "quota requests": _quota(limits=False),
    "role": _role,
    "selector": _selector,
    "service accounts": _subjects("ServiceAccount"),
    "short names": _joined("spec", "names", "shortNames"),
    "slice endpoints": _slice_endpoints,
    "slice ports": _slice_ports,
    "token requests": _token_requests,
    "users": _subjects("User"),
    "versions": _versions,
    "volume expansion": boolean("allowVolumeExpansion"),
}
"""Cells by the names that columns.yaml gives them."""
