"""Changes that fixes are made of: JSON patches (RFC 6902), and what they do to which API objects.

What is proposed and what is tried out are the same operations, so that neither can differ from the
other.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import combinations
from typing import Any, TypeVar

import msgspec
import numpy as np

from moorage.cluster.columns import Bools, Ints
from moorage.explain.report import Edit
from moorage.model.meta import ApiObject, Json
from moorage.model.node import Node
from moorage.model.pod import Container, Pod
from moorage.model.quantity import parse_milli
from moorage.model.resources import CPU, MEMORY

Operation = dict[str, object]
Operations = tuple[Operation, ...]

Kind = TypeVar("Kind", bound=ApiObject)

END = "-"
"""In a path: after the last element of a list."""


def pointer(*steps: str | int) -> str:
    """A path (RFC 6901) from its steps."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)


def add(value: object, *steps: str | int) -> Operation:
    """Put a member into a mapping, in the place of one that may be there, or one into a list."""
    return {"op": "add", "path": pointer(*steps), "value": value}


def replace(value: object, *steps: str | int) -> Operation:
    """Put another element in the place of one of a list."""
    return {"op": "replace", "path": pointer(*steps), "value": value}


def remove(*steps: str | int) -> Operation:
    """Take a member or an element away."""
    return {"op": "remove", "path": pointer(*steps)}


def append(value: object, present: Iterable[object], *steps: str | int) -> Operation:
    """Add to a list of which `present` is in it now: one that is empty may not be there at all."""
    return add(value, *steps, END) if any(True for _ in present) else add([value], *steps)


def shifts(first: Operations, second: Operations) -> bool:
    """Does the first patch move elements of a list that the second one names by their places?"""
    lists = {
        place + "/"
        for one in first
        if one["op"] == "remove"
        for place, _, step in (str(one["path"]).rpartition("/"),)
        if step.isdigit()
    }
    return any(str(one["path"]).startswith(place) for one in second for place in lists)


def patched(obj: Kind, operations: Operations) -> Kind:
    """The object with the operations applied; raises `ValueError` if one does not fit."""
    document = msgspec.json.decode(msgspec.json.encode(obj))
    for operation in operations:
        apply(document, operation)
    return msgspec.convert(document, type(obj))


def apply(document: Any, operation: Operation) -> None:
    """Change a document by one operation."""
    path, kind = str(operation["path"]), operation["op"]
    if not path.startswith("/"):
        raise ValueError(f"{path} is not a JSON pointer to a part of the object")
    *way, last = (step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:])
    place: Any = document
    try:
        for step in way:
            place = place[int(step) if isinstance(place, list) else step]
        key: Any = last
        if isinstance(place, list):
            key = len(place) if last == END else int(last)
        if kind != "add":
            del place[key]
        # What an operation puts in must not be changed by those that follow.
        if kind != "remove" and isinstance(place, list):
            place.insert(key, deepcopy(operation["value"]))
        elif kind != "remove":
            place[key] = deepcopy(operation["value"])
    except (LookupError, TypeError, ValueError):
        raise ValueError(f"there is nothing at {path}") from None


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


def relaxed(text: str, size: float, plugin: str, *patch: Operation) -> Change:
    """Less is demanded by the pod of what a plugin looks at."""
    return Change(RELAX, text, size, (plugin,), patch)


def subsets(members: Sequence[Member]) -> Iterator[tuple[Member, ...]]:
    """Some of several things to change, few before many; of a great many just each and all."""
    sizes = range(1, len(members) + 1)
    for size in sizes if len(members) <= _MOST_MEMBERS else (1, len(members)):
        yield from combinations(members, size)


def containers_of(pod: Pod) -> Iterator[tuple[tuple[str | int, ...], Container]]:
    """Every container with the way to it, init containers last."""
    for field, containers in (
        ("containers", pod.spec.containers),
        ("initContainers", pod.spec.init_containers),
    ):
        for i, container in enumerate(containers):
            yield ("spec", field, i), container


def failing_together(
    fails: Sequence[Bools], rows: Bools, most: int
) -> Iterator[tuple[list[int], Bools]]:
    """Sets of demands that fail on the same rows: which of `fails` these are, and the rows.

    At most so many; the smallest sets first, of equals those of most rows.
    """
    pattern: Ints = np.zeros(len(rows), np.int64)
    for bit, failing in enumerate(fails[:60]):
        pattern |= failing.astype(np.int64) << bit
    patterns, sizes = np.unique(pattern[rows & (pattern != 0)], return_counts=True)
    together = np.array([int(bits).bit_count() for bits in patterns], np.int64)
    for place in np.lexsort((-sizes, together))[:most]:
        bits = int(patterns[place])
        yield [bit for bit in range(len(fails)) if bits >> bit & 1], rows & (pattern == bits)


