"""Placements: sets of nodes that a pod group may go to as a whole, and the plugins about them.

Owns the two extension points that look at whole groups. Which placement is taken, and whether the
pods fit there, is the engine's business; running the plugins is `framework.placing`'s.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import msgspec

from moorage.cluster.columns import Rows
from moorage.cluster.pod_groups import GroupKey
from moorage.cluster.view import NodeView
from moorage.framework.plugin import Plugin
from moorage.framework.status import Status
from moorage.model.pod import Pod


class Placement(msgspec.Struct, frozen=True):
    """Nodes, as row numbers of the cluster state; the name tells placements apart."""

    name: str
    rows: Rows


class Assignments(msgspec.Struct, frozen=True):
    """A placement in which the group can be placed, and the pods that found a node there."""

    placement: Placement
    pods: tuple[Pod, ...]


class PlacementGeneratePlugin(Plugin, ABC):
    """Says which placements are worth trying; a profile has at most one such plugin."""

    @abstractmethod
    def generate_placements(
        self, group: GroupKey, parent: Placement, nodes: NodeView
    ) -> Sequence[Placement] | Status:
        """Parts of `parent`, all of it, or why there are none; `nodes` is the whole cluster."""


class PlacementScorePlugin(Plugin, ABC):
    """Ranks the placements in which the group fits."""

    @abstractmethod
    def score_placement(
        self, group: GroupKey, assignments: Assignments, nodes: NodeView
    ) -> int | Status:
        """A number, larger is better; `nodes` are the placement's, without the proposed pods."""

    def normalize_placements(self, scores: Sequence[int]) -> Sequence[int] | Status:
        """The scores of all placements brought to 0..100."""
        return scores
