"""Create, update, patch and delete: the one way into the store.

HTTP handlers and simulated kubelets both come through here, so both get the same defaults, checks
and events. Every method runs without awaiting and is therefore atomic. Knows nothing of HTTP.
"""

from collections.abc import Callable

from moorage.apiserver.admission import Admission
from moorage.apiserver.defaults import apply_defaults, begin_status
from moorage.apiserver.deletion import DeleteOptions, Deletion
from moorage.apiserver.errors import (
    MAX_OBJECT_BYTES,
    Cause,
    Json,
    already_exists,
    bad_request,
    invalid,
    not_found,
)
from moorage.apiserver.field_ownership import FieldManager, applied_first, apply, updated_owners
from moorage.apiserver.history import Stored
from moorage.apiserver.metadata import Identities, drop_empty, metadata_of
from moorage.apiserver.resources import STATUS, ApiResource, from_stored, to_stored, wrong_kind
from moorage.apiserver.selection import Selection
from moorage.apiserver.storage import Storage, make_stored, object_key
from moorage.apiserver.updates import (
    check_patched_uid,
    check_same_object,
    check_update,
    prepare_status,
    prepare_update,
)
from moorage.apiserver.validation import read, validate, validate_status

Change = Callable[[Json], Json]

_NAME_ATTEMPTS = 8
_MANAGER = "moorage"


