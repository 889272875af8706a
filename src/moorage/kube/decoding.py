"""From the bytes of a list or a watch to objects of the model; bad objects stay harmless.

Owns how lines and objects are decoded, and which errors skip one object: whatever it contains, and
whatever a handler makes of it (`store`), an error concerns this object alone. `SkippedObjects` is
the one place that decides that and logs it. Keeps no objects and emits no events.
"""

import logging
import re
from collections.abc import AsyncIterator, Callable, Container
from typing import Any

import msgspec

from moorage.cluster.attached_volumes import weight_of
from moorage.config.pod_level import Adjust
from moorage.errors import ApiError, CorruptStateError, DecodeError, MoorageError, reason_of
from moorage.kube import deep_json
from moorage.kube.client import Read, status_error
from moorage.kube.extender_messages import keep_source
from moorage.kube.interning import InternedParts
from moorage.kube.pod_decode_cache import PodDecodeCache, pod_text
from moorage.kube.resources import Resource
from moorage.model.custom import CustomObject, custom_object
from moorage.model.decode import decode_json, decode_plain, describe, sentence
from moorage.model.meta import ApiObject
from moorage.model.node import Node
from moorage.model.pod import Pod

log = logging.getLogger(__name__)

MOST_NAMED = 4096
"""Remembered so that the log names each once; beyond that the oldest are forgotten."""
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class LineBuffer:
    """Pieces in, complete lines out."""

    def __init__(self) -> None:
        self._tail: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this piece completes."""
        first, found, rest = chunk.partition(b"\n")
        self._tail.append(first)
        if not found:
            return []
        lines = [b"".join(self._tail), *rest.split(b"\n")]
        self._tail = [lines.pop()]
        return [line for line in lines if line]


class SkippedObjects:
    """Keys of objects (`namespace/name`), each with the reason why it is skipped."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._reasons: dict[str, str] = {}

    def __len__(self) -> int:
        """How many are skipped at the moment."""
        return len(self._reasons)

    def skip(self, key: str, error: Exception) -> None:
        """Note that an object is left out, and log it unless the last reason was the same.

        A `CorruptStateError` is raised again: it is not the fault of one object.
        """
        if isinstance(error, CorruptStateError):
            raise error
        reason = reason_of(error)
        if self._reasons.get(key) == reason:
            return
        if len(self._reasons) >= MOST_NAMED and key not in self._reasons:
            del self._reasons[next(iter(self._reasons))]
        self._reasons[key] = reason
        namespace, _, name = key.rpartition("/")
        subject = describe(self._kind, namespace, name)
        log.error("skipped %s", reason if subject in reason else f"{subject}: {reason}")
        if not isinstance(error, MoorageError):
            log.debug("why %s was skipped", subject, exc_info=error)

    def clear(self, key: str) -> None:
        """The object is fine now, or gone."""
        self._reasons.pop(key, None)

    def keep(self, existing: Container[str]) -> None:
        """Forget the objects that do not exist any more."""
        for key in [key for key in self._reasons if key not in existing]:
            del self._reasons[key]


