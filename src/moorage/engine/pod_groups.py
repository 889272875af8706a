"""Pod groups as the scheduler takes them up: who is tried together, and what became of the group.

Owns the gathering of a group's pods, what was found for them, what each pod is told, and the value
that tells of the group. Must not place pods; `engine.pod_group_cycle` does.
"""

from dataclasses import dataclass, field

import msgspec

from moorage.cluster.pod_groups import PodGroupState
from moorage.engine import observer
from moorage.engine.decisions import Unschedulable
from moorage.engine.queue.queue import SchedulingQueue
from moorage.engine.queue.queued_pod import QueuedPodInfo
from moorage.engine.recording import EndedAttempt
from moorage.framework.status import Code, Status
from moorage.framework.timing import AttemptTimes
from moorage.model.pod import Pod
from moorage.model.pod_group import PodGroup, PodGroupCondition

POD_GROUP_INITIALLY_SCHEDULED = "PodGroupInitiallyScheduled"
GROUP_UNSCHEDULABLE = "pod group is unschedulable"
WAITING_FOR_PREEMPTION = "pod group is waiting for preemption to complete"


class GroupConditionUpdate(msgspec.Struct, frozen=True):
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


def condition_update(group: PodGroup | None, status: Status | None) -> GroupConditionUpdate | None:
    """The condition after an attempt (None: success); None if there is nothing new to write."""
    if group is None:
        return None
    if status is None:
        value, reason = "True", "Scheduled"
    else:
        value, reason = "False", "Unschedulable" if status.code.rejected else "SchedulerError"
    condition = PodGroupCondition(
        type=POD_GROUP_INITIALLY_SCHEDULED,
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
    return GroupConditionUpdate(group, condition)


def condition_of(group: PodGroup) -> PodGroupCondition | None:
    """What the group's status says of its placing so far."""
    conditions = group.status.conditions
    return next((one for one in conditions if one.type == POD_GROUP_INITIALLY_SCHEDULED), None)


@dataclass(slots=True)
class FoundMember:
    """What was found for one pod."""

    info: QueuedPodInfo
    ended: EndedAttempt
    """A failure together with a node: it would fit, once its victims are gone."""
    times: AttemptTimes
    node_name: str = ""
    held_by: str | None = None
    """Why Permit would hold it back; None if Permit lets it pass."""
    seconds: float = 0.0
    """How long it took to find that out."""


@dataclass(slots=True)
class GroupResult:
    """What was found for the group; None as status means that it can be placed."""

    status: Status | None
    found: list[FoundMember] = field(default_factory=list)
    preempting: bool = False
    """The group fits once victims are gone."""

    @property
    def outcome(self) -> str:
        """The same in a word, for metrics."""
        if self.status is None:
            return observer.SCHEDULED
        if not self.status.code.rejected:
            return observer.ERROR
        return observer.WAITING_ON_PREEMPTION if self.preempting else observer.UNSCHEDULABLE


def failure_of(pod: Pod, found: FoundMember | None, result: GroupResult) -> Unschedulable:
    """What a pod that is not placed is told."""
    status = result.status
    if found is None:
        assert status is not None, "only a try that was broken off leaves pods out"
        # Without a word on the nomination, unless something broke: the pod was not looked at.
        nominated = None if status.code.rejected else ""
        return Unschedulable(pod, status.message, nominated_node=nominated, code=status.code)
    own = found.ended.failure
    if status is not None and not status.code.rejected:
        return own if own is not None and own.code is Code.ERROR else broken(pod, status.message)
    if own is None and result.preempting:
        assert status is not None, "a group that waits for preemption is not placed"
        return Unschedulable(pod, status.message, nominated_node=found.node_name)
    if own is None or (found.node_name and not result.preempting):
        # It would have found a place, so what keeps it is what Permit still waits for.
        return Unschedulable(
            pod, f"{GROUP_UNSCHEDULABLE}, {found.held_by or ''}", nominated_node=""
        )
    return msgspec.structs.replace(own, victims=())


def broken(pod: Pod, message: str) -> Unschedulable:
    """What a pod is told if something went wrong with its group."""
    return Unschedulable(pod, message, nominated_node="", code=Code.ERROR)
