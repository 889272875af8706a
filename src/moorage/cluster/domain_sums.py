"""A count column summed up over the values of a node label, kept pod by pod.

A topology domain is one value of a label. Summing thousands of rows for every pod is what makes
spreading and affinity expensive; here a pod that comes or goes changes one sum. Nodes that come, go
or change their labels move between domains: then the sums are made anew when they are next asked
for.
"""

import numpy as np

from moorage.cluster.coded import CodedStore
from moorage.cluster.columns import Bools, Column, Ints
from moorage.cluster.stamps import Aspect, Stamps


class DomainSums:
    """Sums per code of one label; code 0 stands for nodes without the label."""

    __slots__ = ("_as_of", "_cells", "_column", "_exist", "_inside", "_stamps", "_store", "_sums")

    def __init__(
        self, column: Column[np.int64], store: CodedStore[str | None], stamps: Stamps
    ) -> None:
        self._column = column
        self._store = store
        self._stamps = stamps
        self._as_of = -1
        self._sums: Ints = np.zeros(0, np.int64)
        self._cells = self._sums.data
        self._inside = 0
        self._exist: Bools = np.zeros(0, np.bool_)

    def is_over(self, store: CodedStore[str | None]) -> bool:
        """Is this the sum over that label? A label's column may have been dropped and remade."""
        return store is self._store

    @property
    def dropped(self) -> bool:
        """Is the label's column gone? Then nobody can ask for these sums any more."""
        return self._store.dropped

    def add(self, row: int, change: int) -> None:
        """The count of a row changed."""
        if self._store.dropped:
            return
        code = self._store.code_at(row)
        if code < len(self._cells):  # if not, the labels changed and all is summed up anew
            self._cells[code] += change
            if code:
                self._inside += change

    @property
    def sums(self) -> Ints:
        """One sum per code; a copy, as it goes on changing."""
        self._refresh()
        return self._sums.copy()

    def at(self, code: int) -> int:
        """The sum of one code, for whoever has asked for `sums` since the labels changed."""
        return self._cells[code]

    @property
    def inside(self) -> int:
        """The sum over all domains: of all nodes that have the label."""
        self._refresh()
        return self._inside

    @property
    def exist(self) -> Bools:
        """Which codes some node has; code 0 if there is a node without the label."""
        self._refresh()
        return self._exist

    def _refresh(self) -> None:
        stamps = self._stamps
        if self._as_of >= max(stamps.latest(Aspect.LABELS), stamps.latest(Aspect.MEMBERSHIP)):
            return
        codes, size = self._store.codes, len(self._store.vocabulary)
        self._sums = np.bincount(codes, weights=self._column.values, minlength=size).astype(
            np.int64
        )
        self._cells = self._sums.data
        self._inside = int(self._sums[1:].sum())
        self._exist = np.bincount(codes, minlength=size) > 0
        self._as_of = stamps.generation
