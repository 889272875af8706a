"""The resources this server offers: `resources.yaml`, read by routing and discovery.

A row says where the API has a resource, under which words, in which form it is stored, and which
fields can be selected by or never change; how it is defaulted or printed is decided elsewhere. Most
resources are stored as clients speak them. Events are written under two groups with different field
names; resources served in two versions differ only in `apiVersion`.
Upstream: kubernetes@v1.37.1 pkg/apis/events/v1/conversion.go.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from moorage.apiserver.errors import ApiStatusError, Cause, Json, bad_request, invalid
from moorage.tables import read_table

STATUS = "status"
ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
CREATE_ONLY = ("create",)

StorageKey = str


class CustomColumn(NamedTuple):
    """A column of `kubectl get` that a definition asks for."""

    name: str
    type: str
    path: str
    priority: int
    description: str
    format: str


class ApiResource(msgspec.Struct, frozen=True, kw_only=True):
    """One resource in one version."""

    group: str
    version: str
    plural: str
    kind: str
    singular: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    storage: StorageKey
    stored_as: str = ""
    """The `apiVersion` of the stored form of a custom resource."""
    schema: bytes = b""
    """The schema of a custom resource, as JSON."""
    columns: tuple[CustomColumn, ...] = ()
    """The columns of a custom resource, if its definition names any."""
    scale: tuple[str, ...] = ()
    """Where a custom resource has its replicas, those there are, and their selector."""
    fields: tuple[str, ...] = ()
    """What field selectors may ask for; `Stored.fields` has the values in this order."""
    fixed: tuple[str, ...] = ()
    """Fields that no update may change."""
    returned: bool = False
    """Is a deletion answered with the object instead of a Status?"""
    created_by_update: bool = False
    """Do clients write it without asking first whether it exists?"""

    @property
    def api_version(self) -> str:
        """What objects of it say in `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def virtual(self) -> bool:
        """Answered on the spot and never stored, as reviews and bindings are."""
        return self.verbs == CREATE_ONLY


def _resource(api_version: str, plural: str, row: Json) -> ApiResource:
    group, _, version = api_version.rpartition("/")
    names = {"plural": plural, "singular": row["kind"].lower()}
    storage = f"{plural}.{group}" if group else plural
    common = {"group": group, "version": version, **names, "storage": storage}
    return msgspec.convert(common | row, ApiResource)


RESOURCES: tuple[ApiResource, ...] = tuple(
    _resource(api_version, plural, row)
    for api_version, rows in read_table(
        "moorage.apiserver", "resources.yaml", dict[str, dict[str, Json]]
    ).items()
    for plural, row in rows.items()
)

BY_PLURAL: Mapping[tuple[str, str, str], ApiResource] = {
    (row.group, row.version, row.plural): row for row in RESOURCES
}
# The form in which a shared storage keeps its objects: the first row that names it.
STORED_AS: Mapping[StorageKey, ApiResource] = {
    row.storage: row for row in reversed(RESOURCES) if not row.virtual
}


_SUBRESOURCE_KINDS = {
    "binding": ("", "v1", "Binding"),
    "eviction": ("policy", "v1", "Eviction"),
    "scale": ("autoscaling", "v1", "Scale"),
}


def subresource_kind(row: ApiResource, name: str) -> tuple[str, str, str]:
    """The group, version and kind of what a subresource takes; of the object if it has no name."""
    return _SUBRESOURCE_KINDS.get(name, (row.group, row.version, row.kind))


def wrong_kind(resource: ApiResource, api_version: str, kind: str, name: str) -> ApiStatusError:
    """An object of another kind than the resource has."""
    group, _, version = api_version.rpartition("/")
    if resource.schema and api_version != resource.api_version:
        expected = f"the expected API version ({resource.api_version})"
        return bad_request(f"the API version in the data ({api_version}) does not match {expected}")
    if resource.schema:
        cause = Cause("kind", f'Invalid value: "{kind}": must be {resource.kind}')
        return invalid(kind, group, name, [cause])
    if any((row.group, row.version, row.kind) == (group, version, kind) for row in RESOURCES):
        package = resource.group.partition(".")[0] or "core"
        why = f"converting ({version}.{kind}) to ({package}.{resource.kind}): unknown conversion"
    else:
        where = 'in scheme "pkg/runtime/scheme.go:111"'
        why = f'no kind "{kind}" is registered for version "{api_version}" {where}'
    text = f'{kind} in version "{version}" cannot be handled as a {resource.kind}: {why}'
    return bad_request(text)


class ResourceTable:
    """The rows of one server: those that every server has, and those of custom resources."""

    def __init__(self, custom: Iterable[ApiResource] = ()) -> None:
        known = {(row.group, row.version, row.plural): row for row in custom}
        self.by_plural: Mapping[tuple[str, str, str], ApiResource] = {**known, **BY_PLURAL}

    def group_versions(self) -> dict[str, list[str]]:
        """Groups with their versions, the preferred one first; the core group is `""`."""
        found: dict[str, list[str]] = {}
        for row in (*RESOURCES, *self.by_plural.values()):
            versions = found.setdefault(row.group, [])
            if row.version not in versions:
                versions.append(row.version)
        return found

    def rows(self, group: str, version: str) -> list[ApiResource]:
        """The rows of one group and version, by plural name."""
        rows = (
            row for row in self.by_plural.values() if (row.group, row.version) == (group, version)
        )
        return sorted(rows, key=lambda row: row.plural)


# Field of events.k8s.io/v1 -> field of the core group, which is the stored form.
_EVENT_FIELDS = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_CORE_FIELDS = {core: newer for newer, core in _EVENT_FIELDS.items()}


def stored_as_is(resource: ApiResource) -> bool:
    """Can stored bytes be handed out unchanged?"""
    return _stored_version(resource) == resource.api_version


def _stored_version(resource: ApiResource) -> str:
    return resource.stored_as or STORED_AS[resource.storage].api_version


def to_stored(resource: ApiResource, obj: Json) -> Json:
    """A client's object in the stored form."""
    if stored_as_is(resource):
        return obj
    if resource.storage == "events":
        obj = {_EVENT_FIELDS.get(name, name): value for name, value in obj.items()}
    return {**obj, "apiVersion": _stored_version(resource)}


def from_stored(resource: ApiResource, obj: Json) -> Json:
    """A stored object in the form the client speaks."""
    if stored_as_is(resource):
        return obj
    if resource.storage == "events":
        obj = {_CORE_FIELDS.get(name, name): value for name, value in obj.items()}
    return {**obj, "apiVersion": resource.api_version}
