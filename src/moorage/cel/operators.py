"""Arithmetic, comparison and look-up on CEL values, and the signatures of all operators."""

import math
import operator
from collections.abc import Callable, Hashable, Mapping
from itertools import product
from typing import Any

from moorage.cel.errors import (
    EvaluationAbortedError,
    EvaluationError,
    no_such_overload,
    require_items,
)
from moorage.cel.times import Timestamp, minus, negative, plus
from moorage.cel.types import Signatures
from moorage.cel.values import (
    MAX_INT,
    MAX_UINT,
    MIN_INT,
    DefaultMap,
    Optional,
    Semver,
    Uint,
    compare,
    equals,
    go_type,
    incapable,
    kind_of,
    surely_equal,
)
from moorage.model.duration import Duration

_NUMBERS = ("int", "uint", "double")
_TIMES = (Duration, Timestamp)
_CALCULATING = {
    **dict.fromkeys(("_+_", "_-_", "_*_", "_/_"), (int, Uint, float)),
    "_%_": (int, Uint),
}
_QUALIFIERS = (str, int, Uint, float, bool)
_UNHASHABLE = (Semver, bytes)


def declare(signatures: Signatures) -> None:
    """The operators' signatures; what they do is in `BINARY` and in the compiler."""
    add = signatures.add
    for kind in _NUMBERS:
        for symbol in ("+", "-", "*", "/"):
            add(f"_{symbol}_({kind}, {kind}) -> {kind}")
    for kind in ("int", "uint"):
        add(f"_%_({kind}, {kind}) -> {kind}")
    for kind in ("string", "bytes"):
        add(f"_+_({kind}, {kind}) -> {kind}")
    add("_+_(list(A), list(A)) -> list(A)")
    add("-_(int) -> int")
    add("-_(double) -> double")
    add("!_(bool) -> bool")
    add("_&&_(bool, bool) -> bool")
    add("_||_(bool, bool) -> bool")
    add("_?_:_(bool, A, A) -> A")
    add("_==_(A, A) -> bool")
    add("_!=_(A, A) -> bool")
    for symbol in ("_<_", "_<=_", "_>_", "_>=_"):
        for kind in ("bool", "string", "bytes"):
            add(f"{symbol}({kind}, {kind}) -> bool")
        for left, right in product(_NUMBERS, repeat=2):
            add(f"{symbol}({left}, {right}) -> bool")
    add("@in(A, list(A)) -> bool")
    add("@in(A, map(A, B)) -> bool")
    add("_[_](list(A), int) -> A")
    add("_[_](map(A, B), A) -> B")
    add("_[?_](list(A), int) -> optional(A)")
    add("_[?_](optional(list(A)), int) -> optional(A)")
    add("_[?_](map(A, B), A) -> optional(B)")
    add("_[?_](optional(map(A, B)), A) -> optional(B)")
    add("_[_](optional(list(A)), int) -> optional(A)")
    add("_[_](optional(map(A, B)), A) -> optional(B)")


def add(left: Any, right: Any) -> Any:
    """Sum of numbers or times, or one text or list after the other."""
    if type(left) is type(right) and type(left) in (str, bytes, list):
        if type(left) is list:
            require_items(len(left) + len(right))
        return left + right
    if type(left) in _TIMES:
        return plus(left, right)
    return _number("_+_", left, right, operator.add)


def subtract(left: Any, right: Any) -> Any:
    """Difference of numbers or times."""
    if type(left) in _TIMES:
        return minus(left, right)
    return _number("_-_", left, right, operator.sub)


def multiply(left: Any, right: Any) -> Any:
    """Product of numbers."""
    return _number("_*_", left, right, operator.mul)


def divide(left: Any, right: Any) -> Any:
    """Quotient; that of integers is cut towards zero."""
    if type(left) is float and type(right) is float:
        if right == 0:
            return math.nan if left == 0 or math.isnan(left) else math.copysign(math.inf, left)
        return left / right
    return _number("_/_", left, right, _quotient)


def modulo(left: Any, right: Any) -> Any:
    """What a division of integers leaves, with the sign of the dividend."""
    if right == 0 and type(left) is type(right):
        raise EvaluationError("modulus by zero")
    return _number("_%_", left, right, lambda one, by: one - by * _quotient(one, by))


def negate(value: Any) -> Any:
    """The number or duration with the other sign."""
    if type(value) is float:
        return -value
    if type(value) is Duration:
        return negative(value)
    if type(value) is bool:  # upstream's have a negation, which is that of `!`
        raise no_such_overload()
    if type(value) is not int:
        raise incapable("-_", value)
    return _in_range(-value, int)