def free_name(name: str, known: Callable[[str], object | None]) -> str:
    """The name for a new object, numbered if there is one of that name."""
    free, number = name, 1
    while known(free) is not None:
        number += 1
        free = f"{name}-{number}"
    return free


def named(noun: str, names: Sequence[str], plural: str = "s") -> str:
    """`taint a`, `taints a and b`."""
    return f"{noun}{plural if len(names) > 1 else ''} {' and '.join(names)}"


def counted(number: int, noun: str) -> str:
    """`1 node`, `3 nodes`."""
    return f"{number} {noun if number == 1 else noun + 's'}"


_MUTABLE = ("/spec/tolerations", "/spec/schedulingGates")
"""What may be changed in a pod that waits: tolerations may be added, gates removed."""
_RESIZED = (CPU, MEMORY)


def edits_of(pod: Pod, change: Change) -> tuple[Edit, ...]:
    """What to do to which object, in an order in which it can be done."""
    known = {edit.name for edit in change.node_edits}
    new: list[ApiObject] = [node for node in change.nodes if node.name not in known]
    return (
        *(Edit(obj.kind, obj.key, create=document(obj)) for obj in (*change.objects, *new)),
        *change.node_edits,
        *(Edit("Pod", other.key, delete=True) for other in change.gone),
        *_pod_edits(pod, change.patch),
    )


def document(obj: ApiObject) -> Json:
    """An object as the API takes it: what is as by default is left out."""
    members: Json = _document(obj)
    return members


def _document(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return {
            field.encode_name: _document(given)
            for field in msgspec.structs.fields(value)
            if (given := getattr(value, field.name)) != _default(field)
        }
    if isinstance(value, dict):
        return {key: _document(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_document(item) for item in value]
    return value


def _default(field: msgspec.structs.FieldInfo) -> Any:
    factory = field.default_factory
    return field.default if factory is msgspec.NODEFAULT else factory()


def _pod_edits(pod: Pod, patch: Operations) -> list[Edit]:
    """One patch, or two if a part has to go elsewhere."""
    plain = tuple(one for one in patch if str(one["path"]).startswith(_MUTABLE))
    rest = tuple(one for one in patch if one not in plain)
    if rest and not _resizes(pod, rest):
        return [Edit("Pod", pod.key, patch, recreate=True)]
    edits = [Edit("Pod", pod.key, plain)] if plain else []
    if rest:
        edits.append(Edit("Pod", pod.key, rest, subresource="resize"))
    return edits


def _resizes(pod: Pod, operations: Operations) -> bool:
    """Are these requests that may be lowered in place?

    The API allows it for cpu and memory of containers that go on running and claim no devices, as
    long as the pod's class of service stays what it is.
    """
    if pod.spec.resources is not None or pod.status.node_allocatable_resource_claim_statuses:
        return False
    allowed = {
        pointer(*steps, "resources", "requests"): container.resources.requests
        for steps, container in containers_of(pod)
        if (steps[1] == "containers" or container.is_sidecar) and not container.resources.claims
    }
    if not all(_lowers_in_place(one, allowed) for one in operations):
        return False
    return _service_class(pod) == _service_class(patched(pod, operations))


def _lowers_in_place(operation: Operation, allowed: Mapping[str, Mapping[str, Any]]) -> bool:
    """Is it about nothing but cpu and memory of places that are allowed?"""
    path, value = str(operation["path"]), operation.get("value")
    if path in allowed and isinstance(value, dict):
        now = allowed[path]
        return all(value.get(name) == now[name] for name in now if name not in _RESIZED)
    place, _, name = path.rpartition("/")
    return place in allowed and name in _RESIZED


def _service_class(pod: Pod) -> str:
    """The quality-of-service class, by the rules of the API."""
    asked = False
    guaranteed = True
    for _, container in containers_of(pod):
        for name in (CPU, MEMORY):
            request = parse_milli(container.resources.requests.get(name, 0))
            limit = parse_milli(container.resources.limits.get(name, 0))
            asked = asked or request > 0 or limit > 0
            guaranteed = guaranteed and limit > 0 and request == limit
    return "Guaranteed" if asked and guaranteed else "Burstable" if asked else "BestEffort"
