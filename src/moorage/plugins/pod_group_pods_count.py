"""PodGroupPodsCount: of several placements for a group, prefer those that take more of its pods."""

from collections.abc import Sequence

from moorage.cluster.pod_groups import GroupKey
from moorage.cluster.view import NodeView
from moorage.framework.placements import Assignments, PlacementScorePlugin
from moorage.framework.plugin import MAX_NODE_SCORE
from moorage.framework.status import Code, Status

NOBODY = "no pods from pod group are assigned to any of the candidate placements"


class PodGroupPodsCount(PlacementScorePlugin):
    """Count the pods that have a place already and those that would get one."""

    name = "PodGroupPodsCount"

    def score_placement(
        self, group: GroupKey, assignments: Assignments, nodes: NodeView
    ) -> int | Status:
        """Pods placed earlier count too: one pod more or less then changes little."""
        state = self.handle.groups.get(group)
        if state is None:
            text = f"pod group state not found for pod group {group}"
            return Status(Code.ERROR, (text,))
        return state.scheduled_count + len(assignments.pods)

    def normalize_placements(self, scores: Sequence[int]) -> Sequence[int] | Status:
        """In proportion to the largest count."""
        most = max(scores, default=0)
        if most == 0:
            return Status(Code.ERROR, (NOBODY,))
        return [score * MAX_NODE_SCORE // most for score in scores]
