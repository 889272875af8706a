"""What the cluster has, as far as controllers look at it: objects by kind, name and controller.

Fed from watches and from the answers to writes, so a controller sees its own writes at once.
Objects are plain JSON and nobody's to change. Reads no clock, asks nobody.
"""

from collections.abc import Iterable
from typing import NamedTuple

from moorage.controllers.objects import Json, controller_of, meta, spec

_Place = tuple[str, str, str]
"""What an object is found by, its kind, and which namespace, controller or node."""
_NAMESPACE, _CONTROLLER, _FREE, _NODE = "namespace", "controller", "free", "node"

_REMEMBERED = 10_000
"""So many that were removed are kept in mind: an answer may come later than the watch."""


class Key(NamedTuple):
    """Which object; the namespace is empty for those of the whole cluster."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {place}"


def key_of(obj: Json) -> Key:
    """The key of an object."""
    return Key(obj["kind"], meta(obj).get("namespace", ""), meta(obj)["name"])


class ClusterObjects:
    """The objects of the kinds that controllers follow."""

    def __init__(self) -> None:
        self._objects: dict[Key, Json] = {}
        self._members: dict[_Place, dict[Key, Json]] = {}
        self._gone: dict[str, None] = {}
        self._lost_nodes: dict[str, None] = {}
        self._failures: dict[str, str] = {}
        self.counts_since: dict[str, float] = {}
        """By uid of a pod: since when it must leave its node, unless it tolerates that."""

    def put(self, obj: Json) -> Json | None:
        """The object is there in this form; what was known of it before. Older forms are dropped.

        Resource versions are compared as numbers, which the API allows.
        """
        key, uid = key_of(obj), meta(obj)["uid"]
        old = self._objects.get(key)
        if uid in self._gone or (old is not None and _version(obj) <= _version(old)):
            return old
        if old is not None:
            self._unlist(key, old)
        self._objects[key] = obj
        if key.kind == "Node":
            self._lost_nodes.pop(key.name, None)
        for place in _places(obj):
            self._members.setdefault(place, {})[key] = obj
        return old

    def remove(self, key: Key, uid: str = "") -> Json | None:
        """The object is gone; what was last known of it. With `uid`, only that very one."""
        old = self._objects.get(key)
        if old is None or uid not in ("", meta(old)["uid"]):
            return None
        self._unlist(key, old)
        del self._objects[key]
        self._failures.pop(meta(old)["uid"], None)
        self.counts_since.pop(meta(old)["uid"], None)
        _remember(self._gone, meta(old)["uid"])
        if key.kind == "Node":
            _remember(self._lost_nodes, key.name)
        return old

    def get(self, kind: str, namespace: str, name: str) -> Json | None:
        """One object."""
        return self._objects.get(Key(kind, namespace, name))

    def all(self, kind: str, namespace: str = "*") -> list[Json]:
        """The objects of a namespace, or of all, in order of their coming."""
        return self._at((_NAMESPACE, kind, namespace))

    def controlled(self, kind: str, owner: Json) -> list[Json]:
        """The objects of a kind that `owner` controls."""
        return self._at((_CONTROLLER, kind, meta(owner)["uid"]))

    def free(self, kind: str, namespace: str) -> list[Json]:
        """The objects of a kind that nobody controls."""
        return self._at((_FREE, kind, namespace))

    def on_node(self, name: str) -> list[Json]:
        """The pods that are bound to a node."""
        return self._at((_NODE, "Pod", name))

    def is_gone(self, uid: str) -> bool:
        """Was there an object of that uid, and is there none now?"""
        return uid in self._gone

    def has_lost_node(self, name: str) -> bool:
        """Was there a node of that name, and is there none now? Unknown ones may yet come."""
        return name in self._lost_nodes

    # ---- what went wrong ----

    def failed(self, uid: str, message: str) -> None:
        """The last thing that was written for an object was refused; empty: it was not."""
        if message:
            self._failures[uid] = message
        else:
            self._failures.pop(uid, None)

    def failure(self, obj: Json) -> str:
        """Why the last write for an object was refused; empty if it was not."""
        return self._failures.get(meta(obj)["uid"], "")

    # ---- inside ----

    def _at(self, place: _Place) -> list[Json]:
        return list(self._members.get(place, {}).values())

    def _unlist(self, key: Key, old: Json) -> None:
        for place in _places(old):
            members = self._members[place]
            del members[key]
            if not members:
                del self._members[place]


def _places(obj: Json) -> Iterable[_Place]:
    """Under which an object is found."""
    kind, namespace = obj["kind"], meta(obj).get("namespace", "")
    yield _NAMESPACE, kind, namespace
    yield _NAMESPACE, kind, "*"
    owner = controller_of(obj)
    yield (_CONTROLLER, kind, owner["uid"]) if owner else (_FREE, kind, namespace)
    if kind == "Pod" and spec(obj).get("nodeName"):
        yield _NODE, kind, spec(obj)["nodeName"]


def _remember(names: dict[str, None], name: str) -> None:
    names[name] = None
    if len(names) > _REMEMBERED:
        del names[next(iter(names))]


def _version(obj: Json) -> int:
    return int(meta(obj)["resourceVersion"])
