"""What the scheduler writes into a pod group's status, as a strategic merge patch.

Owns the form of the PodGroupScheduled condition in the API; what it says is decided by the engine.
"""

from typing import Any

from moorage.engine.pod_groups import GroupOutcome, condition_of
from moorage.kube.timing import rfc3339

Patch = dict[str, Any]


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
    return {
        "$setElementOrder/conditions": [{"type": kind} for kind in kinds],
        "conditions": [body],
    }
