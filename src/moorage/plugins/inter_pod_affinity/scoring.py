"""Preferred terms: the pod's own, and those of pods already on nodes that concern it."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from moorage.cluster.columns import Codes, Ints
from moorage.cluster.pod_terms import PodTerm, TermKind
from moorage.cluster.row_counts import DomainSums
from moorage.cluster.view import NodeView
from moorage.framework.scores import Patches, Scale, ScoreDigest
from moorage.model.pod import Pod
from moorage.plugins.inter_pod_affinity.domains import (
    Counted,
    DomainCounts,
    PodsCarrying,
    at_nodes,
    in_domains,
    pods_near,
    resolve,
)

_MOST_DOMAINS = 64

Weighted = tuple[Counted, int]
"""Pods on nodes, and what each of them adds to the score of its domain."""


class NodeWeights(NamedTuple):
    """What all pods that matter add to the score of each node of the whole cluster."""

    raw: Ints
    table: Ints | None = None
    """The sum of each domain, if they are few and of one topology key; kept, as `raw` is."""
    codes: Codes | None = None
    """The nodes' codes of the key, ..."""
    labelled: int = -1
    """... and when labels last changed."""
    patches: Patches | None = None
    """What changed in `raw`, if it is kept."""


class PreferredState(ScoreDigest, frozen=True, kw_only=True):
    """What `score` and `normalize` need to know; valid until the cluster's state changes."""

    everywhere: Ints
    """The weights of all domains that each node of the whole cluster is in."""
    scale: Scale
    """What becomes of them, given the smallest and largest where the pod could go."""


def weighted(pod: Pod, nodes: NodeView, hard_weight: int) -> tuple[Weighted, ...]:
    """What matters to the incoming pod."""
    terms = pod.affinity_terms
    own = [(wish, 1) for wish in terms.preferred_affinity]
    own += [(wish, -1) for wish in terms.preferred_anti_affinity]
    found: list[Weighted] = []
    for wish, sign in own:
        term = resolve(wish.term, nodes.listers)
        found.append((pods_near(term), sign * wish.weight))
    for entry in nodes.terms_matching(pod):
        weight = _weight(entry.pod_term, hard_weight)
        if weight is not None:
            found.append((PodsCarrying(entry), weight))
    return tuple(found)


def domain_totals(parts: Sequence[Weighted], kept: Sequence[DomainSums]) -> dict[str, Ints]:
    """The summed weights per topology domain, given the counts of all parts."""
    totals: dict[str, Ints] = {}
    for (one, weight), sums in zip(parts, kept, strict=True):
        here = in_domains(sums) * weight
        totals[one.key] = totals[one.key] + here if one.key in totals else here
    return totals


def at_all_nodes(totals: DomainCounts, nodes: NodeView) -> Ints:
    """The weights of all domains a node is in."""
    total: Ints = np.zeros(len(nodes), np.int64)
    for key in totals:
        total += at_nodes(totals, key, nodes)
    return total


def only_label(keys: Collection[str], nodes: NodeView) -> str | None:
    """The only one of some topology keys, if there are few domains."""
    if len(keys) != 1:
        return None
    key = next(iter(keys))
    return key if len(nodes.label(key).vocabulary) <= _MOST_DOMAINS else None


def weigh(pod: Pod, nodes: NodeView, hard_weight: int) -> NodeWeights | None:
    """The summed weights of each node of the whole cluster; None if nobody is found anywhere."""
    parts = weighted(pod, nodes, hard_weight)
    kept = [one.find(nodes) for one, _ in parts]
    if not any(sums.inside for sums in kept):
        return None
    totals = domain_totals(parts, kept)
    return NodeWeights(at_all_nodes(totals, nodes))


def score(state: PreferredState, nodes: NodeView) -> Ints:
    """The weights of all domains a node is in."""
    weights = state.everywhere
    return weights.copy() if nodes.whole is nodes else weights[nodes.rows]


def normalize(scores: Ints, state: PreferredState) -> Ints:
    """Stretch to 0..100 where the pod could go (elsewhere cut); if all are equal they are all 0."""
    return state.scale.normalized(scores)


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
