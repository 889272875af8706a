"""Pod groups as the scheduler takes them up: who is tried together, and what became of the group.

Owns the gathering of a group's pods and the value that tells of the outcome. Must not place pods;
`engine.pod_group_cycle` does.
"""

import msgspec

from moorage.cluster.pod_groups import PodGroupState
from moorage.engine.queue.queue import SchedulingQueue
from moorage.engine.queue.queued_pod import QueuedPodInfo
from moorage.framework.status import Status
from moorage.model.pod_group import PodGroup, PodGroupCondition

POD_GROUP_SCHEDULED = "PodGroupScheduled"


class GroupOutcome(msgspec.Struct, frozen=True):
    """A group was tried: to be shown as a condition in its status."""

    group: PodGroup
    condition: PodGroupCondition


def gather(infos: list[QueuedPodInfo], state: PodGroupState, queue: SchedulingQueue) -> None:
    """Add to a popped pod all others of its group that can be popped, the most important first.

    They are added one by one: whatever happens, the caller knows whom the queue has let go.
    """
    first = infos[0].pod.name
    for pod in state.unscheduled:
        info = None if pod.name == first else queue.pop_specific(pod)
        if info is not None:
            infos.append(info)
    infos.sort(key=lambda info: (-info.pod.priority, info.initial_attempt_timestamp or 0.0))


def outcome_of(group: PodGroup | None, status: Status | None) -> GroupOutcome | None:
    """The condition after an attempt (None: success); None if there is nothing new to write."""
    if group is None:
        return None
    if status is None:
        value, reason = "True", "Scheduled"
    else:
        value, reason = "False", "Unschedulable" if status.code.rejected else "SchedulerError"
    condition = PodGroupCondition(
        type=POD_GROUP_SCHEDULED,
        status=value,
        reason=reason,
        message="" if status is None else status.message,
        observed_generation=group.metadata.generation or None,
    )
    known = condition_of(group)
    if known is not None:
        if known.status == "True" and value != "True":
            return None  # a group that was placed stays so, whatever becomes of further pods
        if msgspec.structs.replace(known, last_transition_time=None) == condition:
            return None
    return GroupOutcome(group, condition)


def condition_of(group: PodGroup) -> PodGroupCondition | None:
    """What the group's status says of its placing so far."""
    conditions = group.status.conditions
    return next((one for one in conditions if one.type == POD_GROUP_SCHEDULED), None)