class Operations:
    """Writes, with everything that has to happen around them."""

    def __init__(self, store: Storage, identities: Identities) -> None:
        self.store = store
        self.identities = identities
        self.admission = Admission(store)
        self.deletion = Deletion(store, identities)

    def get(self, resource: ApiResource, namespace: str, name: str) -> Stored:
        """The object of that name, or a 404."""
        stored = self.store.collection(resource.storage).get(namespace, name)
        if stored is None:
            raise not_found(resource.plural, resource.group, name)
        return stored

    # ---- create ----

    def create(
        self,
        resource: ApiResource,
        namespace: str,
        obj: Json,
        *,
        dry_run: bool = False,
        owners: list[Json] | None = None,
    ) -> Stored:
        """Store a new object; `owners` are its `managedFields` if it is applied."""
        check_kind(resource, obj)
        check_namespace(resource, namespace, obj)
        obj = to_stored(resource, obj)
        collection = self.store.collection(resource.storage)
        generated = not metadata_of(obj).get("name")
        name = self.identities.fill(resource, obj, namespace)
        key = object_key(namespace, name)
        for _ in range(_NAME_ATTEMPTS if generated else 0):
            if key not in collection.items:
                break
            name = obj["metadata"]["generateName"] + self.identities.suffix()
            obj["metadata"]["name"] = name
            key = object_key(namespace, name)
        if resource.namespaced:
            self.admission.check_namespace(resource, namespace, name)
        if key in collection.items:
            raise already_exists(resource.plural, resource.group, name)
        read(resource, obj)  # types first: what follows relies on them
        apply_defaults(resource.storage, obj)
        self.admission.mutate(resource, obj)
        model = validate(resource, obj)
        begin_status(resource.storage, obj)
        self.admission.admit(resource, obj, model)
        if "spec" in obj:
            obj["metadata"]["generation"] = 1
        drop_empty(obj)
        if owners:
            obj["metadata"]["managedFields"] = owners
        if dry_run:
            return make_stored(resource.storage, key, self.store.version, obj)
        stored = self.store.create(collection, key, obj)
        self.deletion.collect(collection, stored)
        return stored

    # ---- update ----

    def replace(
        self,
        resource: ApiResource,
        namespace: str,
        name: str,
        obj: Json,
        *,
        subresource: str = "",
        dry_run: bool = False,
        manager: FieldManager | None = None,
    ) -> tuple[Stored, bool]:
        """Store a client's whole object; says whether that created it."""
        check_kind(resource, obj)
        check_namespace(resource, namespace, obj)
        check_name(name, obj)
        stored = self.store.collection(resource.storage).get(namespace, name)
        if stored is None:
            if not resource.created_by_update or subresource:
                raise not_found(resource.plural, resource.group, name)
            obj["metadata"].pop("resourceVersion", None)
            return self.create(resource, namespace, obj, dry_run=dry_run), True
        if resource.plural == "leases" and not obj["metadata"].get("resourceVersion"):
            text = "Invalid value: 0x0: must be specified for an update"
            cause = Cause("metadata.resourceVersion", text)
            raise invalid(resource.kind, resource.group, name, [cause])
        return self._store_update(resource, stored, obj, subresource, dry_run, manager), False

    def apply(
        self,
        resource: ApiResource,
        namespace: str,
        name: str,
        config: Json,
        manager: FieldManager,
        *,
        force: bool = False,
        dry_run: bool = False,
    ) -> tuple[Stored, bool]:
        """Merge a configuration into an object, or make it; says whether that created it."""
        check_kind(resource, config)
        check_namespace(resource, namespace, config)
        check_name(name, config)
        now = self.identities.now()
        metadata = config["metadata"]
        stored = self.store.collection(resource.storage).get(namespace, name)
        if stored is None:
            if manager.subresource or metadata.get("uid") or metadata.get("resourceVersion"):
                raise not_found(resource.plural, resource.group, name)
            owners = applied_first(config, manager, now)
            made = self.create(resource, namespace, config, dry_run=dry_run, owners=owners)
            return made, True
        live = from_stored(resource, stored.object())
        obj = apply(live, config, manager, now, force=force)
        check_patched_uid(resource, obj, stored.object())
        owners = obj["metadata"].pop("managedFields")
        part = manager.subresource
        updated = self._store_update(resource, stored, obj, part, dry_run, manager, owners)
        return updated, False

    def change(
        self,
        resource: ApiResource,
        namespace: str,
        name: str,
        change: Change,
        *,
        subresource: str = "",
        dry_run: bool = False,
        manager: FieldManager | None = None,
    ) -> Stored:
        """Store what `change` makes of the object, in the form the client speaks (a patch)."""
        stored = self.get(resource, namespace, name)
        obj = change(from_stored(resource, stored.object()))
        check_kind(resource, obj)
        check_name(name, obj)
        check_patched_uid(resource, obj, stored.object())
        return self._store_update(resource, stored, obj, subresource, dry_run, manager)

    def _store_update(
        self,
        resource: ApiResource,
        stored: Stored,
        obj: Json,
        subresource: str,
        dry_run: bool,
        manager: FieldManager | None,
        owners: list[Json] | None = None,
    ) -> Stored:
        old = stored.object()
        managed = "managedFields" in old["metadata"]
        obj = to_stored(resource, obj)
        check_same_object(resource, stored.name, obj, old)
        if subresource == STATUS:
            read(resource, obj)
            obj = prepare_status(obj, old)
            validate_status(resource, obj)
            if resource.storage == "nodes":
                apply_defaults(resource.storage, obj)
        elif subresource in ("", "resize"):
            read(resource, obj)
            prepare_update(resource, obj, old)
            validate(resource, obj)
            if not subresource:
                check_update(resource, obj, old)
        else:
            raise bad_request(f"{subresource} of {resource.plural} cannot be updated")
        drop_empty(obj)
        if managed and owners is None:
            who = manager or FieldManager(_MANAGER, "Update", resource.api_version, subresource)
            owners = updated_owners(stored.object(), obj, who, self.identities.now())
        if owners:
            obj["metadata"]["managedFields"] = owners
        if dry_run:
            return make_stored(resource.storage, stored.key, stored.version, obj)
        collection = self.store.collection(resource.storage)
        updated = self.store.update(collection, stored, obj, MAX_OBJECT_BYTES)
        if updated is not stored and "deletionTimestamp" in obj["metadata"]:
            self.deletion.finish(collection, updated)
        return updated

    # ---- delete ----

    def delete(
        self, resource: ApiResource, namespace: str, name: str, options: DeleteOptions
    ) -> tuple[Stored, bool]:
        """Begin or finish a deletion; answers with the last state and whether it is gone."""
        return self.deletion.delete(resource, self.get(resource, namespace, name), options)

    def delete_all(
        self, resource: ApiResource, namespace: str, selection: Selection, options: DeleteOptions
    ) -> list[Stored]:
        """Delete every selected object of a collection."""
        collection = self.store.collection(resource.storage)
        candidates = collection.within(namespace) if namespace else collection.all()
        deleted: list[Stored] = []
        for stored in candidates:
            present = collection.items.get(stored.key)
            if present is not None and selection.matches(present):
                deleted.append(self.deletion.delete(resource, present, options)[0])
        return deleted


def check_kind(resource: ApiResource, obj: Json) -> None:
    """Fill in or compare `kind` and `apiVersion`, and put them first as everybody writes them."""
    kind = obj.get("kind") or resource.kind
    version = obj.get("apiVersion") or resource.api_version
    if (kind, version) != (resource.kind, resource.api_version):
        raise wrong_kind(resource, str(version), str(kind), str(metadata_of(obj).get("name", "")))
    if "kind" not in obj or "apiVersion" not in obj:
        rest = dict(obj)
        obj.clear()
        obj.update({"kind": kind, "apiVersion": version, **rest})
    obj["kind"], obj["apiVersion"] = kind, version


def check_name(name: str, obj: Json) -> None:
    """The name of an object is that of the URL."""
    given = metadata_of(obj).setdefault("name", name)
    if given != name:
        raise bad_request(
            f"the name of the object ({given}) does not match the name on the URL ({name})"
        )


def check_namespace(resource: ApiResource, namespace: str, obj: Json) -> None:
    """The namespace of an object is that of the URL."""
    given = metadata_of(obj).get("namespace")
    if resource.namespaced and given and given != namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
