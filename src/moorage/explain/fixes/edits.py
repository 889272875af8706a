"""Changes as edits of API objects, and which of them the API allows on a pod that exists."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from moorage.explain.fixes.changes import Change
from moorage.explain.fixes.patches import Operation, Operations, patched, pointer
from moorage.explain.report import Edit
from moorage.model.meta import ApiObject, Json
from moorage.model.pod import Container, Pod
from moorage.model.quantity import parse_milli
from moorage.model.resources import CPU, MEMORY

_MUTABLE = ("/spec/tolerations", "/spec/schedulingGates")
"""What may be changed in a pod that waits: tolerations may be added, gates removed."""
_RESIZED = (CPU, MEMORY)


def edits_of(pod: Pod, change: Change) -> tuple[Edit, ...]:
    """What to do to which object, in an order in which it can be done."""
    known = {edit.name for edit in change.node_edits}
    new: list[ApiObject] = [node for node in change.nodes if node.name not in known]
    return (
        *(Edit(obj.kind, obj.key, create=document(obj)) for obj in (*change.objects, *new)),
        *change.node_edits,
        *(Edit("Pod", other.key, delete=True) for other in change.gone),
        *_pod_edits(pod, change.patch),
    )


def document(obj: ApiObject) -> Json:
    """An object as the API takes it: what is as by default is left out."""
    members: Json = _document(obj)
    return members


def _document(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return {
            field.encode_name: _document(given)
            for field in msgspec.structs.fields(value)
            if (given := getattr(value, field.name)) != _default(field)
        }
    if isinstance(value, dict):
        return {key: _document(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_document(item) for item in value]
    return value


def _default(field: msgspec.structs.FieldInfo) -> Any:
    factory = field.default_factory
    return field.default if factory is msgspec.NODEFAULT else factory()


def _pod_edits(pod: Pod, patch: Operations) -> list[Edit]:
    """One patch, or two if a part has to go elsewhere."""
    plain = tuple(one for one in patch if str(one["path"]).startswith(_MUTABLE))
    rest = tuple(one for one in patch if one not in plain)
    if rest and not _resizes(pod, rest):
        return [Edit("Pod", pod.key, patch, recreate=True)]
    edits = [Edit("Pod", pod.key, plain)] if plain else []
    if rest:
        edits.append(Edit("Pod", pod.key, rest, subresource="resize"))
    return edits


def _resizes(pod: Pod, operations: Operations) -> bool:
    """Are these requests that may be lowered in place?

    The API allows it for cpu and memory of containers that go on running and claim no devices, as
    long as the pod's class of service stays what it is.
    """
    if pod.spec.resources is not None or pod.status.node_allocatable_resource_claim_statuses:
        return False
    allowed = {
        pointer("spec", field, i, "resources", "requests"): container.resources.requests
        for field, containers in _running(pod)
        for i, container in enumerate(containers)
        if (field == "containers" or container.is_sidecar) and not container.resources.claims
    }
    if not all(_lowers_in_place(one, allowed) for one in operations):
        return False
    return _service_class(pod) == _service_class(patched(pod, operations))


def _lowers_in_place(operation: Operation, allowed: Mapping[str, Mapping[str, Any]]) -> bool:
    """Is it about nothing but cpu and memory of places that are allowed?"""
    path, value = str(operation["path"]), operation.get("value")
    if path in allowed and isinstance(value, dict):
        now = allowed[path]
        return all(value.get(name) == now[name] for name in now if name not in _RESIZED)
    place, _, name = path.rpartition("/")
    return place in allowed and name in _RESIZED


def _running(pod: Pod) -> Sequence[tuple[str, tuple[Container, ...]]]:
    return (("containers", pod.spec.containers), ("initContainers", pod.spec.init_containers))


def _service_class(pod: Pod) -> str:
    """The quality-of-service class, by the rules of the API."""
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    asked = False
    guaranteed = True
    for container in containers:
        for name in (CPU, MEMORY):
            request = parse_milli(container.resources.requests.get(name, 0))
            limit = parse_milli(container.resources.limits.get(name, 0))
            asked = asked or request > 0 or limit > 0
            guaranteed = guaranteed and limit > 0 and request == limit
    return "Guaranteed" if asked and guaranteed else "Burstable" if asked else "BestEffort"
