"""Running the placement plugins of a profile: which placements are there, and what are they worth?

Must not try the placements out; `engine.pod_group_cycle` does.
"""

from collections.abc import Sequence

from moorage.cluster.pod_groups import GroupKey
from moorage.cluster.view import NodeView
from moorage.framework.guard import guard
from moorage.framework.placements import Assignments, Placement
from moorage.framework.plugin import MAX_NODE_SCORE
from moorage.framework.profile import Profile
from moorage.framework.status import Code, Status

NO_PLACEMENTS = "no feasible placements found"


def generate_placements(
    profile: Profile, group: GroupKey, nodes: NodeView
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
    return placements or Status(Code.UNSCHEDULABLE, (NO_PLACEMENTS,), plugin.name)


def score_placements(
    profile: Profile, group: GroupKey, candidates: Sequence[Assignments], nodes: NodeView
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
