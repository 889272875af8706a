"""One column of a track: what it is about, and what it says now.

Owns the values that were told last, held so that they are quick to compare with new ones.
"""

from typing import Any

import numpy as np

from moorage.framework.scores import Patches, Scale
from moorage.ledger.domains import Domains
from moorage.ledger.held import Array, Held
from moorage.ledger.packing import pack, scaled
from moorage.ledger.records import TOLD, Blob, ColumnSpec, StatusWords, Words, squeeze

_OBJECT_BYTES = 900
"""What a column takes apart from its values: the objects around them."""


class Base:
    """A column as it was once: a blob in the making."""

    __slots__ = ("_blob", "number", "values")

    def __init__(self, number: int, values: Array) -> None:
        self.number = number
        self.values = values
        self._blob: Blob | None = None

    @property
    def bytes(self) -> int:
        """How much memory it takes."""
        return self.values.nbytes + (0 if self._blob is None else len(self._blob.body))

    def written(self) -> Blob:
        """The blob."""
        if self._blob is None:
            self._blob = Blob(self.number, "column", squeeze(pack(self.values)))
        return self._blob


class Column:
    """One column of a track."""

    __slots__ = (
        "base",
        "by_node",
        "digest",
        "domains",
        "filled",
        "growth",
        "held",
        "index",
        "is_bytes",
        "mood",
        "normalized",
        "part",
        "patches",
        "patches_seen",
        "place",
        "plugin",
        "raw",
        "reasons",
        "role",
        "scale",
        "source",
        "stale",
        "statuses",
        "told",
        "weight",
    )

    def __init__(
        self, role: str, now: Array, plugin: str = "", place: int = 0, weight: int = 0
    ) -> None:
        self.role = role
        self.index = -1
        """Its place in its track."""
        self.held = Held(now)
        self.plugin = plugin
        self.place = place
        self.weight = weight
        self.is_bytes = False
        """Are all its values sure to fit into a byte?"""
        self.growth = 0
        """How many bytes more it has come to take in this chunk."""
        self.part: Held | None = None
        """What it says of the rows that the last update was about, if not of all."""
        self.domains: Domains | None = None
        """The domains by which it was told last, if it was ..."""
        self.told = b""
        """... and what they were given: all rows of a domain have its value ..."""
        self.stale = False
        """... which is still to be written into `now`."""
        self.filled: int | None = None
        """What all rows have, if they were last told so."""
        self.source: Array | None = None
        """The refusals that it was told last, if nobody may write to them."""
        self.digest: type | None = None
        """The type of the states by which it was told in short."""
        self.patches: Patches | None = None
        """What the plugin itself says has changed, if that is being followed ..."""
        self.patches_seen = 0
        """... and how much of it is in `now`."""
        self.normalized: Column | None = None
        """What becomes of its scores, if they are raw."""
        self.raw: Column | None = None
        """The raw scores that its own were made of, if it is known how ..."""
        self.scale: Scale | None = None
        """... which is so: what it says follows from them, and is still to be written."""
        self.mood = TOLD
        self.by_node = False
        self.reasons: list[Words] = []
        self.statuses: list[StatusWords] = []
        self.base: Base | None = None

    @property
    def now(self) -> Array:
        """What it says now; to be written to."""
        return self.held.values

    def widen(self, dtype: np.dtype[Any]) -> None:
        """Make room for values of this type."""
        if self.now.dtype.itemsize < dtype.itemsize:
            self.growth -= self.now.nbytes
            self.held = Held(self.now.astype(dtype))
            self.growth += self.now.nbytes

    def make_room(self, values: Array) -> None:
        """Make room for these whole numbers."""
        bounds = np.iinfo(self.now.dtype)
        if len(values) and not bounds.min <= values.min() <= values.max() <= bounds.max:
            self.widen(np.dtype(np.int64))

    def follow_domains(self, domains: Domains | None) -> None:
        """From now on it is told by these domains, or row by row."""
        self.settle()
        self.domains, self.told, self.part = domains, b"", None

    def follow_patches(self, patches: Patches | None) -> None:
        """It is up to date now; a plugin will say what changes."""
        self.patches, self.patches_seen = patches, len(patches or ())

    def settle(self) -> None:
        """Write into `now` what was told in short."""
        if self.raw is not None and self.scale is not None:
            self.raw.settle()
            self.now[:] = scaled(self.scale, self.raw.now)
        if self.domains is None or not self.stale:
            return
        self.stale = False
        values = np.frombuffer(self.told, np.int64)
        self.make_room(values)
        for rows, value in zip(self.domains.rows, values.tolist(), strict=True):
            self.now[rows] = value

    @property
    def spec(self) -> ColumnSpec:
        """What it is about, as it is written."""
        return ColumnSpec(
            self.role,
            self.plugin,
            self.place,
            self.weight,
            tuple(self.reasons),
            tuple(self.statuses),
            self.by_node,
        )

    @property
    def bytes(self) -> int:
        """How much memory it takes."""
        part = 0 if self.part is None else self.part.values.nbytes
        base = 0 if self.base is None else self.base.bytes
        source = 0 if self.source is None else self.source.nbytes
        return _OBJECT_BYTES + self.now.nbytes + part + base + source
