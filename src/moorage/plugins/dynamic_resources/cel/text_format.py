"""`"%s has %d".format([...])`: texts put together from values, and `strings.quote`."""

import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

from moorage.plugins.dynamic_resources.cel.errors import EvaluationError
from moorage.plugins.dynamic_resources.cel.limits import require_characters, require_tree
from moorage.plugins.dynamic_resources.cel.time_values import (
    Duration,
    Timestamp,
    duration_text,
    timestamp_text,
)
from moorage.plugins.dynamic_resources.cel.types import Signatures
from moorage.plugins.dynamic_resources.cel.values import (
    DomainMap,
    TypeValue,
    Uint,
    kind_of,
)
from moorage.printable import SHORT_ESCAPES

_PRECISION = 6
_CLAUSE = re.compile(r"%(?:(%)|(?:\.([0-9]*))?(.?))", re.DOTALL)
_ESCAPES = str.maketrans({**SHORT_ESCAPES, "\\": "\\\\", '"': '\\"'})
_NOT_NUMBERS = ("NaN", "Infinity", "-Infinity")

ToString = Callable[[Any], str]


def declare(signatures: Signatures, to_string: ToString) -> None:
    """Their signatures; `to_string` converts plain values as `string()` does."""
    signatures.add(
        "string_format",
        "string.format(list(dyn)) -> string",
        lambda text, values: Formatter(to_string).format(text, values),
    )
    signatures.add("strings_quote", "@strings.quote(string) -> string", _quote)


def clauses(text: str) -> Iterator[str]:
    """The letters of a format's clauses; raises `EvaluationError` at one that is malformed."""
    for clause in _CLAUSE.finditer(text):
        if not clause[1]:
            yield _parsed(clause)[0]


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


class Formatter:
    """Fills in the clauses of a format."""

    def __init__(self, to_string: ToString) -> None:
        self._to_string = to_string

    def format(self, text: str, values: list[Any]) -> str:
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
                shown = self._shown(letter, values[number], digits)
            except EvaluationError as error:
                raise EvaluationError(f"error during formatting: {error}") from None
            total += len(shown)
            require_characters(total)
            return shown

        return _CLAUSE.sub(filled, text)

    def _shown(self, letter: str, value: Any, digits: int) -> str:
        match letter:
            case "s":
                return self.text(value)
            case "d":
                return _decimal(value)
            case "f":
                return _grouped(_float(value, "fixed-point"), digits)
            case "e":
                return _scientific(_float(value, "scientific"), digits)
            case "b":
                return _binary(value)
            case "o":
                if type(value) not in (int, Uint):
                    raise _unfit("octal clause can only be used on integers", value)
                return f"{value:o}"
            case _:
                return _hex(value, letter)

    def text(self, value: Any) -> str:
        """`%s`."""
        match value:
            case list():
                return f"[{', '.join(map(self._literal, value))}]"
            case dict() | DomainMap():
                return self._map(value)
            case None:
                return "null"
            case Duration():
                return duration_text(value)
            case Timestamp():
                return timestamp_text(value)
            case TypeValue():
                return value.name
            case bool() | int() | float() | str() | bytes():
                return self._to_string(value)
        raise _unfit(
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, "
            "types, durations, and timestamps",
            value,
        )

    def _literal(self, value: Any) -> str:
        """A value inside a list or map, as CEL would write it."""
        match value:
            case str():
                return _go_quoted(value)
            case bytes():
                return "b" + _go_quoted(self._to_string(value))
            case float():
                return f"{value:.6f}" if math.isfinite(value) else _go_quoted(_infinite(value))
            case Duration():
                return f'duration("{duration_text(value)}")'
            case Timestamp():
                return f'timestamp("{timestamp_text(value)}")'
            case bool() | int() | None | list() | dict() | DomainMap() | TypeValue():
                return self.text(value)
        raise EvaluationError(f"no formatting function for {kind_of(value)}")

    def _map(self, value: dict[Any, Any]) -> str:
        shown = []
        for key, item in value.items():
            if type(key) not in (str, bool, int, Uint):
                raise EvaluationError(f"no formatting function for map key of type {kind_of(key)}")
            shown.append((self._literal(key), self._literal(item)))
        shown.sort(key=lambda pair: pair[0])
        return "{" + ", ".join(f"{key}:{item}" for key, item in shown) + "}"


def _decimal(value: Any) -> str:
    if type(value) not in (int, Uint):
        raise _unfit("decimal clause can only be used on integers", value)
    return str(int(value))


def _float(value: Any, clause: str) -> float:
    if type(value) is str and value in _NOT_NUMBERS:
        return float(value)
    if type(value) is not float:
        raise _unfit(f"{clause} clause can only be used on doubles", value)
    return value


def _grouped(value: float, digits: int) -> str:
    """Upstream prints for the locale en_US: thousands are set apart."""
    return f"{value:,.{digits}f}" if math.isfinite(value) else _localized(value)


def _scientific(value: float, digits: int) -> str:
    """In en_US: a proper power of ten.

    Upstream hands the precision over as a width, so that there are always six decimals.
    """
    del digits
    if not math.isfinite(value):
        return _localized(value)
    mantissa, exponent = f"{value:.6e}".split("e")
    times = "\N{NARROW NO-BREAK SPACE}\N{MULTIPLICATION SIGN}\N{NARROW NO-BREAK SPACE}"
    return f"{mantissa}{times}10{_raised(int(exponent))}"


def _raised(exponent: int) -> str:
    digits = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
    return (
        f"{exponent:03}".translate(digits) if exponent < 0 else f"{exponent:02}".translate(digits)
    )


def _localized(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "∞" if value > 0 else "-∞"


def _infinite(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "+Inf" if value > 0 else "-Inf"


def _binary(value: Any) -> str:
    if type(value) not in (int, Uint, bool):
        raise _unfit("only integers and bools can be formatted as binary", value)
    return f"{int(value):b}"


def _hex(value: Any, letter: str) -> str:
    match value:
        case str():
            shown = value.encode().hex()
        case bytes():
            shown = value.hex()
        case int() if type(value) is not bool:
            shown = f"{int(value):x}"
        case _:
            raise _unfit("only integers, byte buffers, and strings can be formatted as hex", value)
    return shown.upper() if letter == "X" else shown


def _unfit(rule: str, value: Any) -> EvaluationError:
    return EvaluationError(f"{rule}, was given {kind_of(value)}")


def _go_quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _quote(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'
