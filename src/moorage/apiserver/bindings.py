"""The binding of a pod to a node.

Upstream: kubernetes@v1.36.4 pkg/registry/core/pod/storage/storage.go (`BindingREST`).
"""

from moorage.apiserver.deletion import DeleteOptions, check_preconditions
from moorage.apiserver.operations import Operations
from moorage.apiserver.resources import BY_PLURAL
from moorage.apiserver.statuses import Cause, Json, bad_request, conflict, invalid

_PODS = BY_PLURAL["", "v1", "pods"]
_BINDING = "pods/binding"


def bind(
    operations: Operations, namespace: str, name: str, binding: Json, *, dry_run: bool = False
) -> None:
    """Assign a pod to the node that `binding` names, once and for good."""
    metadata = binding.get("metadata") or {}
    given = metadata.get("name") or name
    if given != name:
        raise bad_request("name in URL does not match name in Binding object")
    node = _target(binding, name)
    stored = operations.get(_PODS, namespace, name)
    expected = DeleteOptions(
        uid=metadata.get("uid") or "", version=metadata.get("resourceVersion") or ""
    )
    check_preconditions(_PODS, stored, expected)
    pod = stored.object()
    spec = pod["spec"]
    if pod["metadata"].get("deletionTimestamp"):
        why = f"pod {name} is being deleted, cannot be assigned to a host"
        raise conflict(_BINDING, "", name, why)
    if spec.get("nodeName"):
        why = f'pod {name} is already assigned to node "{spec["nodeName"]}"'
        raise conflict(_BINDING, "", name, why)
    if spec.get("schedulingGates"):
        why = f"pod {name} has non-empty .spec.schedulingGates"
        raise conflict(_BINDING, "", name, why)
    if dry_run:
        return
    spec["nodeName"] = node
    _copy(pod["metadata"], "annotations", metadata.get("annotations"))
    labels = {**(metadata.get("labels") or {}), **operations.admission.topology_labels(node)}
    _copy(pod["metadata"], "labels", labels)
    status = pod.setdefault("status", {})
    status.pop("nominatedNodeName", None)
    scheduled = {"type": "PodScheduled", "status": "True"}
    set_condition(status, scheduled, operations.identities.now())
    operations.store.update(operations.store.pods, stored, pod)


def set_condition(status: Json, condition: Json, now: str) -> None:
    """Replace the condition of that type; the time moves only when its status does."""
    conditions: list[Json] = status.get("conditions") or []
    complete = {
        "type": condition["type"],
        "status": condition["status"],
        "lastProbeTime": None,
        "lastTransitionTime": now,
        **condition,
    }
    for index, present in enumerate(conditions):
        if present.get("type") == condition["type"]:
            if present.get("status") == condition["status"]:
                complete["lastTransitionTime"] = present.get("lastTransitionTime", now)
            conditions[index] = complete
            break
    else:
        conditions.append(complete)
    status["conditions"] = conditions


def _target(binding: Json, name: str) -> str:
    target = binding.get("target") or {}
    kind, node = target.get("kind") or "Node", target.get("name") or ""
    if kind not in ("Node", "Minion"):
        text = f'Unsupported value: "{kind}": supported values: "Node", "<empty>"'
        cause = Cause("target.kind", text, "FieldValueNotSupported")
        raise invalid("Binding", "", name, [cause])
    if not node:
        cause = Cause("target.name", "Required value", "FieldValueRequired")
        raise invalid("Binding", "", name, [cause])
    return str(node)


def _copy(metadata: Json, field: str, values: dict[str, str] | None) -> None:
    if values:
        metadata[field] = {**(metadata.get(field) or {}), **values}
