"""Which fields a field selector may name, and how their values are read from an object.

Values are taken once, when an object is stored, so that selecting needs no decoding.
Upstream: kubernetes@v1.36.4 pkg/apis/core/v1/conversion.go, `ToSelectableFields` in registries.
"""

import sys
from collections.abc import Mapping
from typing import Any

_EVENT = tuple(
    f"involvedObject.{name}"
    for name in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
)

SELECTABLE: Mapping[str, tuple[str, ...]] = {
    "pods": (
        "spec.nodeName",
        "status.phase",
        "spec.schedulerName",
        "spec.restartPolicy",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    "nodes": ("spec.unschedulable",),
    "namespaces": ("status.phase",),
    "secrets": ("type",),
    "events": (*_EVENT, "reason", "reportingComponent", "source", "type"),
    "replicasets.apps": ("status.replicas",),
    "replicationcontrollers": ("status.replicas",),
    "jobs.batch": ("status.successful",),
    "resourceslices.resource.k8s.io": ("spec.nodeName", "spec.driver"),
}

# What a field is when the object does not have it; all others are then empty strings.
_ABSENT = {
    "spec.hostNetwork": "false",
    "spec.unschedulable": "false",
    "status.replicas": "0",
    "status.successful": "0",
}

# The newer events API calls the same fields by other names.
ALIASES = {
    "reportingController": "reportingComponent",
    "source": "reportingComponent",
    **{field.replace("involvedObject", "regarding"): field for field in _EVENT},
}

_PATHS = {
    storage: tuple((tuple(name.split(".")), _ABSENT.get(name, "")) for name in names)
    for storage, names in SELECTABLE.items()
}


def field_values(storage: str, obj: Mapping[str, Any]) -> tuple[str, ...]:
    """The values of the selectable fields, in the table's order."""
    paths = _PATHS.get(storage)
    if paths is None:
        return ()
    return tuple([_value(obj, path, absent) for path, absent in paths])


def _value(obj: Any, path: tuple[str, ...], absent: str) -> str:
    for step in path:
        if not isinstance(obj, dict):
            return absent
        obj = obj.get(step)
    if obj is None:
        return absent
    if obj is True or obj is False:
        return "true" if obj else "false"
    # Thousands of pods share a phase or a node's name: interning keeps one copy of each.
    return sys.intern(obj) if type(obj) is str else str(obj)
