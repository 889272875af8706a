"""What the queue holds: pods, and pod groups with those of their pods that wait.

Owns what is remembered of such an entity between attempts, not the rules: whoever holds it (the
queue, or the cycle after a pop) changes its fields. Two of upstream's fields are left out because
they follow from others: the events of the gating plugin (`requeueing.WakeRules` knows them by the
plugin's name) and the pod's signature (pods that are alike share answers, see
`framework.fast_path`).
"""

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import msgspec

from moorage.cluster.pod_groups import GroupKey
from moorage.model.pod import Pod
from moorage.model.pod_group import PodGroup

# Where an entity waits.
ACTIVE = "active"
BACKOFF = "backoff"
UNSCHEDULABLE = "unschedulable"
GATED = "gated"
# Where pods wait that belong to a group, but are not part of its entity yet.
INCOMPLETE = "incomplete"
PENDING = "pending"

# What an entity is.
POD = "pod"
POD_GROUP = "podgroup"


@dataclass(slots=True, eq=False, kw_only=True)
class QueuedEntityInfo:
    """What is known of a waiting entity; compared by identity: it stands for one stay in the queue.

    Times are seconds since the epoch.
    """

    kind: ClassVar[str]

    timestamp: float
    """When it last entered the queue; the second part of the default order."""
    attempts: int = 0
    backoff_expiration: float | None = None
    """When the back-off ends, once worked out; None asks for it to be worked out again."""
    unschedulable_count: int = 0
    """Attempts that ended with a rejection, over the entity's whole life."""
    consecutive_errors_count: int = 0
    """Attempts that ended with an error since the last one that did not."""
    flush_timestamp: float | None = None
    initial_attempt_timestamp: float | None = None
    """When it was first ready to be tried, so time spent behind a gate does not count."""
    unschedulable_plugins: set[str] = field(default_factory=set)
    pending_plugins: set[str] = field(default_factory=set)
    gating_plugin: str = ""
    key: str = field(init=False)
    """Under which it is found in every place; no update changes it."""

    @property
    def gated(self) -> bool:
        """Did a PreEnqueue plugin refuse it last time?"""
        return self.gating_plugin != ""

    @property
    def rejectors(self) -> set[str]:
        """The plugins that turned it away; only their hints can bring it back."""
        return self.unschedulable_plugins | self.pending_plugins

    @property
    def failed_with_error(self) -> bool:
        """Nobody rejected it, so if it came back something broke, and only time can mend that."""
        return not self.unschedulable_plugins and not self.pending_plugins


@dataclass(slots=True, eq=False)
class QueuedPodInfo(QueuedEntityInfo):
    """A waiting pod, by itself or as part of a group; found as `namespace/name`."""

    kind: ClassVar[str] = POD

    pod: Pod

    def __post_init__(self) -> None:
        self.key = self.pod.key

    @property
    def obj(self) -> Pod:
        """The object of the API that it is."""
        return self.pod

    @property
    def infos(self) -> Sequence["QueuedPodInfo"]:
        """The pods of the entity."""
        return (self,)

    @property
    def spokesmen(self) -> Sequence[tuple["QueuedPodInfo", int]]:
        """Whom to ask, and for how many pods."""
        return ((self, 1),)

    @property
    def sorted_as(self) -> Pod:
        """The pod whose place in the queue the entity has."""
        return self.pod

    def find(self, key: str) -> "QueuedPodInfo | None":
        """A pod of the entity."""
        return self if key == self.key else None

    def became_ready(self, now: float) -> None:
        """It may be tried from now on."""
        if self.initial_attempt_timestamp is None:
            self.initial_attempt_timestamp = now

    def clear_rejectors(self) -> None:
        """Forget who turned the pod away, before the latest attempt's findings are filled in."""
        # New sets, because the old ones may still be held by whoever reported the attempt.
        self.unschedulable_plugins = set()
        self.pending_plugins = set()
        self.gating_plugin = ""


