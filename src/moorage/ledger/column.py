"""One column of a track: what it is about, and what it says now.

Owns the values that were told last, held so that they are quick to compare with new ones.
"""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from moorage.ledger.groups import Sample
from moorage.ledger.held import Array, Held
from moorage.ledger.packing import pack
from moorage.ledger.records import TOLD, Blob, ColumnSpec, StatusWords, Words, squeeze


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
        "filled",
        "growth",
        "held",
        "is_bytes",
        "mood",
        "part",
        "patches",
        "patches_seen",
        "place",
        "plugin",
        "reasons",
        "role",
        "sample",
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
        self.sample: Sample | None = None
        """The groups by which it was told last, if it was ..."""
        self.told = b""
        """... and what they were given: all rows of a group have its value ..."""
        self.stale = False
        """... which is still to be written into `now`."""
        self.filled: int | None = None
        """What all rows have, if they were last told so."""
        self.source: Array | None = None
        """The refusals that it was told last."""
        self.patches: Sequence[int] | None = None
        """The list of changed rows that came with what was told last, if one did ..."""
        self.patches_seen = 0
        """... how much of it is in `now` ..."""
        self.scale: Hashable = None
        """... and how raw scores became those of this column, if it has such."""
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

    def follow_groups(self, sample: Sample | None) -> None:
        """From now on it is told by these groups, or row by row."""
        self.settle()
        self.sample, self.told, self.part = sample, b"", None

    def settle(self) -> None:
        """Write what groups were given into their rows."""
        if self.sample is None or not self.stale:
            return
        self.stale = False
        values = np.frombuffer(self.told, np.int64)
        self.make_room(values)
        for rows, value in zip(self.sample.rows, values.tolist(), strict=True):
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
        return self.now.nbytes + part + base + source
