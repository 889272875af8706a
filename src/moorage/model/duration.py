"""Lengths of time in the notation of Go (`15s`, `1h30m`, `-500ns`), exact to the nanosecond.

Owns reading and printing that notation. Must not decide which lengths are acceptable
(`validation`), nor know any field that holds one.
"""

import re

import msgspec

_NANOSECONDS_OF = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # U+00B5, micro sign
    "μs": 1_000,  # U+03BC, Greek letter mu
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60 * 1_000_000_000,
    "h": 3600 * 1_000_000_000,
}
_SECOND = _NANOSECONDS_OF["s"]
_MAX_INT64 = 2**63 - 1
_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^0-9.]*)")
_LONGEST_NUMBER = 40
"""More digits than this exceed 64 bits in every unit (leading zeros aside, which nobody writes)."""


class Duration(msgspec.Struct, frozen=True, order=True):
    """A length of time; compares by length and prints as Go prints it."""

    nanoseconds: int = 0

    @classmethod
    def of_seconds(cls, seconds: int) -> "Duration":
        """The duration of so many whole seconds."""
        return cls(seconds * _SECOND)

    @property
    def seconds(self) -> float:
        """The length in seconds, for clocks and timeouts."""
        return self.nanoseconds / _SECOND

    def __str__(self) -> str:
        nanoseconds = abs(self.nanoseconds)
        sign = "-" if self.nanoseconds < 0 else ""
        if nanoseconds == 0:
            return "0s"
        if nanoseconds < _SECOND:
            unit = next(u for u in ("ms", "µs", "ns") if nanoseconds >= _NANOSECONDS_OF[u])
            return sign + _decimal(nanoseconds, _NANOSECONDS_OF[unit]) + unit
        minutes, rest = divmod(nanoseconds, _NANOSECONDS_OF["m"])
        hours, minutes = divmod(minutes, 60)
        text = _decimal(rest, _SECOND) + "s"
        if hours or minutes:
            text = f"{minutes}m{text}"
        if hours:
            text = f"{hours}h{text}"
        return sign + text


def parse_duration(text: str) -> Duration:
    """Read a duration; a `ValueError` carries the text that Go would print."""
    sign = -1 if text.startswith("-") else 1
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return Duration(0)
    if not rest:
        raise ValueError(f"time: invalid duration {_quoted(text)}")
    total = 0
    while rest:
        part = _PART.match(rest)
        assert part is not None  # every piece of the pattern may be empty
        whole, fraction, unit = part.groups()
        if (not whole and not fraction) or len(whole) > _LONGEST_NUMBER:
            raise ValueError(f"time: invalid duration {_quoted(text)}")
        if not unit:
            raise ValueError(f"time: missing unit in duration {_quoted(text)}")
        if unit not in _NANOSECONDS_OF:
            raise ValueError(f"time: unknown unit {_quoted(unit)} in duration {_quoted(text)}")
        scale = _NANOSECONDS_OF[unit]
        total += int(whole or 0) * scale
        total += _fraction(fraction or "", scale)
        rest = rest[part.end() :]
    if not -_MAX_INT64 - 1 <= total * sign <= _MAX_INT64:
        raise ValueError(f"time: invalid duration {_quoted(text)}")
    return Duration(sign * total)


def _fraction(digits: str, unit: int) -> int:
    """The nanoseconds of the digits after a point, with Go's rounding."""
    value, scale = 0, 1
    for digit in digits:
        if value > _MAX_INT64 // 10:
            break
        value, scale = value * 10 + int(digit), scale * 10
    return int(float(value) * (float(unit) / float(scale)))


def _quoted(text: str) -> str:
    """A string in quotes as Go's time package writes it, which escapes all but plain ASCII."""
    shown = ""
    for byte in text.encode("utf-8", "replace"):
        if byte in b'"\\':
            shown += "\\" + chr(byte)
        else:
            shown += chr(byte) if 0x20 <= byte < 0x80 else f"\\x{byte:02x}"
    return f'"{shown}"'


def _decimal(amount: int, unit: int) -> str:
    """The amount divided by the unit, without trailing zeros."""
    whole, rest = divmod(amount, unit)
    if rest == 0:
        return str(whole)
    digits = str(rest).rjust(len(str(unit)) - 1, "0")
    return f"{whole}.{digits.rstrip('0')}"
