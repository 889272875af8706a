"""Coded columns: a small integer per row and the vocabulary of distinct values behind them.

A question about values is answered once per distinct value and gathered to the rows, so odd
semantics can stay plain Python and still be fast.
"""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import numpy as np

from moorage.cluster.columns import Bools, Codes, Column, Ints, Rows, RowSpace
from moorage.model.labels import Requirement

V = TypeVar("V", bound=Hashable)

_SPARE_CODES = 64


class Vocabulary(Generic[V]):
    """value <-> code: numbers in the order of first sight, from 0, dense, never changed."""

    def __init__(self, *first: V) -> None:
        self.values: list[V] = []
        self._codes: dict[V, int] = {}
        for value in first:
            self.code(value)

    def __len__(self) -> int:
        return len(self.values)

    def code(self, value: V) -> int:
        """The value's code, given to it now if it is new."""
        code = self._codes.get(value)
        if code is None:
            code = self._codes[value] = len(self.values)
            self.values.append(value)
        return code

    def find(self, value: V) -> int | None:
        """The value's code if it has been seen."""
        return self._codes.get(value)


class CodedColumn(Generic[V]):
    """Codes of some rows over a vocabulary; what plugins see."""

    __slots__ = ("codes", "vocabulary")

    def __init__(self, codes: Codes, vocabulary: Vocabulary[V]) -> None:
        self.codes = codes
        self.vocabulary = vocabulary

    def where(self, test: Callable[[V], bool]) -> Bools:
        """The rows whose value passes; `test` runs once per distinct value."""
        table = np.fromiter(map(test, self.vocabulary.values), np.bool_, len(self.vocabulary))
        return table.take(self.codes)

    def number(self, measure: Callable[[V], int]) -> Ints:
        """A number per row; `measure` runs once per distinct value."""
        table = np.fromiter(map(measure, self.vocabulary.values), np.int64, len(self.vocabulary))
        return table.take(self.codes)

    def take(self, rows: Rows) -> "CodedColumn[V]":
        """The same facts for some of the rows."""
        return CodedColumn(self.codes[rows], self.vocabulary)


class LabelColumn(CodedColumn[str | None]):
    """The values of one label key; code 0 means the node does not have the label."""

    __slots__ = ()

    @property
    def present(self) -> Bools:
        """The rows that have the label."""
        present: Bools = self.codes != 0
        return present

    def matching(self, requirement: Requirement) -> Bools:
        """The rows that pass one requirement, without a string comparison per row."""
        vocabulary = self.vocabulary
        table = np.zeros(len(vocabulary), np.bool_)
        match requirement.operator:
            case "In" | "NotIn":
                for value in requirement.values:
                    code = vocabulary.find(value)
                    if code is not None:
                        table[code] = True
                if requirement.operator == "NotIn":
                    np.logical_not(table, out=table)
            case "Exists":
                table[1:] = True
            case "DoesNotExist":
                table[0] = True
            case _:
                for code, text in enumerate(vocabulary.values):
                    table[code] = text is not None and requirement.accepts_number(text)
        return table.take(self.codes)

    def take(self, rows: Rows) -> "LabelColumn":
        """The same facts for some of the rows."""
        return LabelColumn(self.codes[rows], self.vocabulary)


class CodedStore(Generic[V]):
    """The writable side of a coded column: owned by the node table."""

    def __init__(self, space: RowSpace, absent: V) -> None:
        self.vocabulary: Vocabulary[V] = Vocabulary(absent)
        self._space = space
        self._codes: Column[np.int32] = space.column(np.int32)
        self.dropped = False

    @property
    def cells(self) -> memoryview:
        """The codes for whoever reads single rows."""
        return self._codes.cells

    def set(self, row: int, value: V) -> None:
        """Write a row."""
        self._codes.cells[row] = self.vocabulary.code(value)

    def compact(self) -> None:
        """Number the values anew if most of them are no row's any more; absence stays code 0."""
        values = self.vocabulary.values
        if len(values) <= 2 * self._space.size + _SPARE_CODES:
            return
        self.vocabulary = Vocabulary(values[0])
        renumbered = np.zeros(len(values), np.int32)
        for code in np.unique(self._codes.values).tolist():
            renumbered[code] = self.vocabulary.code(values[code])
        # A new array: columns handed out keep the old codes beside the old vocabulary.
        self._codes.grow(len(self._codes.data))
        self._codes.data[:] = renumbered[self._codes.data]

    def drop(self) -> None:
        """Stop following the rows; the store must not be used any more."""
        self._space.drop(self._codes)
        self.dropped = True

    @property
    def codes(self) -> Codes:
        """The codes of all rows."""
        return self._codes.values
