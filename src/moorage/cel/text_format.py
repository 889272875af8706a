"""`"%s has %d".format([...])`: texts put together from values, `string()` and `strings.quote`."""

import math
import re
from collections.abc import Iterator
from typing import Any

from moorage.cel.errors import EvaluationError, require_characters, require_tree
from moorage.cel.times import Timestamp, duration_text, timestamp_text
from moorage.cel.types import Signatures
from moorage.cel.values import DefaultMap, TypeValue, Uint, kind_of
from moorage.model.duration import Duration
from moorage.printable import SHORT_ESCAPES, go_float, printable

_NUMBERS = ("int", "uint")
CLAUSES = {
    "s": (
        "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, "
        "types, durations, and timestamps",
        (
            *("list", "map", "int", "uint", "double", "bool", "string", "bytes", "type"),
            *("null_type", "google.protobuf.Timestamp", "google.protobuf.Duration"),
        ),
    ),
    "d": ("decimal clause can only be used on integers", _NUMBERS),
    "f": ("fixed-point clause can only be used on doubles", ("double", "string")),
    "e": ("scientific clause can only be used on doubles", ("double", "string")),
    "b": ("only integers and bools can be formatted as binary", (*_NUMBERS, "bool")),
    "o": ("octal clause can only be used on integers", _NUMBERS),
    "x": (
        "only integers, byte buffers, and strings can be formatted as hex",
        (*_NUMBERS, "string", "bytes"),
    ),
}
"""By letter: the complaint about other values, and the types that a clause is made for."""
_NOT_NUMBERS = ("NaN", "Infinity", "-Infinity")
"""The only texts that the clauses for doubles take."""
_PRECISION = 6
_CLAUSE = re.compile(r"%(?:(%)|(?:\.([0-9]*))?(.?))", re.DOTALL)
_ESCAPES = str.maketrans({**SHORT_ESCAPES, "\\": "\\\\", '"': '\\"'})
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def declare(signatures: Signatures) -> None:
    """Their signatures."""
    signatures.add("string.format(list(dyn)) -> string", _format)
    signatures.add("@strings.quote(string) -> string", _quote)


def clauses(text: str) -> Iterator[str]:
    """The letters of a format's clauses; raises `EvaluationError` at one that is malformed."""
    for clause in _CLAUSE.finditer(text):
        if not clause[1]:
            yield _parsed(clause)[0]


def to_string(value: Any) -> str:
    """A plain value as `string()` converts it."""
    match value:
        case bool():
            return "true" if value else "false"
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None
        case float():
            return go_float(value)
        case _:
            return str(value)


def _parsed(clause: re.Match[str]) -> tuple[str, int]:
    """The letter and the precision of a clause."""
    _, precision, letter = clause.groups()
    unparsed = "could not parse formatting clause: "
    if not letter:
        if precision is None:
            raise EvaluationError("unexpected end of string")
        raise EvaluationError(
            f"{unparsed}error while parsing precision: could not find end of precision specifier"
        )
    if precision == "":
        raise EvaluationError(
            f"{unparsed}error while parsing precision: error while converting precision to "
            'integer: strconv.Atoi: parsing "": invalid syntax'
        )
    if letter not in "sdfebxXo":
        raise EvaluationError(f'{unparsed}unrecognized formatting clause "{letter}"')
    if precision is None:
        return letter, _PRECISION
    return letter, int(precision[:9])


def _format(text: str, values: list[Any]) -> str:
    """The text with every clause replaced by its value."""
    number, total = -1, len(text)

    def filled(clause: re.Match[str]) -> str:
        nonlocal number, total
        if clause[1]:
            return "%"
        number += 1
        if number >= len(values):
            raise EvaluationError(f"index {number} out of range")
        letter, digits = _parsed(clause)
        require_characters(digits)
        try:
            require_tree(values[number])
            shown = _shown(letter, values[number], digits)
        except EvaluationError as error:
            raise EvaluationError(f"error during formatting: {error}") from None
        total += len(shown)
        require_characters(total)
        return shown

    return _CLAUSE.sub(filled, text)


def _shown(letter: str, value: Any, digits: int) -> str:
    rule, fitting = CLAUSES[letter.lower()]
    kind = kind_of(value)
    if kind not in fitting or (kind == "string" and letter in "fe" and value not in _NOT_NUMBERS):
        raise EvaluationError(f"{rule}, was given {kind}")
    match letter:
        case "s":
            return _text(value)
        case "d":
            return str(int(value))
        case "f":
            return _grouped(float(value), digits)
        case "e":
            return _scientific(float(value)).rjust(digits)
        case "b" | "o":
            return f"{int(value):{letter}}"
        case _:
            return _hex(value, letter)


def _text(value: Any) -> str:
    """`%s`."""
    match value:
        case list():
            return f"[{', '.join(map(_literal, value))}]"
        case dict() | DefaultMap():
            return _map(value)
        case None:
            return "null"
        case Duration():
            return duration_text(value)
        case Timestamp():
            return timestamp_text(value)
        case TypeValue():
            return value.name
        case _:
            return to_string(value)


def _literal(value: Any) -> str:
    """A value inside a list or map, as CEL would write it."""
    match value:
        case str():
            return _go_quoted(value)
        case bytes():
            return "b" + _go_quoted(to_string(value))
        case float():
            return f"{value:.6f}" if math.isfinite(value) else _go_quoted(_infinite(value, "+Inf"))
        case Duration():
            return f'duration("{duration_text(value)}")'
        case Timestamp():
            return f'timestamp("{timestamp_text(value)}")'
        case bool() | int() | None | list() | dict() | DefaultMap() | TypeValue():
            return _text(value)
    raise EvaluationError(f"no formatting function for {kind_of(value)}")


def _map(value: dict[Any, Any]) -> str:
    shown = []
    for key, item in value.items():
        if type(key) not in (str, bool, int, Uint):
            raise EvaluationError(f"no formatting function for map key of type {kind_of(key)}")
        shown.append((_literal(key), _literal(item)))
    shown.sort(key=lambda pair: pair[0])
    return "{" + ", ".join(f"{key}:{item}" for key, item in shown) + "}"


def _grouped(value: float, digits: int) -> str:
    """Upstream prints for the locale en_US: thousands are set apart."""
    return f"{value:,.{digits}f}" if math.isfinite(value) else _infinite(value, "∞")


def _scientific(value: float) -> str:
    """In en_US: a proper power of ten.

    Upstream hands the precision over as a width, so that there are always six decimals.
    """
    if not math.isfinite(value):
        return _infinite(value, "∞")
    mantissa, exponent = f"{value:.6e}".split("e")
    raised = f"{int(exponent):0{2 + (int(exponent) < 0)}}".translate(_RAISED)
    return f"{mantissa}\N{MULTIPLICATION SIGN}10{raised}"


def _infinite(value: float, infinity: str) -> str:
    if math.isnan(value):
        return "NaN"
    return infinity if value > 0 else f"-{infinity.lstrip('+')}"


def _hex(value: Any, letter: str) -> str:
    match value:
        case str():
            shown = value.encode().hex()
        case bytes():
            shown = value.hex()
        case _:
            shown = f"{int(value):x}"
    return shown.upper() if letter == "X" else shown


def _go_quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{printable(escaped)}"'


def _quote(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'
