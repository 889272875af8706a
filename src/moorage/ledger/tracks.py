"""A track: a sequence of alike attempts, written as the changes from one to the next.

Owns the columns of a running ledger as they were last, and the log of changes since the chunk
began. `framework.rankings` writes patches of its own into the log (a track's first columns are the
ranking's, in its order); everything else is compared with what is known and written by `update`.
"""

from collections.abc import Callable, Sequence
from operator import attrgetter

import numpy as np

from moorage.cluster.stamps import Change
from moorage.framework.profile import Profile
from moorage.ledger.answers import Answers
from moorage.ledger.bulks import Bulks
from moorage.ledger.column import Base, Column
from moorage.ledger.held import Array, Held
from moorage.ledger.names import NameTable
from moorage.ledger.packing import assign, narrow
from moorage.ledger.records import (
    ALL,
    BULK,
    FILL,
    FIRST_SET,
    MOOD,
)

_FEW = 6
"""So many changed rows are written one by one."""
_MOST_PATTERNS = 16
_FULL_SHARE = 4
_BASE_SHARE = 8

_NO_ROWS = np.zeros(0, np.uint8)
_growth = attrgetter("growth")

Pattern = bytes
"""A column of bytes as a whole."""


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
        for index, column in enumerate(columns):
            column.index = index
        self.short = short
        self.plugins = plugins
        """All filters and all scorers, whether they have a column or not."""
        self.patched = patched
        """So many columns are changed by a ranking itself, which only writes the log."""
        self.log: list[int] = []
        """Column, row and value of each change, one after the other."""
        self.bulks = Bulks()
        """What changes refer to."""
        self.answers = Answers()
        """What was told in short."""
        self.chunk = -1
        """The chunk that the log belongs to."""
        self.starts: list[tuple[Base | None, int, Array, Array]] = []
        self.likely: Sequence[Change] = ()
        """What may have changed since the last attempt: a guess that saves looking at all rows."""
        self._applied = 0
        self._logged: Array | None = None
        self._has_parts = False
        self._patterns: dict[int, list[tuple[int, Pattern]]] = {}
        """By column, the bulks of all rows that were noted last."""

    @property
    def bytes(self) -> int:
        """How much memory it takes, the log left out."""
        return 2000 + sum(column.bytes for column in self.columns)

    @property
    def chunk_bytes(self) -> int:
        """How much memory this chunk has cost, the log left out."""
        growth: int = sum(map(_growth, self.columns))
        return self.bulks.bytes + self.answers.held_bytes + growth

    # While attempts are made

    def enter(self, chunk: int, number: Callable[[], int]) -> None:
        """The first attempt in a chunk: note how the columns begin."""
        self.chunk = self.bulks.chunk = chunk
        for column in self.columns:
            column.settle()
        self.starts = [_start(column, number) for column in self.columns]
        for column in self.columns:
            if column.scale is not None:
                self.log.extend((column.index, BULK, self.bulks.scale(column.scale)))

    def update(self, index: int, new: Array, rows: Array | None = None) -> None:
        """A column has these values now, in some rows or in all; takes what differs."""
        column = self.columns[index]
        column.filled = column.patches = None
        if column.domains is not None or column.scale is not None:
            self._leave_short_forms(index)
        if column.held.dtype is not new.dtype:
            column.widen(new.dtype)
        known, cells = column.held, new.data
        if rows is None:
            column.part = None
            for row, _ in self.likely:
                if cells[row] != known.cells[row]:
                    self._take_row(index, row, int(cells[row]))
        else:
            known = self._part(column, new, rows)
            self._look_at_likely(index, cells, rows, known)
        if known.bytes == cells and (known.dtype is new.dtype or known.dtype == new.dtype):
            return
        changed = (known.values != new).nonzero()[0]
        if len(changed):
            values = known.values[changed] = new[changed]
            self._take_changed(index, new, rows, changed, values)

    def _part(self, column: Column, new: Array, rows: Array) -> Held:
        """What a column says of some rows; they are the same until `forget_parts`."""
        if column.part is None:
            column.part = Held(column.now[rows].astype(new.dtype))
            column.growth += column.part.values.nbytes
            self._has_parts = True
        return column.part

    def _look_at_likely(
        self, index: int, cells: "memoryview[int]", rows: Array, known: Held
    ) -> None:
        """Take what differs in the rows that are likely to have changed."""
        for row, _ in self.likely:
            place = int(rows.searchsorted(row))
            if place < len(rows) and rows[place] == row and cells[place] != known.cells[place]:
                known.values[place] = cells[place]
                self._take_row(index, row, int(cells[place]))

    def _take_row(self, index: int, row: int, value: int) -> None:
        log = self.log
        log += (index, row, value)
        self.columns[index].held.cells[row] = value

    def _take_changed(
        self, index: int, new: Array, rows: Array | None, changed: Array, values: Array
    ) -> None:
        column = self.columns[index]
        where = changed if rows is None else rows[changed]
        if len(changed) <= _FEW:
            for row, value in zip(where.tolist(), values.tolist(), strict=True):
                self._take_row(index, row, int(value))
            return
        if rows is None and column.is_bytes:
            # The whole is no larger than a list of rows.
            self._note_bulk(index, ALL, new.astype(np.uint8))
        elif rows is None and len(changed) * _FULL_SHARE > len(new):
            self._note_bulk(index, ALL, narrow(new))
        else:
            self._note_rows(index, where, values)
        column.now[where] = values

    def update_refused(self, index: int, refused: Array) -> bool:
        """All rows of a live filter's column; has it changed?"""
        known, cells, before = self.columns[index].held, refused.data, len(self.log)
        for row, _ in self.likely:
            if cells[row] != known.cells[row]:
                self._take_row(index, row, int(cells[row]))
        same_type = known.dtype is refused.dtype or known.dtype == refused.dtype
        if known.bytes != cells or not same_type:
            changed = known.values != refused
            if np.count_nonzero(changed) > _FEW:
                known.values[:] = refused
                self._note_pattern(index, bytes(known.bytes))
            else:
                for row in changed.nonzero()[0].tolist():
                    self._take_row(index, row, int(refused[row]))
        return len(self.log) != before

    def _note_pattern(self, index: int, pattern: Pattern) -> None:
        """A whole column of bytes; often as it was not long ago: domains fill up and empty."""
        seen = self._patterns.setdefault(index, [])
        for number, known in seen:
            if known == pattern:
                self.log.extend((index, BULK, number))
                return
        if len(seen) >= _MOST_PATTERNS:
            del seen[0]
        seen.append((len(self.bulks.values), pattern))
        self._note_bulk(index, ALL, np.frombuffer(pattern, np.uint8))

    def _leave_short_forms(self, index: int) -> None:
        """From now on a column is told row by row."""
        column = self.columns[index]
        column.follow_domains(None)
        if column.scale is not None:
            column.scale = None
            # What follows from another column ends with a whole one: readers need not look back.
            self._note_bulk(index, ALL, narrow(column.now))

    def _note_rows(self, index: int, where: Array, values: Array) -> None:
        """Many rows changed; often to one value for all."""
        number, first = self.bulks.set_of(narrow(where)), int(values[0])
        if np.count_nonzero(values == first) == len(values):
            self.log.extend((index, FIRST_SET - number, first))
        else:
            self._note_bulk(index, number, narrow(values))

    def _note_bulk(self, index: int, number: int, values: Array) -> None:
        self.log.extend((index, BULK, self.bulks.add(number, values)))

    def write_answers(self) -> None:
        """What was told in short becomes changes, and columns are as they were told."""
        if self.answers.unwritten:
            self.answers.write(self.bulks)

    def forget_parts(self) -> None:
        """The next update is about other rows than the last one."""
        if self._has_parts:
            self._has_parts = False
            for column in self.columns:
                column.part = None

    def fill(self, index: int, value: int) -> None:
        """All rows of a column have one value now."""
        column = self.columns[index]
        if column.filled == value:
            return
        column.domains, column.stale, column.part = None, False, None
        column.filled, column.scale = value, None
        column.now.fill(value)
        self.log.extend((index, FILL, value))

    def set_mood(self, column: Column, mood: int) -> None:
        """What the column as a whole says."""
        if column.mood != mood:
            column.mood = mood
            self.log.extend((column.index, MOOD, mood))

    def catch_up(self) -> None:
        """Take over what a ranking wrote into the log since the last time."""
        log = self.log
        if not self.patched or self._applied == len(log):
            return
        fresh = self.logged()[self._applied // 3 :]
        for index in range(self.patched):
            mine = fresh[(fresh[:, 0] == index) & (fresh[:, 1] >= 0)]
            if len(mine):
                column = self.columns[index]
                column.make_room(mine[:, 2])
                assign(column.now, mine[:, 1], mine[:, 2])
        self._applied = len(log)

    def logged(self) -> Array:
        """The log, a row for each change."""
        if self._logged is None or self._logged.size != len(self.log):
            self._logged = np.array(self.log, np.int64).reshape(-1, 3)
        return self._logged

    @property
    def is_wanted(self) -> bool:
        """Is there still somebody whose attempts it is for?"""
        return True

    def close(self) -> None:
        """It is given up; the next attempt of its kind begins another."""
        # Columns refer to one another: apart they are freed at once, not by the garbage collector.
        for column in self.columns:
            column.raw = column.normalized = None
        self.columns = []

    # When a chunk ends

    def settle(self) -> None:
        """Complete what was noted in a hurry."""
        self.write_answers()
        self.answers.clear()
        self.catch_up()

    def reset(self) -> None:
        """Begin with what is known now."""
        self.catch_up()
        self.log.clear()
        self._applied, self._logged = 0, None
        self.bulks, self.answers = Bulks(), Answers()
        self.starts, self.chunk = [], -1
        self._patterns = {}
        for column in self.columns:
            column.growth = 0


def _start(column: Column, number: Callable[[], int]) -> tuple[Base | None, int, Array, Array]:
    now, base = column.now, column.base
    if base is None and not now.any():
        return None, column.mood, _NO_ROWS, _NO_ROWS
    rows = (now != (0 if base is None else base.values)).nonzero()[0]
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
