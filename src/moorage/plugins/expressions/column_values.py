"""The value of an expression, or of a part of it, for all rows at once.

Owns how values and failures are put together: a value per row or one for all, and a failure where
there is none. A failure is a small number that stands for a sentence, 0 for no failure.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from moorage.cel import EvaluationError
from moorage.cluster.coded import Vocabulary
from moorage.cluster.columns import Bools, Codes, Ints

Failed = int | Codes
"""Of all rows, or of each."""


class Failures:
    """The sentences of one evaluation, numbered from 1."""

    def __init__(self) -> None:
        self._sentences: Vocabulary[str] = Vocabulary("")

    def code(self, sentence: str) -> int:
        """The number of a sentence."""
        return self._sentences.code(sentence)

    def sentence(self, code: int) -> str:
        """The sentence of a number."""
        return self._sentences.values[code]


class Texts:
    """A text per row: a code, and the texts by code."""

    def __init__(
        self,
        codes: Codes,
        texts: Sequence[str | None],
        find: Callable[[str], int | None] | None = None,
    ) -> None:
        self.codes = codes
        self.texts = texts
        """None where there is none; the row has failed then."""
        self._find = find
        """The code of a text, if every text has only one."""

    def equal(self, text: str) -> Bools:
        """The rows with a text."""
        if self._find is not None:
            code = self._find(text)
            found: Bools = self.codes == (-1 if code is None else code)
            return found
        return self.where(lambda other: other == text)

    def where(self, test: Callable[[str], bool]) -> Bools:
        """The rows whose text passes."""
        table = (text is not None and test(text) for text in self.texts)
        return np.fromiter(table, np.bool_, len(self.texts)).take(self.codes)

    def apply(
        self, function: Callable[[str], Any], kind: str, failures: Failures
    ) -> tuple[Any, Failed]:
        """What a function makes of each text (once per text), and where it fails."""
        made: list[Any] = []
        codes = np.zeros(len(self.texts), np.int32)
        for place, text in enumerate(self.texts):
            value = None
            if text is not None:
                try:
                    value = function(text)
                except EvaluationError as error:
                    codes[place] = failures.code(str(error))
            made.append(value)
        failed = codes.take(self.codes) if codes.any() else 0
        if kind == "string":
            return Texts(self.codes, made), failed
        numbers = [value or 0 for value in made]
        return np.array(numbers, np.int64 if kind == "int" else np.bool_).take(self.codes), failed


class ColumnValue:
    """Values (a column, `Texts`, or one Python value for all rows) and where there are none."""

    __slots__ = ("_bounds", "_exact", "failed", "values")

    def __init__(
        self, values: Any, failed: Failed = 0, bounds: tuple[int, int] | None = None
    ) -> None:
        self.values = values
        self.failed = failed
        self._bounds = bounds
        """Between what the integers are, if that is known."""
        self._exact = False

    @property
    def is_scalar(self) -> bool:
        """Is it one value for all rows?"""
        return not isinstance(self.values, np.ndarray | Texts)

    @property
    def may_fail(self) -> bool:
        """Does any row fail?"""
        return not isinstance(self.failed, int) or self.failed != 0

    def between(self, *, exact: bool) -> tuple[int, int]:
        """The least and the largest integer, or bounds that may be wider."""
        if self.is_scalar:
            return self.values, self.values
        if self._bounds is None or (exact and not self._exact):
            values: Ints = self.values
            self._bounds = (int(values.min()), int(values.max())) if len(values) else (0, 0)
            self._exact = True
        return self._bounds


def either(first: Failed, second: Failed) -> Failed:
    """A failure of the first, or else of the second."""
    if isinstance(first, int):
        return first or second
    if isinstance(second, int) and second == 0:
        return first
    return np.where(first != 0, first, second)