def _quotient(left: int, right: int) -> int:
    if right == 0:
        raise EvaluationError("division by zero")
    quotient = abs(int(left)) // abs(int(right))
    return quotient if (left < 0) == (right < 0) else -quotient


def _number(symbol: str, left: Any, right: Any, operation: Callable[[Any, Any], Any]) -> Any:
    kind = type(left)
    if kind is type(right) and kind in _CALCULATING[symbol]:
        return _in_range(operation(left, right), kind)
    if kind in _CALCULATING[symbol] or (symbol == "_+_" and kind in (bytes, list)):
        raise no_such_overload()
    raise incapable(symbol, left)


def _in_range(value: Any, kind: type) -> Any:
    if kind is float:
        return value
    low, high = (0, MAX_UINT) if kind is Uint else (MIN_INT, MAX_INT)
    if not low <= value <= high:
        raise EvaluationError(f"{'unsigned ' if kind is Uint else ''}integer overflow")
    return kind(value)


def contained(item: Any, container: Any) -> bool:
    """`item in container`."""
    kind = type(container)
    if kind is list:
        return any(surely_equal(item, other) for other in container)
    if kind is dict or kind is DefaultMap:
        return find_key(container, item) is not None
    raise no_such_overload()


def hashed_in(item: Any, container: Any) -> bool:
    """`item in container`, by its hash; upstream gives up where there is none."""
    if type(item) is str:
        return item in container
    if container and type(item) in _UNHASHABLE:
        raise EvaluationAbortedError(
            f"internal error: runtime error: hash of unhashable type {go_type(item)}"
        )
    return contained(item, container)


def find_key(container: Mapping[Any, Any], key: Any) -> tuple[Any] | None:
    """The value under a key, in a tuple to tell it from "absent"."""
    if type(key) is bool or not isinstance(key, Hashable) or key not in container:
        # In Python True is 1; and CEL finds 1.0 under 1.
        for other, value in container.items():
            if surely_equal(key, other):
                return (value,)
        return None
    return (container[key],)


def look_up(container: Any, key: Any) -> Any:
    """`container[key]`; what is no container has no keys."""
    kind = type(container)
    if kind is dict:
        if type(key) is str:
            if key in container:
                return container[key]
        else:
            require_qualifier(key)
            found = find_key(container, key)
            if found is not None:
                return found[0]
    elif kind is DefaultMap:
        return container.get(key, container.default)
    elif kind is list:
        return _item(container, key)
    elif kind is Optional:
        return optional_look_up(container, key)
    require_qualifier(key)
    raise EvaluationError(f"no such key: {shown(key)}")


def optional_look_up(container: Any, key: Any) -> Optional:
    """`container[?key]`: absent instead of an error."""
    if type(container) is Optional:
        if not container.present:
            return container
        container = container.value
    require_qualifier(key)
    kind = type(container)
    if kind is list:
        place = _place(key)
        if 0 <= place < len(container):
            return Optional(True, container[place])
        return Optional(False)
    if kind is DefaultMap:
        return Optional(True, container.get(key, container.default))
    found = find_key(container, key) if kind is dict else None
    return Optional(False) if found is None else Optional(True, found[0])


def has_key(container: Any, key: str) -> bool:
    """`has(container.key)`."""
    return optional_look_up(container, key).present


def require_qualifier(key: Any) -> None:
    """Can anything be looked up under it?"""
    if type(key) not in _QUALIFIERS:
        raise EvaluationError(f"invalid qualifier type: {go_type(key)}")


def shown(key: Any) -> str:
    """A value as complaints name it."""
    if type(key) is bool:
        return "true" if key else "false"
    return f"{key:g}" if type(key) is float else str(key)


def _item(items: list[Any], index: Any) -> Any:
    place = _place(index)
    if not 0 <= place < len(items):
        raise EvaluationError(f"index out of bounds: {place}")
    return items[place]


def _place(index: Any) -> int:
    if type(index) is float and index.is_integer():
        return int(index)
    if type(index) not in (int, Uint):
        raise EvaluationError(f"unsupported index type '{kind_of(index)}' in list")
    return int(index)


BINARY: Mapping[str, Callable[[Any, Any], Any]] = {
    "_+_": add,
    "_-_": subtract,
    "_*_": multiply,
    "_/_": divide,
    "_%_": modulo,
    "_==_": equals,
    "_!=_": lambda left, right: not surely_equal(left, right),
    "_<_": lambda left, right: compare("_<_", left, right) < 0,
    "_<=_": lambda left, right: compare("_<=_", left, right) <= 0,
    "_>_": lambda left, right: compare("_>_", left, right) > 0,
    "_>=_": lambda left, right: compare("_>=_", left, right) >= 0,
    "@in": contained,
}