@dataclass(slots=True, eq=False)
class QueuedPodGroupInfo(QueuedEntityInfo):
    """A pod group with those of its pods that wait: they are tried together.

    It is gated if one of them is. No plugin turns it away as a whole, so between attempts it waits
    out its back-off.
    """

    kind: ClassVar[str] = POD_GROUP

    group: PodGroup
    infos: list[QueuedPodInfo] = field(default_factory=list)
    """In the order in which they are tried."""
    placed: bool = False
    """Did an attempt succeed? The group's status may not say so yet."""
    newcomers: dict[str, QueuedPodInfo] | None = None
    """By key, the pods that came since the gate was asked, if it refused all others as one group.

    None: they were not refused, or not for the same reason.
    """

    def __post_init__(self) -> None:
        self.key = entity_key(self.group_key)

    @property
    def obj(self) -> PodGroup:
        """The object of the API that it is."""
        return self.group

    @property
    def group_key(self) -> GroupKey:
        """The group's place in the API."""
        return GroupKey(self.group.namespace, self.group.name)

    @property
    def sorted_as(self) -> Pod:
        """Its first pod, with the group's priority."""
        pod, priority = self.infos[0].pod, self.group.effective_priority
        if pod.priority == priority:
            return pod
        return msgspec.structs.replace(
            pod, spec=msgspec.structs.replace(pod.spec, priority=priority)
        )

    def find(self, key: str) -> QueuedPodInfo | None:
        """A pod of the entity."""
        return next((info for info in self.infos if info.key == key), None)

    def became_ready(self, now: float) -> None:
        """It may be tried from now on; some of its pods may be new."""
        if self.initial_attempt_timestamp is None:
            self.initial_attempt_timestamp = now
        for info in self.infos:
            info.became_ready(now)

    def add(self, info: QueuedPodInfo) -> None:
        """Another pod waits."""
        insort(self.infos, info, key=_turn)
        if self.newcomers is not None:
            self.newcomers[info.key] = info

    def remove(self, info: QueuedPodInfo) -> None:
        """A pod waits no more."""
        self.infos.remove(info)
        if self.newcomers is not None:
            self.newcomers.pop(info.key, None)

    @property
    def spokesman(self) -> tuple[QueuedPodInfo, int] | None:
        """One of the pods that are refused as one group, and how many these are."""
        if self.newcomers is None or len(self.newcomers) == len(self.infos):
            return None
        first = next(info for info in self.infos if info.key not in self.newcomers)
        return first, len(self.infos) - len(self.newcomers)

    @property
    def spokesmen(self) -> Sequence[tuple[QueuedPodInfo, int]]:
        """Whom to ask, and for how many pods."""
        spokesman, apart = self.spokesman, self.infos
        if spokesman is not None and self.newcomers is not None:
            apart = [*self.newcomers.values()]
        return [*([spokesman] if spokesman else []), *((info, 1) for info in apart)]


QueuedEntity = QueuedPodInfo | QueuedPodGroupInfo


def entity_key(group: GroupKey) -> str:
    """Under which a group is found in the queue; no pod's key has three parts."""
    return f"{POD_GROUP}/{group}"


def _turn(info: QueuedPodInfo) -> tuple[int, int, float, str]:
    """Of a group's pods the important ones come first, then those that were tried before."""
    return (-info.pod.priority, -info.attempts, info.timestamp, info.pod.name)


@dataclass(slots=True, frozen=True)
class PendingPods:
    """The waiting pods by place, first ones first; `gated` are among the unschedulable ones."""

    active: tuple[Pod, ...]
    backoff: tuple[Pod, ...]
    unschedulable: tuple[Pod, ...]
    gated: tuple[Pod, ...]
    in_flight: tuple[Pod, ...]
    pending: tuple[Pod, ...] = ()
    """Pods that came while their group was tried."""
    incomplete: tuple[Pod, ...] = ()
    """Pods whose group is not there yet."""
    groups: bool = False
    """Are there groups at all?"""

    @property
    def pods(self) -> tuple[Pod, ...]:
        """All that wait; pods in flight do not."""
        members = self.incomplete + self.pending
        return self.active + self.backoff + self.unschedulable + members

    @property
    def summary(self) -> str:
        """How many wait where, in upstream's words."""
        text = (
            f"activeQ:{len(self.active)}; backoffQ:{len(self.backoff)}; "
            f"unschedulableEntities:{len(self.unschedulable)}"
        )
        if self.groups:
            text += (
                f"; pendingPodGroupMemberPods:{len(self.pending)}; "
                f"incompletePodGroupPods:{len(self.incomplete)}"
            )
        return text
