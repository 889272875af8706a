"""Arrays that are held to be compared with others of their kind."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Held:
    """An array in three forms that share its memory."""

    __slots__ = ("bytes", "cells", "dtype", "values")

    def __init__(self, values: Array) -> None:
        self.bytes = bytearray(np.ascontiguousarray(values))
        """Equal to the `data` of an array with the same values, if that has the same type.

        Bytes are compared where they are. NumPy would make an array of results first, which takes
        many times as long.
        """
        self.dtype = values.dtype
        self.values: Array = np.ndarray(len(values), values.dtype, self.bytes)
        self.cells = self.values.data
        """Single values as Python has them, without NumPy's detours."""
