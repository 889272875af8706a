"""Columns that follow from others, row by row, and are kept up to date.

What every pod needs again, such as how evenly nodes are used, is worked out once; afterwards only
for the rows that changed. tests/cluster/test_derived.py compares it with working everything out.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moorage.cluster.columns import Ints
from moorage.cluster.stamps import Aspect, Stamps
from moorage.cluster.view import NodeView

# Past so many changes one pass over everything is cheaper than asking about single rows.
_MOST_CHANGES = 32

Floats = NDArray[np.float64]

EXACT = 2**45
"""With amounts below this, floats divide so exactly that percents are rounded down to the same."""


class DerivedColumns:
    """Numbers per node: an array with a row for each of them, over the nodes.

    `of_all` works them out for the nodes of a view, `of_row` for one node. Either returns None if
    that cannot be done in floats.
    """

    def __init__(
        self,
        of_all: Callable[[NodeView], Floats | None],
        of_row: Callable[[NodeView, int], Sequence[float] | None],
    ) -> None:
        self._of_all = of_all
        self._of_row = of_row
        self._stamps: Stamps | None = None
        self._as_of = -1
        self._values: Floats | None = None
        self._cells: list[Any] = []
        """The same for writing single numbers."""

    def of(self, nodes: NodeView) -> Floats | None:
        """The numbers for the nodes of a view, not to be written to."""
        if type(nodes) is not NodeView:  # other views show pods that the state does not have
            return self._of_all(nodes)
        self._refresh(nodes.whole)
        return None if self._values is None else nodes.gather(self._values)

    def _refresh(self, nodes: NodeView) -> None:
        stamps, as_of = nodes.stamps, self._as_of
        if stamps is self._stamps and as_of == stamps.generation:
            return
        changes = None
        if stamps is self._stamps and as_of >= stamps.latest(Aspect.MEMBERSHIP):
            changes = stamps.log_since(as_of)
        self._as_of = -1  # a row that cannot be worked out leaves half-done work behind
        if changes is None or len(changes) > _MOST_CHANGES or not self._follow(nodes, changes):
            self._values = values = self._of_all(nodes)
            self._cells = [] if values is None else [numbers.data for numbers in values]
        self._stamps, self._as_of = stamps, stamps.generation

    def _follow(self, nodes: NodeView, changes: Sequence[tuple[int, int]]) -> bool:
        """Work out the rows that changed; False if all are to be worked out."""
        if self._values is None:
            return False
        for row, _ in changes:
            numbers = self._of_row(nodes, row)
            if numbers is None:
                return False
            for cells, number in zip(self._cells, numbers, strict=True):
                cells[row] = number
        return True


def are_plain(amounts: Sequence[tuple[int, int]]) -> bool:
    """Is there some of each resource, and few enough? Of each, (used, allocatable) of one node."""
    return all(0 <= used < EXACT and 0 < total < EXACT for used, total in amounts)


def plain_amounts(used: Sequence[Ints], total: Sequence[Ints]) -> Floats | None:
    """All columns as floats, one below the other; None unless they are plain on every node."""
    amounts = np.array([*used, *total])
    smallest = amounts.min(axis=1, initial=EXACT)
    if smallest.min() < 0 or smallest[len(used) :].min() < 1 or amounts.max(initial=0) >= EXACT:
        return None
    return amounts.astype(np.float64)
