"""The objects of one kind as they were last seen, and the changes that handlers get.

Owns the rule that makes events exact: a handler sees for every object (by uid) one add, then
updates to newer versions, then one delete; whatever the server repeats is not repeated here.
Handlers can be called later (`hold`), but in the same order. If one fails, the object counts as it
was before (`decoding.SkippedObjects`). Does no I/O; `reflector` feeds it.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Protocol

from moorage.kube.decoding import Malformed, SkippedObjects
from moorage.model.meta import ApiObject


class Handler(Protocol):
    """Called for every change, in order and one at a time; must be quick. A base does nothing."""

    def on_add(self, obj: ApiObject, /) -> None:
        """A new object."""
        return

    def on_update(self, old: ApiObject, new: ApiObject, /) -> None:
        """The same object (by uid), changed."""
        return

    def on_delete(self, old: ApiObject, /) -> None:
        """The object is gone, or no longer selected; `old` is the last version."""
        return

    def on_synced(self) -> None:
        """Everything that existed at the beginning has been added; called once."""
        return


@dataclass(frozen=True, slots=True)
class FunctionHandler:
    """A handler made of functions; `on_synced` may be left out."""

    on_add: Callable[[Any], None]
    on_update: Callable[[Any, Any], None]
    on_delete: Callable[[Any], None]
    on_synced: Callable[[], None] = lambda: None


Backlog = deque[Callable[[], None]]
"""Calls of handlers that were held back, the oldest first."""


class Store:
    """Objects by key (`namespace/name`) and the handlers that get their changes."""

    def __init__(
        self, handlers: Iterable[Handler] = (), skipped: SkippedObjects | None = None
    ) -> None:
        self._objects: dict[str, ApiObject] = {}
        self._handlers = list(handlers)
        self._backlog: Backlog | None = None
        self._refused: dict[str, ApiObject | None] = {}
        """What handlers know instead of a version that they failed on, until the next one."""
        self.skipped = SkippedObjects("object") if skipped is None else skipped
        self.synced = False

    @property
    def objects(self) -> Mapping[str, ApiObject]:
        """All objects by key; a view that follows the changes."""
        return MappingProxyType(self._objects)

    def __len__(self) -> int:
        return len(self._objects)

    def add_handler(self, handler: Handler) -> None:
        """Call one more handler; it first gets what there is already."""
        for obj in self._objects.values():
            self._do(partial(self._add_to, handler, obj))
        self._handlers.append(handler)
        if self.synced:
            self._do(handler.on_synced)

    def hold(self, backlog: Backlog) -> None:
        """Call no handler for now: calls go to the backlog."""
        self._backlog = backlog

    def release(self) -> None:
        """Call handlers at once again; whoever held them has worked the backlog off."""
        self._backlog = None

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
        if self.skipped:
            self.skipped.clear(key)
        if self._backlog is None:
            self._handle(old, obj, self._handlers)
        else:
            self._backlog.append(partial(self._handle, old, obj, tuple(self._handlers)))

    def remove(self, key: str) -> None:
        """The object is not there any more."""
        old = self._objects.pop(key, None)
        if self.skipped:
            self.skipped.clear(key)
        if old is not None:
            self._do(partial(self._handle_deleted, old, tuple(self._handlers)))

    def replacing(self, listed: Iterable[ApiObject | Malformed]) -> Iterator[None]:
        """Go over to what a new list says, step by step so that others can run in between.

        An object that can no longer be read stays as it was: it still exists.
        """
        wanted = {item.key: None if isinstance(item, Malformed) else item for item in listed}
        self.skipped.keep(wanted)
        for key in [key for key in self._objects if key not in wanted]:
            self.remove(key)
            yield
        for obj in wanted.values():
            if obj is not None:
                self.put(obj)
                yield
        if not self.synced:
            self.synced = True
            for handler in self._handlers:
                self._do(handler.on_synced)

    # Calling handlers. If one fails, only this object is affected.

    def _do(self, work: Callable[[], None]) -> None:
        """Call now, or later if handlers are held."""
        if self._backlog is None:
            work()
        else:
            self._backlog.append(work)

    def _handle(self, old: ApiObject | None, new: ApiObject, handlers: Iterable[Handler]) -> None:
        if self._refused and new.key in self._refused:
            old = self._refused.pop(new.key)
        try:
            for handler in handlers:
                if old is None:
                    handler.on_add(new)
                else:
                    handler.on_update(old, new)
        except Exception as error:
            self._refuse(old, new, handlers, error)

    def _handle_deleted(self, old: ApiObject, handlers: Iterable[Handler]) -> None:
        known: ApiObject | None = old
        if self._refused and old.key in self._refused:
            known = self._refused.pop(old.key)
        if known is not None:
            self._take_out(known, handlers)

    def _add_to(self, handler: Handler, obj: ApiObject) -> None:
        try:
            handler.on_add(obj)
        except Exception as error:
            self._refuse(None, obj, (handler,), error)

    def _refuse(
        self, old: ApiObject | None, new: ApiObject, handlers: Iterable[Handler], error: Exception
    ) -> None:
        """Go back to the version before, or to none if there was none.

        Whatever a handler did before it failed is undone by deleting both versions.
        """
        key = new.key
        self.skipped.skip(key, error)
        self._take_out(new, handlers)
        if old is not None:
            self._take_out(old, handlers)
            try:
                for handler in handlers:
                    handler.on_add(old)
            except Exception as again:
                self.skipped.skip(key, again)
                self._take_out(old, handlers)
                old = None
        if self._objects.get(key) is not new:
            self._refused[key] = old  # newer versions are in the backlog
        elif old is None:
            del self._objects[key]
        else:
            self._objects[key] = old

    def _take_out(self, obj: ApiObject, handlers: Iterable[Handler]) -> None:
        for handler in handlers:
            try:
                handler.on_delete(obj)
            except Exception as error:
                self.skipped.skip(obj.key, error)
