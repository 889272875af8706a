"""What plugins told in short while pods were decided, and the changes it comes to.

Owns the order in which both belong. An answer is only noted when it comes, as whatever is done
between two decisions costs far more than the same done for many answers in a row. `write` makes
changes of them: before a chunk ends, and before a column is compared with numbers again.
"""

from typing import Any

import numpy as np

from moorage.framework.scores import Scale
from moorage.ledger.bulks import Bulks
from moorage.ledger.column import Column
from moorage.ledger.held import Array
from moorage.ledger.records import BULK, TABLE

_FIELDS = 4
_FIELD_BYTES = 40


class Answers(list[Any]):
    """The answers of a chunk, four fields each, one after the other: no object is made for one.

    The fields: how long the track's log was then; the column, of refusals or of raw scores; what
    it was told, see below; how the raw scores are normalised, or None if that was not told.

    What a column was told is either the table of its domains as bytes, or how much of its patches
    holds, or None if its numbers were compared.
    """

    __slots__ = ("_changes", "_ends", "_places", "_written")

    def __init__(self) -> None:
        super().__init__()
        self._written = 0
        self._changes: list[int] = []
        """Column, row and value of each change, as in the track's log, ..."""
        self._places: list[int] = []
        """... before which one of the log it belongs, ..."""
        self._ends: list[int] = []
        """... and how many there are after each answer."""

    @property
    def held_bytes(self) -> int:
        """About how much memory they take; tables that are not written yet are left out."""
        return _FIELD_BYTES * (len(self) + len(self._changes) + len(self._places))

    @property
    def unwritten(self) -> int:
        """How many are not written."""
        return (len(self) - self._written) // _FIELDS

    @property
    def changes(self) -> int:
        """About how many changes they come to."""
        return self.unwritten + len(self._places)

    def write(self, bulks: Bulks) -> None:
        """Make changes of the answers that came since the last time."""
        places, ends, end = self._places, self._ends, len(self._places)
        fresh = iter(self[self._written :])
        for length, column, told, scale in zip(fresh, fresh, fresh, fresh, strict=True):
            before = end
            if type(told) is int:
                end += self._take_patches(column, told)
            elif told is not None and told != column.told:
                end += self._take_table(column, told, bulks)
            if scale is not None and scale != column.normalized.scale:
                end += self._take_scale(column.normalized, scale, bulks)
            ends.append(end)
            if end != before:
                places += [length // 3] * (end - before)
        self._written = len(self)

    # Each of these says how many changes it made.

    def _take_patches(self, column: Column, length: int) -> int:
        index, patches, cells = column.index, column.patches, column.held.cells
        assert patches is not None, "only patches that are followed are told by their length"
        seen, changes = column.patches_seen, self._changes
        for at in range(seen, length, 2):
            row, value = patches[at], patches[at + 1]
            changes += (index, row, value)
            cells[row] = value
        column.patches_seen = length
        return (length - seen) // 2

    def _take_table(self, column: Column, told: bytes, bulks: Bulks) -> int:
        domains = column.domains
        assert domains is not None, "only domains that are followed are told by a table"
        column.told, column.stale = told, True
        self._changes += (column.index, TABLE, bulks.table(domains, told))
        return 1

    def _take_scale(self, column: Column, scale: Scale, bulks: Bulks) -> int:
        if column.scale is None:
            column.follow_domains(None)
            column.filled = None
        column.scale = scale
        self._changes += (column.index, BULK, bulks.scale(scale))
        return 1

    def position(self, logged: int, answered: int) -> int:
        """How many changes there were when the log and the answers had so many fields."""
        answers = answered // _FIELDS
        return logged // 3 + (self._ends[answers - 1] if answers else 0)

    def merged(self, log: Array) -> Array:
        """A track's log, a row for each change, with the changes of the answers in their places."""
        if not self._places:
            return log
        mine = np.array(self._changes, np.int64).reshape(-1, 3)
        return np.insert(log, self._places, mine, axis=0)
