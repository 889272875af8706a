"""From the API's JSON to objects of the model, one decoder per kind; bad objects stay harmless.

Owns what is skipped and how it is called in the log. Keeps no objects and emits no events: that is
the store's part.
"""

import logging
from collections.abc import Callable

import msgspec

from moorage.errors import DecodeError
from moorage.framework.pod_level import Adjust
from moorage.kube.extender_messages import keep_source
from moorage.kube.pod_forms import PodForms, pod_text
from moorage.kube.resources import CustomObject, Resource
from moorage.kube.sharing import SharedParts
from moorage.model.decode import decode_json, describe, sentence
from moorage.model.meta import ApiObject, ObjectMeta
from moorage.model.node import Node
from moorage.model.pod import Pod

log = logging.getLogger(__name__)

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


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
    object: msgspec.Raw


_ENVELOPES = msgspec.json.Decoder(Envelope)
_OUTLINES = msgspec.json.Decoder(Outline)


def envelope(line: bytes) -> Envelope | None:
    """A line of a watch; None if it is not one."""
    try:
        return _ENVELOPES.decode(line)
    except msgspec.DecodeError:
        return None


def outline(data: msgspec.Raw | bytes) -> Outline:
    """The outline of an object, empty where it cannot be had."""
    try:
        return _OUTLINES.decode(data)
    except msgspec.DecodeError:
        return Outline()


class ObjectReader:
    """Reads objects of one resource; what cannot be read is logged with its name."""

    def __init__(
        self,
        resource: Resource,
        needs_source: Callable[[ApiObject], bool] | None = None,
        *,
        adjust: Adjust | None = None,
        sharing: bool = True,
    ) -> None:
        self._resource = resource
        self._needs_source = needs_source
        self._adjust = adjust
        self._parts = SharedParts() if sharing else None
        # What is adjusted is not what the bytes say; that takes a gate which is off.
        shortly = sharing and adjust is None and resource.struct is Pod
        self._forms = PodForms() if shortly else None
        self.skipped = 0

    def read(self, data: msgspec.Raw) -> ApiObject | Malformed:
        """The object, or what is left of one that means nothing."""
        try:
            return self._decode(data)
        except DecodeError as error:
            self.skipped += 1
            meta = outline(data).metadata
            subject = describe(self._resource.kind, meta.namespace, meta.name)
            text = str(error)
            log.error("skipped %s", text if subject in text else f"{subject}: {text}")
            key = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
            return Malformed(key, meta.resource_version)

    def _decode(self, data: msgspec.Raw) -> ApiObject:
        decoded = self._whole(data) if self._forms is None else self._pod(self._forms, data)
        if self._needs_source is not None and self._needs_source(decoded):
            keep_source(decoded, data)
        return decoded

    def _pod(self, forms: PodForms, data: msgspec.Raw) -> ApiObject:
        """A pod, put together from parts that were met before if possible."""
        text = pod_text(data)
        if text is None:
            return self._whole(data)
        known = forms.find(text)
        if known is not None:
            return known
        decoded = self._whole(data)
        assert isinstance(decoded, Pod), "pods were asked for"
        forms.remember(text, decoded)
        return decoded

    def _whole(self, data: msgspec.Raw) -> ApiObject:
        """An object of any kind, decoded and checked from the beginning to the end."""
        struct = self._resource.struct
        assert struct is not None, self._resource
        custom = struct is CustomObject
        decoded: ApiObject = _custom(data) if custom else decode_json(struct, bytes(data))
        if not decoded.metadata.name:
            raise DecodeError("metadata.name: a name is required")
        if self._adjust is not None and isinstance(decoded, Pod):
            decoded = self._adjust(decoded)
        if self._parts is not None:
            self._parts.share(decoded)
        _derive(decoded)
        return decoded


def _custom(data: msgspec.Raw) -> CustomObject:
    try:
        content = msgspec.json.decode(data)
        if not isinstance(content, dict):
            raise DecodeError("an object is a mapping")
        plain = {k: v for k, v in (content.get("metadata") or {}).items() if v is not None}
        metadata = msgspec.convert(plain, ObjectMeta)
    except (msgspec.DecodeError, AttributeError) as error:
        raise DecodeError(str(error)) from None
    return CustomObject(
        metadata=metadata,
        api_version=str(content.get("apiVersion") or ""),
        kind=str(content.get("kind") or ""),
        content=content,
    )


def _derive(obj: ApiObject) -> None:
    """Compute now what the cluster state will ask of the object anyway.

    Quantities and selectors are parsed when first needed; a bad one is to be met here, where the
    object can be skipped, and not inside a scheduling cycle.
    """
    try:
        if isinstance(obj, Pod):
            _ = obj.requests, obj.affinity_terms, obj.required_nodes
        elif isinstance(obj, Node):
            _ = obj.allocatable
    except (ValueError, DecodeError) as error:
        subject = describe(type(obj).__name__, obj.namespace, obj.name)
        raise DecodeError(sentence(subject, str(error))) from None
