"""TaintToleration: tainted nodes are closed to, or disliked by, pods that do not tolerate them."""

from collections.abc import Hashable, Sequence
from typing import Any

from moorage.cluster.columns import Ints, Rows
from moorage.cluster.node_table import TaintSet
from moorage.cluster.stamps import Aspect
from moorage.cluster.view import NodeView
from moorage.framework.cluster_events import (
    ActionType,
    EventRegistration,
    EventResource,
    on,
)
from moorage.framework.plugin import (
    FilterPlugin,
    Handle,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    ScorePlugin,
)
from moorage.framework.scores import normalize_to_max
from moorage.framework.status import Code, Reason, Verdicts
from moorage.log_fields import Line, V
from moorage.model.meta import ApiObject
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.model.taints import PREFER_NO_SCHEDULE, Toleration, TolerationIndex

Tolerations = tuple[Toleration, ...]


_UNTOLERATED = Line(
    V(4),
    "node had untolerated taints",
    *("node", "pod", "untoleratedTaint"),
    logger="FilterWithNominatedPods.Filter.TaintToleration",
)


class TaintToleration(
    PreFilterPlugin[None],
    FilterPlugin[None],
    PreScorePlugin[Tolerations],
    ScorePlugin[Tolerations],
):
    """Filter by hard taints, score by the number of soft ones."""

    name = "TaintToleration"
    reads = (Aspect.TAINTS,)
    untolerated = Reason("node(s) had untolerated taint(s)", Code.UNRESOLVABLE)

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._comparisons = handle.gates.enabled("TaintTolerationComparisonOperators")

    def pod_key(self, pod: Pod) -> Hashable:
        """Only the tolerations matter."""
        return pod.spec.tolerations

    def pre_filter(self, pod: Pod, nodes: NodeView) -> PreFilterResult[None]:
        """Nothing to find out; upstream has the point too."""
        return PreFilterResult(None)

    def filter(self, pod: Pod, nodes: NodeView, state: None) -> Verdicts:
        """Refuse nodes with a hard taint the pod does not tolerate."""
        tolerations = self._index(pod.spec.tolerations)

        def closed(taints: TaintSet) -> bool:
            return _closed(taints, tolerations)

        verdicts = Verdicts(len(nodes), (self.untolerated,))
        return verdicts.reject(nodes.taints.where(closed), self.untolerated)

    def log_rejections(self, pod: Pod, nodes: NodeView, rows: Rows, state: None) -> None:
        """Log which taint each node is refused for."""
        tolerations = self._index(pod.spec.tolerations)
        for row in rows.tolist():
            node = nodes.node(row)
            taint = next(one for one in node.spec.taints if _closed((one,), tolerations))
            _UNTOLERATED(node, pod, taint)

    def pre_score(self, pod: Pod, nodes: NodeView) -> Tolerations:
        """The tolerations that can answer a soft taint."""
        return tuple(t for t in pod.spec.tolerations if t.effect in ("", PREFER_NO_SCHEDULE))

    def score(self, pod: Pod, nodes: NodeView, state: Tolerations | None) -> Ints:
        """Count the soft taints that stay unanswered."""
        tolerations = self._index(self.pre_score(pod, nodes) if state is None else state)

        def unanswered(taints: TaintSet) -> int:
            return sum(
                taint.effect == PREFER_NO_SCHEDULE and not tolerations.tolerates(taint)
                for taint in taints
            )

        return nodes.taints.number(unanswered)

    def normalize(self, scores: Ints, state: Tolerations | None) -> Ints:
        """Fewer is better."""
        return normalize_to_max(scores, reverse=True)

    def events_to_register(self) -> Sequence[EventRegistration]:
        """A node without the taint, or the pod tolerating it."""
        untainted = ActionType.ADD | ActionType.UPDATE_NODE_TAINT
        return [
            on(EventResource.NODE, untainted, self._after_node_change),
            on(EventResource.TARGET_POD, ActionType.UPDATE_POD_TOLERATION),
        ]

    def _index(self, tolerations: Tolerations) -> TolerationIndex:
        return TolerationIndex(tolerations, comparisons=self._comparisons)

    def _after_node_change(self, pod: Pod, old: ApiObject | None, new: ApiObject | None) -> bool:
        tolerations = self._index(pod.spec.tolerations)
        if not isinstance(new, Node) or _closed(new.spec.taints, tolerations):
            return False
        return not isinstance(old, Node) or _closed(old.spec.taints, tolerations)


def _closed(taints: TaintSet, tolerations: TolerationIndex) -> bool:
    return any(taint.keeps_out and not tolerations.tolerates(taint) for taint in taints)
