"""Equal parts of different objects become one, so that replicas cost little memory.

Thousands of pods of one deployment have the same labels, owner, containers, tolerations and
conditions, and thousands of nodes the same images; the decoder makes each of them anew. Parts are
told apart by their encoded form. That is safe because nobody changes an object of the model.
"""

import sys
from typing import Any

import msgspec

from moorage.kube.recent import Recent
from moorage.model.meta import ApiObject
from moorage.model.node import ContainerImage, Node
from moorage.model.pod import Pod

PART_BYTES = 1 << 20
"""About how much memory parts of one kind may take beyond the life of the objects they are from."""

_METADATA = ("labels", "annotations", "owner_references", "finalizers")
_SPEC = (
    *("containers", "init_containers", "tolerations", "node_selector", "affinity"),
    *("topology_spread_constraints", "overhead"),
)
_STATUS = ("conditions", "container_statuses", "init_container_statuses")
_WORDS = ("node_name", "scheduler_name", "priority_class_name")

_set = msgspec.structs.force_setattr


class SharedParts:
    """The parts met so far."""

    def __init__(self) -> None:
        self._parts: dict[str, Recent[bytes, Any]] = {}
        self._images: Recent[ContainerImage, ContainerImage] = Recent(PART_BYTES, _image_length)
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
                parts = self._parts[name] = Recent(PART_BYTES, len)
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
