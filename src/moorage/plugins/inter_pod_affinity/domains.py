"""Counts per topology domain: label key -> one number per label code.

Code 0 stands for nodes without the label: it is kept at zero, because such nodes are in no domain.
"""

from collections.abc import Mapping

import msgspec
import numpy as np

from moorage.cluster.columns import Ints
from moorage.cluster.domain_sums import DomainSums
from moorage.cluster.listers import Listers
from moorage.cluster.pod_counts import PodSet
from moorage.cluster.pod_terms import TermEntry
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


def pods_matching_all(terms: tuple[AffinityTerm, ...], key: str, nodes: NodeView) -> Ints:
    """Per domain of a topology key, the pods that match every one of the terms."""

    def test(pods: PodSet) -> bool:
        return all(t.matches(pods.labels, pods.namespace, NO_LABELS) for t in terms)

    return _in_domains(nodes.pods_per_domain(("affinity", terms), test, key))


def pods_carrying(entry: TermEntry, nodes: NodeView) -> Ints:
    """Per domain of the term's topology key, the pods that carry a term."""
    return _in_domains(nodes.terms_per_domain(entry))


def _in_domains(kept: DomainSums) -> Ints:
    sums = kept.sums
    sums[0] = 0
    return sums


def add(totals: dict[str, Ints], key: str, counts: Ints) -> None:
    """Add counts to what is known of a key."""
    known = totals.get(key)
    totals[key] = counts if known is None else known + counts


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
    if len(known) < len(nodes.label(key).vocabulary):
        known = np.concatenate(
            [known, np.zeros(len(nodes.label(key).vocabulary) - len(known), np.int64)]
        )
    return known[codes]
