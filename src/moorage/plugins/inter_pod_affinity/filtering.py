"""Required terms: the pod's own, and those of pods already on nodes that concern it."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np

from moorage.cluster.columns import Bools, Ints
from moorage.cluster.pod_query import matching_terms
from moorage.cluster.pod_terms import TermKind
from moorage.cluster.row_counts import DomainSums
from moorage.cluster.view import NodeView
from moorage.framework.scores import RefusalDigest
from moorage.framework.status import Code, Reason, Verdicts
from moorage.model.affinity import AffinityTerm
from moorage.model.labels import Labels
from moorage.model.pod import Pod
from moorage.plugins.inter_pod_affinity.domains import (
    NO_LABELS,
    Counted,
    DomainCounts,
    LiveCounts,
    PodsCarrying,
    PodsMatching,
    any_counted,
    at_nodes,
    changed,
    matches_all,
    resolve,
)

AFFINITY = Reason("node(s) didn't match pod affinity rules", Code.UNRESOLVABLE)
ANTI_AFFINITY = Reason("node(s) didn't match pod anti-affinity rules")
EXISTING = Reason("node(s) didn't satisfy existing pods anti-affinity rules")


class RequiredState(RefusalDigest, frozen=True):
    """What `filter` needs to know; valid, as a view is, until the cluster's state changes."""

    affinity: tuple[AffinityTerm, ...]
    anti_affinity: tuple[AffinityTerm, ...]
    namespace_labels: Labels
    existing_anti_affinity: DomainCounts
    """Terms of pods on nodes that reject the incoming pod."""
    affinity_counts: DomainCounts
    """Pods on nodes that match all affinity terms of the incoming pod."""
    anti_affinity_counts: DomainCounts
    """Pods on nodes that match an anti-affinity term of the incoming pod."""
    refused: Bools | None = None
    """What follows for each node of the whole cluster, if that is known; never written to."""

    @property
    def irrelevant(self) -> bool:
        """Neither does the pod demand anything, nor does anybody mind it."""
        return (
            not self.affinity
            and not self.anti_affinity
            and not any_counted(self.existing_anti_affinity)
        )


class Company(msgspec.Struct, frozen=True):
    """Which terms and which pods on nodes matter to a pod."""

    affinity: tuple[AffinityTerm, ...]
    anti_affinity: tuple[AffinityTerm, ...]
    namespace_labels: Labels
    existing: tuple[Counted, ...]
    attracting: tuple[Counted, ...]
    repelling: tuple[Counted, ...]

    @property
    def counted(self) -> tuple[Counted, ...]:
        """All that is counted."""
        return (*self.existing, *self.attracting, *self.repelling)

    def counts(self, kept: Sequence[DomainSums]) -> tuple[LiveCounts, LiveCounts, LiveCounts]:
        """The counts of what is existing, attracting and repelling, from those of all of it."""
        first, second = len(self.existing), len(self.existing) + len(self.attracting)
        return (
            LiveCounts(self.existing, kept[:first]),
            LiveCounts(self.attracting, kept[first:second]),
            LiveCounts(self.repelling, kept[second:]),
        )

    def state(self, counts: tuple[LiveCounts, LiveCounts, LiveCounts]) -> RequiredState:
        """What `filter` needs to know, given these counts."""
        existing, attracting, repelling = counts
        return RequiredState(
            affinity=self.affinity,
            anti_affinity=self.anti_affinity,
            namespace_labels=self.namespace_labels,
            existing_anti_affinity=existing,
            affinity_counts=attracting,
            anti_affinity_counts=repelling,
        )


def _topology_keys(terms: Iterable[AffinityTerm]) -> Iterable[str]:
    """Each key once, in order: a pod may have thousands of terms with the same one."""
    return dict.fromkeys(term.topology_key for term in terms)


def company_of(pod: Pod, nodes: NodeView) -> Company:
    """Find out what matters to the incoming pod."""
    terms = pod.affinity_terms
    affinity = tuple(resolve(term, nodes.listers) for term in terms.affinity)
    anti_affinity = tuple(resolve(term, nodes.listers) for term in terms.anti_affinity)
    friends = matching_terms(affinity)
    return Company(
        affinity=affinity,
        anti_affinity=anti_affinity,
        namespace_labels=nodes.listers.namespace_labels(pod.namespace),
        existing=tuple(
            PodsCarrying(entry)
            for entry in nodes.terms_matching(pod)
            if entry.pod_term.kind is TermKind.ANTI_AFFINITY
        ),
        attracting=tuple(PodsMatching(friends, key) for key in _topology_keys(affinity)),
        repelling=tuple(
            PodsMatching(matching_terms((term,)), term.topology_key) for term in anti_affinity
        ),
    )


def count(pod: Pod, nodes: NodeView) -> RequiredState:
    """Count, per topology domain, the pods that matter to the incoming pod."""
    company = company_of(pod, nodes)
    return company.state(company.counts([one.find(nodes) for one in company.counted]))


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
        for key in _topology_keys(state.affinity):
            attracting = changed(attracting, key, code(key), sign)
    repelling = state.anti_affinity_counts
    for term in state.anti_affinity:
        if term.matches(other.labels, other.namespace, NO_LABELS):
            repelling = changed(repelling, term.topology_key, code(term.topology_key), sign)
    return msgspec.structs.replace(
        state,
        existing_anti_affinity=existing,
        affinity_counts=attracting,
        anti_affinity_counts=repelling,
        refused=None,
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
    """The nodes that `judge` refuses."""
    if state.refused is not None and nodes.whole is nodes:
        return state.refused
    return in_wrong_domains(wrong_domains(state, pod, nodes), nodes)


def wrong_domains(state: RequiredState, pod: Pod, nodes: NodeView) -> dict[str, Bools]:
    """Per topology key, which of its domains do not do; code 0: nodes without the label."""
    wrong: dict[str, Bools] = {}
    needed = bool(state.affinity) and needs_friends(state, pod)
    for key in _topology_keys(state.affinity):
        if needed:
            wrong[key] = _whole_table(state.affinity_counts, key, nodes) == 0
        else:
            wrong[key] = np.zeros(len(nodes.label(key).vocabulary), np.bool_)
        wrong[key][0] = True  # a node without the label is in no domain
    for known in (state.anti_affinity_counts, state.existing_anti_affinity):
        for key in known:
            table = _whole_table(known, key, nodes) > 0
            wrong[key] = wrong[key] | table if key in wrong else table
    return wrong


def needs_friends(state: RequiredState, pod: Pod) -> bool:
    """Does it take pods that match the affinity terms?

    The first pod of a group that wants to be together would wait forever for the others: if it
    matches its own terms and nobody else does, any node with the topology keys will do.
    """
    return any_counted(state.affinity_counts) or not matches_all(state.affinity, pod)


def in_wrong_domains(wrong: Mapping[str, Bools], nodes: NodeView) -> Bools:
    """The nodes of which a domain is wrong."""
    found: Bools = np.zeros(len(nodes), np.bool_)
    for key, table in wrong.items():
        found |= table[nodes.label(key).codes]
    return found


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
    for key in _topology_keys(state.affinity):
        labelled &= nodes.label(key).present
        near &= at_nodes(state.affinity_counts, key, nodes) > 0
    return labelled & near if needs_friends(state, pod) else labelled


def _counted(counts: DomainCounts, keys: set[str], nodes: NodeView) -> Bools:
    found = np.zeros(len(nodes), np.bool_)
    for key in keys:
        found |= at_nodes(counts, key, nodes) > 0
    return found