class _LooseMeta(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class Outline(msgspec.Struct):
    """Just enough of an object to say which it is, and of a bookmark to say where it stands."""

    metadata: _LooseMeta = msgspec.field(default_factory=_LooseMeta)


class Malformed(msgspec.Struct, frozen=True):
    """An object that cannot be read; its key is "" when not even that can."""

    key: str
    resource_version: str


class Envelope(msgspec.Struct):
    """One line of a watch."""

    type: str
    object: msgspec.Raw = msgspec.Raw(b"null")


_ENVELOPES = msgspec.json.Decoder(Envelope)
_OUTLINES = msgspec.json.Decoder(Outline)
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

# As API servers write an event; what stands in the object's place does not matter here.
_EVENT = re.compile(rb'\s*\{\s*"type"\s*:\s*"(\w+)"\s*,\s*"object"\s*:(.*)\}\s*', re.DOTALL)
_NAMED = re.compile(rb'"(name|namespace|resourceVersion)"\s*:\s*"([^"\\]*)"')


def envelope(line: bytes) -> Envelope | None:
    """A line of a watch; None if it is not one."""
    try:
        return _ENVELOPES.decode(line)
    except _UNREADABLE:
        found = _EVENT.fullmatch(line)
        return None if found is None else Envelope(found[1].decode(), msgspec.Raw(found[2]))


async def watch_events(read: Read) -> AsyncIterator[Envelope]:
    """The events of a watch until it ends; `ApiError` for what is no event, or reports an error."""
    buffer = LineBuffer()
    while piece := await read():
        for line in buffer.feed(piece):
            event = envelope(line)
            if event is None:
                text = f"a line of the watch is not an event: {line[:80]!r}"
                raise ApiError(0, "Unreadable", text)
            if event.type == "ERROR":
                raise status_error(bytes(event.object), otherwise="the watch ended with an error")
            yield event


def outline(data: msgspec.Raw | bytes) -> Outline:
    """The outline of an object, empty where it cannot be had."""
    try:
        return _OUTLINES.decode(data)
    except _UNREADABLE:
        text = bytes(data).decode("utf-8", "replace").encode()
    try:
        content = deep_json.decode(text)
        found = content.get("metadata") if isinstance(content, dict) else None
        fields = found if isinstance(found, dict) else {}
    except msgspec.DecodeError:
        # Not even JSON: the first fields of these names are the object's own, if any are.
        _, _, rest = text.partition(b'"metadata"')
        fields = {m[1].decode(): m[2].decode() for m in reversed([*_NAMED.finditer(rest)])}
    name, namespace, version = map(_string, map(fields.get, _NAMES))
    return Outline(_LooseMeta(name, namespace, version))


_NAMES = ("name", "namespace", "resourceVersion")


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""


class ObjectReader:
    """Reads objects of one resource; what cannot be read is logged with its name."""

    def __init__(
        self,
        resource: Resource,
        needs_source: Callable[[ApiObject], bool] | None = None,
        *,
        adjust: Adjust | None = None,
        interning: bool = True,
        skipped: SkippedObjects | None = None,
    ) -> None:
        self._resource = resource
        self._needs_source = needs_source
        self._adjust = adjust
        self._parts = InternedParts() if interning else None
        # What is adjusted is not what the bytes say; that takes a gate which is off.
        cacheable = interning and adjust is None and resource.struct is Pod
        self._cache = PodDecodeCache() if cacheable else None
        self.skipped = SkippedObjects(resource.kind) if skipped is None else skipped

    def read(self, data: msgspec.Raw) -> ApiObject | Malformed:
        """The object, or what is left of one that means nothing."""
        try:
            return self._decode(data)
        except Exception as error:
            meta = outline(data).metadata
            key = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
            self.skipped.skip(key, error)
            return Malformed(key, meta.resource_version)

    def _decode(self, data: msgspec.Raw) -> ApiObject:
        decoded = self._whole(data) if self._cache is None else self._pod(self._cache, data)
        if self._needs_source is not None and self._needs_source(decoded):
            keep_source(decoded, data)
        return decoded

    def _pod(self, cache: PodDecodeCache, data: msgspec.Raw) -> ApiObject:
        """A pod, put together from parts that were met before if possible."""
        text = pod_text(data)
        if text is None:
            return self._whole(data)
        known = cache.find(text)
        if known is not None:
            return known
        decoded = self._whole(data)
        assert isinstance(decoded, Pod), "pods were asked for"
        cache.remember(text, decoded)
        return decoded

    def _whole(self, data: msgspec.Raw) -> ApiObject:
        """An object of any kind, decoded and checked from the beginning to the end."""
        struct = self._resource.struct
        assert struct is not None, self._resource
        decoded: ApiObject
        if struct is CustomObject:
            decoded = custom_object(_parsed(data))
        else:
            try:
                decoded = decode_json(struct, bytes(data))
            except RecursionError:
                decoded = decode_plain(struct, _parsed(data))
        if not decoded.metadata.name:
            raise DecodeError("metadata.name: a name is required")
        if self._adjust is not None and isinstance(decoded, Pod):
            decoded = self._adjust(decoded)
        if self._parts is not None:
            self._parts.share(decoded)
        _derive(decoded)
        return decoded


def _parsed(data: msgspec.Raw) -> Any:
    try:
        return deep_json.decode(data)
    except msgspec.DecodeError as error:
        raise DecodeError(f"this is not JSON: {error}") from None


def _derive(obj: ApiObject) -> None:
    """Compute now what the cluster state will ask of the object anyway.

    Quantities and selectors are parsed when first needed; a bad one is to be met here, where the
    object can be skipped, and not inside a scheduling cycle.
    """
    try:
        if isinstance(obj, Pod):
            _ = obj.derived(), obj.label_set, [weight_of(volume) for volume in obj.spec.volumes]
            if min(obj.requests.occupied.values(), default=0) < 0:
                raise DecodeError("spec: a request must not be negative")
        elif isinstance(obj, Node):
            _ = obj.allocatable
    except (ValueError, DecodeError) as error:
        subject = describe(type(obj).__name__, obj.namespace, obj.name)
        raise DecodeError(sentence(subject, str(error))) from None
