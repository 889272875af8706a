"""Container images on nodes, inverted: name -> the rows that have it, and its size.

The size of an image is the one reported by the node that first reported the name, as upstream
keeps it; it is forgotten when no node has the image any more.
"""

from collections.abc import Iterable

import msgspec

from moorage.model.node import ContainerImage


class ImageState(msgspec.Struct):
    """One image name."""

    size: int
    rows: set[int]


class Images:
    """Image names over all nodes."""

    def __init__(self) -> None:
        self._states: dict[str, ImageState] = {}

    def __len__(self) -> int:
        """How many names there are."""
        return len(self._states)

    def add(self, row: int, images: Iterable[ContainerImage]) -> None:
        """A node reports its images."""
        for image in images:
            for name in image.names:
                state = self._states.get(name)
                if state is None:
                    state = self._states[name] = ImageState(image.size_bytes, set())
                state.rows.add(row)

    def remove(self, row: int, images: Iterable[ContainerImage]) -> None:
        """A node no longer has these images."""
        for image in images:
            for name in image.names:
                state = self._states.get(name)
                if state is not None:
                    state.rows.discard(row)
                    if not state.rows:
                        del self._states[name]

    def move_row(self, old: int, new: int) -> None:
        """The node of row `old` now stands in row `new`."""
        for state in self._states.values():
            if old in state.rows:
                state.rows.discard(old)
                state.rows.add(new)

    def find(self, name: str) -> ImageState | None:
        """Who has an image?"""
        return self._states.get(name)
