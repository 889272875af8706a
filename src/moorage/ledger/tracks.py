"""A track: a sequence of alike attempts, written as the changes from one to the next.

Owns the columns of a running ledger as they were last, and the log of changes since the chunk
began. `framework.rankings` writes patches of its own into the log (a track's first columns are the
ranking's, in its order); everything else is compared with what is known and written by `update`.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moorage.framework.profile import Profile
from moorage.ledger.groups import Groups
from moorage.ledger.names import NameTable
from moorage.ledger.packing import CONSTANT, Packed, assign, narrow, pack
from moorage.ledger.records import (
    BULK,
    FILL,
    MOOD,
    TOLD,
    ZEROS,
    Blob,
    Bulk,
    ColumnSpec,
    Start,
    StatusWords,
    TrackRecord,
    Words,
    squeeze,
)

Array = NDArray[Any]
Content = Array | bytes | int
Sets = dict[tuple[int, int], tuple[bytes, Array]]

_FEW = 6
"""So many changed rows are written one by one."""
_FULL_SHARE = 4
_BASE_SHARE = 8
_BULK_BYTES = 250


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
    """One column of a track: what it is about, and what it says now."""

    __slots__ = (
        "base",
        "by_node",
        "data",
        "groups",
        "is_bytes",
        "mood",
        "now",
        "part",
        "place",
        "plugin",
        "reasons",
        "role",
        "stale",
        "statuses",
        "table",
        "weight",
    )

    def __init__(
        self, role: str, now: Array, plugin: str = "", place: int = 0, weight: int = 0
    ) -> None:
        self.role = role
        self.now = now
        self.plugin = plugin
        self.place = place
        self.weight = weight
        self.is_bytes = False
        """Do all its values fit into a byte, and does nobody but `update` write them?"""
        self.part: Array | None = None
        """What it says of the rows that the last update was about, if not of all."""
        self.data = b""
        """What the last update brought, if it is made of bytes."""
        self.groups: Groups | None = None
        """Rows that the last update told to be alike, and what each group was given ..."""
        self.table: Array = now[:0]
        self.stale = False
        """... which is still to be written into `now`."""
        self.mood = TOLD
        self.by_node = False
        self.reasons: list[Words] = []
        self.statuses: list[StatusWords] = []
        self.base: Base | None = None

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
        part = 0 if self.part is None else self.part.nbytes
        base = 0 if self.base is None else self.base.bytes
        return self.now.nbytes + len(self.data) + part + base


class Track:
    """The columns of alike attempts over the same nodes."""

    def __init__(
        self,
        profile: str,
        names: NameTable,
        columns: list[Column],
        *,
        short: bool,
        plugins: tuple[tuple[str, ...], tuple[str, ...]],
        patched: int = 0,
    ) -> None:
        self.profile = profile
        self.names = names
        self.columns = columns
        self.short = short
        self.plugins = plugins
        """All filters and all scorers, whether they have a column or not."""
        self.patched = patched
        """So many columns are changed by a ranking itself, which only writes the log."""
        self.log: list[int] = []
        """Column, row and value of each change, one after the other."""
        self.bulks: list[tuple[Array | None, Content]] = []
        self.bulk_bytes = 0
        self.chunk = -1
        """The chunk that the log belongs to."""
        self.starts: list[tuple[Base | None, int, Array, Array]] = []
        self._applied = 0
        self._has_parts = False
        self._sets: Sets = {}
        """Sets of rows that changed together in this chunk, by their first row and size."""

    @property
    def bytes(self) -> int:
        """How much memory it takes, the log left out."""
        return 2000 + sum(column.bytes for column in self.columns)

    # While attempts are made

    def enter(self, chunk: int, number: Callable[[], int]) -> None:
        """The first attempt in a chunk: note how the columns begin."""
        self.chunk = chunk
        for column in self.columns:
            self._settle(column)
        self.starts = [_start(column, number) for column in self.columns]

    def update(self, index: int, new: Array, rows: Array | None = None) -> None:
        """A column has these values now, in some rows or in all; takes what differs."""
        column = self.columns[index]
        if column.groups is not None:
            self._settle(column)
            column.groups = None
        now = known = column.now
        if column.is_bytes:
            # For bytes this is the quickest way to see that nothing is new.
            if new.dtype != now.dtype:
                new = new.astype(now.dtype)
            data = new.tobytes()
            if data == column.data:
                return
            column.data = data
            if rows is None and np.count_nonzero(now != new) > _FEW:
                # The whole is no larger than a list of rows, and it is there already.
                self._note_bulk(index, None, data, len(data))
                column.now, column.part = new.copy(), None
                return
        if rows is not None:
            part = column.part
            known = column.part = part if part is not None else now[rows]
            self._has_parts = True
        changed = (known != new).nonzero()[0]
        if len(changed) == 1:
            place = int(changed[0])
            row = place if rows is None else int(rows[place])
            value = int(new[place])
            self.log.extend((index, row, value))
            if rows is not None:
                known[place] = value
            self._store(column, new.dtype)[row] = value
        elif len(changed):
            self._update_rows(column, index, new, changed, rows)

    def update_groups(self, index: int, new: Array, groups: Groups) -> None:
        """The same for all rows, where those of a group are alike."""
        column = self.columns[index]
        table = new[groups.first]
        if column.groups is not groups:
            self.update(index, new)
            column.groups, column.table = groups, table
            return
        changed = (table != column.table).nonzero()[0]
        if not len(changed):
            return
        column.table, column.stale = table, True
        for place in changed.tolist():
            rows = groups.rows[place]
            key, size = (int(rows[0]), len(rows)), 0
            if key not in self._sets:
                self._sets[key] = (rows.tobytes(), rows)
                size = 2 * rows.nbytes
            self._note_bulk(index, rows, int(table[place]), size)

    def _settle(self, column: Column) -> None:
        """Write what groups were given into their rows."""
        groups = column.groups
        if groups is not None and column.stale:
            column.stale = False
            values = column.table[groups.place]
            column.now = values.astype(column.now.dtype) if column.is_bytes else values
            column.part, column.data = None, b""

    def _update_rows(
        self, column: Column, index: int, new: Array, changed: Array, rows: Array | None
    ) -> None:
        values = new[changed]
        where = changed if rows is None else rows[changed]
        if len(changed) <= _FEW:
            for row, value in zip(where.tolist(), values.tolist(), strict=True):
                self.log.extend((index, row, int(value)))
        elif rows is None and len(changed) * _FULL_SHARE > len(new):
            whole = narrow(new)
            self._note_bulk(index, None, whole, whole.nbytes)
        else:
            self._note_rows(index, where, values)
        if rows is not None and column.part is not None:
            column.part[changed] = values
        else:
            column.part = None
        self._store(column, new.dtype)[where] = values

    def _note_rows(self, index: int, where: Array, values: Array) -> None:
        """Many rows changed; often it is a set that did so before, to one value for all."""
        key, data, size = (int(where[0]), len(where)), where.tobytes(), 0
        known = self._sets.get(key)
        if known is not None and known[0] == data:
            where = known[1]
        else:
            self._sets[key] = (data, where)
            size = 2 * len(data)
        first = int(values[0])
        if np.count_nonzero(values == first) == len(values):
            self._note_bulk(index, where, first, size)
        else:
            self._note_bulk(index, where, values, size + values.nbytes)

    def _note_bulk(self, index: int, rows: Array | None, values: Content, size: int) -> None:
        self.log.extend((index, BULK, len(self.bulks)))
        self.bulks.append((rows, values))
        self.bulk_bytes += _BULK_BYTES + size

    def _store(self, column: Column, dtype: np.dtype[Any]) -> Array:
        """Where the column's values are, wide enough for others."""
        if column.now.dtype.itemsize < dtype.itemsize:
            column.now = column.now.astype(dtype)
        return column.now

    def forget_parts(self) -> None:
        """The next update is about other rows than the last one."""
        if self._has_parts:
            self._has_parts = False
            for column in self.columns:
                if column.part is not None:
                    column.part, column.data = None, b""

    def fill(self, index: int, value: int) -> None:
        """All rows of a column have one value now."""
        column = self.columns[index]
        column.groups, column.stale = None, False
        column.now.fill(value)
        column.part, column.data = None, b""
        self.log.extend((index, FILL, value))

    def set_mood(self, index: int, mood: int) -> None:
        """What the column as a whole says."""
        column = self.columns[index]
        if column.mood != mood:
            column.mood = mood
            self.log.extend((index, MOOD, mood))

    def catch_up(self) -> None:
        """Take over what a ranking wrote into the log since the last time."""
        log = self.log
        if not self.patched or self._applied == len(log):
            return
        fresh = np.array(log[self._applied :], np.int64).reshape(-1, 3)
        for index in range(self.patched):
            mine = fresh[(fresh[:, 0] == index) & (fresh[:, 1] >= 0)]
            if len(mine):
                column = self.columns[index]
                values = mine[:, 2]
                if np.iinfo(column.now.dtype).max < int(values.max()):
                    column.now = column.now.astype(np.int64)
                assign(column.now, mine[:, 1], values)
        self._applied = len(log)

    @property
    def is_wanted(self) -> bool:
        """Is there still somebody whose attempts it is for?"""
        return True

    def close(self) -> None:
        """It is given up; the next attempt of its kind begins another."""

    # When a chunk ends

    def find_words(self) -> None:
        """Complete what was noted in a hurry."""

    def reset(self) -> None:
        """Begin with what is known now."""
        self.catch_up()
        self.log.clear()
        self._applied = 0
        self.bulks, self.bulk_bytes, self.starts, self.chunk = [], 0, [], -1
        self._sets = {}


