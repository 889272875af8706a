"""Required terms: the pod's own, and those of pods already on nodes that concern it."""

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from moorage.cluster.columns import Bools
from moorage.cluster.pod_query import matching_terms
from moorage.cluster.pod_terms import TermEntry
from moorage.cluster.view import NodeView
from moorage.framework.status import Code, Reason, Verdicts
from moorage.model.affinity import AffinityTerm, TermKind
from moorage.model.pod import Pod
from moorage.plugins.inter_pod_affinity.domains import (
    NO_LABELS,
    DomainCounts,
    PodsCarrying,
    PodsMatching,
    at_nodes,
    changed,
    counted,
    matches_all,
    resolve,
)

AFFINITY = Reason("node(s) didn't match pod affinity rules", Code.UNRESOLVABLE)
ANTI_AFFINITY = Reason("node(s) didn't match pod anti-affinity rules")
EXISTING = Reason("node(s) didn't satisfy existing pods anti-affinity rules")
_REASONS = (AFFINITY, ANTI_AFFINITY, EXISTING)
_ANTI_AFFINITY_BIT, _EXISTING_BIT = np.uint8(2), np.uint8(4)  # in the verdicts


class RequiredState(msgspec.Struct, frozen=True):
    """What `filter` needs to know; valid, as a view is, until the cluster's state changes."""

    affinity: tuple[AffinityTerm, ...]
    anti_affinity: tuple[AffinityTerm, ...]
    existing_anti_affinity: DomainCounts
    """Terms of pods on nodes that reject the incoming pod."""
    affinity_counts: DomainCounts
    """Pods on nodes that match all affinity terms of the incoming pod."""
    anti_affinity_counts: DomainCounts
    """Pods on nodes that match an anti-affinity term of the incoming pod."""

    @property
    def irrelevant(self) -> bool:
        """Neither does the pod demand anything, nor does anybody mind it."""
        return not (self.affinity or self.anti_affinity or self.existing_anti_affinity)


def _topology_keys(terms: Iterable[AffinityTerm]) -> Iterable[str]:
    """Each key once, in order: a pod may have thousands of terms with the same one."""
    return dict.fromkeys(term.topology_key for term in terms)


class TermMatches(msgspec.Struct, frozen=True):
    """The required terms that concern a pod, and the pods on nodes that matter because of them."""

    affinity: tuple[AffinityTerm, ...]
    anti_affinity: tuple[AffinityTerm, ...]
    existing: Sequence[PodsCarrying]
    attracting: Sequence[PodsMatching]
    repelling: Sequence[PodsMatching]


def term_matches(pod: Pod, nodes: NodeView, existing: Iterable[TermEntry]) -> TermMatches:
    """Find out what matters to the incoming pod; `existing` terms are those that match it."""
    terms, listers = pod.affinity_terms, nodes.listers
    affinity = tuple([resolve(term, listers) for term in terms.affinity])
    anti_affinity = tuple([resolve(term, listers) for term in terms.anti_affinity])
    wanted = matching_terms(affinity)
    return TermMatches(
        affinity=affinity,
        anti_affinity=anti_affinity,
        existing=[
            PodsCarrying(entry)
            for entry in existing
            if entry.pod_term.kind is TermKind.ANTI_AFFINITY
        ],
        attracting=[PodsMatching(wanted, key) for key in _topology_keys(affinity)],
        repelling=[
            PodsMatching(matching_terms((term,)), term.topology_key) for term in anti_affinity
        ],
    )


def count(pod: Pod, nodes: NodeView, existing: Iterable[TermEntry]) -> RequiredState:
    """Count, per topology domain, the pods that matter to the incoming pod."""
    matches = term_matches(pod, nodes, existing)
    return RequiredState(
        affinity=matches.affinity,
        anti_affinity=matches.anti_affinity,
        existing_anti_affinity=counted(matches.existing, nodes),
        affinity_counts=counted(matches.attracting, nodes),
        anti_affinity_counts=counted(matches.repelling, nodes),
    )


def with_pod(
    state: RequiredState, pod: Pod, other: Pod, nodes: NodeView, row: int, sign: int
) -> RequiredState:
    """The state with another pod added to or removed from a node."""
    here = nodes.take(np.array([row]))
    existing = state.existing_anti_affinity
    namespace_labels = nodes.listers.namespace_labels(pod.namespace)
    for term in other.affinity_terms.anti_affinity:
        if term.matches(pod.labels, pod.namespace, namespace_labels):
            existing = changed(existing, term.topology_key, here, sign)
    attracting = state.affinity_counts
    if matches_all(state.affinity, other):
        for key in _topology_keys(state.affinity):
            attracting = changed(attracting, key, here, sign)
    repelling = state.anti_affinity_counts
    for term in state.anti_affinity:
        if term.matches(other.labels, other.namespace, NO_LABELS):
            repelling = changed(repelling, term.topology_key, here, sign)
    return msgspec.structs.replace(
        state,
        existing_anti_affinity=existing,
        affinity_counts=attracting,
        anti_affinity_counts=repelling,
    )


def judge(state: RequiredState, pod: Pod, nodes: NodeView) -> Verdicts:
    """Own affinity first, then own anti-affinity, then the others' anti-affinity."""
    verdicts = Verdicts(len(nodes), _REASONS)
    if state.affinity:
        verdicts.reject(~_near_matches(state, pod, nodes), AFFINITY)
    own, others = state.anti_affinity_counts, state.existing_anti_affinity
    for key in own.keys() | others.keys():
        bits = [
            (counts[key] > 0) * bit
            for counts, bit in ((own, _ANTI_AFFINITY_BIT), (others, _EXISTING_BIT))
            if key in counts
        ]
        verdicts.bits |= at_nodes(sum(bits[1:], bits[0]), key, nodes)
    # Of several reasons a node has only the first, the one with the lowest bit.
    verdicts.bits &= -verdicts.bits
    return verdicts


def requires_existing_match(state: RequiredState, pod: Pod) -> bool:
    """Does it take pods that match the affinity terms?

    The first pod of a group that wants to be together would wait forever for the others: if it
    matches its own terms and nobody else does, any node with the topology keys will do.
    """
    matched = any(counts.any() for counts in state.affinity_counts.values())
    return matched or not matches_all(state.affinity, pod)


def _near_matches(state: RequiredState, pod: Pod, nodes: NodeView) -> Bools:
    labelled = np.ones(len(nodes), np.bool_)
    near = np.ones(len(nodes), np.bool_)
    for key in _topology_keys(state.affinity):
        labelled &= nodes.label(key).present
        counts = state.affinity_counts.get(key)
        near &= at_nodes(counts > 0, key, nodes) if counts is not None else False
    return labelled & near if requires_existing_match(state, pod) else labelled
