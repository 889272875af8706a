"""CEL's timestamps and durations: reading, printing, calculating, and the functions on them.

Both are exact to the nanosecond. A timestamp remembers the offset it was written with, because that
is how it is printed; everything else sees the instant only.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from moorage.cel.errors import EvaluationError, no_such_overload, not_convertible
from moorage.cel.types import Signatures
from moorage.model.duration import Duration
from moorage.model.duration import parse_duration as parse_go_duration

NANO = 10**9
_MAX_INT64 = 2**63 - 1
_FIRST_SECOND = -62135596800
"""0001-01-01T00:00:00Z"""
_LAST_SECOND = 253402300799
"""9999-12-31T23:59:59Z"""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_RFC3339 = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})T([0-9]{2}:[0-9]{2}:[0-9]{2})(?:[.,]([0-9]+))?"
    r"(Z|[+-][0-9]{2}:[0-9]{2})",
    re.ASCII,
)


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """An instant, in nanoseconds since 1970."""

    nanoseconds: int
    offset_seconds: int = field(default=0, compare=False)

    @property
    def seconds(self) -> int:
        """Whole seconds since 1970."""
        return self.nanoseconds // NANO

    def local(self, zone: str | None = None) -> datetime:
        """The calendar and clock in UTC or in a named zone, without the fraction."""
        try:
            return (_EPOCH + timedelta(seconds=self.seconds)).astimezone(
                UTC if zone is None else _zone(zone)
            )
        except OverflowError:
            raise EvaluationError("timestamp overflow") from None


def parse_duration(text: str) -> Duration:
    """A duration in Go's notation."""
    try:
        return parse_go_duration(text)
    except ValueError:
        raise not_convertible("google.protobuf.Duration") from None


