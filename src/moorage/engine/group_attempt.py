"""What is found out about a pod group: before, in and after an attempt at it.

Owns the check whether its pods may be tried together, what was found for each pod and for the
group, what each pod is told, and the condition that tells of the group. Must not place pods;
`engine.pod_group_algorithm` does.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from moorage.cluster.pod_groups import GroupKey
from moorage.engine import observer
from moorage.engine.decisions import Unschedulable
from moorage.engine.queue.entities import QueuedPodGroupInfo, QueuedPodInfo
from moorage.engine.recording import EndedAttempt
from moorage.framework.profile import Profile
from moorage.framework.status import Code, Status
from moorage.framework.timing import AttemptTimes
from moorage.model.defaulting import PREEMPT_LOWER_PRIORITY
from moorage.model.pod import Pod
from moorage.model.pod_group import PodGroup, PodGroupCondition

POD_GROUP_INITIALLY_SCHEDULED = "PodGroupInitiallyScheduled"
GROUP_UNSCHEDULABLE = "pod group is unschedulable"


class GroupConditionUpdate(msgspec.Struct, frozen=True):
    """A group was tried: to be shown as a condition in its status."""

    group: PodGroup
    condition: PodGroupCondition


def mismatch(
    group: PodGroup, waiting: Iterable[Pod], scheduled: Iterable[Pod], *, by_group: bool
) -> str | None:
    """Why pods cannot be tried as one group; None if they can.

    `by_group`: the group says whether it may preempt others (the gate PodGroupPreemptionPolicy),
    otherwise its first pod does.
    """
    together = "all pods in a single pod group should have the same"
    name: str | None = None
    policy = (group.spec.preemption_policy or PREEMPT_LOWER_PRIORITY) if by_group else None
    for pod in (*waiting, *scheduled):
        spec = pod.spec
        name = spec.scheduler_name if name is None else name
        if spec.scheduler_name != name:
            return f'{together} .spec.schedulerName set, got: "{spec.scheduler_name}" and "{name}"'
        if pod.priority != group.effective_priority:
            return (
                f"{together} priority as the pod group's priority, "
                f"got {pod.priority} and {group.effective_priority}"
            )
        own = spec.preemption_policy or PREEMPT_LOWER_PRIORITY
        policy = policy or own
        if own != policy:
            rule = " as the pod group's preemption policy" if by_group else ""
            return f"{together} preemption policy{rule}, got {own} and {policy}"
    return None


def condition_update(group: PodGroup, status: Status | None) -> GroupConditionUpdate | None:
    """The condition after an attempt (None: success); None if there is nothing new to write."""
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
            return None  # a group that was placed stays so
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
    times: AttemptTimes
    node_name: str = ""
    """Where it would go."""
    seconds: float = 0.0
    """How long it took to find that out."""


@dataclass(slots=True)
class GroupResult:
    """What was found for the group; None as status means that it can be placed."""

    status: Status | None = None
    found: list[FoundMember] = field(default_factory=list)
    """Where an error or a lack of pods ended the attempt early, some pods are missing."""
    untried: Status | None = None
    """What the missing pods are told."""
    nominations: dict[str, str] | None = None
    """The group fits once victims are gone: the nodes its pods wait for, by the pods' uids."""

    @property
    def placed(self) -> list[FoundMember]:
        """The pods that have a node."""
        return [found for found in self.found if found.node_name]

    @property
    def outcome(self) -> str:
        """The same in a word, for metrics."""
        if self.status is None:
            return observer.SCHEDULED
        if not self.status.code.rejected:
            return observer.ERROR
        waits = self.nominations is not None
        return observer.WAITING_ON_PREEMPTION if waits else observer.UNSCHEDULABLE


@dataclass(slots=True)
class GroupAttempt:
    """The pods of a group that are tried together."""

    entity: QueuedPodGroupInfo
    profile: Profile
    times: AttemptTimes
    result: GroupResult = field(default_factory=GroupResult)
    root_status: Status | None = None
    """What came out before PodGroupPostFilter; None: success."""

    @property
    def group(self) -> PodGroup:
        """The object of the API."""
        return self.entity.group

    @property
    def key(self) -> GroupKey:
        """The group's place in the API."""
        return self.entity.group_key

    @property
    def infos(self) -> Sequence[QueuedPodInfo]:
        """In the order in which they are tried."""
        return self.entity.infos

    @property
    def pods(self) -> tuple[Pod, ...]:
        """The same pods, without what the queue knows of them."""
        return tuple(info.pod for info in self.infos)


def failure_of(pod: Pod, found: FoundMember | None, result: GroupResult) -> Unschedulable:
    """What a pod that is not placed is told."""
    status, own = result.status, None if found is None else found.ended.failure
    if status is not None and not status.code.rejected:
        return own if own is not None and own.code is Code.ERROR else broken(pod, status.message)
    waits = result.nominations is not None
    nominated = None if result.nominations is None else result.nominations.get(pod.uid)
    if own is not None:
        return own if nominated is None else msgspec.structs.replace(own, nominated_node=nominated)
    assert status is not None, "a pod of a group that is placed has a node, or a failure"
    if found is None:
        untried = result.untried or status
        return Unschedulable(pod, untried.message, nominated_node=nominated, code=untried.code)
    if waits:
        return Unschedulable(pod, status.message, nominated_node=nominated)
    return Unschedulable(pod, f"{GROUP_UNSCHEDULABLE}, {status.message}", nominated_node="")


def broken(pod: Pod, message: str) -> Unschedulable:
    """What a pod is told if something went wrong with its group."""
    return Unschedulable(pod, message, nominated_node="", code=Code.ERROR)
