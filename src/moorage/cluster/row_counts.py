"""How many of something each node row has, and each topology domain.

Most selectors match a handful of pods, so the rows that have any are listed; a column over all rows
takes their place when they are many. Owns both forms and the sums per domain. What is counted is
for others to know.
"""

from collections.abc import Mapping

import numpy as np

from moorage.cluster.coded import CodedStore
from moorage.cluster.columns import Bools, Column, Ints, RowSpace
from moorage.cluster.stamps import Aspect, Stamps

MOST_LISTED = 64
"""More rows than these are not listed but have a column."""
_NO_ROWS: Mapping[int, int] = {}


class LabelDomains:
    """The domains of a topology key: the values of a label that nodes have."""

    def __init__(self, store: CodedStore[str | None], stamps: Stamps) -> None:
        self.store = store
        self._stamps = stamps
        self._as_of = -1
        self._exist: Bools = np.zeros(0, np.bool_)

    @property
    def changed(self) -> int:
        """The generation in which a node last entered or left a domain."""
        return max(self._stamps.latest(Aspect.LABELS), self._stamps.latest(Aspect.MEMBERSHIP))

    @property
    def generation(self) -> int:
        """The generation of the cluster's state."""
        return self._stamps.generation

    @property
    def exist(self) -> Bools:
        """Which codes some node has; code 0 if there is a node without the label."""
        if self._as_of < self.changed:
            codes, size = self.store.codes, len(self.store.vocabulary)
            self._exist = np.bincount(codes, minlength=size) > 0
            self._exist.flags.writeable = False
            self._as_of = self.generation
        return self._exist


class RowCounts:
    """Counts by row; rows without any count nothing."""

    __slots__ = ("_column", "_listed", "_space", "_sums")

    def __init__(self, space: RowSpace) -> None:
        self._space = space
        self._listed: dict[int, int] = {}
        self._column: Column[np.int64] | None = None
        self._sums: dict[LabelDomains, DomainSums] = {}
        """For the labels that somebody asked for."""

    @property
    def listed(self) -> Mapping[int, int] | None:
        """The rows that have any, and how many; None if they are too many to be listed."""
        return self._listed if self._column is None else None

    @property
    def values(self) -> Ints:
        """One count per row; not to be written to."""
        if self._column is not None:
            return self._column.values
        values: Ints = np.zeros(self._space.size, np.int64)
        cells = values.data
        for row, count in self._listed.items():
            cells[row] = count
        values.flags.writeable = False
        return values

    def add(self, row: int, change: int) -> None:
        """The count of a row changed."""
        if self._column is not None:
            self._column.cells[row] += change
            for sums in self._sums.values():
                sums.add(row, change)
            return
        listed = self._listed
        count = listed.get(row, 0) + change
        if count:
            listed[row] = count
            if len(listed) > MOST_LISTED:
                self._use_column(self.values)
        else:
            listed.pop(row, None)

    def add_all(self, other: "RowCounts") -> None:
        """Count what another one counts, too."""
        if other._column is None:
            for row, count in other._listed.items():
                self.add(row, count)
        else:
            self._use_column(self.values + other.values)

    def move_row(self, moved: int, row: int) -> None:
        """A row has another number now; columns follow by themselves."""
        count = self._listed.pop(moved, 0)
        if count:
            self._listed[row] = count

    def drop(self) -> None:
        """Nobody will ask any more."""
        self._sums = {}  # they point back here
        if self._column is not None:
            self._space.drop(self._column)
            self._column = None

    def per_domain(self, domains: LabelDomains) -> "DomainSums":
        """The counts summed up over the values of a label."""
        sums = self._sums.get(domains)
        if sums is None:
            self._sums = {key: old for key, old in self._sums.items() if not old.dropped}
            sums = self._sums[domains] = DomainSums(self, domains)
        return sums

    def _use_column(self, values: Ints) -> None:
        if self._column is None:
            self._column = self._space.column(np.int64)
            self._listed = {}
        self._column.data[: self._space.size] = values
        for sums in self._sums.values():
            sums.forget()


class DomainSums:
    """Counts summed up per code of a label; code 0 stands for nodes without the label.

    Where the rows are listed so are the domains. Otherwise the sums are carried on row by row, and
    made anew when nodes come, go or change their labels.
    """

    __slots__ = ("_as_of", "_cells", "_counts", "_sums", "domains")

    def __init__(self, counts: RowCounts, domains: LabelDomains) -> None:
        self._counts = counts
        self.domains = domains
        self.forget()

    def forget(self) -> None:
        """Work the sums out anew when they are next asked for."""
        self._as_of = -1
        self._sums: Ints = np.zeros(0, np.int64)
        self._cells = self._sums.data

    @property
    def dropped(self) -> bool:
        """Is the label's column gone? Then nobody can ask for these sums any more."""
        return self.domains.store.dropped

    def add(self, row: int, change: int) -> None:
        """The count of a row changed."""
        if self.dropped:
            return
        code = self.domains.store.cells[row]
        if code < len(self._cells):  # if not, the labels changed and all is summed up anew
            self._cells[code] += change

    @property
    def sums(self) -> Ints:
        """One sum per code; a copy, as it goes on changing."""
        listed = self._counts.listed
        if listed is None:
            self._refresh()
            return self._sums.copy()
        store = self.domains.store
        sums: Ints = np.zeros(len(store.vocabulary), np.int64)
        cells, codes = sums.data, store.cells
        for row, count in listed.items():
            cells[codes[row]] += count
        return sums

    @property
    def nothing(self) -> bool:
        """Does it show without a look at the sums that all of them are 0?"""
        return self._counts.listed == _NO_ROWS

    @property
    def inside(self) -> Ints | None:
        """The sums of the domains, of which code 0 is none; None if all of them are 0."""
        if self.nothing:
            return None
        sums = self.sums
        sums[0] = 0
        return sums if sums[sums.argmax()] else None

    @property
    def exist(self) -> Bools:
        """Which codes some node has; code 0 if there is a node without the label."""
        return self.domains.exist

    def _refresh(self) -> None:
        if self._as_of >= self.domains.changed:
            return
        store = self.domains.store
        weights = self._counts.values
        summed = np.bincount(store.codes, weights=weights, minlength=len(store.vocabulary))
        self._sums = summed.astype(np.int64)
        self._cells = self._sums.data
        self._as_of = self.domains.generation
