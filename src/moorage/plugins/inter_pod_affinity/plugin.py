"""The InterPodAffinity plugin: required terms filter, preferred ones score."""

from collections.abc import Sequence
from typing import Any

from moorage.cluster.columns import Ints
from moorage.cluster.stamps import Aspect
from moorage.cluster.view import NodeView
from moorage.errors import PluginError
from moorage.framework.cluster_events import ActionType, EventRegistration, EventResource, on
from moorage.framework.plugin import (
    FilterPlugin,
    Handle,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    ScorePlugin,
)
from moorage.framework.status import SKIP, Code, Skip, Status, Verdicts
from moorage.model.pod import Pod
from moorage.model.workloads import Namespace
from moorage.plugins.inter_pod_affinity import filtering, hints, scoring
from moorage.plugins.inter_pod_affinity.filtering import RequiredState
from moorage.plugins.inter_pod_affinity.scoring import PreferredState


class InterPodAffinity(
    PreFilterPlugin[RequiredState],
    FilterPlugin[RequiredState],
    PreScorePlugin[PreferredState],
    ScorePlugin[PreferredState],
):
    """Keep pods near their friends and away from their foes; terminating pods still count."""

    name = "InterPodAffinity"
    reads = (Aspect.LABELS, Aspect.PODS)
    row_local = False
    looks_up = (Namespace,)

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._hard_weight: int = args.hard_pod_affinity_weight
        self._ignore_others: bool = args.ignore_preferred_terms_of_existing_pods

    def pre_filter(
        self, pod: Pod, nodes: NodeView
    ) -> PreFilterResult[RequiredState] | Skip | Status:
        """Count the pods that matter, per topology domain."""
        error = pod.affinity_terms.error
        if error:
            return Status(Code.UNRESOLVABLE, (f"parsing pod: {error}",))
        terms, existing = pod.affinity_terms, nodes.terms_matching(pod)
        if not (terms.affinity or terms.anti_affinity or existing):
            return SKIP
        state = filtering.count(pod, nodes, existing)
        return SKIP if state.irrelevant else PreFilterResult(state)

    def with_pod(
        self, state: RequiredState, pod: Pod, other: Pod, nodes: NodeView, row: int, sign: int
    ) -> RequiredState:
        """Count another pod in or out."""
        return filtering.with_pod(state, pod, other, nodes, row, sign)

    def filter(self, pod: Pod, nodes: NodeView, state: RequiredState | None) -> Verdicts:
        """Refuse nodes in the wrong company."""
        if state is None:
            state = filtering.count(pod, nodes.whole, nodes.terms_matching(pod))
        return filtering.judge(state, pod, nodes)

    def pre_score(self, pod: Pod, nodes: NodeView) -> PreferredState | Skip:
        """Sum up the weights of all terms at each node."""
        terms = pod.affinity_terms
        own = terms.preferred_affinity or terms.preferred_anti_affinity
        if self._ignore_others and not own:
            return SKIP
        weights = scoring.weigh(pod, nodes.whole, self._hard_weight)
        return SKIP if weights is None else PreferredState(weights)

    def score(self, pod: Pod, nodes: NodeView, state: PreferredState | None) -> Ints:
        """The weights of a node's domains."""
        if state is None:
            raise PluginError(self.name, "Score", "PreScore is disabled but needed")
        return scoring.score(state, nodes)

    def normalize(self, scores: Ints, state: PreferredState | None) -> Ints:
        """Stretch to 0..100."""
        return scoring.normalize(scores)

    def events_to_register(self) -> Sequence[EventRegistration]:
        """Pods that come, go or change their labels; nodes that enter other domains."""
        return [
            on(
                EventResource.ASSIGNED_POD,
                ActionType.ADD | ActionType.UPDATE_POD_LABEL | ActionType.DELETE,
                hints.after_pod_change,
                hints.FRIENDS,
            ),
            on(EventResource.TARGET_POD, ActionType.UPDATE_POD_LABEL),
            on(
                EventResource.NODE,
                ActionType.ADD | ActionType.UPDATE_NODE_LABEL,
                hints.after_node_change,
            ),
        ]
