"""Which nodes are looked at, and which of the best is taken.

By default every node is looked at. With `percentageOfNodesToScore` from 1 to 100 the search stops
when enough feasible nodes are found, and the next pod's search starts where this one ended: the
rotation is upstream's. Of nodes with equal totals the one with the fewest pods is taken, and of
these the first: in the order of such a search, or by name if every node was looked at (ADR 0022).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moorage.cluster.columns import Bools, Ints, Rows
from moorage.cluster.topology import NodeOrder

_FEWEST_NODES = 100
_NO_ROWS: Rows = np.zeros(0, np.intp)


def nodes_to_find(percentage: int | None, nodes: int, *, scoring: bool) -> int:
    """After how many feasible nodes to stop; all of them if no percentage is set."""
    if not scoring:
        return 1
    if not percentage or nodes < _FEWEST_NODES:
        return nodes
    return max(_FEWEST_NODES, nodes * percentage // 100)


class FeasibleNodes(NamedTuple):
    """The nodes that a search found."""

    rows: Rows
    """Ascending, which is the order of the columns."""
    places: Callable[[Rows], Rows]
    """Where some of the rows come: of equals the first is taken."""

    def in_order(self) -> Rows:
        """The rows in the order of their places."""
        return self.rows[np.argsort(self.places(self.rows), kind="stable")]


def in_this_order(rows: Rows, nodes: int) -> FeasibleNodes:
    """Rows that come in the order of a search, of so many nodes."""
    place = np.full(nodes, -1, np.intp)
    place[rows] = np.arange(len(rows))
    return FeasibleNodes(np.flatnonzero(place >= 0), place.take)


class NodeSearch:
    """Where the next search starts; shared by all profiles."""

    def __init__(self) -> None:
        self.start = 0
        """How far the next search starts from the first node."""
        self.looked_at: Rows = np.zeros(0, np.intp)
        """The rows that the last search got to, in its order, if it did not look at all of them."""

    def all_feasible(
        self, order: NodeOrder, row_of: dict[str, int], feasible: Rows
    ) -> FeasibleNodes:
        """All feasible rows, of a search that looks at every node."""
        self.start %= len(row_of)
        self.looked_at = _NO_ROWS
        return FeasibleNodes(feasible, order.places(row_of).take)

    def feasible(self, order: Rows, considered: Bools, accepted: Bools, most: int) -> FeasibleNodes:
        """At most so many feasible rows; moves the start on."""
        looked_at = order if considered.all() else order[considered[order]]
        if not len(looked_at):
            return in_this_order(looked_at, len(order))
        shift = self.start % len(looked_at)
        if shift:
            looked_at = np.roll(looked_at, -shift)
        found = np.flatnonzero(accepted[looked_at])
        processed = len(looked_at) if len(found) <= most else int(found[most])
        self.start = (self.start + processed) % len(order)
        self.looked_at = looked_at[:processed]
        return in_this_order(looked_at[found[:most]], len(order))

    def nothing_found(self, looked_at: int, nodes: int) -> None:
        """Move the start past nodes that were all rejected."""
        self.start = (self.start + looked_at) % nodes


def best(found: FeasibleNodes, totals: Ints, emptiness: NDArray[np.int16]) -> int:
    """The row with the largest total; of equals the emptiest, the one with the fewest pods.

    Of these the first place. `totals` belongs to the rows that were found, `emptiness` to
    all nodes.
    """
    ties = found.rows.take((totals == totals[totals.argmax()]).nonzero()[0])
    if len(ties) > 1:
        empty = emptiness[ties]
        ties = ties[empty == empty[empty.argmax()]]
    return int(ties[0] if len(ties) == 1 else ties[found.places(ties).argmin()])
