"""Placements: sets of nodes that a pod group may go to as a whole, and the plugins about them.

Owns the extension points that look at whole groups, and asking the plugins. Which placement is
taken, and whether the pods fit there, is the engine's business.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from moorage.cluster.columns import Rows
from moorage.cluster.pod_groups import GroupKey
from moorage.cluster.view import NodeView
from moorage.framework.guard import checked_status, guard, wrong_answer
from moorage.framework.plugin import MAX_NODE_SCORE, Plugin
from moorage.framework.status import Code, Status
from moorage.framework.timing import SUCCESS, AttemptTimes
from moorage.model.pod import Pod
from moorage.model.pod_group import PodGroup

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


class PlacementFeasiblePlugin(Plugin, ABC):
    """Says while a group is tried, pod after pod, whether it can still have what it needs.

    It is asked wherever it is enabled at another point.
    """

    @abstractmethod
    def placement_feasible(self, group: PodGroup, scheduled: int, remaining: int) -> Status | None:
        """None: it has what it needs; WAIT: it may get it; UNSCHEDULABLE: never in this try.

        `scheduled` of its pods have a place, in this try or before; `remaining` are to be tried.
        """


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
    profile: "Profile", group: GroupKey, nodes: NodeView, times: AttemptTimes
) -> Sequence[Placement] | Status:
    """The placements to try, at least one; without a plugin that is the whole cluster."""
    everything = Placement("", nodes.rows)
    if not profile.placement_generate:
        return [everything]
    plugin = profile.placement_generate[0]
    with times.point("PlacementGenerate") as point:
        with guard(plugin, "PlacementGenerate"):
            placements = plugin.generate_placements(group, everything, nodes)
            if not isinstance(placements, Status) and not _are_placements(placements):
                what = "Placements or a Status"
                raise wrong_answer(plugin, "PlacementGenerate", placements, what)
        point.status = placements.code.value if isinstance(placements, Status) else SUCCESS
        point.ran(plugin.name, point.status)
    if isinstance(placements, Status):
        return Status(placements.code, placements.reasons, plugin.name)
    return placements or Status(Code.UNSCHEDULABLE, ("no feasible placements found",), plugin.name)


def placement_feasible(
    profile: "Profile", group: PodGroup, scheduled: int, remaining: int, times: AttemptTimes
) -> Status | None:
    """What the plugins say of a group in the middle of a try; the first no decides."""
    answer: Status | None = None
    with times.point("PlacementFeasible") as point:
        for plugin in profile.placement_feasible:
            with guard(plugin, "PlacementFeasible"):
                status = plugin.placement_feasible(group, scheduled, remaining)
                status = checked_status(plugin, "PlacementFeasible", status)
            point.answered(plugin.name, status)
            if status is None:
                continue
            answer = Status(status.code, status.reasons, plugin.name)
            if status.code not in (Code.WAIT, Code.UNSCHEDULABLE):
                what = "running PlacementFeasible plugin"
                if status.code is not Code.ERROR:
                    what = "unexpected status from PlacementFeasible plugin"
                answer = Status(Code.ERROR, (f"{what}: {status.message}",), plugin.name)
            if answer.code is not Code.WAIT:
                break
        point.status = SUCCESS if answer is None else answer.code.value
    return answer


def score_placements(
    profile: "Profile",
    group: GroupKey,
    candidates: Sequence[Assignments],
    nodes: NodeView,
    times: AttemptTimes,
) -> Sequence[int] | Status:
    """The weighted total of each candidate; a failing plugin fails all of it."""
    with times.point("PlacementScore") as point:
        totals = _score_placements(profile, group, candidates, nodes)
        point.status = totals.code.value if isinstance(totals, Status) else SUCCESS
    return totals


def _score_placements(
    profile: "Profile", group: GroupKey, candidates: Sequence[Assignments], nodes: NodeView
) -> Sequence[int] | Status:
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
            if not isinstance(scores, Status) and not _are_scores(scores, len(raw)):
                what = f"an integer for each of {len(raw)} placements"
                raise wrong_answer(plugin, "PlacementScore", scores, what)
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


def _are_placements(answer: object) -> bool:
    return isinstance(answer, Sequence) and all(isinstance(one, Placement) for one in answer)


def _are_scores(answer: object, size: int) -> bool:
    return (
        isinstance(answer, Sequence)
        and len(answer) == size
        and all(isinstance(score, int | np.integer) for score in answer)
    )


def _failed(what: str, plugin: str, status: Status) -> Status:
    return Status(Code.ERROR, (f'{what}: plugin "{plugin}" failed with: {status.message}',))
