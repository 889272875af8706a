"""Preferred terms: the pod's own, and those of pods already on nodes that concern it."""

import msgspec
import numpy as np

from moorage.cluster.columns import Ints
from moorage.cluster.pod_query import matching_terms
from moorage.cluster.view import NodeView
from moorage.framework.plugin import MAX_NODE_SCORE
from moorage.model.affinity import PodTerm, TermKind
from moorage.model.pod import Pod
from moorage.plugins.inter_pod_affinity.domains import (
    Counted,
    PodsCarrying,
    PodsMatching,
    at_nodes,
    resolve,
)


class PreferredState(msgspec.Struct, frozen=True):
    """What `score` needs to know; valid until the cluster's state changes."""

    weights: dict[str, Ints]
    """By topology key, the weight of each of its domains."""


def weigh(pod: Pod, nodes: NodeView, hard_weight: int) -> dict[str, Ints] | None:
    """The summed weights of the domains of each topology key; None if nobody is found anywhere."""
    totals: dict[str, Ints] = {}
    for pods, weight in _weighted_pods(pod, nodes, hard_weight):
        here = pods.sums(nodes).inside
        if here is not None:
            here *= weight
            totals[pods.key] = totals[pods.key] + here if pods.key in totals else here
    return totals or None


def _weighted_pods(pod: Pod, nodes: NodeView, hard_weight: int) -> list[tuple[Counted, int]]:
    """The pods on nodes that matter to the pod, and what each adds to its domain's score."""
    terms = pod.affinity_terms
    own = [(one, 1) for one in terms.preferred_affinity]
    own += [(one, -1) for one in terms.preferred_anti_affinity]
    found: list[tuple[Counted, int]] = []
    for preferred, sign in own:
        term = resolve(preferred.term, nodes.listers)
        pods = PodsMatching(matching_terms((term,)), term.topology_key)
        found.append((pods, sign * preferred.weight))
    for entry in nodes.terms_matching(pod):
        weight = _weight(entry.pod_term, hard_weight)
        if weight is not None:
            found.append((PodsCarrying(entry), weight))
    return found


def score(state: PreferredState, nodes: NodeView) -> Ints:
    """The weights of all domains a node is in."""
    weights = [at_nodes(weights, key, nodes) for key, weights in state.weights.items()]
    total = weights[0]
    for more in weights[1:]:
        total += more
    return total


def normalize(scores: Ints) -> Ints:
    """Stretch to 0..100; if all are equal they are all 0."""
    smallest = int(scores[scores.argmin()])
    spread = int(scores[scores.argmax()]) - smallest
    if not spread:
        return np.zeros_like(scores)
    # Division before multiplication, in floats, then truncation: upstream's order.
    shares = (scores - smallest) / float(spread)
    shares *= float(MAX_NODE_SCORE)
    return shares.astype(np.int64)


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
