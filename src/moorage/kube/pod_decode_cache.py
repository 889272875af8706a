"""A cache of decoded pod parts: most of a pod's JSON has been decoded before.

Replicas have the same spec, and a pod's spec changes only by the node's name when it is bound. Such
parts are found by their bytes, and are neither decoded nor checked nor worked out again. Owns what
is cached and when bytes mean the same; `decoding` decodes everything else and adds it here.
tests/kube/test_pod_decode_cache.py compares both ways.
"""

import sys
from collections.abc import Mapping

import msgspec

from moorage.kube.interning import RecentCache
from moorage.model.meta import ObjectMeta
from moorage.model.pod import Pod, PodSpec, PodStatus

CACHE_BYTES = 1 << 20
"""About how much memory the forms of one part may take; unlike pods gain nothing by more."""
LONGEST_STATUS = 512
"""What waits for a node has a short status; a running pod's is like no other."""
_MOST_DERIVED = 8

_NODE = b'"nodeName":"'
_NODE_KEY = b'"nodeName"'


class _Meta(msgspec.Struct, rename="camel", gc=False):
    """The fields of `ObjectMeta`: one by one what is a pod's own, as bytes what replicas share."""

    name: str
    namespace: str
    uid: str
    resource_version: str
    generate_name: str = ""
    generation: int | None = None
    labels: msgspec.Raw = msgspec.Raw(b"{}")
    annotations: msgspec.Raw = msgspec.Raw(b"{}")
    owner_references: msgspec.Raw = msgspec.Raw(b"[]")
    finalizers: msgspec.Raw = msgspec.Raw(b"[]")
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


class PodText(msgspec.Struct, rename="camel", gc=False):
    """A pod whose larger parts are still bytes."""

    metadata: _Meta
    spec: msgspec.Raw
    status: msgspec.Raw = msgspec.Raw(b"{}")
    api_version: str = ""
    kind: str = ""


class _SpecNode(msgspec.Struct, rename="camel", gc=False):
    node_name: str = ""


class _CachedSpec:
    """A spec, whatever its node, and what follows from it in one namespace."""

    __slots__ = ("derived", "node_at", "spec")

    def __init__(self, spec: PodSpec) -> None:
        self.spec = spec
        self.node_at = -1
        """Where in the bytes the node's name is known to belong."""
        self.derived: dict[int, Mapping[str, object]] = {}
        """`Pod.derived` by the number of the status."""


class _CachedStatus(msgspec.Struct, frozen=True):
    status: PodStatus
    number: int
    """The same for statuses of equal content."""


_TEXTS = msgspec.json.Decoder(PodText)
_SPEC_NODES = msgspec.json.Decoder(_SpecNode)
_STATUSES = msgspec.json.Decoder(PodStatus)

_MetaKey = tuple[bytes, bytes, bytes, bytes]


def pod_text(data: msgspec.Raw) -> PodText | None:
    """A pod's JSON taken apart; None if it is not what an API server writes."""
    try:
        return _TEXTS.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