def _start(column: Column, number: Callable[[], int]) -> tuple[Base | None, int, Array, Array]:
    now, base = column.now, column.base
    known: Any = 0 if base is None else base.values
    rows = (now != known).nonzero()[0]
    if len(rows) * _BASE_SHARE > len(now):
        base = column.base = Base(number(), narrow(now))
        rows = rows[:0]
    return base, column.mood, narrow(rows), narrow(now[rows])


def plugins_of(profile: Profile) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The Filter and the Score plugins of a profile, in their order."""
    return (
        tuple(plugin.name for plugin in profile.filter),
        tuple(plugin.name for plugin in profile.score),
    )


class Part:
    """A track's part of a chunk that is over, to be written when there is time."""

    def __init__(self, track: Track) -> None:
        track.catch_up()
        self.chunk = track.chunk
        self._profile = track.profile
        self._names = track.names
        self._short = track.short
        self._plugins = track.plugins
        self._size = len(track.names.names)
        self._columns = tuple(column.spec for column in track.columns)
        self._starts = track.starts
        self.log = np.array(track.log, np.int64).reshape(-1, 3)
        self._bulks = track.bulks
        self._bulk_bytes = track.bulk_bytes

    @property
    def bytes(self) -> int:
        """How much memory it takes."""
        starts = sum(rows.nbytes + values.nbytes for _, _, rows, values in self._starts)
        return self.log.nbytes + self._bulk_bytes + starts

    def blobs(self) -> Iterator[Blob]:
        """All that is needed to read it."""
        yield from self._names.written()
        for base, _, _, _ in self._starts:
            if base is not None:
                yield base.written()

    def written(self) -> TrackRecord:
        """The record."""
        sets: dict[bytes, int] = {}
        bulks = []
        for rows, values in self._bulks:
            place = -1
            if rows is not None:
                place = sets.setdefault(rows.astype(np.int64, copy=False).tobytes(), len(sets))
            if isinstance(values, int):
                assert rows is not None, "one value for all rows is written as FILL"
                bulks.append(Bulk(place, Packed(CONSTANT, len(rows), values)))
            elif isinstance(values, bytes):
                bulks.append(Bulk(place, Packed("u1", len(values), 0, values)))
            else:
                bulks.append(Bulk(place, pack(values)))
        return TrackRecord(
            self._profile,
            self._names.number,
            self._size,
            self._short,
            *self._plugins,
            self._columns,
            tuple(
                Start(ZEROS if base is None else base.number, mood, pack(rows), pack(values))
                for base, mood, rows, values in self._starts
            ),
            (pack(self.log[:, 0]), pack(self.log[:, 1]), pack(self.log[:, 2])),
            tuple(bulks),
            tuple(pack(np.frombuffer(rows, np.int64)) for rows in sets),
        )
