"""A change to try: what it does to which object, in words, in operations and in size.

Sizes only serve to compare changes with each other. One is about what one toleration is; adding to
what a pod tolerates is small, taking something away from others or buying a node is large.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import TypeVar

import msgspec

from moorage.explain.fixes.patches import Operations, patched
from moorage.explain.report import Edit
from moorage.model.meta import ApiObject
from moorage.model.node import Node
from moorage.model.pod import Pod

LOWER_REQUEST = "lowerRequest"
TOLERATE_TAINT = "tolerateTaint"
UNCORDON = "uncordon"
LABEL_NODE = "labelNode"
RELAX = "relaxConstraint"
FREE_PORT = "freePort"
MOVE_POD = "movePod"
ADD_NODE = "addNode"
RAISE_PRIORITY = "raisePriority"
CREATE = "createObject"
COMBINATION = "combination"

Member = TypeVar("Member")

_MOST_MEMBERS = 4


class Change(msgspec.Struct, frozen=True):
    """Something that might make room for a pod."""

    kind: str
    text: str
    """What to do, without how many nodes that gains."""
    size: float
    plugins: tuple[str, ...] = ()
    patch: Operations = ()
    """On the pod itself."""
    nodes: tuple[Node, ...] = ()
    """Nodes as they would be: changed if there is one of the name, new otherwise."""
    node_edits: tuple[Edit, ...] = ()
    objects: tuple[ApiObject, ...] = ()
    """Other objects to create."""
    gone: tuple[Pod, ...] = ()
    """Pods to delete or move elsewhere."""
    parts: tuple[str, ...] = ()
    """What it consists of, if it is several changes."""
    topic: str = ""
    """Of several changes on one topic, the best is enough."""

    @property
    def essence(self) -> frozenset[str]:
        """The same for changes of which one is enough, such as the same ones in another order."""
        if self.topic:
            return frozenset((self.topic,))
        if self.gone and not self.patch:
            return frozenset(pod.uid for pod in self.gone)
        return frozenset(self.parts or (self.text,))

    def of(self, pod: Pod) -> Pod:
        """The pod as it would be."""
        return patched(pod, self.patch) if self.patch else pod

    def then(self, other: "Change") -> "Change":
        """Both, one after the other: `other` was made for what this one leaves."""
        parts = (*(self.parts or (self.text,)), *(other.parts or (other.text,)))
        return Change(
            kind=COMBINATION,
            text=", and ".join(parts),
            size=self.size + other.size + 0.5,
            plugins=tuple(dict.fromkeys((*self.plugins, *other.plugins))),
            patch=(*self.patch, *other.patch),
            nodes=(*self.nodes, *other.nodes),
            node_edits=(*self.node_edits, *other.node_edits),
            objects=(*self.objects, *other.objects),
            gone=(*self.gone, *other.gone),
            parts=parts,
        )


def subsets(members: Sequence[Member]) -> Iterator[tuple[Member, ...]]:
    """Some of several things to change, few before many; of a great many just each and all."""
    sizes = range(1, len(members) + 1)
    for size in sizes if len(members) <= _MOST_MEMBERS else (1, len(members)):
        yield from combinations(members, size)


def free_name(name: str, known: Callable[[str], object | None]) -> str:
    """The name for a new object, numbered if there is one of that name."""
    free, number = name, 1
    while known(free) is not None:
        number += 1
        free = f"{name}-{number}"
    return free


def counted(number: int, one: str, many: str = "") -> str:
    """`1 node`, `3 nodes`."""
    return f"{number} {one if number == 1 else many or one + 's'}"
