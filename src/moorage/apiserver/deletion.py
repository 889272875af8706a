"""How objects go: at once, after a grace period, when finalizers are gone, with their owner.

The part of the garbage collector and the namespace controller that clients notice lives here
too: in one step with the deletion itself, nothing can come between. Events go after an hour, like
kube-apiserver's `--event-ttl`, or when there are too many: each pod leaves at least one, so a busy
hour would otherwise fill the memory.
Upstream: apiserver pkg/registry/rest/delete.go, kubernetes@v1.37.1 pkg/registry/core/pod.
"""

import asyncio
from collections import deque
from typing import NamedTuple

import msgspec

from moorage.apiserver.errors import Json, bad_request, conflict, forbidden
from moorage.apiserver.history import Stored
from moorage.apiserver.metadata import Clock, Identities, drop_empty, timestamp
from moorage.apiserver.requests import flag, number
from moorage.apiserver.resources import ApiResource
from moorage.apiserver.storage import Collection, Storage

ORPHAN, FOREGROUND = "Orphan", "Foreground"
_WAITS = "foregroundDeletion"
"""The finalizer of an owner that goes after its dependents."""
_REMEMBERED = 10_000
_POD_GRACE = 30
_LONGEST_GRACE = 100 * 365 * 86400
"""Longer ones would lead to a time that cannot be written."""
_PERMANENT = ("default", "kube-system", "kube-public")
_FINISHED = ("Succeeded", "Failed")


class _Preconditions(msgspec.Struct, rename="camel"):
    uid: str | None = None
    resource_version: str | None = None


class _Body(msgspec.Struct, rename="camel"):
    """What the body of a deletion may contain."""

    grace_period_seconds: int | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    dry_run: list[str] | None = None
    preconditions: _Preconditions | None = None


class DeleteOptions(NamedTuple):
    """What a client asks of a deletion."""

    grace: int | None = None
    uid: str = ""
    version: str = ""
    propagation: str = ""
    dry_run: bool = False

    @classmethod
    def read(cls, body: Json, query: dict[str, str]) -> "DeleteOptions":
        """From the body, else from the query, as upstream reads them."""
        try:
            given = msgspec.convert(body, _Body)
        except msgspec.ValidationError as error:
            raise bad_request(f"the DeleteOptions cannot be read: {error}") from None
        grace = given.grace_period_seconds
        if grace is None:
            grace = number(query, "gracePeriodSeconds")
        propagation = given.propagation_policy or query.get("propagationPolicy") or ""
        if given.orphan_dependents or flag(query, "orphanDependents"):
            propagation = ORPHAN
        conditions = given.preconditions or _Preconditions()
        return cls(
            grace=grace,
            uid=conditions.uid or "",
            version=conditions.resource_version or "",
            propagation=propagation,
            dry_run=bool(given.dry_run) or "dryRun" in query,
        )


