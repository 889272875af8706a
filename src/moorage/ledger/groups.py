"""Rows that a plugin scores alike, so that one look per group tells what has changed.

Owns the groups of one moment; `tracks` keeps what each of them was last given.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Groups:
    """The rows of a cluster by group; a value, equal to another one if `data` is."""

    __slots__ = ("data", "first", "place", "rows")

    def __init__(self, codes: Array) -> None:
        self.data = codes.tobytes()
        found, self.first, self.place = np.unique(codes, return_index=True, return_inverse=True)
        """The first row of each group, and of each row its group."""
        self.rows = [np.flatnonzero(codes == code) for code in found]
