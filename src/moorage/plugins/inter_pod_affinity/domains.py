"""Counts per topology domain: label key -> one number per label code.

Code 0 stands for nodes without the label: it is kept at zero, because such nodes are in no domain.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec
import numpy as np

from moorage.cluster.columns import Ints
from moorage.cluster.listers import Listers
from moorage.cluster.pod_query import PodQuery
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


class PodsMatching(NamedTuple):
    """Pods on nodes that match a query, counted per domain of a topology key."""

    query: PodQuery
    key: str

    def sums(self, nodes: NodeView) -> DomainSums:
        """The counts."""
        return nodes.pods_per_domain(self.query, self.key)

    def on_nodes(self, nodes: NodeView) -> Ints:
        """The counts node by node."""
        return nodes.pods_matching(self.query)

    def includes(self, pod: Pod) -> bool:
        """Is this one of the pods?"""
        return self.query.matches(pod)


class PodsCarrying(NamedTuple):
    """Pods on nodes that carry a term, counted per domain of the term's topology key."""

    entry: TermEntry

    @property
    def key(self) -> str:
        """The topology key."""
        return self.entry.pod_term.term.topology_key

    def sums(self, nodes: NodeView) -> DomainSums:
        """The counts."""
        return nodes.terms_per_domain(self.entry)

    def on_nodes(self, nodes: NodeView) -> Ints:
        """The counts node by node."""
        return self.entry.counts.values[nodes.rows]

    def includes(self, pod: Pod) -> bool:
        """Is this one of the pods?"""
        return self.entry.pod_term in terms_of(pod)


Counted = PodsMatching | PodsCarrying


def counted(pods: Iterable[Counted], nodes: NodeView) -> dict[str, Ints]:
    """How many of the pods each domain has, by topology key; no key where there are none."""
    counts: dict[str, Ints] = {}
    for one in pods:
        sums = one.sums(nodes)
        if sums.inside:
            here = sums.inside_domains
            counts[one.key] = counts[one.key] + here if one.key in counts else here
    return counts


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
    return any(array.any() for array in counts.values())


def at_nodes(counts: DomainCounts, key: str, nodes: NodeView) -> Ints:
    """The count of each node's domain."""
    codes = nodes.label(key).codes
    known = counts.get(key)
    if known is None:
        return np.zeros(len(nodes), np.int64)
    missing = len(nodes.label(key).vocabulary) - len(known)
    if missing > 0:
        known = np.concatenate([known, np.zeros(missing, np.int64)])
    return known.take(codes)
