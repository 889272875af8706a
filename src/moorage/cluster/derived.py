"""Columns that follow from others, row by row, and are kept up to date.

What every pod needs again, such as how evenly nodes are used, is worked out once; afterwards only
for the rows that changed. tests/cluster/test_derived.py compares it with working everything out.
"""

from collections.abc import Callable

import numpy as np

from moorage.cluster.columns import Ints
from moorage.cluster.stamps import Aspect, Stamps
from moorage.cluster.view import NodeView

# Past so many changes one pass over everything is cheaper than asking about single rows.
_MOST_CHANGES = 32


class DerivedColumn:
    """A number per node: `of_all` works it out for the nodes of a view, `of_row` for one row."""

    def __init__(
        self, of_all: Callable[[NodeView], Ints], of_row: Callable[[NodeView, int], int]
    ) -> None:
        self._of_all = of_all
        self._of_row = of_row
        self._stamps: Stamps | None = None
        self._as_of = -1
        self._values: Ints = np.zeros(0, np.int64)

    def of(self, nodes: NodeView) -> Ints:
        """The column for the nodes of a view; not to be written to."""
        if type(nodes) is NodeView:  # other views show pods that the state does not have
            self._refresh(nodes.whole)
            return nodes.gather(self._values)
        return self._of_all(nodes)

    def _refresh(self, nodes: NodeView) -> None:
        stamps, as_of = nodes.stamps, self._as_of
        changes = None
        if stamps is self._stamps and as_of >= stamps.latest(Aspect.MEMBERSHIP):
            changes = stamps.log_since(as_of)
        self._as_of = -1  # a row that cannot be worked out leaves half-done work behind
        if changes is None or len(changes) > _MOST_CHANGES:
            self._values = self._of_all(nodes)
        else:
            for row, _ in changes:
                self._values[row] = self._of_row(nodes, row)
        self._stamps, self._as_of = stamps, stamps.generation
