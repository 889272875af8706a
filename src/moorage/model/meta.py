"""What all API objects have in common: plain JSON, metadata, and properties worked out once.

Owns the one limit to the nesting of whatever a person or a client hands over (files, request
bodies, results of patches), so that recursive code can walk it.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from functools import cached_property

    cached = cached_property
else:

    class cached:  # noqa: N801  # used as a decorator, like `property`
        """A property that is computed at most once; the object needs a `__dict__`.

        `functools.cached_property` does the same behind a lock, which costs more than most of what
        is kept; objects of the model are never shared between threads.
        """

        def __init__(self, compute: Callable[[Any], Any]) -> None:
            self._compute = compute
            self.__doc__ = compute.__doc__

        def __get__(self, obj: object | None, owner: type) -> Any:
            """Only asked while the object has no value of its own under this name."""
            if obj is None:
                return self
            value = obj.__dict__[self._compute.__name__] = self._compute(obj)
            return value


Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""Numbers as wide as Go's: columns have no room for others."""


class Object(msgspec.Struct, frozen=True, rename="camel", kw_only=True, gc=False):
    """Base of every API type here: frozen, camelCase on the wire, unknown fields skipped.

    Frozen values decoded from JSON form no cycles, so the garbage collector need not look at them.
    """


class Condition(Object, frozen=True):
    """A condition of an object's status; nodes keep less of theirs (`moorage.model.node`)."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


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


DEEPEST = 200
"""Levels of nesting with all YAML aliases written out; real objects have about twenty."""


def is_too_deep(value: Any) -> bool:
    """Has a JSON value more levels of maps and lists than `DEEPEST`? Looks without recursion."""
    level = [value]
    for _ in range(DEEPEST + 1):
        level = [
            item
            for container in level
            if isinstance(container, (dict, list))
            for item in (container.values() if isinstance(container, dict) else container)
            if isinstance(item, (dict, list))
        ]
        if not level:
            return False
    return True


def merge_patch(document: Any, patch: Any) -> Any:
    """A JSON merge patch (RFC 7386) applied: members take the place of old ones, null removes."""
    if not isinstance(patch, dict):
        return patch
    result = dict(document) if isinstance(document, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge_patch(result.get(name), value)
    return result
