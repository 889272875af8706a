"""The API of a cluster in files, as plugins reach it: what they write changes the world.

Objects of the model are shown as far as the model knows them, all others whole. There are no
versions, no subresources (their fields are written as any other) and nobody else who writes, so a
watch shows what there is and ends.
"""

from collections.abc import AsyncIterator, Iterable
from typing import Any, Protocol

import msgspec

from moorage.cluster.listers import Listers
from moorage.errors import ApiError, InputError
from moorage.framework.api_access import NO_LABELS, ApiClient, Kind, WatchEvent
from moorage.framework.plugin import ApiPort, Handle
from moorage.model.custom import CustomObject, custom_object, parse_resource_name
from moorage.model.decode import KINDS, UnknownKind, decode_object
from moorage.model.labels import Labels, selector_from_labels
from moorage.model.meta import ApiObject, Json, merge_patch
from moorage.model.node import Node
from moorage.model.pod import Pod

EVENTS = "events.v1.events.k8s.io"
_WITHOUT_A_TYPE = {
    "ConfigMap": "configmaps.v1.",
    "Event": EVENTS,
    "Lease": "leases.v1.coordination.k8s.io",
    "RuntimeClass": "runtimeclasses.v1.node.k8s.io",
}
"""Kinds that a live client knows by these words, too."""


class SimulatedCluster(Protocol):
    """What can be read and written."""

    handle: Handle

    def now(self) -> float:
        """Seconds since the epoch."""

    def objects(self, kind: type[ApiObject] | str) -> Iterable[ApiObject]:
        """All objects of a kind, or of a custom resource."""

    def find(self, kind: type[ApiObject] | str, name: str, namespace: str) -> ApiObject | None:
        """One object."""

    def put(self, obj: ApiObject, kind: type[ApiObject] | str) -> None:
        """An object was made or changed by a plugin."""

    def remove(self, obj: ApiObject, kind: type[ApiObject] | str) -> None:
        """An object was deleted by a plugin."""

    def placed(self, pod: Pod, node_name: str) -> None:
        """A pod was bound."""


class SimulatedClient(ApiClient):
    """`ApiClient` over a world."""

    def __init__(self, world: SimulatedCluster) -> None:
        self._world = world

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Json:
        """One object."""
        return as_json(self._find(kind, name, namespace))

    async def list(
        self, kind: Kind, namespace: str = "", *, labels: Labels = NO_LABELS
    ) -> list[Json]:
        """All objects."""
        selector = selector_from_labels(labels)
        return [
            as_json(obj)
            for obj in self._world.objects(_lister(kind))
            if namespace in ("", obj.namespace) and selector.matches(obj.labels)
        ]

    async def create(self, kind: Kind, body: Json, namespace: str = "") -> Json:
        """Make an object."""
        metadata = {**(body.get("metadata") or {}), "namespace": namespace}
        obj = _decoded(_lister(kind), {**body, "metadata": metadata})
        if self._world.find(_lister(kind), obj.name, namespace) is not None:
            raise ApiError(409, "AlreadyExists", f'{_named(kind)} "{obj.name}" already exists')
        self._world.put(obj, _lister(kind))
        return as_json(obj)

    async def patch(
        self, kind: Kind, name: str, body: Json, namespace: str = "", *, subresource: str = ""
    ) -> Json:
        """Change parts of an object."""
        del subresource
        obj = _decoded(_lister(kind), merge_patch(as_json(self._find(kind, name, namespace)), body))
        self._world.put(obj, _lister(kind))
        return as_json(obj)

    async def delete(self, kind: Kind, name: str, namespace: str = "") -> None:
        """Delete an object."""
        self._world.remove(self._find(kind, name, namespace), _lister(kind))

    async def watch(
        self, kind: Kind, namespace: str = "", *, labels: Labels = NO_LABELS
    ) -> AsyncIterator[WatchEvent]:
        """All objects; nothing changes while one looks."""
        for obj in await self.list(kind, namespace, labels=labels):
            yield WatchEvent("ADDED", obj)

    def _find(self, kind: Kind, name: str, namespace: str) -> ApiObject:
        found = self._world.find(_lister(kind), name, namespace)
        if found is None:
            raise ApiError(404, "NotFound", f'{_named(kind)} "{name}" not found')
        return found


