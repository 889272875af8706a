"""The objects of the cluster: collections of encoded objects under one version counter.

Only this module assigns resource versions and only here does a change become visible: to readers,
to watches, to the journal. Writes are synchronous, so a caller that reads, decides and writes
without awaiting in between needs no lock. Knows nothing of HTTP, defaults or validation.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import msgspec

from moorage.apiserver.custom_resources import DEFINITIONS, custom_rows
from moorage.apiserver.errors import Json, too_large, too_many_bytes
from moorage.apiserver.history import ADDED, DELETED, MODIFIED, History, Stored, StoredChange
from moorage.apiserver.resources import STORED_AS, ApiResource, ResourceTable, StorageKey
from moorage.apiserver.selection import field_values

DEFAULT_HISTORY_CHANGES = 100_000
DEFAULT_HISTORY_BYTES = 8 * 2**20
# Events are half of all changes, and few clients watch them for long.
_EVENTS_SHARE = 8
_BATCH = 200

_encode = msgspec.json.Encoder().encode


def object_key(namespace: str, name: str) -> str:
    """The key of an object inside its collection."""
    return f"{namespace}/{name}" if namespace else name


def encode(value: Any) -> bytes:
    """JSON as this server writes it everywhere."""
    return _encode(value)


def make_stored(
    storage: StorageKey, key: str, version: int, obj: Json, previous: Stored | None = None
) -> Stored:
    """Encode an object and take out what selectors and deletion ask for.

    With `previous`, what has not changed since is shared: history holds many states of an object.
    """
    metadata = obj["metadata"]
    labels = metadata.get("labels") or {}
    fields = field_values(storage, obj)
    uid = metadata.get("uid", "")
    references = metadata.get("ownerReferences")
    owners = tuple([owner.get("uid", "") for owner in references]) if references else ()
    if previous is not None:
        labels = previous.labels if labels == previous.labels else labels
        fields = previous.fields if fields == previous.fields else fields
        uid = previous.uid if uid == previous.uid else uid
        owners = previous.owners if owners == previous.owners else owners
    return Stored(key, version, _encode(obj), labels, fields, uid, owners)


class Sink(Protocol):
    """Where changes go to survive the process."""

    def record(self, storage: StorageKey, change: StoredChange) -> None:
        """Take one change; called before anybody can see it."""

    async def durable(self) -> None:
        """Return when everything recorded so far is safe."""


class Collection:
    """All objects of one resource, by key, and their recent changes."""

    def __init__(self, resource: ApiResource, history: History) -> None:
        self.resource = resource
        """The form in which objects are stored."""
        self.storage = resource.storage
        self.history = history
        self.items: dict[str, Stored] = {}
        self._order: list[str] = []

    def get(self, namespace: str, name: str) -> Stored | None:
        """The object of that name."""
        return self.items.get(object_key(namespace, name))

    def all(self) -> list[Stored]:
        """Every object, by namespace and name."""
        return [self.items[key] for key in self._order]

    def within(self, namespace: str) -> list[Stored]:
        """The objects of one namespace, by name."""
        # "0" is the character after "/": the range holds exactly the keys with this prefix.
        start = bisect_left(self._order, f"{namespace}/")
        end = bisect_left(self._order, f"{namespace}0")
        return [self.items[key] for key in self._order[start:end]]

    def at_version(self, version: int) -> list[Stored]:
        """Every object as it was at an earlier version, found by undoing the changes since."""
        items = dict(self.items)
        for change in self.history.newest_first(version):
            if change.previous is None:
                items.pop(change.last.key, None)
            else:
                items[change.previous.key] = change.previous
        return [items[key] for key in sorted(items)]

    def put(self, stored: Stored) -> None:
        """Place an object without telling anybody: for `Storage` alone."""
        if stored.key not in self.items:
            insort(self._order, stored.key)
        self.items[stored.key] = stored

    def drop(self, key: str) -> None:
        """Remove an object without telling anybody: for `Storage` alone."""
        del self.items[key]
        del self._order[bisect_left(self._order, key)]

    def load(self, items: dict[str, Stored]) -> None:
        """Take over objects read from disk: for `Storage` alone."""
        self.items = items
        self._order = sorted(items)


class Storage:
    """Every collection, the version counter, and who owns whom."""

    def __init__(
        self,
        sink: Sink | None = None,
        *,
        history_changes: int = DEFAULT_HISTORY_CHANGES,
        history_bytes: int = DEFAULT_HISTORY_BYTES,
    ) -> None:
        self.version = 1
        self._sink = sink
        self._history = history_changes, history_bytes
        self.table = ResourceTable()
        self.collections: dict[StorageKey, Collection] = {}
        for row in STORED_AS.values():
            self._add_collection(row)
        self._definitions = self.collections[DEFINITIONS]
        self.pods = self.collections["pods"]
        self.nodes = self.collections["nodes"]
        self.namespaces = self.collections["namespaces"]
        self._dependents: dict[str, set[tuple[StorageKey, str]]] = {}

    def _add_collection(self, resource: ApiResource) -> None:
        changes, size = self._history
        if resource.storage == "events":
            size //= _EVENTS_SHARE
        self.collections[resource.storage] = Collection(resource, History(changes, size))

    def _define(self) -> None:
        """Serve the custom resources that there are definitions of, and drop what is left."""
        custom = [row for one in self._definitions.all() for row in custom_rows(one.object())]
        self.table = ResourceTable(custom)
        for row in custom:
            if row.storage not in self.collections:
                self._add_collection(row)
        for storage in self.collections.keys() - STORED_AS.keys() - {row.storage for row in custom}:
            for stored in self.collections[storage].all():
                self.delete(self.collections[storage], stored)

    def collection(self, storage: StorageKey) -> Collection:
        """The collection of a storage key."""
        return self.collections[storage]

    def check_reached(self, version: int) -> None:
        """Refuse a version from the future: its holder has seen another history."""
        if version > self.version:
            raise too_large(version, self.version)

    # ---- writing ----

    def create(self, collection: Collection, key: str, obj: Json) -> Stored:
        """Add an object; the caller has made sure that the key is free."""
        stored = self._next(collection, key, obj)
        self._publish(collection, StoredChange(ADDED, self.version, stored, None))
        return stored

    def update(
        self, collection: Collection, previous: Stored, obj: Json, largest: int | None = None
    ) -> Stored:
        """Replace an object; one that is no different keeps its version and makes no event.

        With `largest`, an object that grows beyond so many bytes is refused.
        """
        obj["metadata"]["resourceVersion"] = str(previous.version)
        data = _encode(obj)
        # Equal objects with their members in another order still encode to equal lengths.
        if len(data) == len(previous.data) and (data == previous.data or obj == previous.object()):
            return previous
        if largest is not None and len(data) > max(largest, len(previous.data)):
            raise too_many_bytes(largest)
        stored = self._next(collection, previous.key, obj, previous)
        self._publish(collection, StoredChange(MODIFIED, self.version, stored, previous))
        return stored

    def delete(self, collection: Collection, previous: Stored) -> Stored:
        """Remove an object; the answer is its last state under the version of its removal."""
        self.version += 1
        change = StoredChange(DELETED, self.version, None, previous)
        self._publish(collection, change)
        return change.stored

    def _next(
        self, collection: Collection, key: str, obj: Json, previous: Stored | None = None
    ) -> Stored:
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        return make_stored(collection.storage, key, self.version, obj, previous)

    def _publish(self, collection: Collection, change: StoredChange) -> None:
        if self._sink is not None:
            self._sink.record(collection.storage, change)
        after, previous = change.after, change.previous
        if previous is not None and previous.owners:
            self._disown(collection.storage, previous)
        if after is None:
            collection.drop(change.last.key)
        else:
            collection.put(after)
            if after.owners:
                self._own(collection.storage, after)
        collection.history.append(change)
        if collection is self._definitions:
            self._define()

    # ---- owners ----

    def _own(self, storage: StorageKey, stored: Stored) -> None:
        for uid in stored.owners:
            self._dependents.setdefault(uid, set()).add((storage, stored.key))

    def _disown(self, storage: StorageKey, stored: Stored) -> None:
        for uid in stored.owners:
            members = self._dependents.get(uid)
            if members is not None:
                members.discard((storage, stored.key))
                if not members:
                    del self._dependents[uid]

    def dependents(self, uid: str) -> list[tuple[Collection, Stored]]:
        """The objects that name `uid` as an owner, in a fixed order."""
        found = sorted(self._dependents.get(uid, ()))
        return [(self.collections[s], self.collections[s].items[key]) for s, key in found]

    # ---- survival ----

    async def durable(self) -> None:
        """Return when every write so far is safe; at once without a journal."""
        if self._sink is not None:
            await self._sink.durable()

    def attach(self, sink: Sink) -> None:
        """Record changes from now on."""
        self._sink = sink

    def restore(self, version: int, objects: Iterable[tuple[StorageKey, Stored]]) -> None:
        """Take over a state read from disk; earlier versions can no longer be watched."""
        items: dict[StorageKey, dict[str, Stored]] = {}
        for storage, stored in objects:
            items.setdefault(storage, {})[stored.key] = stored
        self._definitions.load(items.get(DEFINITIONS, {}))
        self._define()
        for storage, collection in self.collections.items():
            for stored in items.get(storage, {}).values():
                self._own(storage, stored)
            collection.load(items.get(storage, {}))
            collection.history.compact(version)
        self.version = max(self.version, version)

    def everything(self) -> Iterator[tuple[StorageKey, Stored]]:
        """Every object there is, for a snapshot."""
        for storage, collection in self.collections.items():
            for stored in collection.all():
                yield storage, stored
