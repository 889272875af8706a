"""Functions on timestamps and durations: conversions and the parts of a calendar and clock."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from moorage.plugins.dynamic_resources.cel.errors import EvaluationError
from moorage.plugins.dynamic_resources.cel.time_values import (
    NANO,
    Duration,
    Timestamp,
    duration_text,
    parse_duration,
    parse_timestamp,
    timestamp_of,
    timestamp_text,
)
from moorage.plugins.dynamic_resources.cel.types import Signatures

_CALENDAR: dict[str, tuple[str, Callable[[datetime], int]]] = {
    "getFullYear": ("year", lambda moment: moment.year),
    "getMonth": ("month", lambda moment: moment.month - 1),
    "getDayOfYear": ("day_of_year", lambda moment: moment.timetuple().tm_yday - 1),
    "getDayOfMonth": ("day_of_month", lambda moment: moment.day - 1),
    "getDate": ("day_of_month_1_based", lambda moment: moment.day),
    "getDayOfWeek": ("day_of_week", lambda moment: moment.isoweekday() % 7),
    "getHours": ("hours", lambda moment: moment.hour),
    "getMinutes": ("minutes", lambda moment: moment.minute),
    "getSeconds": ("seconds", lambda moment: moment.second),
}
_UNITS = {
    "getHours": ("hours", 3600 * NANO),
    "getMinutes": ("minutes", 60 * NANO),
    "getSeconds": ("seconds", NANO),
    "getMilliseconds": ("milliseconds", NANO // 1000),
}


def declare(signatures: Signatures) -> None:
    """Their signatures, and those of the operators."""
    _declare_conversions(signatures)
    _declare_operators(signatures)
    add = signatures.add
    for name, (part, read) in _CALENDAR.items():
        get = _reader(read)
        add(f"timestamp_to_{part}", f"timestamp.{name}() -> int", get)
        add(f"timestamp_to_{part}_with_tz", f"timestamp.{name}(string) -> int", get)
    add("timestamp_to_milliseconds", "timestamp.getMilliseconds() -> int", _milliseconds)
    add(
        "timestamp_to_milliseconds_with_tz",
        "timestamp.getMilliseconds(string) -> int",
        _milliseconds,
    )
    for name, (part, unit) in _UNITS.items():
        add(f"duration_to_{part}", f"duration.{name}() -> int", _counter(unit))


def _declare_conversions(signatures: Signatures) -> None:
    add = signatures.add
    add("duration_to_duration", "duration(duration) -> duration", lambda value: value)
    add("int64_to_duration", "duration(int) -> duration", _refuse_number)
    add("string_to_duration", "duration(string) -> duration", parse_duration)
    add("timestamp_to_timestamp", "timestamp(timestamp) -> timestamp", lambda value: value)
    add("int64_to_timestamp", "timestamp(int) -> timestamp", timestamp_of)
    add("string_to_timestamp", "timestamp(string) -> timestamp", parse_timestamp)
    add("duration_to_int64", "int(duration) -> int", lambda duration: duration.nano)
    add("timestamp_to_int64", "int(timestamp) -> int", lambda timestamp: timestamp.seconds)
    add("duration_to_string", "string(duration) -> string", duration_text)
    add("timestamp_to_string", "string(timestamp) -> string", timestamp_text)


def _refuse_number(value: int) -> Duration:
    """Upstream declares the conversion and does not have it."""
    del value
    raise EvaluationError("type conversion error from 'int' to 'google.protobuf.Duration'")


def _declare_operators(signatures: Signatures) -> None:
    add = signatures.add_operator
    add("add_duration_duration", "_+_", "duration, duration", "duration")
    add("add_duration_timestamp", "_+_", "duration, timestamp", "timestamp")
    add("add_timestamp_duration", "_+_", "timestamp, duration", "timestamp")
    add("subtract_duration_duration", "_-_", "duration, duration", "duration")
    add("subtract_timestamp_duration", "_-_", "timestamp, duration", "timestamp")
    add("subtract_timestamp_timestamp", "_-_", "timestamp, timestamp", "duration")
    names = {"<": "less", "<=": "less_equals", ">": "greater", ">=": "greater_equals"}
    for symbol, name in names.items():
        for kind in ("timestamp", "duration"):
            add(f"{name}_{kind}", f"_{symbol}_", f"{kind}, {kind}", "bool")


def _reader(read: Callable[[datetime], int]) -> Callable[..., int]:
    def get(timestamp: Timestamp, zone: str | None = None) -> int:
        return read(timestamp.local(zone))

    return get


def _milliseconds(timestamp: Timestamp, zone: str | None = None) -> int:
    timestamp.local(zone)  # a zone that does not exist is an error all the same
    return timestamp.nano % NANO // (NANO // 1000)


def _counter(unit: int) -> Callable[[Any], int]:
    def count(duration: Duration) -> int:
        whole = abs(duration.nano) // unit
        return whole if duration.nano >= 0 else -whole

    return count
