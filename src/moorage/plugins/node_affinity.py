"""NodeAffinity: the nodes a pod insists on or prefers, and those the operator enforces."""

from collections.abc import Hashable, Sequence
from typing import Any

import msgspec
import numpy as np

from moorage.cluster.columns import Ints
from moorage.cluster.stamps import Aspect
from moorage.cluster.view import NodeView
from moorage.errors import ConfigError, PluginError, SelectorError
from moorage.framework.cluster_events import ActionType, EventRegistration, EventResource, on
from moorage.framework.plugin import (
    FilterPlugin,
    Handle,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    ScorePlugin,
)
from moorage.framework.scores import normalize_to_max
from moorage.framework.status import SKIP, Code, Reason, Skip, Status, Verdicts
from moorage.model.meta import ApiObject
from moorage.model.node import Node
from moorage.model.node_selector import (
    NAME_FIELD,
    CompiledNodeSelector,
    NodeAffinitySpec,
    WeightedTerm,
    compile_node_selector,
    compile_preferred,
)
from moorage.model.pod import Pod

Wishes = tuple[WeightedTerm, ...]


class NodeAffinity(
    PreFilterPlugin[None], FilterPlugin[None], PreScorePlugin[Wishes], ScorePlugin[Wishes]
):
    """Node selectors and node affinity of the pod, and the profile's `addedAffinity`."""

    name = "NodeAffinity"
    reads = (Aspect.LABELS,)
    enforced = Reason("node(s) didn't match scheduler-enforced node affinity", Code.UNRESOLVABLE)
    unmatched = Reason("node(s) didn't match Pod's node affinity/selector", Code.UNRESOLVABLE)

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        added_args = args.added_affinity if args is not None else None
        added = msgspec.convert(added_args or {}, NodeAffinitySpec)
        self._added: CompiledNodeSelector | None = None
        if added.required is not None:
            self._added = compile_node_selector(added.required)
        try:
            self._added_wishes = compile_preferred(added.preferred)
        except SelectorError as error:
            raise ConfigError(f"addedAffinity: {error}") from error
        self._has_added_wishes = bool(added.preferred)

    def pod_key(self, pod: Pod) -> Hashable:
        """The compiled demand and the wishes."""
        return pod.required_nodes, pod.spec.node_affinity.preferred

    def pre_filter(self, pod: Pod, nodes: NodeView) -> PreFilterResult[None] | Skip | Status:
        """Nothing to do without demands; only some nodes to look at if the pod names them."""
        if pod.required_nodes.anywhere and self._added is None:
            return SKIP
        names = _named_nodes(pod)
        if names is not None and not names:
            return Status(Code.UNRESOLVABLE, ("pod affinity terms conflict",))
        return PreFilterResult(None, names)

    def filter(self, pod: Pod, nodes: NodeView, state: None) -> Verdicts:
        """What the operator enforces is checked first and alone."""
        verdicts = Verdicts(len(nodes), (self.enforced, self.unmatched))
        allowed = np.ones(len(nodes), np.bool_)
        if self._added is not None:
            allowed = nodes.matching(self._added)
            verdicts.reject(~allowed, self.enforced)
        if not pod.required_nodes.anywhere:
            verdicts.reject(allowed & ~nodes.required_by(pod.required_nodes), self.unmatched)
        return verdicts

    def pre_score(self, pod: Pod, nodes: NodeView) -> Wishes | Skip:
        """The pod's wishes, if it or the profile has any."""
        if not pod.spec.node_affinity.preferred and not self._has_added_wishes:
            return SKIP
        return self._wishes(pod, "PreScore")

    def score(self, pod: Pod, nodes: NodeView, state: Wishes | None) -> Ints:
        """The weights of the wishes a node fulfils."""
        wishes = self._wishes(pod, "Score") if state is None else state
        total: Ints = np.zeros(len(nodes), np.int64)
        for wish in (*self._added_wishes, *wishes):
            total += nodes.matching_term(wish.term) * np.int64(wish.weight)
        return total

    def _wishes(self, pod: Pod, phase: str) -> Wishes:
        try:
            return compile_preferred(pod.spec.node_affinity.preferred)
        except SelectorError as error:  # the pod's mistake, not the plugin's
            raise PluginError(self.name, phase, str(error)) from error

    def normalize(self, scores: Ints, state: Wishes | None) -> Ints:
        """More is better."""
        return normalize_to_max(scores)

    def events_to_register(self) -> Sequence[EventRegistration]:
        """A node that matches now and did not before."""
        labelled = ActionType.ADD | ActionType.UPDATE_NODE_LABEL
        return [on(EventResource.NODE, labelled, self._after_node_change)]

    def _after_node_change(self, pod: Pod, old: ApiObject | None, new: ApiObject | None) -> bool:
        if not isinstance(new, Node):
            return False
        if self._added is not None and not self._added.matches(new.labels, new.name):
            return False
        if not _admits(pod, new):
            return _is_unreadable(pod, new)
        return not isinstance(old, Node) or not _admits(pod, old)


def _admits(pod: Pod, node: Node) -> bool:
    terms = pod.required_nodes.terms
    return _is_selected(pod, node) and (terms is None or terms.matches(node.labels, node.name))


def _is_selected(pod: Pod, node: Node) -> bool:
    return all(node.labels.get(key) == value for key, value in pod.required_nodes.labels)


def _is_unreadable(pod: Pod, node: Node) -> bool:
    """Is there a term that cannot be parsed? Upstream then takes any event for a good one."""
    terms = pod.required_nodes.terms
    return _is_selected(pod, node) and terms is not None and any(t.error for t in terms.terms)


def _named_nodes(pod: Pod) -> frozenset[str] | None:
    """The nodes that the terms name, if every one of them names some; None otherwise."""
    required = pod.spec.node_affinity.required
    if required is None or not required.node_selector_terms:
        return None
    union: frozenset[str] = frozenset()
    for term in required.node_selector_terms:
        named: frozenset[str] | None = None
        for expr in term.match_fields:
            if expr.key == NAME_FIELD and expr.operator == "In":
                values = frozenset(expr.values)
                named = values if named is None else named & values
        if named is None:
            return None
        union |= named
    return union
