"""Kubernetes quantities ("100m", "1.5Gi", "129e6") as exact integers.

The API server rounds every resource up to a thousandth of its unit when it stores an object, so
thousandths ("milli") are the usual unit here: sums of them are exact, and a whole-unit value is
taken only at the end, rounded away from zero as upstream does. Quantities of devices are not
rounded on storing; they are read in billionths ("nano"), the finest step upstream keeps.
"""

import re
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache

MAX_VALUE = 2**63 - 1
NANO = 10**9

_FORM = re.compile(r"([+-]?)([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([A-Za-z]*|[eE][+-]?[0-9]+)")
_SUFFIXES: dict[str, Fraction] = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
# An exponent beyond this leaves int64 on either side whatever the digits are; cutting it here
# keeps a hostile "1e999999999" from building a huge number.
_EXPONENT_LIMIT = 400

Quantity = str | int | float


@lru_cache(maxsize=8192, typed=True)  # typed: True must not be answered with the entry of 1
def parse_milli(text: Quantity) -> int:
    """The quantity in thousandths of its unit, rounded away from zero, capped like upstream's."""
    return _parse(text, 1000)


@lru_cache(maxsize=8192, typed=True)
def parse_nano(text: Quantity) -> int:
    """The quantity in billionths of its unit, rounded away from zero.

    Like upstream's it is capped if it is written in powers of two, and only then.
    """
    return _parse(text, NANO)


def _parse(text: Quantity, steps: int) -> int:
    # Upstream trims the text too. It also takes a suffix or sign without any digit for zero; that
    # is refused here, as nobody means it.
    match = _FORM.fullmatch(str(text).strip())
    if match is None or isinstance(text, bool):
        raise ValueError(
            f"{text!r} is not a quantity: expected a number with an optional suffix "
            "such as m, k, M, Gi or an exponent such as e3"
        )
    sign, digits, suffix = match.groups()
    scale = _SUFFIXES.get(suffix)
    if scale is None:
        if len(suffix) < 2 or suffix[0] not in "eE" or not suffix[1:].lstrip("+-").isdigit():
            raise ValueError(f"{text!r} is not a quantity: unknown suffix {suffix!r}")
        exponent = max(-_EXPONENT_LIMIT, min(_EXPONENT_LIMIT, int(suffix[1:])))
        scale = Fraction(10) ** exponent
    exact = Fraction(digits if digits[-1] != "." else digits[:-1]) * scale * steps
    rounded = -(-exact.numerator // exact.denominator)
    if steps != NANO or suffix.endswith("i"):
        rounded = min(rounded, MAX_VALUE * steps)
    return -rounded if sign == "-" else rounded


class QuantityFormat(StrEnum):
    """How a quantity is written."""

    DECIMAL = "DecimalSI"
    BINARY = "BinarySI"
    EXPONENT = "DecimalExponent"


def quantity_format(text: Quantity) -> QuantityFormat:
    """The format that results of computing with a quantity are written in."""
    suffix = str(text).strip().lstrip("+-.0123456789")
    if suffix.endswith("i"):
        return QuantityFormat.BINARY
    return QuantityFormat.EXPONENT if len(suffix) > 1 else QuantityFormat.DECIMAL


def quantity_text(nano: int, form: QuantityFormat) -> str:
    """Billionths as Go prints them: without a fraction, in the largest unit that allows it."""
    if not nano:
        return "0"
    if form is QuantityFormat.BINARY and abs(nano) >= 1024 * NANO and nano % NANO == 0:
        value, unit = nano // NANO, 0
        while value % 1024 == 0 and unit < len(_BINARY) - 1:
            value, unit = value // 1024, unit + 1
        return f"{value}{_BINARY[unit]}"
    value, exponent = nano, -9
    while value % 1000 == 0 and (form is QuantityFormat.EXPONENT or exponent < 18):
        value, exponent = value // 1000, exponent + 3
    if form is QuantityFormat.EXPONENT:
        return f"{value}e{exponent}" if exponent else f"{value}"
    return f"{value}{_DECIMAL[exponent // 3 + 3]}"


def whole(milli: int) -> int:
    """Thousandths as whole units, rounded away from zero (Go's `Quantity.Value`)."""
    return -(-milli // 1000) if milli >= 0 else milli // 1000


def clamp(value: int) -> int:
    """`value` kept inside int64, so that it can live in a column."""
    return max(-MAX_VALUE, min(MAX_VALUE, value))
