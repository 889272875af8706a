"""A track's columns as they were when one decision was made.

Owns the reader's half of the format: blobs become arrays, the log is followed up to a position.
`ValueError` means that the records contradict each other.
"""

from collections.abc import Callable, Iterator
from itertools import accumulate

import msgspec
import numpy as np
from numpy.typing import NDArray

from moorage.framework.scores import Scale, Way
from moorage.ledger.packing import Array, Packed, assign, pack, scaled, unpack
from moorage.ledger.records import (
    BULK,
    FILL,
    FIRST_SET,
    MOOD,
    RAW,
    SCALE,
    TABLE,
    ZEROS,
    Blob,
    Bulk,
    ColumnSpec,
    Names,
    Start,
    Tables,
    TrackRecord,
    expand,
)

Values = NDArray[np.int64]
FindBlob = Callable[[int], Blob]
_MOST_NODES = 2**20


class Rebuilt(msgspec.Struct, frozen=True):
    """What one column said."""

    spec: ColumnSpec
    mood: int
    values: Values


def node_names(number: int, find: FindBlob) -> tuple[str, ...]:
    """The nodes' names by row."""
    blob = find(number)
    told = expand(blob.body, Names)
    if blob.base == ZEROS:
        if len(told.names) != told.size:
            raise ValueError("a list of names of another size than it says")
        return told.names
    if blob.base >= number:
        raise ValueError("a list of names that builds on a later one")
    _check_size(told.size)
    names = [*node_names(blob.base, find)[: told.size]]
    names += [""] * (told.size - len(names))
    rows = unpack(told.rows).tolist()
    for row, name in zip(rows, told.names, strict=True):
        names[_checked(row, told.size)] = name
    return tuple(names)


def columns_at(track: TrackRecord, position: int, find: FindBlob) -> tuple[Rebuilt, ...]:
    """All columns after so many changes."""
    columns, rows, values = (unpack(packed)[:position] for packed in track.log)
    if not len(columns) == len(rows) == len(values) or len(track.starts) != len(track.columns):
        raise ValueError("a track whose parts have different lengths")
    _check_size(track.size)
    sets = _Sets(track)
    found: list[Rebuilt] = []
    raw: dict[str, Values] = {}
    for index, (spec, start) in enumerate(zip(track.columns, track.starts, strict=True)):
        mine = columns == index
        column = _Column(_begin(start, track.size, find), start.mood, sets)
        column.follow(rows[mine].astype(np.int64), values[mine].astype(np.int64))
        if spec.role == RAW:
            raw[spec.plugin] = column.values
        elif column.scale is not None:
            if spec.plugin not in raw:
                raise ValueError("scores that follow from others which are not there")
            column.values = scaled(column.scale, raw[spec.plugin])
        found.append(Rebuilt(spec, column.mood, column.values))
    return tuple(found)


def _check_size(size: int) -> None:
    """A damaged file must not make us ask for more memory than there is."""
    if not 0 <= size <= _MOST_NODES:
        raise ValueError(f"a list of {size} nodes")


def _begin(start: Start, size: int, find: FindBlob) -> Values:
    values = np.zeros(size, np.int64)
    if start.blob != ZEROS:
        packed = unpack(expand(find(start.blob).body, Packed))
        if len(packed) != size:
            raise ValueError("a column of another size than its track")
        values[:] = packed
    rows = unpack(start.rows)
    if len(rows):
        values[_all_checked(rows, size)] = unpack(start.values)
    return values


class _Sets:
    """What changes of many rows refer to."""

    def __init__(self, track: TrackRecord) -> None:
        self._bulks = track.bulks
        self._sets = tuple(map(unpack, track.sets))
        for rows in self._sets:
            if len(rows):
                _all_checked(rows, track.size)
        tables = track.tables or Tables((), pack(np.zeros(0)), pack(np.zeros(0)))
        self._heads = [unpack(head).tolist() for head in tables.heads]
        self._kinds = [_checked(kind, len(self._heads)) for kind in unpack(tables.kinds).tolist()]
        self._values = unpack(tables.values).tolist()
        self._ends = list(accumulate(len(self._heads[kind]) for kind in self._kinds))
        if (self._ends or [0])[-1] != len(self._values):
            raise ValueError("tables of another size than their heads say")

    def bulk(self, number: int) -> Bulk:
        """New values of many rows."""
        return self._bulks[_checked(number, len(self._bulks))]

    def rows(self, number: int) -> Array:
        """The rows of a set."""
        return self._sets[_checked(number, len(self._sets))]

    def table(self, number: int) -> Iterator[tuple[int, int]]:
        """Sets, and the value of each."""
        head = self._heads[self._kinds[_checked(number, len(self._kinds))]]
        end = self._ends[number]
        return zip(head, self._values[end - len(head) : end], strict=True)


class _Column:
    def __init__(self, values: Values, mood: int, sets: "_Sets") -> None:
        self.values = values
        self.mood = mood
        self.scale: Scale | None = None
        """The values follow from the raw scores, and how."""
        self._sets = sets

    def follow(self, rows: Values, values: Values) -> None:
        """Make changes one after the other; runs of single rows at once."""
        begin = 0
        for at in np.flatnonzero(rows < 0).tolist():
            self._assign(rows[begin:at], values[begin:at])
            self._follow_one(int(rows[at]), int(values[at]))
            begin = at + 1
        self._assign(rows[begin:], values[begin:])

    def _follow_one(self, what: int, value: int) -> None:
        if what == MOOD:
            self.mood = value
        elif what == FILL:
            self.values[:] = value
            self.scale = None
        elif what == BULK:
            bulk = self._sets.bulk(value)
            if bulk.rows == SCALE:
                self.scale = _scale(unpack(bulk.values).tolist())
            elif bulk.rows < 0:
                self.values[:] = unpack(bulk.values)
                self.scale = None
            else:
                self._assign(self._sets.rows(bulk.rows), unpack(bulk.values))
        elif what == TABLE:
            for number, one in self._sets.table(value):
                self.values[self._sets.rows(number)] = one
        else:
            self.values[self._sets.rows(FIRST_SET - what)] = value

    def _assign(self, rows: NDArray[np.integer], values: NDArray[np.integer]) -> None:
        if len(rows):
            assign(self.values, _all_checked(rows, len(self.values)), values)


def _scale(numbers: list[int]) -> Scale:
    way, low, high = numbers
    return Scale(Way(way), low, high)


def _checked(number: int, size: int) -> int:
    if not 0 <= number < size:
        raise ValueError(f"row {number} of {size}")
    return number


def _all_checked(rows: NDArray[np.integer], size: int) -> NDArray[np.integer]:
    _checked(int(rows.min()), size)
    _checked(int(rows.max()), size)
    return rows
