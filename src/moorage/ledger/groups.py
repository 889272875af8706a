"""Rows that a plugin scores alike, so that one look per group tells what has changed.

Owns the groups of one moment; `tracks` keeps what each of them was last given.
"""

import numpy as np

from moorage.ledger.held import Array
from moorage.ledger.packing import narrow

_MOST_GROUPS = 64
"""With more, a look at every row is not much dearer than one at every group."""


class Groups:
    """The rows of a cluster by group."""

    __slots__ = ("_place", "as_of", "rows")

    def __init__(self, codes: Array, as_of: int = -1) -> None:
        """`codes` has one number per row, equal ones for those of a group."""
        self.as_of = as_of
        """The generation of the cluster in which they became what they are."""
        sizes = np.bincount(codes)
        found = sizes.nonzero()[0]
        self.rows: list[Array] = []
        """The rows of each group; none at all if there are too many groups."""
        if len(found) <= _MOST_GROUPS:
            self.rows = [narrow((codes == code).nonzero()[0]) for code in found]
            places = np.zeros(len(sizes), np.uint8)
            places[found] = np.arange(len(found))
            self._place = places[codes]
            """Of each row its group."""

    @property
    def bytes(self) -> int:
        """How much memory it takes."""
        return sum(rows.nbytes + len(rows) for rows in self.rows)

    def sample(self, rows: Array | None) -> "Sample":
        """A row of each group, among these or among all."""
        if rows is None:
            firsts = [int(each[0]) for each in self.rows]
            return Sample(self, self.rows, np.array(firsts, np.intp))
        found = np.full(len(self.rows), -1, np.intp)
        # Which of a group's rows it becomes does not matter.
        found[self._place[rows]] = np.arange(len(rows))
        present = (found >= 0).nonzero()[0]
        return Sample(self, [self.rows[group] for group in present], found[present])


class Sample:
    """One row of every group that has one among the rows that were scored."""

    __slots__ = ("chunk", "groups", "number", "places", "rows")

    def __init__(self, groups: Groups, rows: list[Array], places: Array) -> None:
        self.groups = groups
        self.rows = rows
        """All rows of each group ..."""
        self.places = places
        """... and where the one stands among those that were scored."""
        self.chunk = -1
        """The chunk that knows it ..."""
        self.number = -1
        """... by this number."""
