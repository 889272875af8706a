"""Columns: one array per fact, one element per node row.

`RowSpace` owns how many rows there are and keeps every column in step: rows are dense, a new node
takes the next row, and a removed node's row is filled by the last one. It must not know what the
columns mean.
"""

from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Codes = NDArray[np.int32]
Rows = NDArray[np.intp]

T = TypeVar("T", bound=np.generic)

_FIRST_CAPACITY = 64


class Column(Generic[T]):
    """One array over the rows. `data` has spare capacity; `values` is exactly the rows."""

    __slots__ = ("_space", "_view", "cells", "data", "fill")

    def __init__(self, space: "RowSpace", dtype: DTypeLike, fill: Any) -> None:
        self._space = space
        self.fill = fill
        self.data: NDArray[T] = np.full(space.capacity, fill, dtype)
        self.cells = self.data.data
        """`data` for whoever reads or writes one row: Python numbers without NumPy's detours."""
        self._view: NDArray[T] | None = None

    @property
    def values(self) -> NDArray[T]:
        """The rows, read-only. The array is valid until a node is added or removed."""
        view = self._view
        if view is None or len(view) != self._space.size:
            view = self.data[: self._space.size]
            view.flags.writeable = False
            self._view = view
        return view

    def grow(self, capacity: int) -> None:
        """Make room for more rows."""
        larger = np.full(capacity, self.fill, self.data.dtype)
        larger[: len(self.data)] = self.data
        self.data = larger
        self.cells = larger.data
        self._view = None


class RowSpace:
    """The rows that all columns share."""

    def __init__(self) -> None:
        self.size = 0
        self.capacity = _FIRST_CAPACITY
        self._columns: dict[int, Column[Any]] = {}

    def column(self, dtype: DTypeLike, fill: Any = 0) -> Column[Any]:
        """A new column, kept in step from now on."""
        column: Column[Any] = Column(self, dtype, fill)
        self._columns[id(column)] = column
        return column

    def drop(self, column: Column[Any]) -> None:
        """Stop keeping a column in step; its owner must not use it any more."""
        del self._columns[id(column)]

    def append(self) -> int:
        """A new row with every column's fill value."""
        if self.size == self.capacity:
            self.capacity *= 2
            for column in self._columns.values():
                column.grow(self.capacity)
        self.size += 1
        return self.size - 1

    def remove(self, row: int) -> int:
        """Give up a row; returns the former number of the row that now stands in its place."""
        last = self.size - 1
        for column in self._columns.values():
            column.data[row] = column.data[last]
            column.data[last] = column.fill
        self.size = last
        return last
