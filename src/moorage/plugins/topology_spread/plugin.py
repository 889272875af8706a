"""The PodTopologySpread plugin: hard constraints filter, soft ones score."""

from collections.abc import Hashable, Sequence
from typing import Any

import msgspec

from moorage.cluster.columns import Ints, Rows
from moorage.cluster.stamps import Aspect
from moorage.cluster.view import NodeView
from moorage.errors import PluginError, SelectorError
from moorage.framework.cluster_events import ActionType, EventRegistration, EventResource, on
from moorage.framework.plugin import (
    FilterPlugin,
    Handle,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    ScorePlugin,
)
from moorage.framework.status import SKIP, Skip, Verdicts
from moorage.model.pod import Pod, TopologySpreadConstraint
from moorage.model.workloads import ReplicaSet, ReplicationController, Service, StatefulSet
from moorage.plugins.topology_spread import filtering, hints, scoring
from moorage.plugins.topology_spread.constraints import (
    DO_NOT_SCHEDULE,
    SCHEDULE_ANYWAY,
    SYSTEM_DEFAULTS,
    SpreadConstraint,
    compile_constraints,
    constraints_key,
    default_selector,
    is_alone,
)
from moorage.plugins.topology_spread.filtering import HardState
from moorage.plugins.topology_spread.scoring import SoftState

_MOST_COMPILED = 1024


class PodTopologySpread(
    PreFilterPlugin[HardState],
    FilterPlugin[HardState],
    PreScorePlugin[SoftState],
    ScorePlugin[SoftState],
):
    """Spread pods by their own constraints, or by the profile's defaults for their owners."""

    name = "PodTopologySpread"
    reads = (Aspect.LABELS, Aspect.TAINTS, Aspect.PODS)
    row_local = False
    looks_up = (Service, ReplicationController, ReplicaSet, StatefulSet)

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._system_defaults = args.defaulting_type == "System"
        self._defaults: tuple[TopologySpreadConstraint, ...] = SYSTEM_DEFAULTS
        if not self._system_defaults:
            self._defaults = tuple(
                msgspec.convert(msgspec.to_builtins(default), TopologySpreadConstraint)
                for default in args.default_constraints
            )
        self._compiled: dict[Hashable, tuple[SpreadConstraint, ...]] = {}
        self._match_label_keys = handle.gates.enabled("MatchLabelKeysInPodTopologySpread")
        self._comparisons = handle.gates.enabled("TaintTolerationComparisonOperators")

    def pre_filter(self, pod: Pod, nodes: NodeView) -> PreFilterResult[HardState] | Skip:
        """Count the domains of the hard constraints."""
        constraints = self.constraints(pod, DO_NOT_SCHEDULE, "PreFilter")
        if not constraints:
            return SKIP
        return PreFilterResult(self._count(constraints, pod, nodes))

    def with_pod(
        self, state: HardState, pod: Pod, other: Pod, nodes: NodeView, row: int, sign: int
    ) -> HardState:
        """Count another pod in or out."""
        return filtering.with_pod(
            state, pod, other, nodes, row, sign, comparisons=self._comparisons
        )

    def filter(self, pod: Pod, nodes: NodeView, state: HardState | None) -> Verdicts:
        """Refuse nodes that would make the spread more uneven than allowed."""
        if state is None:
            constraints = self.constraints(pod, DO_NOT_SCHEDULE, "Filter")
            if not constraints:
                return Verdicts(len(nodes))
            state = self._count(constraints, pod, nodes.whole)
        return filtering.judge(state, pod, nodes)

    def log_rejections(
        self, pod: Pod, nodes: NodeView, rows: Rows, state: HardState | None
    ) -> None:
        """Log the violated constraints."""
        if state is not None:
            filtering.log_rejections(state, pod, nodes, rows)

    def pre_score(self, pod: Pod, nodes: NodeView) -> SoftState | Skip:
        """Count the domains of the soft constraints."""
        constraints = self.constraints(pod, SCHEDULE_ANYWAY, "PreScore")
        if not constraints:
            return SKIP
        own = bool(pod.spec.topology_spread_constraints)
        return scoring.count_domains(
            constraints,
            pod,
            nodes,
            require_all=own or not self._system_defaults,
            comparisons=self._comparisons,
        )

    def score(self, pod: Pod, nodes: NodeView, state: SoftState | None) -> Ints:
        """Count matching pods around each node."""
        if state is None:
            raise PluginError(self.name, "Score", "PreScore is disabled but needed")
        return scoring.score(state, pod, nodes)

    def normalize(self, scores: Ints, state: SoftState | None) -> Ints:
        """Fewer is better."""
        return scores if state is None else scoring.normalize(scores, state)

    def events_to_register(self) -> Sequence[EventRegistration]:
        """Pods and nodes that change the counts."""
        after = hints.SpreadHints(
            lambda pod: self.constraints(pod, DO_NOT_SCHEDULE, "PreFilter"),
        )
        return [
            on(
                EventResource.ASSIGNED_POD,
                ActionType.ADD | ActionType.UPDATE_POD_LABEL | ActionType.DELETE,
                after.pod_change,
            ),
            on(
                EventResource.TARGET_POD,
                ActionType.UPDATE_POD_LABEL | ActionType.UPDATE_POD_TOLERATION,
                after.own_change,
            ),
            on(
                EventResource.NODE,
                ActionType.ADD
                | ActionType.DELETE
                | ActionType.UPDATE_NODE_LABEL
                | ActionType.UPDATE_NODE_TAINT,
                after.node_change,
            ),
        ]

    def constraints(self, pod: Pod, action: str, phase: str) -> tuple[SpreadConstraint, ...]:
        """The pod's constraints of one kind, or the defaults."""
        own = pod.spec.topology_spread_constraints
        chosen = [one for one in own or self._defaults if one.when_unsatisfiable == action]
        if not chosen or (not own and is_alone(pod, self.handle.listers)):
            return ()
        key = constraints_key(chosen, pod)
        constraints = self._compiled.get(key)
        if constraints is None:
            try:
                constraints = compile_constraints(
                    chosen, pod, match_label_keys=self._match_label_keys
                )
            except SelectorError as error:
                raise PluginError(self.name, phase, f"obtaining constraints: {error}") from error
            if len(self._compiled) >= _MOST_COMPILED:
                self._compiled.clear()
            self._compiled[key] = constraints
        if own:
            return constraints
        selector = default_selector(pod, self.handle.listers)
        if selector.empty:
            return ()
        return tuple(msgspec.structs.replace(c, selector=selector) for c in constraints)

    def _count(
        self, constraints: tuple[SpreadConstraint, ...], pod: Pod, nodes: NodeView
    ) -> HardState:
        return filtering.count_domains(constraints, pod, nodes, comparisons=self._comparisons)
