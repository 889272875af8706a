"""The nodes' names by row, in versions: another one with every node that comes or goes.

A version is written as its difference from an earlier one while that is small, so that nodes that
come one by one do not cost a list of all of them each.
"""

from collections.abc import Sequence
from operator import ne

import numpy as np

from moorage.ledger.packing import pack
from moorage.ledger.records import ZEROS, Blob, Names, squeeze

_FULL_SHARE = 8


class NameTable:
    """One version; it becomes a blob when it is first written."""

    __slots__ = ("_base", "_blobs", "names", "number")

    def __init__(self, number: int, names: Sequence[str], base: "NameTable | None" = None) -> None:
        self.number = number
        """The number of its blob."""
        self.names = names
        self._base = base
        self._blobs: tuple[Blob, ...] | None = None

    @property
    def whole(self) -> "NameTable":
        """The version that the next ones are to be compared with."""
        return self if self._base is None else self._base

    def written(self) -> tuple[Blob, ...]:
        """Its blob, after the one that is needed to read it."""
        if self._blobs is None:
            self._blobs = self._write()
        return self._blobs

    def _write(self) -> tuple[Blob, ...]:
        names, size = self.names, len(self.names)
        if self._base is not None:
            before = self._base.names
            common = min(size, len(before))
            rows = np.flatnonzero(np.fromiter(map(ne, names, before), np.bool_, common))
            changed = np.concatenate([rows, np.arange(common, size)])
            if len(changed) * _FULL_SHARE <= size:
                told = tuple(names[row] for row in changed.tolist())
                body = squeeze(Names(size, pack(changed), told))
                base = self._base.written()
                return (*base, Blob(self.number, "names", body, self._base.number))
            self._base = None
        body = squeeze(Names(size, pack(np.zeros(0, np.int64)), tuple(names)))
        return (Blob(self.number, "names", body, ZEROS),)
