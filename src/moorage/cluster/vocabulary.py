"""Values numbered in the order they are first seen, so that columns hold small integers."""

from collections.abc import Hashable
from typing import Generic, TypeVar

V = TypeVar("V", bound=Hashable)


class Vocabulary(Generic[V]):
    """value <-> code; codes count from 0, are dense and never change."""

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