class SimulatedPort(ApiPort):
    """`ApiPort` over a world, for binding plugins; what volumes and devices need is left out."""

    def __init__(self, world: SimulatedCluster) -> None:
        self._world = world

    async def bind(self, pod: Pod, node_name: str) -> None:
        """The pod counts on its node already."""

    def report(self, pod: Pod, reason: str, message: str) -> None:
        """Keep an event."""
        keep_event(
            self._world.handle.listers,
            pod,
            "Normal",
            reason,
            "Scheduling",
            message,
            controller=pod.spec.scheduler_name,
        )

    def node(self, name: str) -> Node | None:
        """A node."""
        found = self._world.find(Node, name, "")
        return found if isinstance(found, Node) else None

    def pod_exists(self, pod: Pod) -> bool:
        """Is there still a pod of this name?"""
        return self._world.find(Pod, pod.name, pod.namespace) is not None

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._world.now()

    async def sleep(self, seconds: float) -> None:
        """No time passes."""


def keep_event(
    listers: Listers,
    regarding: ApiObject,
    type_: str,
    reason: str,
    action: str,
    note: str,
    *,
    controller: str,
    related: ApiObject | None = None,
) -> None:
    """Keep an event, as an API server would."""
    events = listers.of(EVENTS)
    fields = {
        "type": type_,
        "reason": reason,
        "action": action,
        "note": note,
        "reportingController": controller,
    }
    events.put(_event_object(len(events) + 1, regarding, related, fields))


def _event_object(
    number: int, regarding: ApiObject, related: ApiObject | None, fields: Json
) -> CustomObject:
    """An event as an API server would store it."""
    namespace = regarding.namespace or "default"
    body = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{regarding.name}.{number}", "namespace": namespace},
        "regarding": _reference(regarding),
        **({} if related is None else {"related": _reference(related)}),
        **fields,
    }
    return custom_object(body)


def _reference(obj: ApiObject) -> Json:
    kind = obj.kind or type(obj).__name__
    found = {"kind": kind, "namespace": obj.namespace, "name": obj.name, "uid": obj.metadata.uid}
    return {name: text for name, text in found.items() if text}


def as_json(obj: ApiObject) -> Json:
    """An object as the API would show it."""
    if isinstance(obj, CustomObject):
        return obj.content
    known = KINDS[type(obj).__name__]
    version = f"{known.group}/{known.versions[0]}".lstrip("/")
    plain = _without_empty(msgspec.to_builtins(obj))
    return {**plain, "apiVersion": obj.api_version or version, "kind": known.name}


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        parts = {name: _without_empty(part) for name, part in value.items()}
        return {name: part for name, part in parts.items() if part not in (None, "", [], {})}
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return [_without_empty(part) for part in value]
    return value


def _decoded(lister: type[ApiObject] | str, body: Json) -> ApiObject:
    if isinstance(lister, str):
        return custom_object(body)
    found = decode_object(body, "")
    if isinstance(found, UnknownKind) or type(found) is not lister:
        raise ApiError(400, "BadRequest", f"the body is no {lister.__name__}")
    return found


def _lister(kind: Kind) -> type[ApiObject] | str:
    """What listers have a kind under."""
    if not isinstance(kind, str):
        return kind
    if kind in _WITHOUT_A_TYPE:
        return _WITHOUT_A_TYPE[kind]
    if kind in KINDS:
        return KINDS[kind].struct
    if parse_resource_name(kind) is None:
        raise InputError(
            f'"{kind}" is neither a kind that a scheduler knows nor <plural>.<version>.<group>'
        )
    return kind


def _named(kind: Kind) -> str:
    return kind if isinstance(kind, str) else kind.__name__
