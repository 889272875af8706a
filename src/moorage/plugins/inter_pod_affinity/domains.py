"""Counts per topology domain: label key -> one number per label code.

Code 0 stands for nodes without the label: it is kept at zero, because such nodes are in no domain.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from moorage.cluster.columns import Ints
from moorage.cluster.listers import Listers
from moorage.cluster.pod_query import PodQuery, matching_terms
from moorage.cluster.pod_terms import TermEntry, terms_of
from moorage.cluster.row_counts import DomainSums
from moorage.cluster.view import NodeView
from moorage.model.affinity import AffinityTerm
from moorage.model.pod import Pod
from moorage.model.workloads import Namespace

DomainCounts = Mapping[str, Ints]

# The incoming pod's terms are matched against other pods without looking at their namespaces'
# labels: those were resolved into names beforehand. Upstream leaves the selector in place, so one
# that is satisfied by *no labels at all* still matches everywhere.
NO_LABELS: Mapping[str, str] = {}


def resolve(term: AffinityTerm, listers: Listers) -> AffinityTerm:
    """The term with the namespaces its selector finds added to those it names."""
    selector = term.namespace_selector
    if selector.empty or selector.nothing:
        return term
    found = {ns.name for ns in listers.of(Namespace) if selector.matches(ns.labels)}
    names = tuple(sorted(found.union(term.namespaces)))
    return msgspec.structs.replace(term, namespaces=names)


def matches_all(terms: tuple[AffinityTerm, ...], pod: Pod) -> bool:
    """Does a pod match every term (and is there one)?"""
    return bool(terms) and all(t.matches(pod.labels, pod.namespace, NO_LABELS) for t in terms)


class PodsMatching:
    """Pods on nodes that match a query, counted per domain of a topology key."""

    __slots__ = ("_query", "key", "name")

    def __init__(self, query: PodQuery, key: str) -> None:
        self.key = key
        self.name: Hashable = (query, key)
        """Equal ones count the same."""
        self._query = query

    def find(self, nodes: NodeView) -> DomainSums:
        """The counts, as they are kept."""
        return nodes.pods_per_domain(self._query, self.key)

    def on_nodes(self, nodes: NodeView) -> Ints:
        """The counts node by node."""
        return nodes.pods_matching(self._query)

    def counts(self, pod: Pod) -> bool:
        """Is this one of the pods?"""
        return self._query.matches(pod)


def pods_near(term: AffinityTerm) -> PodsMatching:
    """Pods on nodes that match a term, counted per domain of its topology key."""
    return PodsMatching(matching_terms((term,)), term.topology_key)


class PodsCarrying:
    """Pods on nodes that carry a term, counted per domain of the term's topology key."""

    __slots__ = ("_entry", "key", "name")

    def __init__(self, entry: TermEntry) -> None:
        self.key = entry.pod_term.term.topology_key
        self.name: Hashable = entry
        self._entry = entry

    def find(self, nodes: NodeView) -> DomainSums:
        """The counts, as they are kept."""
        return nodes.terms_per_domain(self._entry)

    def on_nodes(self, nodes: NodeView) -> Ints:
        """The counts node by node."""
        return self._entry.counts.values[nodes.rows]

    def counts(self, pod: Pod) -> bool:
        """Is this one of the pods?"""
        return self._entry.pod_term in terms_of(pod)


Counted = PodsMatching | PodsCarrying


def in_domains(kept: DomainSums) -> Ints:
    """One count per code of the label."""
    sums = kept.sums
    sums[0] = 0
    return sums


class LiveCounts(Mapping[str, Ints]):
    """Counts that are read when somebody asks: like a view, they go with the cluster's state."""

    def __init__(self, counted: Sequence[Counted], kept: Sequence[DomainSums]) -> None:
        self._sums: dict[str, list[DomainSums]] = {}
        for one, sums in zip(counted, kept, strict=True):
            self._sums.setdefault(one.key, []).append(sums)

    def __getitem__(self, key: str) -> Ints:
        first, *others = map(in_domains, self._sums[key])
        for one in others:
            first += one
        return first

    def __iter__(self) -> Iterator[str]:
        return iter(self._sums)

    def __len__(self) -> int:
        return len(self._sums)

    @property
    def any(self) -> bool:
        """Is any domain's count other than zero?"""
        return any(one.inside for sums in self._sums.values() for one in sums)

    def at(self, key: str, code: int) -> int:
        """One count, of a domain that was there when all of them were last read."""
        return sum(one.at(code) for one in self._sums.get(key, ()))


def changed(counts: DomainCounts, key: str, code: int, amount: int) -> DomainCounts:
    """The counts with one domain changed; the original stays as it was."""
    if not code or not amount:
        return counts
    known = counts.get(key)
    size = code + 1 if known is None else max(len(known), code + 1)
    array: Ints = np.zeros(size, np.int64)
    if known is not None:
        array[: len(known)] = known
    array[code] += amount
    return {**counts, key: array}


def any_counted(counts: DomainCounts) -> bool:
    """Is any domain's count other than zero?"""
    if isinstance(counts, LiveCounts):
        return counts.any
    return any(array.any() for array in counts.values())


def at_nodes(counts: DomainCounts, key: str, nodes: NodeView) -> Ints:
    """The count of each node's domain."""
    codes = nodes.label(key).codes
    known = counts.get(key)
    if known is None:
        return np.zeros(len(nodes), np.int64)
    if len(known) < len(nodes.label(key).vocabulary):
        known = np.concatenate(
            [known, np.zeros(len(nodes.label(key).vocabulary) - len(known), np.int64)]
        )
    return known[codes]