class Deletion:
    """Deletes objects and what hangs on them."""

    def __init__(self, store: Storage, identities: Identities) -> None:
        self._store = store
        self._identities = identities
        self._emptying: set[str] = set()
        self._gone: dict[str, None] = {}
        """Uids of what was removed lately; what is created for such an owner goes at once."""

    def delete(
        self, resource: ApiResource, stored: Stored, options: DeleteOptions
    ) -> tuple[Stored, bool]:
        """Begin or finish a deletion; answers with the last state and whether it is gone."""
        _check_target(resource, stored, options)
        collection = self._store.collection(resource.storage)
        obj = stored.object()
        grace = self._grace(resource, obj, options)
        if options.dry_run:
            return stored, grace == 0
        if resource.storage == "namespaces":
            return self._delete_namespace(collection, stored, obj)
        self._release(stored, options)
        present = collection.items.get(stored.key, stored)
        if options.propagation == FOREGROUND and self._is_awaited(present.uid):
            return self._hold(collection, present), False
        return self._delete_alone(collection, present, options)

    def _delete_alone(
        self, collection: Collection, stored: Stored, options: DeleteOptions
    ) -> tuple[Stored, bool]:
        """Delete one object, but not its dependents."""
        obj = stored.object()
        if collection is self._store.namespaces:
            return self._delete_namespace(collection, stored, obj)
        grace = self._grace(collection.resource, obj, options)
        if grace == 0 and not obj["metadata"].get("finalizers"):
            return self.remove(collection, stored), True
        return self._mark(collection, stored, grace), False

    def finish(self, collection: Collection, stored: Stored) -> bool:
        """Remove an object whose last reason to stay has gone; called after every update."""
        metadata = stored.object()["metadata"]
        if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
            return False
        if collection.storage == "namespaces" or metadata.get("deletionGracePeriodSeconds"):
            return False
        self.remove(collection, stored)
        return True

    def remove(self, collection: Collection, stored: Stored) -> Stored:
        """Take an object out for good."""
        gone = self._store.delete(collection, stored)
        self._gone[stored.uid] = None
        if len(self._gone) > _REMEMBERED:
            del self._gone[next(iter(self._gone))]
        if stored.owners:
            self._let_owners_go(stored)
        namespace = stored.namespace
        if namespace and namespace not in self._emptying:
            self._finish_namespace(namespace)
        return gone

    def collect(self, collection: Collection, stored: Stored) -> None:
        """Remove a new object that came too late: all its owners are gone."""
        if stored.owners and all(uid in self._gone for uid in stored.owners):
            self._delete_alone(collection, stored, DeleteOptions())

    def _grace(self, resource: ApiResource, obj: Json, options: DeleteOptions) -> int:
        if resource.storage != "pods":
            return 0
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        if not spec.get("nodeName") or status.get("phase") in _FINISHED:
            return 0
        grace = options.grace
        if grace is None:
            grace = spec.get("terminationGracePeriodSeconds", _POD_GRACE)
        # A negative period once meant "at once"; upstream keeps it as the shortest one.
        return min(int(grace), _LONGEST_GRACE) if grace >= 0 else 1

    def _mark(self, collection: Collection, stored: Stored, grace: int) -> Stored:
        obj = stored.object()
        metadata = obj["metadata"]
        pending = metadata.get("deletionGracePeriodSeconds")
        if metadata.get("deletionTimestamp") and (pending is None or grace >= pending):
            return stored
        metadata["deletionTimestamp"] = timestamp(self._identities.clock() + grace)
        metadata["deletionGracePeriodSeconds"] = grace
        if metadata.get("generation"):
            metadata["generation"] += 1
        return self._store.update(collection, stored, obj)

    def _release(self, stored: Stored, options: DeleteOptions) -> None:
        """Orphan dependents, or delete them as well.

        Without recursion: owners may form long chains and circles.
        """
        going: list[tuple[Collection, str]] = []
        seen = {stored.uid}
        owners = [stored.uid]
        while owners:
            owner = owners.pop()
            for collection, dependent in self._store.dependents(owner):
                if options.propagation == ORPHAN or len(set(dependent.owners)) > 1:
                    self._disown(collection, dependent, owner)
                elif dependent.uid not in seen:
                    seen.add(dependent.uid)
                    if not dependent.object()["metadata"].get("deletionTimestamp"):
                        going.append((collection, dependent.key))
                        owners.append(dependent.uid)
        for collection, key in reversed(going):
            present = collection.items.get(key)
            if present is None:
                continue
            if options.propagation == FOREGROUND and self._is_awaited(present.uid):
                self._hold(collection, present)
            else:
                self._delete_alone(collection, present, DeleteOptions())

    def _is_awaited(self, owner: str) -> bool:
        """Has the owner dependents that it is to go after?"""
        return any(
            reference.get("uid") == owner and reference.get("blockOwnerDeletion")
            for _, dependent in self._store.dependents(owner)
            for reference in dependent.object()["metadata"]["ownerReferences"]
        )

    def _hold(self, collection: Collection, stored: Stored) -> Stored:
        """Begin a deletion that ends with that of the last dependent."""
        obj = stored.object()
        finalizers = obj["metadata"].get("finalizers") or []
        if _WAITS not in finalizers:
            obj["metadata"]["finalizers"] = [*finalizers, _WAITS]
            stored = self._store.update(collection, stored, obj)
        return self._mark(collection, stored, 0)

    def _let_owners_go(self, gone: Stored) -> None:
        """Owners that waited for this dependent, and wait for no other, go after it."""
        for reference in gone.object()["metadata"].get("ownerReferences") or ():
            for collection in list(self._store.collections.values()):
                if collection.resource.kind != reference.get("kind"):
                    continue
                namespace = gone.namespace if collection.resource.namespaced else ""
                owner = collection.get(namespace, str(reference.get("name")))
                if owner is not None and owner.uid == reference.get("uid"):
                    self._let_go(collection, owner)

    def _let_go(self, collection: Collection, owner: Stored) -> None:
        obj = owner.object()
        finalizers = obj["metadata"].get("finalizers") or []
        if _WAITS not in finalizers or self._is_awaited(owner.uid):
            return
        obj["metadata"]["finalizers"] = [name for name in finalizers if name != _WAITS]
        drop_empty(obj)
        self.finish(collection, self._store.update(collection, owner, obj))

    def _disown(self, collection: Collection, dependent: Stored, owner: str) -> None:
        obj = dependent.object()
        references = obj["metadata"]["ownerReferences"]
        obj["metadata"]["ownerReferences"] = [ref for ref in references if ref.get("uid") != owner]
        drop_empty(obj)
        self._store.update(collection, dependent, obj)

    # ---- namespaces ----

    def _delete_namespace(
        self, collection: Collection, stored: Stored, obj: Json
    ) -> tuple[Stored, bool]:
        if stored.name in _PERMANENT:
            why = "this namespace may not be deleted"
            raise forbidden("namespaces", "", stored.name, why)
        if not obj["metadata"].get("deletionTimestamp"):
            obj["metadata"]["deletionTimestamp"] = self._identities.now()
            obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
            stored = self._store.update(collection, stored, obj)
        name = stored.name
        self._emptying.add(name)
        try:
            for other in list(self._store.collections.values()):
                for content in other.within(name):
                    # It may have gone with an owner deleted a moment ago.
                    present = other.items.get(content.key)
                    if present is not None:
                        self.delete(other.resource, present, DeleteOptions())
        finally:
            self._emptying.discard(name)
        self._finish_namespace(name)
        return stored, name not in collection.items

    def _finish_namespace(self, name: str) -> None:
        stored = self._store.namespaces.get("", name)
        if stored is None or stored.fields[0] != "Terminating":
            return
        if stored.object()["metadata"].get("finalizers"):
            return
        if not any(other.within(name) for other in self._store.collections.values()):
            self._store.delete(self._store.namespaces, stored)


