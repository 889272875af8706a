"""Which nodes are looked at, and which of the best is taken.

By default every node is looked at. With `percentageOfNodesToScore` from 1 to 100 the search stops
when enough feasible nodes are found, and the next pod's search starts where this one ended: the
rotation is upstream's. Of nodes with equal totals the one with the fewest pods is taken, and of
these the first in the order of the search (ADR 0022).
"""

import numpy as np
from numpy.typing import NDArray

from moorage.cluster.columns import Bools, Ints, Rows

_FEWEST_NODES = 100


def nodes_to_find(percentage: int | None, nodes: int, *, scoring: bool) -> int:
    """After how many feasible nodes to stop; all of them if no percentage is set."""
    if not scoring:
        return 1
    if not percentage or nodes < _FEWEST_NODES:
        return nodes
    return max(_FEWEST_NODES, nodes * percentage // 100)


class NodeSearch:
    """Where the next search starts; shared by all profiles."""

    def __init__(self) -> None:
        self.start = 0
        """How far the next search starts from the first node."""
        self.looked_at: Rows = np.zeros(0, np.intp)
        """The rows that the last search got to, in its order."""

    def feasible(self, order: Rows, considered: Bools, rejected: Bools, most: int) -> Rows:
        """At most so many feasible rows, in the order of the search; moves the start on."""
        looked_at = order if considered.all() else order[considered[order]]
        if not len(looked_at):
            return looked_at
        shift = self.start % len(looked_at)
        if shift:
            looked_at = np.roll(looked_at, -shift)
        feasible = looked_at[~rejected[looked_at]]
        if len(feasible) <= most:
            processed = len(looked_at)
        else:
            processed = int(np.flatnonzero(~rejected[looked_at])[most])
            feasible = feasible[:most]
        self.start = (self.start + processed) % len(order)
        self.looked_at = looked_at[:processed]
        return feasible

    def nothing_found(self, looked_at: int, nodes: int) -> None:
        """Move the start past nodes that were all refused."""
        self.start = (self.start + looked_at) % nodes


def ascending(feasible: Rows, nodes: int) -> Rows:
    """The same rows by row number, which is the order of the columns."""
    if len(feasible) == nodes:
        return np.arange(nodes)
    chosen = np.zeros(nodes, np.bool_)
    chosen[feasible] = True
    return np.flatnonzero(chosen)


def best(feasible: Rows, rows: Rows, totals: Ints, emptiness: NDArray[np.int16]) -> int:
    """The row with the largest total; of equals the emptiest, the one with the fewest pods.

    Of these the first in `feasible` (the search order). `totals` belongs to `rows`, the same rows
    by row number; `emptiness` to all nodes.
    """
    ties = rows[totals == totals.max()]
    if len(ties) == 1:
        return int(ties[0])
    empty = emptiness[ties]
    ties = ties[empty == empty.max()]
    rank = np.empty(len(emptiness), np.intp)
    rank[feasible] = np.arange(len(feasible))
    return int(ties[rank[ties].argmin()])
