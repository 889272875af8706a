"""Questions about pods by namespace and labels, as values.

Owns what a question means and by which labels its pods can be found. Who counts the pods is
`cluster.pod_counts`.
"""

from collections.abc import Iterator, Sequence

import msgspec

from moorage.model.affinity import AffinityTerm
from moorage.model.labels import Labels, Selector
from moorage.model.pod import Pod

LabelPair = tuple[str, str]
"""A label's key and value; a namespace counts as the label with the empty key."""

_NO_LABELS: Labels = {}


class PodSet(msgspec.Struct, frozen=True, cache_hash=True):
    """What pods with the same namespace and labels have in common."""

    namespace: str
    label_set: tuple[LabelPair, ...]
    terminating: bool

    @property
    def pairs(self) -> Sequence[LabelPair]:
        """Everything such pods can be found by."""
        return (("", self.namespace), *self.label_set)


def pod_set_of(pod: Pod) -> PodSet:
    """The set that a pod belongs to."""
    return PodSet(pod.namespace, pod.label_set, pod.terminating)


class PodSelector(msgspec.Struct, frozen=True, cache_hash=True):
    """Pods whose labels match a selector, in some namespaces or (None) in all."""

    selector: Selector
    namespaces: tuple[str, ...] | None = None

    def matches(self, namespace: str, labels: Labels) -> bool:
        """Does it select a pod with these labels?"""
        return (self.namespaces is None or namespace in self.namespaces) and self.selector.matches(
            labels
        )


class PodQuery(msgspec.Struct, frozen=True, cache_hash=True):
    """Pods that all of some selectors select; equal queries share their counts."""

    selectors: tuple[PodSelector, ...]
    terminating: bool = True
    """Do pods count that are being deleted?"""

    def matches(self, pod: Pod) -> bool:
        """Is a pod one of those that are asked for?"""
        return self.matches_labels(pod.namespace, pod.labels, pod.terminating)

    def matches_labels(self, namespace: str, labels: Labels, terminating: bool) -> bool:
        """The same for a pod of which only this is known."""
        return (self.terminating or not terminating) and all(
            one.matches(namespace, labels) for one in self.selectors
        )

    @property
    def alternatives(self) -> Iterator[Sequence[LabelPair]]:
        """Lists of pairs; every pod that matches has at least one pair of each list."""
        for one in self.selectors:
            yield from required_pairs(one.selector)
            if one.namespaces is not None:
                yield [("", namespace) for namespace in one.namespaces]


def required_pairs(selector: Selector) -> Iterator[Sequence[LabelPair]]:
    """For each requirement that names values, the pairs of which matching labels have one."""
    if selector.nothing:
        yield ()
    for requirement in selector.requirements:
        if requirement.operator == "In":
            yield [(requirement.key, value) for value in requirement.values]


def matching_terms(terms: tuple[AffinityTerm, ...]) -> PodQuery:
    """Pods that match all of some affinity terms, whose namespaces are resolved into names.

    A namespace selector that no labels at all satisfy still matches everywhere, as upstream has it.
    """
    return PodQuery(
        tuple(
            [
                PodSelector(
                    term.selector,
                    None if term.namespace_selector.matches(_NO_LABELS) else term.namespaces,
                )
                for term in terms
            ]
        )
    )
