"""Arithmetic, comparison and look-up on CEL values, and the signatures of all operators."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from moorage.plugins.dynamic_resources.cel.errors import EvaluationError, no_such_overload
from moorage.plugins.dynamic_resources.cel.time_values import (
    Duration,
    Timestamp,
    minus,
    negative,
    plus,
)
from moorage.plugins.dynamic_resources.cel.types import Signatures
from moorage.plugins.dynamic_resources.cel.values import (
    EMPTY,
    MAX_INT,
    MAX_UINT,
    MIN_INT,
    DomainMap,
    Optional,
    Uint,
    compare,
    equals,
    kind_of,
)

_NUMBERS = ("int", "uint", "double")
_TIMES = (Duration, Timestamp)


def declare(signatures: Signatures) -> None:
    """The operators' signatures; what they do is in `BINARY` and in the compiler."""
    add = signatures.add_operator
    for kind in _NUMBERS:
        names = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide"}
        for symbol, name in names.items():
            add(f"{name}_{kind}64", f"_{symbol}_", f"{kind}, {kind}", kind)
    for kind in ("int", "uint"):
        add(f"modulo_{kind}64", "_%_", f"{kind}, {kind}", kind)
    for kind in ("string", "bytes"):
        add(f"add_{kind}", "_+_", f"{kind}, {kind}", kind)
    add("add_list", "_+_", "list(A), list(A)", "list(A)")
    add("negate_int64", "-_", "int", "int")
    add("negate_double", "-_", "double", "double")
    add("logical_not", "!_", "bool", "bool")
    add("logical_and", "_&&_", "bool, bool", "bool")
    add("logical_or", "_||_", "bool, bool", "bool")
    add("conditional", "_?_:_", "bool, A, A", "A")
    add("equals", "_==_", "A, A", "bool")
    add("not_equals", "_!=_", "A, A", "bool")
    for symbol, name in {"<": "less", "<=": "less_equals", ">": "greater"}.items():
        _declare_order(signatures, symbol, name)
    _declare_order(signatures, ">=", "greater_equals")
    add("in_list", "@in", "A, list(A)", "bool")
    add("in_map", "@in", "A, map(A, B)", "bool")
    add("index_list", "_[_]", "list(A), int", "A")
    add("index_map", "_[_]", "map(A, B), A", "B")
    add("optional_list_index_int", "_[_]", "optional(list(A)), int", "optional(A)")
    add("optional_map_index_value", "_[_]", "optional(map(A, B)), A", "optional(B)")


def _declare_order(signatures: Signatures, symbol: str, name: str) -> None:
    for kind in ("bool", "string", "bytes"):
        signatures.add_operator(f"{name}_{kind}", f"_{symbol}_", f"{kind}, {kind}", "bool")
    for left in _NUMBERS:
        for right in _NUMBERS:
            identifier = f"{name}_{left}64_{right}64" if left != right else f"{name}_{left}64"
            signatures.add_operator(identifier, f"_{symbol}_", f"{left}, {right}", "bool")


def add(left: Any, right: Any) -> Any:
    """Sum of numbers or times, or one text or list after the other."""
    if type(left) is type(right) and type(left) in (str, bytes, list):
        return left + right
    if type(left) in _TIMES:
        return plus(left, right)
    return _number(left, right, left.__add__ if kind_of(left) in _NUMBERS else None)


def subtract(left: Any, right: Any) -> Any:
    """Difference of numbers or times."""
    if type(left) in _TIMES:
        return minus(left, right)
    return _number(left, right, left.__sub__ if kind_of(left) in _NUMBERS else None)


def multiply(left: Any, right: Any) -> Any:
    """Product of numbers."""
    return _number(left, right, left.__mul__ if kind_of(left) in _NUMBERS else None)


