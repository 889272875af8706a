"""Equal parts of different objects become one object, so that replicas cost little memory.

Thousands of pods of one deployment have the same labels, owner, containers, tolerations and
conditions, and thousands of nodes have the same images; the decoder makes each of them anew. Parts
are compared by their encoded form. That is safe because nobody changes an object of the model.
"""

import sys
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

import msgspec

from moorage.model.meta import ApiObject
from moorage.model.node import ContainerImage, Node
from moorage.model.pod import Pod

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_DECODED = 4
"""A decoded value takes about so many times the bytes of its JSON."""
_ENTRY_BYTES = 400
PART_BYTES = 1 << 19
"""About how much memory parts of one kind may take beyond the life of the objects they are from."""

_METADATA = ("labels", "annotations", "owner_references", "finalizers")
_SPEC = (
    *("containers", "init_containers", "tolerations", "node_selector", "affinity"),
    *("topology_spread_constraints", "overhead"),
)
_STATUS = ("conditions", "container_statuses", "init_container_statuses")
_WORDS = ("node_name", "scheduler_name", "priority_class_name")

_set = msgspec.structs.force_setattr


class RecentCache(Generic[K, V]):
    """Values by key; `length` gives the bytes of JSON that a key stands for."""

    def __init__(self, limit_bytes: int, length: Callable[[K], int]) -> None:
        self._limit = limit_bytes // 2
        self._length = length
        self._newer: dict[K, V] = {}
        self._older: dict[K, V] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._newer) + len(self._older)

    def get(self, key: K) -> V | None:
        """The value, if it is cached."""
        found = self._newer.get(key)
        if found is None:
            found = self._older.pop(key, None)
            if found is not None:
                self.put(key, found)
        return found

    def put(self, key: K, value: V) -> None:
        """Cache a value."""
        if key in self._newer:
            self._newer[key] = value
            return
        cost = _ENTRY_BYTES + (1 + _DECODED) * self._length(key)
        if self._bytes + cost > self._limit:
            self._older, self._newer, self._bytes = self._newer, {}, 0
            if cost > self._limit:
                return
        self._newer[key] = value
        self._bytes += cost


class InternedParts:
    """The parts met so far."""

    def __init__(self) -> None:
        self._parts: dict[str, RecentCache[bytes, Any]] = {}
        self._images: RecentCache[ContainerImage, ContainerImage] = RecentCache(
            PART_BYTES, _image_length
        )
        self._encode = msgspec.json.Encoder().encode

    def __len__(self) -> int:
        return sum(map(len, self._parts.values())) + len(self._images)

    def share(self, obj: ApiObject) -> None:
        """Replace parts of an object that was just decoded by equal ones met before."""
        if isinstance(obj, Pod):
            self._replace(obj.metadata, _METADATA)
            self._replace(obj.spec, _SPEC)
            self._replace(obj.status, _STATUS)
            _intern(obj.metadata, ("namespace",))
            _intern(obj.spec, _WORDS)
        elif isinstance(obj, Node):
            self._replace(obj.status, ("capacity", "allocatable", "conditions"))
            self._share_images(obj)
            _intern(obj.metadata, ("name",))  # pods are bound to it by this name

    def _replace(self, owner: msgspec.Struct, names: tuple[str, ...]) -> None:
        for name in names:
            part = getattr(owner, name)
            if not part:
                continue
            parts = self._parts.get(name)
            if parts is None:
                parts = self._parts[name] = RecentCache(PART_BYTES, len)
            key = self._encode(part)
            known = parts.get(key)
            if known is None:
                parts.put(key, part)
            else:
                _set(owner, name, known)

    def _share_images(self, node: Node) -> None:
        images = node.status.images
        if not images:
            return
        _set(node.status, "images", tuple(map(self._shared_image, images)))

    def _shared_image(self, image: ContainerImage) -> ContainerImage:
        known = self._images.get(image)
        if known is None:
            self._images.put(image, image)
        return known or image


def _image_length(image: ContainerImage) -> int:
    return sum(map(len, image.names))


def _intern(owner: msgspec.Struct, names: tuple[str, ...]) -> None:
    for name in names:
        text = getattr(owner, name)
        if text:
            _set(owner, name, sys.intern(text))