class PodDecodeCache:
    """The parts of pods met so far, by their bytes."""

    def __init__(self) -> None:
        # What follows from a spec takes as much again as the spec.
        self._specs: RecentCache[tuple[str, bytes], _CachedSpec] = RecentCache(
            2 * CACHE_BYTES, _spec_length
        )
        self._metas: RecentCache[_MetaKey, tuple[ObjectMeta, object]] = RecentCache(
            CACHE_BYTES, _meta_length
        )
        self._statuses: RecentCache[bytes, _CachedStatus] = RecentCache(CACHE_BYTES, len)
        self._contents: RecentCache[bytes, _CachedStatus] = RecentCache(CACHE_BYTES, len)
        self._numbers = 0
        self._encode = msgspec.json.Encoder().encode

    def __len__(self) -> int:
        return max(len(self._specs), len(self._metas), len(self._statuses), len(self._contents))

    def find(self, text: PodText) -> Pod | None:
        """The pod, if its parts are known; None: it is to be read as any other."""
        meta = text.metadata
        like = self._metas.get(_meta_key(meta))
        if like is None or not (meta.name and meta.namespace and text.kind):
            return None
        shared, label_set = like
        known = self._spec(meta.namespace, bytes(text.spec))
        if known is None:
            return None
        form, spec = known
        status = self._status(bytes(text.status))
        derived = None if status is None else form.derived.get(status.number)
        if status is None or derived is None:
            return None
        pod = Pod(
            metadata=_metadata(meta, shared),
            spec=spec,
            status=status.status,
            api_version=sys.intern(text.api_version),
            kind=sys.intern(text.kind),
        )
        pod.take_over(derived)
        pod.__dict__["label_set"] = label_set
        return pod

    def remember(self, text: PodText, pod: Pod) -> None:
        """What the text of a pod meant when all of it was read and found to be sound."""
        self._metas.put(_meta_key(text.metadata), (pod.metadata, pod.label_set))
        status = self._status(bytes(text.status))
        form = self._remembered_spec(pod, bytes(text.spec))
        if status is not None and form is not None:
            if len(form.derived) >= _MOST_DERIVED:
                form.derived.clear()
            form.derived[status.number] = pod.derived()

    def _spec(self, namespace: str, data: bytes) -> tuple[_CachedSpec, PodSpec] | None:
        """What is known of a spec: with the node's name cut out its bytes are those of another."""
        at = data.find(_NODE)
        if at < 0:
            form = self._specs.get((namespace, data))
            return None if form is None else (form, form.spec)
        name, base = _cut(data, at)
        form = self._specs.get((namespace, base))
        if form is None or "\\" in name:
            return None
        if form.node_at != at:
            # Elsewhere than before, so it may be a label's name: have the place looked at.
            if not _names_its_node(data, name):
                return None
            form.node_at = at
        return form, msgspec.structs.replace(form.spec, node_name=sys.intern(name))

    def _remembered_spec(self, pod: Pod, data: bytes) -> _CachedSpec | None:
        at = data.find(_NODE)
        if at < 0:
            if pod.spec.node_name:
                return None
            key = (pod.namespace, data)
        else:
            name, base = _cut(data, at)
            if name != pod.spec.node_name or not _names_its_node(data, name):
                return None
            key = (pod.namespace, base)
        form = self._specs.get(key)
        if form is None:
            spec = pod.spec
            if spec.node_name:
                spec = msgspec.structs.replace(spec, node_name="")
            form = _CachedSpec(spec)
            self._specs.put(key, form)
        if at >= 0:
            form.node_at = at
        return form

    def _status(self, data: bytes) -> _CachedStatus | None:
        form = self._statuses.get(data)
        if form is not None or len(data) > LONGEST_STATUS:
            return form
        try:
            status = _STATUSES.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        content = self._encode(status)
        form = self._contents.get(content)
        if form is None:
            self._numbers += 1
            form = _CachedStatus(status, self._numbers)
            self._contents.put(content, form)
        self._statuses.put(data, form)
        return form


def _meta_key(meta: _Meta) -> _MetaKey:
    return (
        bytes(meta.labels),
        bytes(meta.annotations),
        bytes(meta.owner_references),
        bytes(meta.finalizers),
    )


def _metadata(meta: _Meta, like: ObjectMeta) -> ObjectMeta:
    """A pod's metadata with the parts of one whose bytes were the same."""
    return ObjectMeta(
        name=meta.name,
        generate_name=meta.generate_name,
        namespace=sys.intern(meta.namespace),
        uid=meta.uid,
        resource_version=meta.resource_version,
        generation=meta.generation,
        labels=like.labels,
        annotations=like.annotations,
        owner_references=like.owner_references,
        finalizers=like.finalizers,
        creation_timestamp=meta.creation_timestamp,
        deletion_timestamp=meta.deletion_timestamp,
    )


def _cut(data: bytes, at: int) -> tuple[str, bytes]:
    """The string that follows a key, and the bytes without both."""
    start = at + len(_NODE)
    end = data.find(b'"', start)
    after = end + 2 if data[end + 1 : end + 2] == b"," else end + 1
    return data[start:end].decode("utf-8", "replace"), data[:at] + data[after:]


def _names_its_node(data: bytes, name: str) -> bool:
    """Is it the spec's own `nodeName` that stands where the only such key was found?

    A label may have that name too, and a backslash could spell the key in another way.
    """
    if b"\\" in data or data.count(_NODE_KEY) != 1:
        return False
    try:
        return _SPEC_NODES.decode(data).node_name == name
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False


def _meta_length(key: _MetaKey) -> int:
    return sum(map(len, key))


def _spec_length(key: tuple[str, bytes]) -> int:
    return 2 * len(key[1])
