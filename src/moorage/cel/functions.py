"""The table of all functions: CEL's standard library, and what Kubernetes adds to it.

Owns conversions, optionals, quantities, versions and named formats; the other functions are with
the values that they are about.
"""

import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

from moorage.cel import lists, network, operators, strings, text_format, times
from moorage.cel.environment import Function
from moorage.cel.errors import EvaluationError, no_such_overload, not_convertible, succeeds
from moorage.cel.named_formats import FORMATS, NamedFormat
from moorage.cel.strings import compiled_regex
from moorage.cel.text_format import to_string
from moorage.cel.types import Functions, Signatures
from moorage.cel.values import (
    MAX_INT,
    MAX_UINT,
    MIN_INT,
    ComputedQuantity,
    DefaultMap,
    Optional,
    Quantity,
    Semver,
    TypeValue,
    Uint,
    incapable,
    kind_of,
    parse_quantity,
    parse_semver,
    quantity_as_int,
)

_NANO = 10**9


def function_table(additional: Sequence[Function] = ()) -> Functions:
    """Every function and operator, and the additional ones of an environment."""
    if not additional:
        return _known_functions()
    signatures = Signatures()
    for name, overloads in _known_functions().items():
        signatures.functions[name] = [*overloads]
    for function in additional:
        signatures.add(*function)
    return signatures.functions


@cache
def _known_functions() -> Functions:
    signatures = Signatures()
    operators.declare(signatures)
    _declare_standard(signatures)
    _declare_conversions(signatures)
    strings.declare(signatures)
    lists.declare(signatures)
    times.declare(signatures)
    text_format.declare(signatures)
    network.declare(signatures)
    _declare_formats(signatures)
    _declare_optionals(signatures)
    _declare_quantities(signatures)
    _declare_versions(signatures)
    return signatures.functions


def _declare_standard(signatures: Signatures) -> None:
    add = signatures.add
    for kind in ("string", "bytes", "list(A)", "map(A, B)"):
        add(f"size({kind}) -> int", _size, guarded=False)
        add(f"{kind}.size() -> int", _size, guarded=False)
    add("string.contains(string) -> bool", _text_test(str.__contains__), guarded=False)
    add("string.startsWith(string) -> bool", _text_test(str.startswith), guarded=False)
    add("string.endsWith(string) -> bool", _text_test(str.endswith), guarded=False)
    add("matches(string, string) -> bool", _matches, guarded=False)
    add("string.matches(string) -> bool", _matches, guarded=False)


def _declare_conversions(signatures: Signatures) -> None:
    def add(result: str, convert: Callable[[Any], Any], *kinds: str) -> None:
        for kind in kinds:
            signatures.add(f"{result}({kind}) -> {result}", convert)

    add("int", _to_int, "int", "uint", "double", "string")
    add("uint", _to_uint, "uint", "int", "double", "string")
    add("double", _to_double, "double", "int", "uint", "string")
    add("string", to_string, "string", "bool", "int", "uint", "double", "bytes")
    add("bool", _to_bool, "bool", "string")
    add("bytes", lambda value: value.encode() if isinstance(value, str) else value, "bytes")
    add("bytes", str.encode, "string")
    signatures.add("dyn(A) -> dyn", lambda value: value)
    signatures.add("type(A) -> type(A)", lambda value: TypeValue(kind_of(value)))


def _declare_optionals(signatures: Signatures) -> None:
    add = signatures.add
    add("@optional.of(A) -> optional(A)", lambda value: Optional(True, value))
    add("@optional.none() -> optional(A)", lambda: Optional(False))
    add(
        "@optional.ofNonZeroValue(A) -> optional(A)",
        lambda value: Optional(True, value) if value else Optional(False),
    )
    add("optional(A).hasValue() -> bool", lambda option: option.present)
    add("optional(A).value() -> A", _value)
    add("optional(A).orValue(A) -> A")
    add("optional(A).or(optional(A)) -> optional(A)")
    add("list(A).first() -> optional(A)", lambda items: _at(items, 0))
    add("list(A).last() -> optional(A)", lambda items: _at(items, -1))
    add("@optional.unwrap(list(optional(A))) -> list(A)", _present)
    add("list(optional(A)).unwrapOpt() -> list(A)", _present)


def _at(items: list[Any], place: int) -> Optional:
    return Optional(True, items[place]) if items else Optional(False)


def _present(options: list[Optional]) -> list[Any]:
    return [option.value for option in options if option.present]