def divide(left: Any, right: Any) -> Any:
    """Quotient; that of integers is cut towards zero."""
    if type(left) is float and type(right) is float:
        if right == 0:
            return math.nan if left == 0 or math.isnan(left) else math.copysign(math.inf, left)
        return left / right
    if right == 0 and type(left) is type(right):
        raise EvaluationError("division by zero")
    return _number(left, right, lambda by: _quotient(left, by))


def modulo(left: Any, right: Any) -> Any:
    """What a division of integers leaves, with the sign of the dividend."""
    if type(left) is float:
        raise no_such_overload()
    if right == 0 and type(left) is type(right):
        raise EvaluationError("modulus by zero")
    return _number(left, right, lambda by: left - by * _quotient(left, by))


def negate(value: Any) -> Any:
    """The number or duration with the other sign."""
    if type(value) is float:
        return -value
    if type(value) is Duration:
        return negative(value)
    if type(value) is not int:
        raise no_such_overload()
    return _in_range(-value, int)


def _quotient(left: int, right: int) -> int:
    quotient = abs(int(left)) // abs(int(right))
    return quotient if (left < 0) == (right < 0) else -quotient


def _number(left: Any, right: Any, operation: Callable[[Any], Any] | None) -> Any:
    kind = type(left)
    if operation is None or kind is not type(right):
        raise no_such_overload()
    return _in_range(operation(right), kind)


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
        return any(equals(item, other) for other in container)
    if kind is dict or kind is DomainMap:
        try:
            return find_key(container, item) is not None
        except TypeError:
            return False
    raise no_such_overload()


def find_key(container: Mapping[Any, Any], key: Any) -> tuple[Any] | None:
    """The value under a key, in a tuple to tell it from "absent"."""
    if type(key) is bool or key not in container:
        # In Python True is 1; and CEL finds 1.0 under 1.
        for other, value in container.items():
            if equals(key, other):
                return (value,)
        return None
    return (container[key],)


def look_up(container: Any, key: Any) -> Any:
    """`container[key]`."""
    kind = type(container)
    if kind is dict:
        if type(key) is str:
            if key in container:
                return container[key]
        elif (found := find_key(container, key)) is not None:
            return found[0]
        raise EvaluationError(f"no such key: {key}")
    if kind is DomainMap:
        return container.get(key, EMPTY)
    if kind is list:
        return _item(container, key)
    if kind is Optional:
        return optional_look_up(container, key)
    raise no_such_overload()


def optional_look_up(container: Any, key: Any) -> Optional:
    """`container[?key]`: absent instead of an error."""
    if type(container) is Optional:
        if not container.present:
            return container
        container = container.value
    kind = type(container)
    if kind is list:
        if type(key) is int and 0 <= key < len(container):
            return Optional(True, container[key])
        return Optional(False)
    if kind is DomainMap:
        return Optional(True, container.get(key, EMPTY))
    if kind is not dict:
        raise no_such_overload()
    found = find_key(container, key)
    return Optional(False) if found is None else Optional(True, found[0])


def has_key(container: Any, key: str) -> bool:
    """`has(container.key)`."""
    return optional_look_up(container, key).present


def _item(items: list[Any], index: Any) -> Any:
    if type(index) is float and index.is_integer():
        index = int(index)
    if type(index) not in (int, Uint):
        raise EvaluationError(f"unsupported index type '{kind_of(index)}' in list")
    if not 0 <= index < len(items):
        raise EvaluationError(f"index out of bounds: {index}")
    return items[index]


BINARY: Mapping[str, Callable[[Any, Any], Any]] = {
    "_+_": add,
    "_-_": subtract,
    "_*_": multiply,
    "_/_": divide,
    "_%_": modulo,
    "_==_": equals,
    "_!=_": lambda left, right: not equals(left, right),
    "_<_": lambda left, right: compare("_<_", left, right) < 0,
    "_<=_": lambda left, right: compare("_<=_", left, right) <= 0,
    "_>_": lambda left, right: compare("_>_", left, right) > 0,
    "_>=_": lambda left, right: compare("_>=_", left, right) >= 0,
    "@in": contained,
}
