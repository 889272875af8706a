"""ReplicaSets and ReplicationControllers: as many pods as asked for, no more and no fewer.

Upstream: kubernetes@v1.37.1 pkg/controller/replicaset, pkg/controller/replication.
"""

from typing import Any

from moorage.controllers.cluster import ClusterObjects
from moorage.controllers.objects import (
    Json,
    age,
    annotations,
    condition,
    controller_of,
    finds_its_own,
    is_active,
    is_finished,
    is_going,
    is_ready,
    labels,
    meta,
    phase,
    pod_from,
    replicas,
    seconds,
    seconds_to_available,
    spec,
    status,
    template_labels,
    with_condition,
    without_condition,
)
from moorage.controllers.plan import Note, Plan

BURST = 500
"""At most so many pods are created or deleted before the ReplicaSet is looked at again."""
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_PHASES = ("Pending", "Unknown", "Running")


def reconcile(cluster: ClusterObjects, owner: Json, now: float) -> Plan:
    """Count the pods, say so in the status, and make or delete what is missing or too much."""
    plan = Plan()
    if not finds_its_own(owner):
        return plan
    pods = plan.claim(cluster, owner, "Pod")
    active = [pod for pod in pods if is_active(pod)]
    missing = 0 if is_going(owner) else replicas(owner) - len(active)
    _report(plan, cluster, owner, active, pods, missing, now)
    for _ in range(min(missing, BURST)):
        note = Note(owner, "SuccessfulCreate", "Created pod: {name}")
        plan.create(pod_from(spec(owner).get("template") or {}, owner), note)
    if missing < 0:
        related = _pods_of_siblings(cluster, owner)
        ranked = sorted(active, key=lambda pod: _worth(pod, related, now))
        for pod in ranked[: min(-missing, BURST)]:
            plan.delete(pod, Note(owner, "SuccessfulDelete", "Deleted pod: {name}"))
    return plan


def _report(
    plan: Plan,
    cluster: ClusterObjects,
    owner: Json,
    active: list[Json],
    pods: list[Json],
    missing: int,
    now: float,
) -> None:
    min_ready = spec(owner).get("minReadySeconds") or 0
    wait = [seconds_to_available(pod, min_ready, now) for pod in active]
    plan.look_again(wait)
    template = template_labels(owner)
    conditions = status(owner).get("conditions") or []
    failure = cluster.failure(owner)
    if not failure or not missing:
        conditions = without_condition(conditions, "ReplicaFailure")
    elif condition(owner, "ReplicaFailure") is None:
        reason = "FailedCreate" if missing > 0 else "FailedDelete"
        new = {"type": "ReplicaFailure", "status": "True", "reason": reason, "message": failure}
        conditions = with_condition(conditions, new, now)
    counts: dict[str, Any] = {
        "replicas": len(active),
        "fullyLabeledReplicas": sum(template.items() <= labels(pod).items() for pod in active),
        "readyReplicas": sum(map(is_ready, active)),
        "availableReplicas": wait.count(0.0),
        "observedGeneration": meta(owner).get("generation", 0),
        "conditions": conditions,
    }
    if owner["kind"] == "ReplicaSet":
        leaving = sum(is_going(pod) and not is_finished(pod) for pod in pods)
        counts["terminatingReplicas"] = leaving
    plan.set_status(owner, counts, required=["replicas", "terminatingReplicas"])


def _pods_of_siblings(cluster: ClusterObjects, owner: Json) -> dict[str, int]:
    """By node: the active pods of all ReplicaSets with the same controller."""
    above = controller_of(owner)
    family = [owner]
    if above is not None:
        family = cluster.controlled("ReplicaSet", {"metadata": {"uid": above["uid"]}})
    count: dict[str, int] = {}
    for member in family:
        for pod in cluster.controlled("Pod", member):
            node = spec(pod).get("nodeName", "")
            count[node] = count.get(node, 0) + is_active(pod)
    return count


def _worth(pod: Json, on_node: dict[str, int], now: float) -> tuple[Any, ...]:
    """What to delete first sorts first: what has come least far, then what is crowded or young."""
    node, ready = spec(pod).get("nodeName", ""), is_ready(pod)
    since = (condition(pod, "Ready") or {}).get("lastTransitionTime") if ready else None
    restarts = max((one.get("restartCount", 0) for one in _containers(pod)), default=0)
    return (
        bool(node),
        _PHASES.index(phase(pod)) if phase(pod) in _PHASES else 0,
        ready,
        _cost(pod),
        -on_node.get(node, 0) if node else 0,
        _magnitude(now - seconds(since)) if since else 0,
        -restarts,
        _magnitude(now - seconds(meta(pod)["creationTimestamp"])),
        meta(pod)["uid"],
        age(pod),
    )


def _magnitude(lasted: float) -> int:
    """Times of the same power of two count as equal, so that not always the youngest go."""
    return int(lasted).bit_length() if lasted > 0 else 0


def _containers(pod: Json) -> list[Json]:
    return status(pod).get("containerStatuses") or []


def _cost(pod: Json) -> int:
    text = annotations(pod).get(_DELETION_COST, "0")
    return int(text) if text.lstrip("-").isdigit() else 0
