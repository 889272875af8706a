"""InterPodAffinity with dictionaries: one count per topology key and value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from moorage.model.affinity import PodAffinity, PodAffinityTerm
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.model.workloads import Namespace
from reference.answers import SKIP, UNRESOLVABLE, UNSCHEDULABLE, Refusal, Skip
from reference.cluster import NaiveCluster
from reference.selectors import selects, tests_of

Pair = tuple[str, str]
Counts = dict[Pair, int]


@dataclass
class Term:
    """A term and the namespaces it names."""

    api: PodAffinityTerm
    namespaces: set[str]

    def matches(self, pod: Pod, namespace_labels: Mapping[str, str]) -> bool:
        """Is the pod one of those meant?"""
        known = pod.namespace in self.namespaces
        if not known and not selects(self.api.namespace_selector, namespace_labels):
            return False
        return selects(self.api.label_selector, pod.labels)


def terms_of(pod: Pod, terms: Sequence[PodAffinityTerm]) -> list[Term]:
    """The terms of a pod; without any word on namespaces its own is meant."""
    result = []
    for term in terms:
        names = set(term.namespaces)
        if not names and term.namespace_selector is None:
            names = {pod.namespace}
        result.append(Term(term, names))
    return result


def resolved(terms: Sequence[Term], cluster: NaiveCluster) -> list[Term]:
    """The terms of the incoming pod, with namespaces in the place of the selectors for them."""
    result = []
    for term in terms:
        if tests_of(term.api.namespace_selector):
            names = {
                namespace.name
                for namespace in cluster.all_of(Namespace)
                if selects(term.api.namespace_selector, namespace.labels)
            }
            plain = msgspec.structs.replace(term.api, namespace_selector=None)
            result.append(Term(plain, term.namespaces | names))
        else:
            result.append(term)
    return result


def _side(pod: Pod, side: str) -> PodAffinity:
    affinity = pod.spec.affinity
    found = getattr(affinity, side) if affinity is not None else None
    return found if isinstance(found, PodAffinity) else PodAffinity()


def required(pod: Pod, side: str) -> list[Term]:
    """Required terms; `side` is pod_affinity or pod_anti_affinity."""
    return terms_of(pod, _side(pod, side).required)


def preferred(pod: Pod, side: str) -> list[tuple[int, Term]]:
    """Preferred terms with their weights."""
    wishes = _side(pod, side).preferred
    terms = terms_of(pod, [wish.pod_affinity_term for wish in wishes])
    return [(wish.weight, term) for wish, term in zip(wishes, terms, strict=True)]


def _matches_all(terms: Sequence[Term], pod: Pod) -> bool:
    return bool(terms) and all(term.matches(pod, {}) for term in terms)


# Required terms


@dataclass
class RequiredState:
    """Counts per topology pair."""

    affinity: list[Term]
    anti_affinity: list[Term]
    namespace_labels: Mapping[str, str]
    existing: Counts
    attracting: Counts
    repelling: Counts

    def copy(self) -> "RequiredState":
        """A copy to try things on."""
        return RequiredState(
            self.affinity,
            self.anti_affinity,
            self.namespace_labels,
            dict(self.existing),
            dict(self.attracting),
            dict(self.repelling),
        )


def _change(counts: Counts, node: Node, key: str, amount: int) -> None:
    if key in node.labels:
        pair = (key, node.labels[key])
        counts[pair] = counts.get(pair, 0) + amount
        if counts[pair] == 0:
            del counts[pair]


def change_required(state: RequiredState, pod: Pod, other: Pod, node: Node, sign: int) -> None:
    """Another pod comes or goes; terminating pods count like any other."""
    for term in required(other, "pod_anti_affinity"):
        if term.matches(pod, state.namespace_labels):
            _change(state.existing, node, term.api.topology_key, sign)
    if _matches_all(state.affinity, other):
        for term in state.affinity:
            _change(state.attracting, node, term.api.topology_key, sign)
    for term in state.anti_affinity:
        if term.matches(other, {}):
            _change(state.repelling, node, term.api.topology_key, sign)


def count_required(pod: Pod, cluster: NaiveCluster) -> RequiredState | Skip:
    """Count the pods on all nodes; skip if nobody wants anything."""
    state = RequiredState(
        resolved(required(pod, "pod_affinity"), cluster),
        resolved(required(pod, "pod_anti_affinity"), cluster),
        cluster.namespace_labels(pod.namespace),
        {},
        {},
        {},
    )
    for info in cluster.infos.values():
        if info.node is not None:
            for other in info.pods.values():
                change_required(state, pod, other, info.node, 1)
    if not state.affinity and not state.anti_affinity and not state.existing:
        return SKIP
    return state


def refuse_company(state: RequiredState, pod: Pod, node: Node) -> Refusal | None:
    """Own affinity, own anti-affinity, the others' anti-affinity, in this order."""
    if not _finds_friends(state, pod, node):
        return Refusal(UNRESOLVABLE, ("node(s) didn't match pod affinity rules",))
    for term in state.anti_affinity:
        key = term.api.topology_key
        if key in node.labels and state.repelling.get((key, node.labels[key]), 0) > 0:
            return Refusal(UNSCHEDULABLE, ("node(s) didn't match pod anti-affinity rules",))
    for key, value in node.labels.items():
        if state.existing.get((key, value), 0) > 0:
            reason = "node(s) didn't satisfy existing pods anti-affinity rules"
            return Refusal(UNSCHEDULABLE, (reason,))
    return None