def _check_target(resource: ApiResource, stored: Stored, options: DeleteOptions) -> None:
    """Refuse to delete another object than the client means; upstream words this differently."""
    for what, wanted, found, happened in (
        ("UID", options.uid, stored.uid, "deleted and then recreated"),
        ("ResourceVersion", options.version, str(stored.version), "modified"),
    ):
        if wanted and wanted != found:
            why = (
                f"the {what} in the precondition ({wanted}) does not match the {what} in record "
                f"({found}). The object might have been {happened}"
            )
            raise conflict(resource.kind, resource.group, stored.name, why)


def check_preconditions(resource: ApiResource, stored: Stored, options: DeleteOptions) -> None:
    """Refuse to act on another object than the client means."""
    for what, wanted, found in (
        ("UID", options.uid, stored.uid),
        ("ResourceVersion", options.version, str(stored.version)),
    ):
        if wanted and wanted != found:
            why = (
                f"Precondition failed: {what} in precondition: {wanted}, "
                f"{what} in object meta: {found}"
            )
            raise conflict(resource.plural, resource.group, stored.name, why)


EVENT_TTL_SECONDS = 3600.0
MAX_EVENTS = 1_000
_SWEEP_SECONDS = 10.0
_BATCH = 500


class EventExpiry:
    """Deletes old events; one that was written again counts from then, as its version tells."""

    def __init__(
        self,
        store: Storage,
        clock: Clock,
        *,
        ttl: float = EVENT_TTL_SECONDS,
        max_events: int = MAX_EVENTS,
    ) -> None:
        self._store = store
        self._events = store.collection("events")
        self._clock = clock
        self._ttl = ttl
        self._max_events = max_events
        # (time, version at that time): everything up to that version is at least that old.
        self._marks: deque[tuple[float, int]] = deque()

    async def run(self) -> None:
        """Sweep for ever."""
        while True:
            while self.sweep(_BATCH) == _BATCH:
                await asyncio.sleep(0)  # clients come first
            await asyncio.sleep(_SWEEP_SECONDS)

    def sweep(self, most: int | None = None) -> int:
        """Delete up to `most` events that are too old or too many, oldest first. How many were?"""
        now = self._clock()
        self._marks.append((now, self._store.version))
        expired = -1
        while self._marks and self._marks[0][0] <= now - self._ttl:
            expired = self._marks.popleft()[1]
        by_age = sorted(self._events.items.values(), key=_version)
        surplus = len(by_age) - self._max_events
        gone = [s for i, s in enumerate(by_age) if s.version <= expired or i < surplus]
        for stored in gone[:most]:
            self._store.delete(self._events, stored)
        return len(gone[:most])


def _version(stored: Stored) -> int:
    return stored.version
