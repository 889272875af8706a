"""What is to be done outside of the engine, as values: the scheduler's outbox holds them.

Owns their shapes. `kube.executor` carries them out; their outcomes come back to `engine.scheduler`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from moorage.engine.group_attempt import GroupConditionUpdate
from moorage.engine.queue.entities import QueuedPodInfo
from moorage.framework.extenders import Extender
from moorage.framework.profile import Profile
from moorage.framework.timing import UNTIMED, AttemptTimes
from moorage.framework.waiting_pods import WaitingPod
from moorage.model.pod import Pod
from moorage.model.pod_group import PodGroup


@dataclass(slots=True, eq=False)
class Binding:
    """A pod on its way to a node: to be taken through the binding cycle."""

    info: QueuedPodInfo
    node_name: str
    profile: Profile
    waiting: WaitingPod | None = None
    nominated: bool = False
    """Does the pod's status name the node already, on our account?"""
    extenders: Sequence[Extender] = ()
    """Who was asked, and may want to bind it."""
    times: AttemptTimes = UNTIMED
    """What measures the attempt, from the decision to the end of the binding."""
    evaluated_nodes: int = 0
    feasible_nodes: int = 0
    scores: Mapping[str, int] | None = None
    """What the nodes scored, by name, if somebody compares (`Scheduler.keeps_scores`)."""

    @property
    def pod(self) -> Pod:
        return self.info.pod


class Failure(msgspec.Struct, frozen=True):
    """An attempt failed: to be shown as an event and in the pod's status."""

    pod: Pod
    scheduler_name: str
    reason: str
    message: str
    nominated_node: str | None = None
    """To be written to the status; None leaves it as it is."""


EVERYWHERE = "cluster"
"""Where victims of a group leave from, in upstream's word: it stands where a node's name would."""


class Eviction(msgspec.Struct, frozen=True):
    """Pods that have to leave a node for another one, or the cluster for a group."""

    preemptor: Pod
    scheduler_name: str
    node_name: str
    victims: tuple[Pod, ...]
    group: PodGroup | None = None
    members: tuple[Pod, ...] = ()
    """The pods of the group; `preemptor` is one of them."""
    chosen: int = 0
    """How many victims were chosen, with those that are leaving already."""
    pdb_violations: int = 0
    disrupted_groups: int = 0
    """How many of the victims, groups that leave as a whole counted once, belong to groups."""

    @property
    def cause(self) -> Pod | PodGroup:
        """Whom the room is made for."""
        return self.preemptor if self.group is None else self.group

    @property
    def waiting(self) -> tuple[Pod, ...]:
        """The pods that go on when the victims have left."""
        return self.members or (self.preemptor,)

    @property
    def priority(self) -> int:
        """How important the cause is."""
        return self.preemptor.priority if self.group is None else self.group.effective_priority

    @property
    def what(self) -> str:
        """Upstream's word for the cause."""
        return "pod" if self.group is None else "podgroup"


class SkippedDeletion(msgspec.Struct, frozen=True):
    """A pod came up that is being deleted: to be shown as an event."""

    pod: Pod
    scheduler_name: str


Action = Binding | Failure | Eviction | SkippedDeletion | GroupConditionUpdate
