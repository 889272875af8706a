"""Eviction: a deletion that asks the pod's disruption budget first.

No disruption controller runs beside this server, so a budget whose status nobody maintains is
computed here from the pods it selects. Upstream: pkg/registry/core/pod/storage/eviction.go.
"""

from typing import NamedTuple

import msgspec

from moorage.apiserver.deletion import DeleteOptions
from moorage.apiserver.history import Stored
from moorage.apiserver.operations import Operations
from moorage.apiserver.resources import BY_PLURAL
from moorage.apiserver.statuses import ApiStatusError, Json, too_many_requests
from moorage.apiserver.storage import Storage
from moorage.model.labels import LabelSelector, Selector, compile_selector

_PODS = BY_PLURAL["", "v1", "pods"]
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
    if maintained:
        allowance = Allowance(
            status.get("disruptionsAllowed", 0),
            status.get("desiredHealthy", 0),
            status.get("currentHealthy", 0),
        )
    else:
        allowance = _computed(operations.store, budget, pod.namespace)
    if allowance.allowed <= 0:
        message = "Cannot evict pod as it would violate the pod's disruption budget."
        text = (
            f"The disruption budget {stored.name} needs {allowance.desired} healthy pods and has "
            f"{allowance.healthy} currently"
        )
        cause = {"reason": "DisruptionBudget", "message": text}
        raise too_many_requests(message, _RETRY_SECONDS, [cause])
    if maintained and not dry_run:
        status["disruptionsAllowed"] = allowance.allowed - 1
        disrupted = status.get("disruptedPods") or {}
        status["disruptedPods"] = {**disrupted, pod.name: operations.identities.now()}
        operations.store.update(operations.store.collection(_BUDGETS), stored, budget)


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
