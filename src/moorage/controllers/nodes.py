"""Nodes that fail: the taints that follow from what a node says, and pods that must leave it.

A node is as it says in its conditions; that one has fallen silent is for others to notice.
Upstream: kubernetes@v1.37.1 pkg/controller/nodelifecycle and pkg/controller/tainteviction.
"""

import msgspec

from moorage.controllers.cluster import ClusterObjects
from moorage.controllers.objects import (
    Json,
    is_finished,
    is_going,
    meta,
    rfc3339,
    spec,
    status,
    with_condition,
)
from moorage.controllers.plan import Note, Plan
from moorage.model.taints import Taint, Toleration

_PREFIX = "node.kubernetes.io/"
_KEYS = {
    ("Ready", "False"): f"{_PREFIX}not-ready",
    ("Ready", "Unknown"): f"{_PREFIX}unreachable",
    ("MemoryPressure", "True"): f"{_PREFIX}memory-pressure",
    ("DiskPressure", "True"): f"{_PREFIX}disk-pressure",
    ("PIDPressure", "True"): f"{_PREFIX}pid-pressure",
    ("NetworkUnavailable", "True"): f"{_PREFIX}network-unavailable",
}
_UNSCHEDULABLE = f"{_PREFIX}unschedulable"
_FAILED = (f"{_PREFIX}not-ready", f"{_PREFIX}unreachable")
NO_EXECUTE = "NoExecute"


def reconcile(cluster: ClusterObjects, node: Json, now: float) -> Plan:
    """Give a node the taints that its conditions call for, and take away those they do not."""
    del cluster
    plan = Plan()
    if is_going(node):
        return plan
    conditions = status(node).get("conditions") or ()
    keys = [_KEYS.get((one["type"], one["status"])) for one in conditions]
    wanted = {(key, "NoSchedule") for key in keys if key}
    wanted |= {(key, NO_EXECUTE) for key in keys if key in _FAILED}
    if spec(node).get("unschedulable"):
        wanted.add((_UNSCHEDULABLE, "NoSchedule"))
    taints = spec(node).get("taints") or []
    ours = {(key, "NoSchedule") for key in (*_KEYS.values(), _UNSCHEDULABLE)}
    ours |= {(key, NO_EXECUTE) for key in _FAILED}
    here = {(one["key"], one["effect"]) for one in taints}
    missing = sorted(wanted - here)
    kept = [one for one in taints if (one["key"], one["effect"]) not in ours - wanted]
    if missing or len(kept) < len(taints):
        added = [
            {"key": key, "effect": effect, "timeAdded": rfc3339(now)} for key, effect in missing
        ]
        plan.change(node, spec={"taints": [*kept, *added] or None})
    return plan


def drives_out(node: Json | None) -> bool:
    """Has a node a taint that pods must tolerate to stay?"""
    return node is not None and any(
        one.get("effect") == NO_EXECUTE for one in spec(node).get("taints") or ()
    )


def evict(cluster: ClusterObjects, pod: Json, now: float) -> Plan:
    """Delete a pod that does not tolerate its node's taints, or has done so for long enough."""
    plan = Plan()
    node = cluster.get("Node", "", spec(pod).get("nodeName", ""))
    if not drives_out(node) or node is None:
        cluster.counts_since.pop(meta(pod)["uid"], None)
        return plan
    if is_going(pod) or is_finished(pod):
        return plan
    stay = _seconds_to_stay(spec(node)["taints"], spec(pod).get("tolerations") or [])
    if stay is None:
        return plan
    left = cluster.counts_since.setdefault(meta(pod)["uid"], now) + stay - now
    if left > 0:
        plan.look_again([left])
        return plan
    says = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint",
    }
    conditions = with_condition(status(pod).get("conditions") or [], says, now)
    text = f"Marking for deletion Pod {meta(pod)['namespace']}/{meta(pod)['name']}"
    plan.set_status(pod, {**status(pod), "conditions": conditions})
    plan.delete(pod, Note(pod, "TaintManagerEviction", text))
    return plan


def _seconds_to_stay(taints: list[Json], tolerations: list[Json]) -> float | None:
    """How long a pod may stay under these taints; None: for ever."""
    accepts = msgspec.convert(tolerations, list[Toleration])
    limits: list[int] = []
    for taint in msgspec.convert(taints, list[Taint]):
        if taint.effect != NO_EXECUTE:
            continue
        answers = [
            given
            for one, given in zip(accepts, tolerations, strict=True)
            if one.tolerates(taint, comparisons=True)
        ]
        if not answers:
            return 0
        # Upstream takes the first toleration that answers a taint.
        seconds = answers[0].get("tolerationSeconds")
        if seconds is not None:
            limits.append(max(0, int(seconds)))
    return min(limits, default=None)
