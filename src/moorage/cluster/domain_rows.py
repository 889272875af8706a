"""The rows of each topology domain: of the nodes that have the same value of a label.

Owns the way back from a domain to its rows, for whoever has to change what is kept of them. It is
true for one moment; nodes that come, go or change their labels make another one necessary.
"""

import numpy as np

from moorage.cluster.columns import Codes, Rows


class DomainRows:
    """The rows by the code of their label's value."""

    __slots__ = ("_order", "_starts")

    def __init__(self, codes: Codes, size: int) -> None:
        """`size` is the number of codes that there are."""
        self._order: Rows = np.argsort(codes, kind="stable")
        self._starts: list[int] = np.searchsorted(codes[self._order], np.arange(size + 1)).tolist()

    def of(self, code: int) -> Rows:
        """The rows with a code, ascending."""
        return self._order[self._starts[code] : self._starts[code + 1]]
