"""Affinity terms of the pods on nodes: which terms exist, and on how many pods of each node.

Equal terms of different pods are one entry with its counts. An incoming pod asks which entries it
matches; it is tried only against those that ask for one of its labels.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum

import msgspec

from moorage.cluster.columns import RowSpace
from moorage.cluster.pod_query import LabelPair, required_pairs
from moorage.cluster.row_counts import DomainSums, LabelDomains, RowCounts
from moorage.model.affinity import AffinityTerm
from moorage.model.labels import Labels
from moorage.model.pod import Pod


class TermKind(Enum):
    """Which of a pod's four lists of terms an entry stands in."""

    AFFINITY = "required affinity"
    ANTI_AFFINITY = "required anti-affinity"
    PREFERRED_AFFINITY = "preferred affinity"
    PREFERRED_ANTI_AFFINITY = "preferred anti-affinity"


class PodTerm(msgspec.Struct, frozen=True, cache_hash=True):
    """A term as some pod on a node carries it; required terms have weight 0."""

    kind: TermKind
    term: AffinityTerm
    weight: int = 0


class TermEntry:
    """A term and how many pods of each row carry it."""

    __slots__ = ("counts", "pairs", "pod_term", "pods")

    def __init__(
        self, pod_term: PodTerm, counts: RowCounts, pairs: Sequence[LabelPair] | None
    ) -> None:
        self.pod_term = pod_term
        self.counts = counts
        self.pairs = pairs
        """A pod that matches has one of these labels; None: it need not have any."""
        self.pods = 0

    def per_domain(self, domains: LabelDomains) -> DomainSums:
        """The counts summed up over the values of the term's topology key."""
        return self.counts.per_domain(domains)


class PodTerms:
    """All entries, kept pod by pod; an incoming pod finds those it may match by its labels."""

    def __init__(self, space: RowSpace) -> None:
        self._space = space
        self._entries: dict[PodTerm, TermEntry] = {}
        self._by_pair: dict[LabelPair | None, dict[PodTerm, TermEntry]] = {}
        """None: terms that a pod may match whatever its labels are."""

    def count(self, pod: Pod, row: int, sign: int) -> None:
        """A pod came to a row, or left it."""
        for pod_term in terms_of(pod):
            entry = self._entries.get(pod_term)
            if entry is None:
                entry = self._add(pod_term)
            entry.counts.add(row, sign)
            entry.pods += sign
            if not entry.pods:
                self._remove(entry)

    def move_row(self, moved: int, row: int, pods: Iterable[Pod]) -> None:
        """The row of a node and its pods has another number now."""
        for pod_term in {pod_term for pod in pods for pod_term in terms_of(pod)}:
            self._entries[pod_term].counts.move_row(moved, row)

    def matching(self, pod: Pod, namespace_labels: Labels) -> tuple[TermEntry, ...]:
        """The entries whose term an incoming pod matches."""
        if not self._entries:
            return ()
        labels, namespace = pod.labels, pod.namespace
        pairs = (None, *labels.items())
        return tuple(
            entry
            for pair in pairs
            for entry in self._by_pair.get(pair, _NO_ENTRIES).values()
            if entry.pod_term.term.matches(labels, namespace, namespace_labels)
        )

    def _add(self, pod_term: PodTerm) -> TermEntry:
        alternatives = required_pairs(pod_term.term.selector)
        pairs = min(alternatives, key=self._entries_with, default=None)
        entry = TermEntry(pod_term, RowCounts(self._space), pairs)
        self._entries[pod_term] = entry
        for pair in _places(entry):
            self._by_pair.setdefault(pair, {})[pod_term] = entry
        return entry

    def _remove(self, entry: TermEntry) -> None:
        entry.counts.drop()
        del self._entries[entry.pod_term]
        for pair in _places(entry):
            entries = self._by_pair[pair]
            del entries[entry.pod_term]
            if not entries:
                del self._by_pair[pair]

    def _entries_with(self, pairs: Sequence[LabelPair]) -> int:
        return sum(len(self._by_pair.get(pair, ())) for pair in pairs)


_NO_ENTRIES: dict[PodTerm, TermEntry] = {}


def _places(entry: TermEntry) -> Sequence[LabelPair | None]:
    """Where in the index an entry is."""
    return (None,) if entry.pairs is None else entry.pairs


def terms_of(pod: Pod) -> Iterator[PodTerm]:
    """Every term a pod carries, repeated where it is repeated in the pod."""
    terms = pod.affinity_terms
    for term in terms.affinity:
        yield PodTerm(TermKind.AFFINITY, term)
    for term in terms.anti_affinity:
        yield PodTerm(TermKind.ANTI_AFFINITY, term)
    for weighted in terms.preferred_affinity:
        yield PodTerm(TermKind.PREFERRED_AFFINITY, weighted.term, weighted.weight)
    for weighted in terms.preferred_anti_affinity:
        yield PodTerm(TermKind.PREFERRED_ANTI_AFFINITY, weighted.term, weighted.weight)
