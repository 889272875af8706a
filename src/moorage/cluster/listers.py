"""The other API objects a scheduler looks up: namespaces, services, owners, budgets, volumes.

They are rarely many and never scored, so they stay objects; a `Lister` is a dictionary with a
generation, so that whoever derives something from it can tell when to derive it again.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Any, Generic, TypeVar, overload

from moorage.model.custom import CustomObject
from moorage.model.labels import Labels
from moorage.model.meta import ApiObject
from moorage.model.workloads import Namespace

Kind = TypeVar("Kind", bound=ApiObject)
Books = TypeVar("Books")

_LONGEST_LOG = 4096


class Lister(Generic[Kind]):
    """Objects of one kind by namespace and name."""

    def __init__(self, changed: Callable[[], None] | None = None) -> None:
        self.generation = 0
        self._changed = changed
        self._by_namespace: dict[str, dict[str, Kind]] = {}
        self._log: list[tuple[str, str]] = []
        """What changed in generation `g` is at `g - self._before - 1`."""
        self._before = 0

    def put(self, obj: Kind) -> None:
        """An object was added or changed."""
        self._by_namespace.setdefault(obj.namespace, {})[obj.name] = obj
        self._note(obj)

    def remove(self, obj: Kind) -> None:
        """An object was deleted; unknown ones are ignored, as a watch may repeat itself."""
        objects = self._by_namespace.get(obj.namespace, {})
        objects.pop(obj.name, None)
        if not objects:
            self._by_namespace.pop(obj.namespace, None)
        self._note(obj)

    def _note(self, obj: Kind) -> None:
        self.generation += 1
        if self._changed is not None:
            self._changed()
        log = self._log
        if len(log) >= _LONGEST_LOG:
            del log[: _LONGEST_LOG // 2]
            self._before += _LONGEST_LOG // 2
        log.append((obj.namespace, obj.name))

    def changes_since(self, generation: int) -> set[tuple[str, str]] | None:
        """(namespace, name) of what changed after `generation`; None if that is too long ago."""
        start = generation - self._before
        return set(self._log[start:]) if start >= 0 else None

    def get(self, name: str, namespace: str = "") -> Kind | None:
        """One object."""
        return self._by_namespace.get(namespace, {}).get(name)

    def any_in(self, namespace: str) -> bool:
        """Are there objects in a namespace?"""
        return namespace in self._by_namespace

    def in_namespace(self, namespace: str) -> list[Kind]:
        """All objects of a namespace, in the order they came."""
        return list(self._by_namespace.get(namespace, {}).values())

    def __iter__(self) -> Iterator[Kind]:
        for objects in self._by_namespace.values():
            yield from objects.values()

    def __len__(self) -> int:
        return sum(map(len, self._by_namespace.values()))


class Listers:
    """One lister per kind, made when the kind is first mentioned."""

    def __init__(self) -> None:
        self._listers: dict[type[ApiObject] | str, Lister[ApiObject]] = {}
        self._shared: dict[type, object] = {}
        self.generation = 0
        """Grows with every change of any object."""

    @overload
    def of(self, kind: type[Kind]) -> Lister[Kind]: ...
    @overload
    def of(self, kind: str) -> Lister[CustomObject]: ...
    def of(self, kind: type[ApiObject] | str) -> Lister[Any]:
        """The lister of a kind, or of a custom resource by its name (`foos.v1.example.com`)."""
        lister = self._listers.get(kind)
        if lister is None:
            lister = self._listers[kind] = Lister(self._changed)
        return lister

    def put(self, obj: ApiObject, kind: type[ApiObject] | str) -> None:
        """An object of a kind, or of a custom resource, was added or changed."""
        lister: Lister[Any] = self.of(kind)
        lister.put(obj)

    def remove(self, obj: ApiObject, kind: type[ApiObject] | str) -> None:
        """An object was deleted."""
        lister: Lister[Any] = self.of(kind)
        lister.remove(obj)

    def __iter__(self) -> Iterator[ApiObject]:
        for lister in self._listers.values():
            yield from lister

    def copied(self, without: type[ApiObject]) -> "Listers":
        """The same objects but those of one kind; what plugins track about them begins anew."""
        copy = Listers()
        for kind, lister in self._listers.items():
            for obj in lister if kind is not without else ():
                copy.put(obj, kind)
        return copy

    def shared(self, kind: type[Books], make: Callable[[], Books]) -> Books:
        """What plugins track about these objects: one of a kind, shared by all profiles."""
        found = self._shared.get(kind)
        if found is None:
            found = self._shared[kind] = make()
        return found  # type: ignore[return-value]  # the key fixes the type

    @property
    def tracked(self) -> Collection[object]:
        """All that plugins share."""
        return self._shared.values()

    def _changed(self) -> None:
        self.generation += 1

    def namespace_labels(self, namespace: str) -> Labels:
        """The labels of a namespace; an unknown namespace has none."""
        found = self.of(Namespace).get(namespace)
        return found.labels if found is not None else {}
