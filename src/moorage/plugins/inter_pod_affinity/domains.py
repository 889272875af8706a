"""Counts per topology domain: label key -> one number per label code.

Code 0 stands for nodes without the label: it is kept at zero, because such nodes are in no domain.
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from moorage.cluster.columns import Ints
from moorage.cluster.listers import Listers
from moorage.cluster.pod_query import PodQuery
from moorage.cluster.pod_terms import TermEntry
from moorage.cluster.row_counts import DomainSums
from moorage.cluster.view import NodeView
from moorage.model.affinity import AffinityTerm
from moorage.model.labels import NOTHING
from moorage.model.pod import Pod
from moorage.model.workloads import Namespace

T = TypeVar("T", bound=np.generic)

DomainCounts = Mapping[str, Ints]

# The incoming pod's terms are matched against other pods without looking at their namespaces'
# labels: those were resolved into names beforehand.
NO_LABELS: Mapping[str, str] = {}


def resolve(term: AffinityTerm, listers: Listers) -> AffinityTerm:
    """The term with the namespaces its selector finds in the selector's place."""
    selector = term.namespace_selector
    if selector.nothing or not selector.requirements:
        return term
    found = {ns.name for ns in listers.of(Namespace) if selector.matches(ns.labels)}
    names = tuple(sorted(found.union(term.namespaces)))
    return msgspec.structs.replace(term, namespaces=names, namespace_selector=NOTHING)


def matches_all(terms: tuple[AffinityTerm, ...], pod: Pod) -> bool:
    """Does a pod match every term (and is there one)?"""
    return bool(terms) and all(t.matches(pod.labels, pod.namespace, NO_LABELS) for t in terms)


def matches_any(terms: tuple[AffinityTerm, ...], pod: Pod) -> bool:
    """Does a pod match one of the terms?"""
    return any(t.matches(pod.labels, pod.namespace, NO_LABELS) for t in terms)


class PodsMatching(msgspec.Struct, frozen=True):
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


class PodsCarrying(msgspec.Struct, frozen=True):
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
        return self.entry.pod_term in pod.affinity_terms.all


Counted = PodsMatching | PodsCarrying


def counted(pods: Iterable[Counted], nodes: NodeView) -> dict[str, Ints]:
    """How many of the pods each domain has, by topology key; no key where there are none."""
    counts: dict[str, Ints] = {}
    for one in pods:
        here = one.sums(nodes).inside
        if here is not None:
            known = counts.get(one.key)
            counts[one.key] = here if known is None else known + here
    return counts


def changed(counts: DomainCounts, key: str, node: NodeView, amount: int) -> DomainCounts:
    """The counts with those of one node's domain changed; the original stays as it was."""
    label = node.label(key)
    code = int(label.codes[0])
    if not code:
        return counts
    known = counts.get(key)
    array: Ints = np.zeros(len(label.vocabulary), np.int64) if known is None else known.copy()
    array[code] += amount
    return {**counts, key: array}


def at_nodes(of_domains: NDArray[T], key: str, nodes: NodeView) -> NDArray[T]:
    """What holds for each node's domain."""
    return of_domains.take(nodes.label(key).codes)
