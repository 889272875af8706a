"""Pod affinity and anti-affinity terms, and what it means for a pod to match one."""

from collections.abc import Hashable, Iterator
from enum import Enum
from weakref import WeakValueDictionary

import msgspec

from moorage.errors import SelectorError
from moorage.model.labels import Labels, LabelSelector, Selector, compile_selector
from moorage.model.meta import Int32, Object
from moorage.model.node_selector import PREFERRED, REQUIRED, NodeAffinitySpec


class PodAffinityTerm(Object, frozen=True):
    """A term as the API writes it (the API server has merged matchLabelKeys into the selector)."""

    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    topology_key: str = ""
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Object, frozen=True):
    """A preferred term as the API writes it."""

    weight: Int32 = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Object, frozen=True):
    """`spec.affinity.podAffinity` and `podAntiAffinity` have the same shape."""

    required: tuple[PodAffinityTerm, ...] = msgspec.field(default=(), name=REQUIRED)
    preferred: tuple[WeightedPodAffinityTerm, ...] = msgspec.field(default=(), name=PREFERRED)


class Affinity(Object, frozen=True):
    """`spec.affinity`."""

    node_affinity: NodeAffinitySpec | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class AffinityTerm(msgspec.Struct, frozen=True, cache_hash=True):
    """A compiled term: pods matching `selector` in certain namespaces, per topology domain."""

    topology_key: str
    selector: Selector
    namespaces: tuple[str, ...]
    namespace_selector: Selector

    def matches(self, labels: Labels, namespace: str, namespace_labels: Labels) -> bool:
        """Does a pod with these labels, in a namespace with those labels, match?"""
        return (
            namespace in self.namespaces or self.namespace_selector.matches(namespace_labels)
        ) and self.selector.matches(labels)


class WeightedAffinityTerm(msgspec.Struct, frozen=True):
    """A compiled preferred term."""

    weight: int
    term: AffinityTerm


class TermKind(Enum):
    """Which of a pod's four lists of terms a term stands in."""

    AFFINITY = "required affinity"
    ANTI_AFFINITY = "required anti-affinity"
    PREFERRED_AFFINITY = "preferred affinity"
    PREFERRED_ANTI_AFFINITY = "preferred anti-affinity"


class PodTerm(msgspec.Struct, frozen=True, cache_hash=True):
    """A term as some pod carries it; required terms have weight 0."""

    kind: TermKind
    term: AffinityTerm
    weight: int = 0


class PodAffinityTerms(msgspec.Struct, frozen=True, weakref=True):
    """Everything a pod's affinity says about other pods; `error` if a term cannot be parsed."""

    affinity: tuple[AffinityTerm, ...] = ()
    anti_affinity: tuple[AffinityTerm, ...] = ()
    preferred_affinity: tuple[WeightedAffinityTerm, ...] = ()
    preferred_anti_affinity: tuple[WeightedAffinityTerm, ...] = ()
    error: str = ""
    all: tuple[PodTerm, ...] = ()
    """The terms of all four lists, repeated where they are repeated there."""


NO_TERMS = PodAffinityTerms()


_shared: WeakValueDictionary[Hashable, PodAffinityTerms] = WeakValueDictionary()
"""The terms of the pods that there are."""


def compile_affinity(affinity: Affinity | None, namespace: str) -> PodAffinityTerms:
    """All terms of a pod that lives in `namespace`; a group that cannot be parsed is left out.

    Pods that say the same share the result, as replicas are many and alike.
    """
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return NO_TERMS
    key = (namespace, _key(affinity.pod_affinity), _key(affinity.pod_anti_affinity))
    terms = _shared.get(key)
    if terms is None:
        terms = _shared[key] = _compile_affinity(affinity, namespace)
    return terms


def _key(side: PodAffinity | None) -> Hashable:
    if side is None:
        return None
    return (
        tuple(map(_term_key, side.required)),
        tuple((wish.weight, _term_key(wish.pod_affinity_term)) for wish in side.preferred),
    )


def _term_key(term: PodAffinityTerm) -> Hashable:
    pods, namespaces = term.label_selector, term.namespace_selector
    return (
        term.topology_key,
        term.namespaces,
        None if pods is None else pods.key,
        None if namespaces is None else namespaces.key,
        term.match_label_keys,
        term.mismatch_label_keys,
    )


def _compile_affinity(affinity: Affinity, namespace: str) -> PodAffinityTerms:
    attract = affinity.pod_affinity or PodAffinity()
    repel = affinity.pod_anti_affinity or PodAffinity()
    errors: list[str] = []

    def required(name: str, side: PodAffinity) -> tuple[AffinityTerm, ...]:
        try:
            return tuple(_compile_term(term, namespace) for term in side.required)
        except SelectorError as error:
            errors.append(f"{name}: {error}")
            return ()

    def preferred(name: str, side: PodAffinity) -> tuple[WeightedAffinityTerm, ...]:
        try:
            return tuple(
                WeightedAffinityTerm(
                    weighted.weight, _compile_term(weighted.pod_affinity_term, namespace)
                )
                for weighted in side.preferred
            )
        except SelectorError as error:
            errors.append(f"{name}: {error}")
            return ()

    terms = PodAffinityTerms(
        affinity=required("requiredAffinityTerms", attract),
        anti_affinity=required("requiredAntiAffinityTerms", repel),
        preferred_affinity=preferred("preferredAffinityTerms", attract),
        preferred_anti_affinity=preferred("preferredAntiAffinityTerms", repel),
    )
    text = f"[{', '.join(errors)}]" if len(errors) > 1 else "".join(errors)
    return msgspec.structs.replace(terms, error=text, all=tuple(_in_all_lists(terms)))


def _in_all_lists(terms: PodAffinityTerms) -> Iterator[PodTerm]:
    for term in terms.affinity:
        yield PodTerm(TermKind.AFFINITY, term)
    for term in terms.anti_affinity:
        yield PodTerm(TermKind.ANTI_AFFINITY, term)
    for weighted in terms.preferred_affinity:
        yield PodTerm(TermKind.PREFERRED_AFFINITY, weighted.term, weighted.weight)
    for weighted in terms.preferred_anti_affinity:
        yield PodTerm(TermKind.PREFERRED_ANTI_AFFINITY, weighted.term, weighted.weight)


def _compile_term(term: PodAffinityTerm, namespace: str) -> AffinityTerm:
    named = term.namespaces
    if not named and term.namespace_selector is None:
        named = (namespace,)
    return AffinityTerm(
        topology_key=term.topology_key,
        selector=compile_selector(term.label_selector),
        namespaces=tuple(sorted(set(named))),
        namespace_selector=compile_selector(term.namespace_selector),
    )
