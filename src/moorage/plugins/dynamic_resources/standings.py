"""What all nodes say to one demand, as far as it is known: one code per row of the cluster state.

Thousands of pods bring the same demand, and between two of them the devices of a few nodes change
hands. Owns telling which rows those are, so that the others need not be looked at. The outcomes
themselves are kept by name (`allocation.Demand`); a code says only of which kind one is.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from moorage.cluster.columns import Rows
from moorage.cluster.stamps import Aspect, Stamps
from moorage.cluster.view import NodeView

UNKNOWN, SHORT, GIVES = 0, 1, 2
"""Must be looked at; has not enough devices; has them."""

Codes = NDArray[np.int8]


class Standings:
    """The codes of one demand."""

    def __init__(self) -> None:
        self._stamps: Stamps | None = None
        """Those of the cluster state that the rows are of."""
        self._as_of = 0
        self._codes: Codes = np.zeros(0, np.int8)
        self._touched: set[str] = set()

    def touch(self, names: Iterable[str]) -> None:
        """The devices of some nodes changed hands."""
        self._touched.update(names)

    def forget(self) -> None:
        """Nothing is known any more."""
        self._stamps = None

    def of(self, nodes: NodeView) -> Codes:
        """The codes of a view's nodes, for the caller to keep."""
        self._follow(nodes)
        return self._codes.copy() if nodes.whole is nodes else self._codes[nodes.rows]

    def settle(self, nodes: NodeView, places: Rows, codes: Codes) -> None:
        """Some nodes of a view were looked at."""
        self._codes[nodes.rows[places]] = codes

    def _follow(self, nodes: NodeView) -> None:
        """A node is known by its name and labels; nothing else of it decides over devices."""
        stamps = nodes.stamps
        if stamps is not self._stamps or stamps.latest(Aspect.MEMBERSHIP) > self._as_of:
            self._stamps = stamps
            self._codes = np.zeros(len(stamps.of(Aspect.MEMBERSHIP)), np.int8)
        else:
            for name in self._touched:
                row = nodes.row_of(name)
                if row is not None:
                    self._codes[row] = UNKNOWN
            if stamps.latest(Aspect.LABELS) > self._as_of:
                self._codes[stamps.changed_since((Aspect.LABELS,), self._as_of)] = UNKNOWN
        self._as_of = stamps.generation
        self._touched.clear()