def _declare_quantities(signatures: Signatures) -> None:
    add = signatures.add
    add("quantity(string) -> quantity", parse_quantity)
    add("isQuantity(string) -> bool", succeeds(parse_quantity))
    add("sign(quantity) -> int", lambda q: (q.nano > 0) - (q.nano < 0))
    add("quantity.isGreaterThan(quantity) -> bool", lambda left, right: left.nano > right.nano)
    add("quantity.isLessThan(quantity) -> bool", lambda left, right: left.nano < right.nano)
    add(
        "quantity.compareTo(quantity) -> int",
        lambda left, right: (left.nano > right.nano) - (left.nano < right.nano),
    )
    add(
        "quantity.asApproximateFloat() -> double",
        lambda quantity: float(Fraction(quantity.nano, _NANO)),
    )
    add("quantity.asInteger() -> int", _as_integer)
    add("quantity.isInteger() -> bool", lambda quantity: quantity_as_int(quantity) is not None)
    add(
        "quantity.add(quantity) -> quantity",
        lambda left, right: ComputedQuantity(left.nano + right.nano),
    )
    add(
        "quantity.add(int) -> quantity",
        lambda left, right: ComputedQuantity(left.nano + right * _NANO),
    )
    add(
        "quantity.sub(quantity) -> quantity",
        lambda left, right: ComputedQuantity(left.nano - right.nano),
    )
    add(
        "quantity.sub(int) -> quantity",
        lambda left, right: ComputedQuantity(left.nano - right * _NANO),
    )


def _declare_versions(signatures: Signatures) -> None:
    add = signatures.add
    add("semver(string) -> semver", parse_semver)
    add("semver(string, bool) -> semver", _lenient_semver)
    add("isSemver(string) -> bool", succeeds(parse_semver))
    add("isSemver(string, bool) -> bool", succeeds(_lenient_semver))
    add(
        "semver.isGreaterThan(semver) -> bool",
        lambda left, right: _compare_versions(left, right) > 0,
    )
    add("semver.isLessThan(semver) -> bool", lambda left, right: _compare_versions(left, right) < 0)
    add("semver.compareTo(semver) -> int", _compare_versions)
    add("semver.major() -> int", lambda version: version.numbers[0])
    add("semver.minor() -> int", lambda version: version.numbers[1])
    add("semver.patch() -> int", lambda version: version.numbers[2])


def _declare_formats(signatures: Signatures) -> None:
    signatures.add("@format.named(string) -> optional(named_format)", _named_format)
    signatures.add("named_format.validate(string) -> optional(list(string))", _validate)
    for name, named in FORMATS.items():
        signatures.add(f"@format.{name}() -> named_format", _constant(named))


def _named_format(name: str) -> Optional:
    found = FORMATS.get(name)
    return Optional(False) if found is None else Optional(True, found)


def _validate(named: NamedFormat, text: str) -> Optional:
    complaints = named.validate(text)
    return Optional(True, complaints) if complaints else Optional(False)


def _constant(value: NamedFormat) -> Callable[[], NamedFormat]:
    return lambda: value


def _compare_versions(left: Semver, right: Semver) -> int:
    one, other = left.order, right.order
    return int(one > other) - int(one < other)


def _lenient_semver(text: str, normalize: bool) -> Semver:
    return parse_semver(text, normalize=normalize)


def _as_integer(quantity: Quantity) -> int:
    value = quantity_as_int(quantity)
    if value is None:
        raise EvaluationError("cannot convert value to integer")
    return value


def _value(option: Optional) -> Any:
    if not option.present:
        raise EvaluationError("optional.none() dereference")
    return option.value


def _size(value: Any) -> int:
    if type(value) not in (str, bytes, list, dict, DefaultMap):
        raise incapable("size", value)
    return len(value)


def _text_test(test: Callable[[str, str], bool]) -> Callable[[Any, Any], bool]:
    def call(text: Any, part: Any) -> bool:
        if type(text) is not str or type(part) is not str:
            raise no_such_overload()
        return test(text, part)

    return call


def _matches(text: Any, pattern: Any) -> bool:
    if type(text) is not str:
        raise incapable("matches", text)
    if type(pattern) is not str:
        raise no_such_overload()
    return compiled_regex(pattern).found_in(text)


def _to_int(value: Any) -> int:
    if isinstance(value, str):
        try:
            number = int(value) if re.fullmatch(r"[+-]?[0-9]+", value) else None
        except ValueError:
            number = None
        if number is None or not MIN_INT <= number <= MAX_INT:
            raise not_convertible("int")
    elif isinstance(value, float):
        if not MIN_INT < value < MAX_INT:
            raise EvaluationError("integer overflow")
        number = int(value)
    else:
        number = int(value)
    if not MIN_INT <= number <= MAX_INT:
        raise EvaluationError("integer overflow")
    return number


def _to_uint(value: Any) -> Uint:
    if isinstance(value, str):
        if not re.fullmatch(r"[0-9]+", value) or len(value) > 20 or int(value) > MAX_UINT:
            raise not_convertible("uint")
        value = int(value)
    if not 0 <= value <= MAX_UINT:
        raise EvaluationError("unsigned integer overflow")
    return Uint(int(value))


def _to_double(value: Any) -> float:
    try:
        return float(value)
    except ValueError:
        raise not_convertible("double") from None


def _to_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("1", "t", "T", "TRUE", "true", "True"):
        return True
    if value in ("0", "f", "F", "FALSE", "false", "False"):
        return False
    raise not_convertible("bool")
