"""Preemption for a whole pod group: who has to go, found by trying.

Owns the extension point, its rehearsals, and asking the plugin. Pods are really taken out of the
cluster state and put back, and whatever is still missing in the end is restored, so that nobody
else ever sees the cluster without them. What is done in the end is the engine's.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from moorage.cluster.state import ClusterState
from moorage.framework.guard import guard
from moorage.framework.plugin import Plugin
from moorage.framework.status import Code, Status
from moorage.model.pod import Pod
from moorage.model.pod_group import PodGroup

if TYPE_CHECKING:
    from moorage.framework.profile import Profile

NOT_CONFIGURED = Status(
    Code.UNSCHEDULABLE,
    ("default preemption plugin is not registered, workload aware preemption is disabled",),
)


class Rehearsal:
    """The cluster, with pods taken away and given back for a try.

    `rejection` says why the group cannot be placed; None if it can.
    """

    def __init__(
        self, state: ClusterState, now: float, rejection: Callable[[], Status | None]
    ) -> None:
        self.now = now
        self.rejection = rejection
        self._state = state
        self._gone: dict[str, tuple[Pod, str, bool]] = {}

    def pods(self) -> list[Pod]:
        """The pods on all nodes, node by node."""
        nodes = self._state.nodes
        return [
            pod
            for row in self._state.order.rows(nodes.row_of)
            for pod in self._state.pods.on(int(row))
        ]

    def take(self, pods: Iterable[Pod]) -> None:
        """Let pods be gone."""
        state = self._state
        for pod in pods:
            node_name = state.node_of(pod)
            assert node_name is not None, "only pods on nodes are taken away"
            self._gone[pod.uid] = (pod, node_name, state.is_assumed(pod))
            state.remove_pod(pod)

    def give_back(self, pods: Iterable[Pod]) -> None:
        """Let pods that were gone be there again."""
        for pod in pods:
            known, node_name, assumed = self._gone.pop(pod.uid)
            if assumed:
                self._state.assume(known, node_name)
            else:
                self._state.add_pod(known)

    def end(self) -> None:
        """Give everything back."""
        self.give_back([pod for pod, _, _ in self._gone.values()])


class GroupVictims(msgspec.Struct, frozen=True):
    """Who has to go so that a group can be placed; `status` None means that it helps."""

    status: Status | None = None
    victims: tuple[Pod, ...] = ()


class PodGroupPostFilterPlugin(Plugin, ABC):
    """May make room for a group that cannot be placed."""

    @abstractmethod
    def pod_group_post_filter(
        self, group: PodGroup, pods: Sequence[Pod], rehearsal: Rehearsal
    ) -> GroupVictims:
        """Propose victims for a group, whose waiting `pods` are given."""


def group_victims(
    profile: "Profile", group: PodGroup, pods: Sequence[Pod], rehearsal: Rehearsal
) -> GroupVictims:
    """Ask the plugin who has to go; in the end everything is given back."""
    if not profile.pod_group_post_filter:
        return GroupVictims(NOT_CONFIGURED)
    plugin = profile.pod_group_post_filter[0]
    try:
        with guard(plugin, "PodGroupPostFilter"):
            return plugin.pod_group_post_filter(group, pods, rehearsal)
    finally:
        rehearsal.end()
