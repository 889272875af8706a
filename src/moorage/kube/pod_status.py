"""What the scheduler writes into the status of pods and pod groups, as strategic merge patches.

Owns the form of the PodScheduled, DisruptionTarget and PodGroupInitiallyScheduled conditions. A
patch of a pod is built only if it would change something, and `lastTransitionTime` is sent only
with a change of the condition's status.
"""

from collections.abc import Sequence
from typing import Any

from moorage.engine.actions import Failure
from moorage.engine.group_attempt import GroupConditionUpdate
from moorage.kube.timing import rfc3339
from moorage.model.meta import Condition
from moorage.model.pod import Pod

POD_SCHEDULED = "PodScheduled"
DISRUPTION_TARGET = "DisruptionTarget"

Patch = dict[str, Any]


def scheduling_failed(failure: Failure, now: float) -> Patch | None:
    """The status after a failed attempt; None if the pod's status says the same already."""
    pod, nominated = failure.pod, failure.nominated_node
    known = pod.status.conditions
    wanted = Condition(POD_SCHEDULED, "False", failure.reason, failure.message)
    status: Patch = {}
    if wanted not in known:
        # With a change of status goes the time of the last probe, which nobody sets.
        status = _with_condition(known, wanted, pod.metadata.generation, now, lastProbeTime=None)
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
    message = f"{scheduler_name}: preempting to accommodate a higher priority {cause}"
    wanted = Condition(DISRUPTION_TARGET, "True", "PreemptionByScheduler", message)
    known = victim.status.conditions
    if wanted in known:
        return None
    return _with_condition(known, wanted, victim.metadata.generation, now)


def group_status(outcome: GroupConditionUpdate, now: float) -> Patch:
    """The status of a pod group after an attempt."""
    wanted = outcome.condition
    return _with_condition(outcome.group.status.conditions, wanted, wanted.observed_generation, now)


def _with_condition(
    known: Sequence[Condition],
    wanted: Condition,
    generation: int | None,
    now: float,
    **with_change: None,
) -> Patch:
    """Add or change one condition; the order of the others stays, a new one comes last."""
    before = next((one for one in known if one.type == wanted.type), None)
    condition: Patch = {
        "type": wanted.type,
        "status": wanted.status,
        "reason": wanted.reason,
        "message": wanted.message,
    }
    if before is None or before.status != wanted.status:
        condition |= {**with_change, "lastTransitionTime": rfc3339(now)}
    if generation is not None:
        condition["observedGeneration"] = generation
    kinds = dict.fromkeys((*(one.type for one in known), wanted.type))
    return {
        "$setElementOrder/conditions": [{"type": kind} for kind in kinds],
        "conditions": [condition],
    }
