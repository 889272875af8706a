"""Preemption for a whole pod group: what a plugin is given to find the victims with.

The plugin chooses; trying the group on the cluster as it would be, and everything that is done in
the end, are the engine's.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from moorage.framework.plugin import Plugin
from moorage.framework.status import Status
from moorage.model.pod import Pod
from moorage.model.pod_group import PodGroup


class Rehearsal(Protocol):
    """The cluster, with pods taken away and given back for a try."""

    now: float

    def pods(self) -> Iterable[Pod]:
        """The pods on all nodes, node by node."""

    def take(self, pods: Iterable[Pod]) -> None:
        """Let pods be gone."""

    def give_back(self, pods: Iterable[Pod]) -> None:
        """Let pods that were gone be there again."""

    def rejection(self) -> Status | None:
        """Why the group cannot be placed; None if it can."""


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
