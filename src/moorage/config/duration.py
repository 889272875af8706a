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
        raise ValueError(f'time: invalid duration "{text}"')
    total = 0
    while rest:
        part = _PART.match(rest)
        assert part is not None  # every piece of the pattern may be empty
        whole, fraction, unit = part.groups()
        if (not whole and not fraction) or max(len(whole), len(fraction or "")) > _LONGEST_NUMBER:
            raise ValueError(f'time: invalid duration "{text}"')
        if not unit:
            raise ValueError(f'time: missing unit in duration "{text}"')
        if unit not in _NANOSECONDS_OF:
            raise ValueError(f'time: unknown unit "{unit}" in duration "{text}"')
        scale = _NANOSECONDS_OF[unit]
        total += int(whole or 0) * scale
        if fraction:
            total += int(fraction) * scale // 10 ** len(fraction)
        rest = rest[part.end() :]
    if total * sign > 2**63 - 1 or total * sign < -(2**63):
        raise ValueError(f'time: invalid duration "{text}"')
    return Duration(sign * total)


def _decimal(amount: int, unit: int) -> str:
    """The amount divided by the unit, without trailing zeros."""
    whole, rest = divmod(amount, unit)
    if rest == 0:
        return str(whole)
    digits = str(rest).rjust(len(str(unit)) - 1, "0")
    return f"{whole}.{digits.rstrip('0')}"
