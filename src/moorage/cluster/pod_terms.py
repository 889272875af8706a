"""Affinity terms of the pods on nodes: which terms exist, and on how many pods of each node.

Equal terms of different pods are one entry with a count column. An incoming pod asks which entries
it matches; that is worked out once per distinct incoming pod set and kept until a term comes or
goes.
"""

from collections.abc import Iterator
from enum import Enum

import msgspec
import numpy as np

from moorage.cluster.coded import CodedStore
from moorage.cluster.columns import Column, RowSpace
from moorage.cluster.domain_sums import DomainSums
from moorage.cluster.stamps import Stamps
from moorage.model.affinity import AffinityTerm
from moorage.model.labels import Labels
from moorage.model.pod import Pod

_MOST_KEPT_ANSWERS = 1024


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

    __slots__ = ("_sums", "column", "pod_term", "pods")

    def __init__(self, pod_term: PodTerm, column: Column[np.int64]) -> None:
        self.pod_term = pod_term
        self.column = column
        self.pods = 0
        self._sums: DomainSums | None = None

    def add(self, row: int, change: int) -> None:
        """Count pods in or out."""
        self.column.cells[row] += change
        self.pods += change
        if self._sums is not None:
            self._sums.add(row, change)

    def per_domain(self, store: CodedStore[str | None], stamps: Stamps) -> DomainSums:
        """The counts summed up over the values of the term's topology key."""
        if self._sums is None or not self._sums.is_over(store):
            self._sums = DomainSums(self.column, store, stamps)
        return self._sums


class PodTerms:
    """All entries, kept pod by pod."""

    def __init__(self, space: RowSpace) -> None:
        self._space = space
        self.version = 0
        """Changes when a term comes or goes, but not with the pods that carry it."""
        self._entries: dict[PodTerm, TermEntry] = {}
        self._kept: dict[object, tuple[TermEntry, ...]] = {}

    def count(self, pod: Pod, row: int, sign: int) -> None:
        """A pod came to a row, or left it."""
        for pod_term in terms_of(pod):
            entry = self._entries.get(pod_term)
            if entry is None:
                entry = TermEntry(pod_term, self._space.column(np.int64))
                self._entries[pod_term] = entry
                self._change()
            entry.add(row, sign)
            if not entry.pods:
                del self._entries[pod_term]
                self._space.drop(entry.column)
                self._change()

    def _change(self) -> None:
        self.version += 1
        self._kept.clear()

    def matching(self, pod: Pod, namespace_labels: Labels) -> tuple[TermEntry, ...]:
        """The entries whose term an incoming pod matches."""
        if not self._entries:
            return ()
        key = (pod.namespace, pod.label_set, tuple(sorted(namespace_labels.items())))
        kept = self._kept.get(key)
        if kept is None:
            kept = tuple(
                entry
                for entry in self._entries.values()
                if entry.pod_term.term.matches(pod.labels, pod.namespace, namespace_labels)
            )
            if len(self._kept) >= _MOST_KEPT_ANSWERS:
                self._kept.clear()
            self._kept[key] = kept
        return kept


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