def parse_timestamp(text: str) -> Timestamp:
    """An instant as RFC 3339 writes it."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise not_convertible("google.protobuf.Timestamp")
    day, clock, fraction, zone = match.groups()
    try:
        moment = datetime.fromisoformat(f"{day}T{clock}+00:00")
        offset = _EPOCH if zone == "Z" else datetime.fromisoformat(f"1970-01-01T00:00:00{zone}")
    except ValueError:
        if day.startswith("0000"):
            raise EvaluationError("timestamp overflow") from None
        raise not_convertible("google.protobuf.Timestamp") from None
    east = (offset.utcoffset() or timedelta()) // timedelta(seconds=1)
    seconds = (moment - _EPOCH) // timedelta(seconds=1) - east
    nano = int((fraction or "0").ljust(9, "0")[:9])
    return _checked(seconds * NANO + nano, east)


def timestamp_of(seconds: int) -> Timestamp:
    """So many seconds after 1970."""
    return _checked(seconds * NANO)


def duration_text(duration: Duration) -> str:
    """`90s`, `1.5s`: seconds, as CEL prints durations."""
    seconds, rest = divmod(abs(duration.nanoseconds), NANO)
    text = f"{Decimal(repr(seconds + rest / NANO)):f}"  # through a double, as Go does it
    sign = "-" if duration.nanoseconds < 0 else ""
    return f"{sign}{text.rstrip('0').rstrip('.') if rest else seconds}s"


def timestamp_text(timestamp: Timestamp) -> str:
    """RFC 3339 with as many decimals as there are, in the zone it was written in."""
    moment = _EPOCH + timedelta(seconds=timestamp.seconds + timestamp.offset_seconds)
    text = f"{moment.year:04}-{moment:%m-%dT%H:%M:%S}"
    fraction = timestamp.nanoseconds % NANO
    if fraction:
        text += f".{fraction:09}".rstrip("0")
    if not timestamp.offset_seconds:
        return text + "Z"
    hours, minutes = divmod(abs(timestamp.offset_seconds) // 60, 60)
    return f"{text}{'-' if timestamp.offset_seconds < 0 else '+'}{hours:02}:{minutes:02}"


def plus(left: Any, right: Any) -> Any:
    """The sum, where at least one side is a time."""
    match left, right:
        case Duration(), Duration():
            return _length(left.nanoseconds + right.nanoseconds)
        case (Timestamp() as moment, Duration() as length) | (
            Duration() as length,
            Timestamp() as moment,
        ):
            return _checked(moment.nanoseconds + length.nanoseconds, moment.offset_seconds)
    raise no_such_overload()


def minus(left: Any, right: Any) -> Any:
    """The difference, where at least one side is a time."""
    match left, right:
        case (Duration(), Duration()) | (Timestamp(), Timestamp()):
            return _length(left.nanoseconds - right.nanoseconds)
        case Timestamp(), Duration():
            return _checked(left.nanoseconds - right.nanoseconds, left.offset_seconds)
    raise no_such_overload()


def negative(duration: Duration) -> Duration:
    """The same length backwards."""
    return _length(-duration.nanoseconds)


def _checked(nano: int, offset: int = 0) -> Timestamp:
    if not _FIRST_SECOND <= nano // NANO <= _LAST_SECOND:
        raise EvaluationError("timestamp overflow")
    return Timestamp(nano, offset)


def _length(nano: int) -> Duration:
    if not -_MAX_INT64 - 1 <= nano <= _MAX_INT64:
        raise EvaluationError("integer overflow")
    return Duration(nano)


def _zone(name: str) -> ZoneInfo | timezone:
    """A zone by its name, or an offset such as `-05:30`."""
    hours, colon, minutes = name.partition(":")
    if colon:
        try:
            west = name.startswith("-")
            total = int(hours) * 60 + (-int(minutes) if west else int(minutes))
            return timezone(timedelta(minutes=total))
        except ValueError:
            raise EvaluationError(f'strconv.Atoi: parsing "{hours}": invalid syntax') from None
    if name in ("", "UTC"):
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise EvaluationError(f"unknown time zone {name}") from None


_CALENDAR: dict[str, Callable[[datetime], int]] = {
    "getFullYear": lambda moment: moment.year,
    "getMonth": lambda moment: moment.month - 1,
    "getDayOfYear": lambda moment: moment.timetuple().tm_yday - 1,
    "getDayOfMonth": lambda moment: moment.day - 1,
    "getDate": lambda moment: moment.day,
    "getDayOfWeek": lambda moment: moment.isoweekday() % 7,
    "getHours": lambda moment: moment.hour,
    "getMinutes": lambda moment: moment.minute,
    "getSeconds": lambda moment: moment.second,
}
_UNITS = {
    "getHours": 3600 * NANO,
    "getMinutes": 60 * NANO,
    "getSeconds": NANO,
    "getMilliseconds": NANO // 1000,
}


def declare(signatures: Signatures) -> None:
    """Their signatures, and those of the operators."""
    _declare_conversions(signatures)
    _declare_operators(signatures)
    add = signatures.add
    for name, read in _CALENDAR.items():
        get = _reader(read)
        add(f"timestamp.{name}() -> int", get)
        add(f"timestamp.{name}(string) -> int", get)
    add("timestamp.getMilliseconds() -> int", _milliseconds)
    add("timestamp.getMilliseconds(string) -> int", _milliseconds)
    for name, unit in _UNITS.items():
        add(f"duration.{name}() -> int", _counter(unit))


def _declare_conversions(signatures: Signatures) -> None:
    add = signatures.add
    add("duration(duration) -> duration", lambda value: value)
    add("duration(string) -> duration", parse_duration)
    add("timestamp(timestamp) -> timestamp", lambda value: value)
    add("timestamp(int) -> timestamp", timestamp_of)
    add("timestamp(string) -> timestamp", parse_timestamp)
    add("int(duration) -> int", lambda duration: duration.nanoseconds)
    add("int(timestamp) -> int", lambda timestamp: timestamp.seconds)
    add("string(duration) -> string", duration_text)
    add("string(timestamp) -> string", timestamp_text)


def _declare_operators(signatures: Signatures) -> None:
    add = signatures.add
    add("_+_(duration, duration) -> duration")
    add("_+_(duration, timestamp) -> timestamp")
    add("_+_(timestamp, duration) -> timestamp")
    add("_-_(duration, duration) -> duration")
    add("_-_(timestamp, duration) -> timestamp")
    add("_-_(timestamp, timestamp) -> duration")
    for symbol in ("_<_", "_<=_", "_>_", "_>=_"):
        for kind in ("timestamp", "duration"):
            add(f"{symbol}({kind}, {kind}) -> bool")


def _reader(read: Callable[[datetime], int]) -> Callable[..., int]:
    def get(timestamp: Timestamp, zone: str | None = None) -> int:
        return read(timestamp.local(zone))

    return get


def _milliseconds(timestamp: Timestamp, zone: str | None = None) -> int:
    timestamp.local(zone)  # a zone that does not exist is an error all the same
    return timestamp.nanoseconds % NANO // (NANO // 1000)


def _counter(unit: int) -> Callable[[Any], int]:
    def count(duration: Duration) -> int:
        whole = abs(duration.nanoseconds) // unit
        return whole if duration.nanoseconds >= 0 else -whole

    return count
