"""CEL's arithmetic on columns of integers.

Owns what overflows and what is divided by zero, row by row, as `moorage.cel.operators` has it.
Bounds that are known of a column spare looking for overflows where there can be none; where there
can be some, the rows are calculated one by one with CEL's own operators.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from moorage.cel import EvaluationError
from moorage.cel.operators import BINARY
from moorage.cel.values import MAX_INT, MIN_INT
from moorage.cluster.columns import Ints
from moorage.plugins.expressions.column_values import ColumnValue, Failures, either

Bounds = tuple[int, int]
_DIVISION = {"_/_": "division by zero", "_%_": "modulus by zero"}


def calculate(
    function: str, left: ColumnValue, right: ColumnValue, failures: Failures
) -> ColumnValue:
    """`left + right` and its kin; at least one side is a column."""
    failed = either(left.failed, right.failed)
    a, b = left.values, right.values
    bounds = _bounds(function, left, right)
    if bounds is None:
        return _one_by_one(function, left, right, failures)
    match function:
        case "_+_":
            values = a + b
        case "_-_":
            values = a - b
        case "_*_":
            values = a * b
        case _:
            values, by_zero = _divided(function, left, right)
            if by_zero is not None:
                message = failures.code(_DIVISION[function])
                failed = either(failed, np.where(by_zero, message, 0))
    return ColumnValue(values, failed, bounds)


def negated(answer: ColumnValue, failures: Failures) -> ColumnValue:
    """`-answer`."""
    return calculate("_-_", ColumnValue(0), answer, failures)


def _bounds(function: str, left: ColumnValue, right: ColumnValue) -> Bounds | None:
    """Between what the results must be; None if they may be beyond 64 bits."""
    for exact in (False, True):
        (a, b), (c, d) = left.between(exact=exact), right.between(exact=exact)
        match function:
            case "_+_":
                found = (a + c, b + d)
            case "_-_":
                found = (a - d, b - c)
            case "_*_":
                products = (a * c, a * d, b * c, b * d)
                found = (min(products), max(products))
            case "_/_" if a >= 0 and c > 0:
                found = (0, b // c)
            case _:
                # At most as far from zero as the dividend; negating the smallest number overflows.
                most = max(abs(a), abs(b))
                found = (0 if a >= 0 and c >= 0 else -most, most)
        if found[0] >= MIN_INT and found[1] <= MAX_INT:
            return found
    return None


def _divided(function: str, left: ColumnValue, right: ColumnValue) -> tuple[Ints, Any]:
    a, b = left.values, right.values
    by_zero = None
    low, high = right.between(exact=False)
    if low <= 0 <= high:
        by_zero = np.equal(b, 0)
        b = np.where(by_zero, 1, b)
    if function == "_%_":
        return np.fmod(a, b), by_zero
    quotient = np.floor_divide(a, b)
    if low < 0 or (left.between(exact=False)[0] < 0 and quotient.min(initial=0) < 0):
        # Python and NumPy round down, CEL towards zero.
        quotient += (np.less(a, 0) != np.less(b, 0)) & (quotient * b != a)
    return quotient, by_zero


def _one_by_one(
    function: str, left: ColumnValue, right: ColumnValue, failures: Failures
) -> ColumnValue:
    operation: Callable[[Any, Any], Any] = BINARY[function]
    pairs = np.broadcast(left.values, right.values)
    values, codes = np.zeros(pairs.size, np.int64), np.zeros(pairs.size, np.int32)
    for row, (a, b) in enumerate(pairs):
        try:
            values[row] = operation(int(a), int(b))
        except EvaluationError as error:
            codes[row] = failures.code(str(error))
    return ColumnValue(values, either(either(left.failed, right.failed), codes))
