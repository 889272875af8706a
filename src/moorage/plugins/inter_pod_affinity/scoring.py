"""Preferred terms: the pod's own, and those of pods already on nodes that concern it."""

import numpy as np

from moorage.cluster.columns import Ints
from moorage.cluster.pod_terms import PodTerm, TermKind
from moorage.cluster.view import NodeView
from moorage.framework.plugin import MAX_NODE_SCORE
from moorage.model.pod import Pod
from moorage.plugins.inter_pod_affinity.domains import (
    DomainCounts,
    add,
    at_nodes,
    pods_carrying,
    pods_matching_all,
    resolve,
)

_FEW_VALUES = 4096


def weigh(pod: Pod, nodes: NodeView, hard_weight: int) -> DomainCounts | None:
    """The summed weights per topology domain; None if no term finds anybody anywhere."""
    totals: dict[str, Ints] = {}
    terms = pod.affinity_terms
    own = [(wish, 1) for wish in terms.preferred_affinity]
    own += [(wish, -1) for wish in terms.preferred_anti_affinity]
    for wish, sign in own:
        term = resolve(wish.term, nodes.listers)
        key = term.topology_key
        _add_weighted(totals, pods_matching_all((term,), key, nodes), key, sign * wish.weight)
    for entry in nodes.terms_matching(pod):
        weight = _weight(entry.pod_term, hard_weight)
        if weight is not None:
            key = entry.pod_term.term.topology_key
            _add_weighted(totals, pods_carrying(entry, nodes), key, weight)
    return totals or None


def score(weights: DomainCounts, nodes: NodeView) -> Ints:
    """The weights of all domains a node is in."""
    total: Ints = np.zeros(len(nodes), np.int64)
    for key in weights:
        total += at_nodes(weights, key, nodes)
    return total


def normalize(scores: Ints) -> Ints:
    """Stretch to 0..100; if all are equal they are all 0."""
    smallest, largest = int(scores.min()), int(scores.max())
    if largest == smallest:
        return np.zeros_like(scores)
    above: Ints = scores - smallest
    if largest - smallest > _FEW_VALUES or largest - smallest > len(scores):
        return _stretched(above, largest - smallest)
    # There are fewer values than nodes: work each out once.
    return _stretched(np.arange(largest - smallest + 1), largest - smallest)[above]


def _stretched(above: Ints, most: int) -> Ints:
    # Division before multiplication, in floats, then truncation: upstream's order.
    return (float(MAX_NODE_SCORE) * (above / float(most))).astype(np.int64)


def _weight(pod_term: PodTerm, hard_weight: int) -> int | None:
    match pod_term.kind:
        case TermKind.AFFINITY:
            return hard_weight if hard_weight > 0 else None
        case TermKind.PREFERRED_AFFINITY:
            return pod_term.weight
        case TermKind.PREFERRED_ANTI_AFFINITY:
            return -pod_term.weight
        case TermKind.ANTI_AFFINITY:
            return None


def _add_weighted(totals: dict[str, Ints], sums: Ints, key: str, weight: int) -> None:
    if sums.any():
        add(totals, key, sums * weight)
