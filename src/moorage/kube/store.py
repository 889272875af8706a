"""The objects of one kind as we last heard of them, and the differences that handlers are told.

Owns the rule that makes events exact: a handler sees for every object (told apart by uid) one add,
then updates with growing news, then one delete; whatever the server repeats is not repeated here.
Handlers can be told later (`hold`), but in the same order. Does no I/O; `reflector` feeds it.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Protocol

from moorage.kube.decoding import Malformed
from moorage.model.meta import ApiObject


class Handler(Protocol):
    """Told of every change, in order and one at a time; must be quick and must not fail."""

    def on_add(self, obj: ApiObject, /) -> None:
        """A new object."""

    def on_update(self, old: ApiObject, new: ApiObject, /) -> None:
        """The same object (by uid), changed."""

    def on_delete(self, old: ApiObject, /) -> None:
        """The object is gone, or no longer selected; `old` is the last that was told of it."""

    def on_synced(self) -> None:
        """Everything that existed at the beginning has been told; called once."""


class Silent:
    """A handler that does nothing: a base for those that care for some events only."""

    def on_add(self, obj: ApiObject, /) -> None:
        """Nothing."""

    def on_update(self, old: ApiObject, new: ApiObject, /) -> None:
        """Nothing."""

    def on_delete(self, old: ApiObject, /) -> None:
        """Nothing."""

    def on_synced(self) -> None:
        """Nothing."""


Backlog = deque[Callable[[], None]]
"""What handlers are still to be told, the oldest first."""


class _Later:
    """Stands for handlers that are told later."""

    def __init__(self, handlers: Sequence[Handler], backlog: Backlog) -> None:
        self._handlers = handlers
        self._backlog = backlog

    def on_add(self, obj: ApiObject, /) -> None:
        """A new object."""
        self._backlog.extend(partial(handler.on_add, obj) for handler in self._handlers)

    def on_update(self, old: ApiObject, new: ApiObject, /) -> None:
        """The same object, changed."""
        self._backlog.extend(partial(handler.on_update, old, new) for handler in self._handlers)

    def on_delete(self, old: ApiObject, /) -> None:
        """The object is gone."""
        self._backlog.extend(partial(handler.on_delete, old) for handler in self._handlers)

    def on_synced(self) -> None:
        """Everything has been told."""
        self._backlog.extend(handler.on_synced for handler in self._handlers)


class Store:
    """Objects by key (`namespace/name`) and the handlers that hear of changes."""

    def __init__(self, handlers: Iterable[Handler] = ()) -> None:
        self._objects: dict[str, ApiObject] = {}
        self._handlers = list(handlers)
        self._told: Sequence[Handler] = self._handlers
        self._backlog: Backlog | None = None
        self.synced = False

    @property
    def objects(self) -> Mapping[str, ApiObject]:
        """All objects by key; a view that follows the changes."""
        return MappingProxyType(self._objects)

    def __len__(self) -> int:
        return len(self._objects)

    def add_handler(self, handler: Handler) -> None:
        """Tell one more handler; it first hears of what there is already."""
        told = handler if self._backlog is None else _Later([handler], self._backlog)
        for obj in self._objects.values():
            told.on_add(obj)
        self._handlers.append(handler)
        if self.synced:
            told.on_synced()

    def hold(self, backlog: Backlog) -> None:
        """Tell nobody anything for now: what is to be told goes to the backlog."""
        self._backlog = backlog
        self._told = (_Later(self._handlers, backlog),)

    def release(self) -> None:
        """Tell handlers at once again; whoever held them has told the backlog."""
        self._backlog = None
        self._told = self._handlers

    def put(self, obj: ApiObject) -> None:
        """The object is there in this form."""
        key = obj.key
        old = self._objects.get(key)
        if old is not None:
            if old.metadata.uid != obj.metadata.uid:
                # Deleted and made again while nobody looked: two events, as if somebody had.
                self.remove(key)
                old = None
            elif old.metadata.resource_version == obj.metadata.resource_version:
                return
        self._objects[key] = obj
        for handler in self._told:
            if old is None:
                handler.on_add(obj)
            else:
                handler.on_update(old, obj)

    def remove(self, key: str) -> None:
        """The object is not there any more."""
        old = self._objects.pop(key, None)
        if old is not None:
            for handler in self._told:
                handler.on_delete(old)

    def replacing(self, listed: Iterable[ApiObject | Malformed]) -> Iterator[None]:
        """Go over to what a new list says, step by step so that others can run in between.

        An object that can no longer be read stays as it was: it still exists.
        """
        wanted: dict[str, ApiObject | None] = {}
        for item in listed:
            if isinstance(item, Malformed):
                wanted[item.key] = None
            else:
                wanted[item.key] = item
        for key in [key for key in self._objects if key not in wanted]:
            self.remove(key)
            yield
        for obj in wanted.values():
            if obj is not None:
                self.put(obj)
                yield
        if not self.synced:
            self.synced = True
            for handler in self._told:
                handler.on_synced()
