"""Required terms: the pod's own, and those of pods already on nodes that concern it."""

import msgspec
import numpy as np

from moorage.cluster.columns import Bools, Ints
from moorage.cluster.pod_terms import TermKind
from moorage.cluster.view import NodeView
from moorage.framework.status import Code, Reason, Verdicts
from moorage.model.affinity import AffinityTerm
from moorage.model.labels import Labels
from moorage.model.pod import Pod
from moorage.plugins.inter_pod_affinity.domains import (
    NO_LABELS,
    DomainCounts,
    add,
    any_counted,
    at_nodes,
    changed,
    matches_all,
    pods_carrying,
    pods_matching_all,
    resolve,
)

AFFINITY = Reason("node(s) didn't match pod affinity rules", Code.UNRESOLVABLE)
ANTI_AFFINITY = Reason("node(s) didn't match pod anti-affinity rules")
EXISTING = Reason("node(s) didn't satisfy existing pods anti-affinity rules")


class RequiredState(msgspec.Struct, frozen=True):
    """What `filter` needs to know."""

    affinity: tuple[AffinityTerm, ...]
    anti_affinity: tuple[AffinityTerm, ...]
    namespace_labels: Labels
    existing_anti_affinity: DomainCounts
    """Terms of pods on nodes that reject the incoming pod."""
    affinity_counts: DomainCounts
    """Pods on nodes that match all affinity terms of the incoming pod."""
    anti_affinity_counts: DomainCounts
    """Pods on nodes that match an anti-affinity term of the incoming pod."""

    @property
    def irrelevant(self) -> bool:
        """Neither does the pod demand anything, nor does anybody mind it."""
        return (
            not self.affinity
            and not self.anti_affinity
            and not any_counted(self.existing_anti_affinity)
        )


def count(pod: Pod, nodes: NodeView) -> RequiredState:
    """Count, per topology domain, the pods that matter to the incoming pod."""
    terms = pod.affinity_terms
    affinity = tuple(resolve(term, nodes.listers) for term in terms.affinity)
    anti_affinity = tuple(resolve(term, nodes.listers) for term in terms.anti_affinity)
    existing: dict[str, Ints] = {}
    for entry in nodes.terms_matching(pod):
        if entry.pod_term.kind is TermKind.ANTI_AFFINITY:
            add(existing, entry.pod_term.term.topology_key, pods_carrying(entry, nodes))
    attracting: dict[str, Ints] = {}
    for term in affinity:
        key = term.topology_key
        add(attracting, key, pods_matching_all(affinity, key, nodes))
    repelling: dict[str, Ints] = {}
    for term in anti_affinity:
        key = term.topology_key
        add(repelling, key, pods_matching_all((term,), key, nodes))
    return RequiredState(
        affinity=affinity,
        anti_affinity=anti_affinity,
        namespace_labels=nodes.listers.namespace_labels(pod.namespace),
        existing_anti_affinity=existing,
        affinity_counts=attracting,
        anti_affinity_counts=repelling,
    )


def with_pod(
    state: RequiredState, pod: Pod, other: Pod, nodes: NodeView, row: int, sign: int
) -> RequiredState:
    """The state with another pod added to or removed from a node."""
    here = nodes.take(np.array([row]))

    def code(key: str) -> int:
        return int(here.label(key).codes[0])

    existing = state.existing_anti_affinity
    for term in other.affinity_terms.anti_affinity:
        if term.matches(pod.labels, pod.namespace, state.namespace_labels):
            existing = changed(existing, term.topology_key, code(term.topology_key), sign)
    attracting = state.affinity_counts
    if matches_all(state.affinity, other):
        for term in state.affinity:
            attracting = changed(attracting, term.topology_key, code(term.topology_key), sign)
    repelling = state.anti_affinity_counts
    for term in state.anti_affinity:
        if term.matches(other.labels, other.namespace, NO_LABELS):
            repelling = changed(repelling, term.topology_key, code(term.topology_key), sign)
    return msgspec.structs.replace(
        state,
        existing_anti_affinity=existing,
        affinity_counts=attracting,
        anti_affinity_counts=repelling,
    )


def judge(state: RequiredState, pod: Pod, nodes: NodeView) -> Verdicts:
    """Own affinity first, then own anti-affinity, then the others' anti-affinity."""
    verdicts = Verdicts(len(nodes), (AFFINITY, ANTI_AFFINITY, EXISTING))
    undecided = np.ones(len(nodes), np.bool_)
    if state.affinity:
        lonely = ~_near_friends(state, pod, nodes)
        verdicts.reject(lonely, AFFINITY)
        undecided &= ~lonely
    if state.anti_affinity:
        hostile = _counted(
            state.anti_affinity_counts, {t.topology_key for t in state.anti_affinity}, nodes
        )
        verdicts.reject(undecided & hostile, ANTI_AFFINITY)
        undecided &= ~hostile
    if state.existing_anti_affinity:
        unwelcome = _counted(state.existing_anti_affinity, set(state.existing_anti_affinity), nodes)
        verdicts.reject(undecided & unwelcome, EXISTING)
    return verdicts


def refused(state: RequiredState, pod: Pod, nodes: NodeView) -> Bools:
    """The nodes that `judge` refuses: one table of wrong domains per topology key."""
    wrong: dict[str, Bools] = {}
    if state.affinity:
        lonely = any_counted(state.affinity_counts) or not matches_all(state.affinity, pod)
        for term in state.affinity:
            key = term.topology_key
            table = _whole_table(state.affinity_counts, key, nodes) == 0
            if not lonely:
                table[:] = False
            table[0] = True  # a node without the label is in no domain
            wrong[key] = wrong[key] | table if key in wrong else table
    for counts in (state.anti_affinity_counts, state.existing_anti_affinity):
        for key in counts:
            table = _whole_table(counts, key, nodes) > 0
            wrong[key] = wrong[key] | table if key in wrong else table
    found: Bools | None = None
    for key, table in wrong.items():
        here = table[nodes.label(key).codes]
        found = here if found is None else found | here
    return np.zeros(len(nodes), np.bool_) if found is None else found


def _whole_table(counts: DomainCounts, key: str, nodes: NodeView) -> Ints:
    """The counts of all domains that there are now."""
    known = counts.get(key)
    size = len(nodes.label(key).vocabulary)
    if known is not None and len(known) == size:
        return known
    table: Ints = np.zeros(size, np.int64)
    if known is not None:
        table[: len(known)] = known
    return table


def _near_friends(state: RequiredState, pod: Pod, nodes: NodeView) -> Bools:
    labelled = np.ones(len(nodes), np.bool_)
    near = np.ones(len(nodes), np.bool_)
    for term in state.affinity:
        labelled &= nodes.label(term.topology_key).present
        near &= at_nodes(state.affinity_counts, term.topology_key, nodes) > 0
    # The first pod of a group that wants to be together would wait forever for the others: if it
    # matches its own terms and nobody else does, any node with the topology keys will do.
    if not any_counted(state.affinity_counts) and matches_all(state.affinity, pod):
        return labelled
    return labelled & near


def _counted(counts: DomainCounts, keys: set[str], nodes: NodeView) -> Bools:
    found = np.zeros(len(nodes), np.bool_)
    for key in keys:
        found |= at_nodes(counts, key, nodes) > 0
    return found
