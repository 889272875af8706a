"""Placements: sets of nodes that a pod group may go to as a whole, and the plugins about them.

Owns the two extension points that look at whole groups, and asking the plugins. Which placement is
taken, and whether the pods fit there, is the engine's business.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from moorage.cluster.columns import Rows
from moorage.cluster.pod_groups import GroupKey
from moorage.cluster.view import NodeView
from moorage.framework.guard import guard
from moorage.framework.plugin import MAX_NODE_SCORE, Plugin
from moorage.framework.status import Code, Status
from moorage.model.pod import Pod

if TYPE_CHECKING:  # a profile has plugins of these points
    from moorage.framework.profile import Profile


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


def generate_placements(
    profile: "Profile", group: GroupKey, nodes: NodeView
) -> Sequence[Placement] | Status:
    """The placements to try, at least one; without a plugin that is the whole cluster."""
    everything = Placement("", nodes.rows)
    if not profile.placement_generate:
        return [everything]
    plugin = profile.placement_generate[0]
    with guard(plugin, "PlacementGenerate"):
        placements = plugin.generate_placements(group, everything, nodes)
    if isinstance(placements, Status):
        return Status(placements.code, placements.reasons, plugin.name)
    return placements or Status(Code.UNSCHEDULABLE, ("no feasible placements found",), plugin.name)


def score_placements(
    profile: "Profile", group: GroupKey, candidates: Sequence[Assignments], nodes: NodeView
) -> Sequence[int] | Status:
    """The weighted total of each candidate; a failing plugin fails all of it."""
    totals = [0] * len(candidates)
    for plugin in profile.placement_score:
        raw: list[int] = []
        with guard(plugin, "PlacementScore"):
            for candidate in candidates:
                placed = nodes.take(candidate.placement.rows)
                score = plugin.score_placement(group, candidate, placed)
                if isinstance(score, Status):
                    return _failed("running PlacementScore plugins", plugin.name, score)
                raw.append(score)
            scores = plugin.normalize_placements(raw)
        if isinstance(scores, Status):
            what = "running NormalizePlacementScore on PlacementScore plugins"
            return _failed(what, plugin.name, scores)
        for index, score in enumerate(scores):
            if not 0 <= score <= MAX_NODE_SCORE:
                text = (
                    "applying score defaultWeights on PlacementScore plugins: "
                    f'plugin "{plugin.name}" returns an invalid score {score}, it should in the '
                    f"range of [0, {MAX_NODE_SCORE}] after normalizing"
                )
                return Status(Code.ERROR, (text,))
            totals[index] += score * profile.effective.placement_weights[plugin.name]
    return totals


def _failed(what: str, plugin: str, status: Status) -> Status:
    return Status(Code.ERROR, (f'{what}: plugin "{plugin}" failed with: {status.message}',))
