"""ObjectMeta: what every API object carries and a scheduler reads."""

from typing import Annotated, Any

import msgspec

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""Numbers as wide as Go's: columns have no room for others."""


class Object(msgspec.Struct, frozen=True, rename="camel", kw_only=True, gc=False):
    """Base of every API type here: frozen, camelCase on the wire, unknown fields skipped.

    Frozen values decoded from JSON form no cycles, so the garbage collector need not look at them.
    """


class OwnerReference(Object, frozen=True):
    """Who created an object; the controller among them decides default spreading."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(Object, frozen=True):
    """Name, labels and life-cycle marks of an object."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: Int64 | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None

    def controller(self) -> OwnerReference | None:
        """The owner reference marked as controller, if there is one."""
        return next((ref for ref in self.owner_references if ref.controller), None)


class ApiObject(Object, frozen=True, dict=True, gc=True):
    """An object with metadata; `dict=True` lets derived values be cached on it."""

    metadata: ObjectMeta = ObjectMeta()
    api_version: str = ""
    kind: str = ""

    @property
    def name(self) -> str:
        """`metadata.name`."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """`metadata.namespace`."""
        return self.metadata.namespace

    @property
    def labels(self) -> dict[str, str]:
        """`metadata.labels`."""
        return self.metadata.labels

    @property
    def key(self) -> str:
        """`namespace/name`, or just the name of a cluster-scoped object."""
        meta = self.metadata
        return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


Json = dict[str, Any]
