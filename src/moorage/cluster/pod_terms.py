"""Affinity terms of the pods on nodes: which terms exist, and on how many pods of each node.

Equal terms of different pods are one entry with its counts. An incoming pod asks which entries it
matches; it is tried only against those that ask for one of its labels.
"""

from collections.abc import Iterable, Sequence

from moorage.cluster.columns import RowSpace
from moorage.cluster.pod_query import LabelPair, required_pairs
from moorage.cluster.row_counts import DomainSums, LabelDomains, RowCounts
from moorage.model.affinity import PodTerm
from moorage.model.labels import Labels
from moorage.model.pod import Pod


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
        for pod_term in pod.affinity_terms.all:
            entry = self._entries.get(pod_term)
            if entry is None:
                entry = self._add(pod_term)
            entry.counts.add(row, sign)
            entry.pods += sign
            if not entry.pods:
                self._remove(entry)

    def move_row(self, moved: int, row: int, pods: Iterable[Pod]) -> None:
        """The row of a node and its pods has another number now."""
        for pod_term in {pod_term for pod in pods for pod_term in pod.affinity_terms.all}:
            self._entries[pod_term].counts.move_row(moved, row)

    def matching(self, pod: Pod, namespace_labels: Labels) -> tuple[TermEntry, ...]:
        """The entries whose term an incoming pod matches."""
        if not self._entries:
            return ()
        labels, namespace = pod.labels, pod.namespace
        may_match: list[TermEntry] = []
        for pair in (None, *labels.items()):
            may_match += self._by_pair.get(pair, _NO_ENTRIES).values()
        return tuple(
            entry
            for entry in may_match
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
