"""The subresources that are more than a part of an object: binding, eviction, scale.

No disruption controller runs beside this server, so a budget whose status nobody maintains is
computed here from the pods it selects. Upstream: kubernetes@v1.37.1 pkg/registry/core/pod/storage
(`BindingREST`, `EvictionREST`) and pkg/registry/apps/*/storage (`ScaleREST`).
"""

from typing import NamedTuple

import msgspec

from moorage.apiserver.cells import selector_text
from moorage.apiserver.deletion import DeleteOptions, check_preconditions
from moorage.apiserver.errors import (
    ApiStatusError,
    Cause,
    Json,
    bad_request,
    conflict,
    invalid,
    too_many_requests,
)
from moorage.apiserver.history import Stored
from moorage.apiserver.metadata import value_at
from moorage.apiserver.operations import Operations
from moorage.apiserver.resources import BY_PLURAL, ApiResource
from moorage.apiserver.storage import Storage
from moorage.model.labels import LabelSelector, Selector, compile_selector
from moorage.model.meta import merge_patch

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


_BUDGETS = "poddisruptionbudgets.policy"
_RETRY_SECONDS = 10
_FIELDS_PHASE = 1


class Allowance(NamedTuple):
    """How many pods of a budget may go now."""

    allowed: int
    desired: int
    healthy: int


def evict(operations: Operations, namespace: str, name: str, eviction: Json) -> None:
    """Delete a pod unless its disruption budget forbids it."""
    options = DeleteOptions.read(eviction.get("deleteOptions") or {}, {})
    stored = operations.get(_PODS, namespace, name)
    pod = stored.object()
    phase = (pod.get("status") or {}).get("phase")
    going = pod["metadata"].get("deletionTimestamp")
    if phase not in ("Succeeded", "Failed", "Pending") and not going:
        budgets = _budgets_of(operations.store, stored)
        if len(budgets) > 1:
            raise ApiStatusError(
                500,
                "InternalError",
                "This pod has more than one PodDisruptionBudget, which the eviction subresource "
                "does not support.",
            )
        for budget in budgets:
            _take(operations, stored, budget, dry_run=options.dry_run)
    operations.delete(_PODS, namespace, name, options)


def _budgets_of(store: Storage, pod: Stored) -> list[Stored]:
    return [
        budget
        for budget in store.collection(_BUDGETS).within(pod.namespace)
        if _selector(budget.object()).matches(pod.labels)
    ]


def _selector(budget: Json) -> Selector:
    given = (budget.get("spec") or {}).get("selector")
    return compile_selector(None if given is None else msgspec.convert(given, LabelSelector))


def _take(operations: Operations, pod: Stored, stored: Stored, *, dry_run: bool) -> None:
    budget = stored.object()
    status = budget.setdefault("status", {})
    maintained = "observedGeneration" in status
    if maintained and status["observedGeneration"] < budget["metadata"].get("generation", 0):
        text = f"The disruption budget {stored.name} is still being processed by the server."
        raise _too_many_evictions(text, _RETRY_SECONDS)
    if maintained:
        allowance = Allowance(
            status.get("disruptionsAllowed", 0),
            status.get("desiredHealthy", 0),
            status.get("currentHealthy", 0),
        )
    else:
        allowance = _computed(operations.store, budget, pod.namespace)
    if allowance.allowed <= 0:
        text = (
            f"The disruption budget {stored.name} needs {allowance.desired} healthy pods and has "
            f"{allowance.healthy} currently"
        )
        raise _too_many_evictions(text, None)
    if maintained and not dry_run:
        status["disruptionsAllowed"] = allowance.allowed - 1
        disrupted = status.get("disruptedPods") or {}
        status["disruptedPods"] = {**disrupted, pod.name: operations.identities.now()}
        operations.store.update(operations.store.collection(_BUDGETS), stored, budget)


def _too_many_evictions(why: str, retry_after: int | None) -> ApiStatusError:
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    return too_many_requests(message, retry_after, [{"reason": "DisruptionBudget", "message": why}])


def _computed(store: Storage, budget: Json, namespace: str) -> Allowance:
    selector = _selector(budget)
    members = [pod for pod in store.pods.within(namespace) if selector.matches(pod.labels)]
    healthy = sum(1 for pod in members if _healthy(pod))
    spec = budget.get("spec") or {}
    total = len(members)
    if spec.get("maxUnavailable") is not None:
        desired = max(0, total - _share(spec["maxUnavailable"], total))
    else:
        desired = _share(spec.get("minAvailable", 1), total)
    return Allowance(max(0, healthy - desired), desired, healthy)


def _healthy(pod: Stored) -> bool:
    if pod.fields[_FIELDS_PHASE] != "Running":
        return False
    obj = pod.object()
    if obj["metadata"].get("deletionTimestamp"):
        return False
    conditions = (obj.get("status") or {}).get("conditions") or []
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def _share(amount: int | str, total: int) -> int:
    """A number, or a percentage of all pods rounded up."""
    if isinstance(amount, str):
        return -(-int(amount.rstrip("%")) * total // 100)
    return amount


_IDENTITY = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


_REPLICAS = (".spec.replicas", ".status.replicas", "")


def scale_of(resource: ApiResource, stored: Stored, *, to_change: bool = False) -> Json:
    """The `Scale` of a workload, or of an object whose definition says where its replicas are."""
    obj = stored.object()
    wanted, there, selector = resource.scale or _REPLICAS
    told = value_at(obj, _steps(selector)) if selector else None
    if not resource.scale:
        told = selector_text((obj.get("spec") or {}).get("selector"))
    replicas = value_at(obj, _steps(wanted))
    if replicas is None and resource.scale and not to_change:
        why = f'the spec replicas field "{wanted}" does not exist'
        raise ApiStatusError(500, "InternalError", f"Internal error occurred: {why}")
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {k: v for k, v in obj["metadata"].items() if k in _IDENTITY},
        "spec": {"replicas": replicas or 0},
        "status": {
            "replicas": value_at(obj, _steps(there)) or 0,
            "selector": "" if told in (None, "<none>") else told,
        },
    }


def _steps(path: str) -> list[str]:
    return path.strip(".").split(".")


def rescaled(resource: ApiResource, obj: Json, scale: Json) -> Json:
    """The object with the replicas a `Scale` asks for."""
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    metadata = {**obj["metadata"]}
    version = (scale.get("metadata") or {}).get("resourceVersion")
    if version:
        metadata["resourceVersion"] = version
    wanted = (resource.scale or _REPLICAS)[0]
    if resource.scale and replicas < 0:
        text = f"Invalid value: {replicas}: should be a non-negative integer"
        raise invalid(resource.kind, resource.group, metadata["name"], [Cause(wanted, text)])
    for step in reversed(_steps(wanted)):
        replicas = {step: replicas}
    return {**merge_patch(obj, replicas), "metadata": metadata}
