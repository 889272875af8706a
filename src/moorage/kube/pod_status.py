"""What the scheduler writes into the status of pods and pod groups, as strategic merge patches.

Owns the form of the PodScheduled, DisruptionTarget and PodGroupScheduled conditions. A patch of a
pod is built only if it would change something, and `lastTransitionTime` is sent only with a change
of the condition's status.
"""

from typing import Any

from moorage.engine.actions import Failure
from moorage.engine.pod_groups import GroupOutcome, condition_of
from moorage.kube.timing import rfc3339
from moorage.model.meta import Condition
from moorage.model.pod import Pod

POD_SCHEDULED = "PodScheduled"
DISRUPTION_TARGET = "DisruptionTarget"

Patch = dict[str, Any]


def scheduling_failed(failure: Failure, now: float) -> Patch | None:
    """The status after a failed attempt; None if the pod's status says the same already."""
    pod = failure.pod
    status: Patch = {}
    known = _condition(pod, POD_SCHEDULED)
    if not _says(pod, POD_SCHEDULED, "False", failure.reason, failure.message):
        condition: Patch = {
            "type": POD_SCHEDULED,
            "status": "False",
            "reason": failure.reason,
            "message": failure.message,
        }
        if known is None or known.status != "False":
            condition["lastProbeTime"] = None
            condition["lastTransitionTime"] = rfc3339(now)
        status.update(_with_condition(pod, condition))
    nominated = failure.nominated_node
    if nominated is not None and nominated != pod.status.nominated_node_name:
        status["nominatedNodeName"] = nominated or None
    return status or None


def nominated(node_name: str) -> Patch:
    """The status of a pod that waits for a node to be freed or prepared."""
    return {"nominatedNodeName": node_name or None}


def disruption_target(victim: Pod, scheduler_name: str, cause: str, now: float) -> Patch | None:
    """The status of a pod that is about to be evicted for a more important one, or a group.

    None if the pod's status says the same already.
    """
    reason = "PreemptionByScheduler"
    message = f"{scheduler_name}: preempting to accommodate a higher priority {cause}"
    if _says(victim, DISRUPTION_TARGET, "True", reason, message):
        return None
    condition: Patch = {
        "type": DISRUPTION_TARGET,
        "status": "True",
        "reason": reason,
        "message": message,
    }
    known = _condition(victim, DISRUPTION_TARGET)
    if known is None or known.status != "True":
        condition["lastTransitionTime"] = rfc3339(now)
    return _with_condition(victim, condition)


def _with_condition(pod: Pod, condition: Patch) -> Patch:
    """Add or change one condition; the order of the others stays, a new one comes last."""
    if pod.metadata.generation is not None:
        condition["observedGeneration"] = pod.metadata.generation
    kinds = dict.fromkeys((*(known.type for known in pod.status.conditions), condition["type"]))
    return {
        "$setElementOrder/conditions": [{"type": kind} for kind in kinds],
        "conditions": [condition],
    }


def _says(pod: Pod, kind: str, status: str, reason: str, message: str) -> bool:
    """Does the pod's status have this very condition?"""
    known = _condition(pod, kind)
    return known is not None and (known.status, known.reason, known.message) == (
        status,
        reason,
        message,
    )


def _condition(pod: Pod, kind: str) -> Condition | None:
    return next((c for c in pod.status.conditions if c.type == kind), None)


def group_status(outcome: GroupOutcome, now: float) -> Patch:
    """The status after an attempt; the time of transition changes only with the status itself."""
    condition = outcome.condition
    known = condition_of(outcome.group)
    body: Patch = {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
    }
    if condition.observed_generation is not None:
        body["observedGeneration"] = condition.observed_generation
    if known is None or known.status != condition.status:
        body["lastTransitionTime"] = rfc3339(now)
    kinds = dict.fromkeys((*(one.type for one in outcome.group.status.conditions), condition.type))
    return {"$setElementOrder/conditions": [{"type": kind} for kind in kinds], "conditions": [body]}