def _finds_friends(state: RequiredState, pod: Pod, node: Node) -> bool:
    everywhere = True
    for term in state.affinity:
        key = term.api.topology_key
        if key not in node.labels:
            return False
        if state.attracting.get((key, node.labels[key]), 0) <= 0:
            everywhere = False
    if everywhere:
        return True
    return not state.attracting and _matches_all(state.affinity, pod)


# Preferred terms


def score_company(
    pod: Pod,
    cluster: NaiveCluster,
    feasible: Sequence[str],
    *,
    hard_weight: int = 1,
    ignore_others: bool = False,
) -> tuple[dict[str, int], dict[str, int]] | Skip:
    """(raw, normalised) scores of the feasible nodes."""
    wanted = preferred(pod, "pod_affinity")
    unwanted = preferred(pod, "pod_anti_affinity")
    if ignore_others and not wanted and not unwanted:
        return SKIP
    weights: Counts = {}
    found = False
    own = [
        *((weight, term) for weight, term in _resolved_wishes(wanted, cluster)),
        *((-weight, term) for weight, term in _resolved_wishes(unwanted, cluster)),
    ]
    labels = cluster.namespace_labels(pod.namespace)
    for info in cluster.infos.values():
        if info.node is None:
            continue
        for other in info.pods.values():
            for weight, term in own:
                if term.matches(other, {}):
                    found |= _weigh(weights, info.node, term, weight)
            for weight, term in _wishes_about(other, hard_weight):
                if term.matches(pod, labels):
                    found |= _weigh(weights, info.node, term, weight)
    if not found:
        return SKIP
    raw = {}
    for name in feasible:
        node_labels = cluster.nodes[name].labels
        raw[name] = sum(
            weight for (key, value), weight in weights.items() if node_labels.get(key) == value
        )
    smallest, largest = min(raw.values(), default=0), max(raw.values(), default=0)
    spread = largest - smallest
    normalized = {
        name: int(100.0 * (float(score - smallest) / float(spread))) if spread > 0 else 0
        for name, score in raw.items()
    }
    return raw, normalized


def _resolved_wishes(
    wishes: Sequence[tuple[int, Term]], cluster: NaiveCluster
) -> list[tuple[int, Term]]:
    terms = resolved([term for _, term in wishes], cluster)
    return [(weight, term) for (weight, _), term in zip(wishes, terms, strict=True)]


def _wishes_about(other: Pod, hard_weight: int) -> list[tuple[int, Term]]:
    """What a pod on a node wishes of newcomers; its demands count with a weight of their own."""
    wishes = preferred(other, "pod_affinity")
    wishes += [(-weight, term) for weight, term in preferred(other, "pod_anti_affinity")]
    if hard_weight > 0:
        wishes += [(hard_weight, term) for term in required(other, "pod_affinity")]
    return wishes


def _weigh(weights: Counts, node: Node, term: Term, weight: int) -> bool:
    key = term.api.topology_key
    if key not in node.labels:
        return False
    pair = (key, node.labels[key])
    weights[pair] = weights.get(pair, 0) + weight
    return True
