"""The kinds of values a flag may take: how each is read from text and printed again.

Owns Go's spelling of numbers, booleans, lists and maps on a command line, with the sentences that
kube-scheduler prints about wrong ones (a `ValueError` carries the sentence). Lists are records of
comma-separated values, as Go's CSV package reads and writes them. Must not know any particular
flag.
"""

import ipaddress
import math
import re
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from moorage.app.version_flag import checked_version
from moorage.config.feature_gates import parse_bool
from moorage.config.field_errors import go_json, quoted
from moorage.http.options import SniCertificate
from moorage.model.duration import Duration, parse_duration
from moorage.model.quantity import parse_milli, whole
from moorage.printable import go_float

_BARE = 'bare " in non-quoted-field'
_OPEN = 'extraneous or missing " in quoted-field'
_INTEGER = re.compile(
    r"([+-]?)(?:0[xX](?P<x>(?:_?[0-9a-fA-F])+)|0[bB](?P<b>(?:_?[01])+)|0[oO]?(?P<o>(?:_?[0-7])+)"
    r"|(?P<d>0|[1-9](?:_?[0-9])*))"
)
_BASES = {"x": 16, "b": 2, "o": 8, "d": 10}
_DIGITS = "[0-9](?:_?[0-9])*"
_FLOAT = re.compile(
    rf"[+-]?(?:(?:{_DIGITS}\.?(?:{_DIGITS})?|\.{_DIGITS})(?:e[+-]?{_DIGITS})?|inf(?:inity)?|nan)",
    re.IGNORECASE,
)
_QUANTITY = re.compile(r"([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)")
_QUANTITY_TEXT = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


def read_record(text: str) -> tuple[str, ...]:
    """The fields of the first line with any; a `ValueError` says where a quote is wrong."""
    fields: list[str] = []
    position = len(text) - len(text.lstrip("\n"))
    if position == len(text):
        raise ValueError("EOF")
    while True:
        if text[position : position + 1] == '"':
            field, position = _quoted_field(text, position)
        else:
            end = _end(text, position)
            field = text[position:end]
            if '"' in field:
                raise _wrong(text, position + field.index('"'), _BARE)
            position = end
        fields.append(field)
        if text[position : position + 1] != ",":
            return tuple(fields)
        position += 1


def write_record(fields: Iterable[str]) -> str:
    """The fields with commas between them, quoted where they would be misread."""
    return ",".join(_written(field) for field in fields)


def _end(text: str, start: int) -> int:
    return min(
        (found for found in (text.find(mark, start) for mark in ",\n") if found >= 0),
        default=len(text),
    )


def _quoted_field(text: str, start: int) -> tuple[str, int]:
    field, position = "", start + 1
    while True:
        quote = text.find('"', position)
        if quote < 0:
            raise _wrong(text, len(text), _OPEN)
        field += text[position:quote]
        following = text[quote + 1 : quote + 2]
        if following in ("", ",", "\n"):
            return field, quote + 1
        if following != '"':
            raise _wrong(text, quote, _OPEN)
        field, position = field + '"', quote + 2


def _wrong(text: str, position: int, what: str) -> ValueError:
    first = len(text) - len(text.lstrip("\n")) + 1
    line = text.count("\n", 0, position) + 1
    column = len(text[text.rfind("\n", 0, position) + 1 : position].encode()) + 1
    record = f"record on line {first}; " if line != first else ""
    return ValueError(f"{record}parse error on line {line}, column {column}: {what}")


def _written(field: str) -> str:
    if field == "\\." or any(mark in field for mark in ',"\r\n') or field[:1] in (" ", "\t"):
        return '"' + field.replace('"', '""') + '"'
    return field


@dataclass(frozen=True, slots=True)
class FlagKind:
    """What a flag's value is; values themselves are plain and immutable."""

    word: str
    """What stands for the value in the help; empty for booleans."""
    read: Callable[[str], Any]
    show: Callable[[Any], str] = str
    zero: Any = ""
    """The value of a flag without a default of its own."""
    unsaid: frozenset[str] = frozenset(("",))
    """Defaults, as printed, that the help does not mention."""
    bare: str | None = None
    """What the flag means when no value follows it; None demands one."""
    join: Callable[[Any, Any], Any] | None = None
    """How a repeated flag adds to what was there; None lets the last one win."""


@dataclass(frozen=True, slots=True)
class Bytes:
    """An amount of bytes, and how it is printed."""

    amount: int
    text: str


def _read_version(text: str) -> str:
    """`true`, `false`, `raw`, or a version to report."""
    if text == "raw":
        return text
    if text.startswith("v"):
        return checked_version(text)
    return go_json(parse_bool(text))


def _integer(text: str, bits: int) -> int:
    match = _INTEGER.fullmatch(text)
    if match is None:
        raise ValueError(f"strconv.ParseInt: parsing {quoted(text)}: invalid syntax")
    name = match.lastgroup or "d"
    digits = match[name].replace("_", "")
    # Python refuses to read extremely long decimals; they are out of range long before.
    value = int(digits, _BASES[name]) if len(digits) <= 64 else 2**64
    value = -value if match[1] == "-" else value
    if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise ValueError(f"strconv.ParseInt: parsing {quoted(text)}: value out of range")
    return value


def _natural(text: str) -> int:
    """A decimal number of at most 31 bits, as verbosity levels are."""
    if not re.fullmatch("[0-9]+", text):
        raise ValueError(f"strconv.ParseUint: parsing {quoted(text)}: invalid syntax")
    if len(text) > 64 or int(text) >= 2**31:
        raise ValueError(f"strconv.ParseUint: parsing {quoted(text)}: value out of range")
    return int(text)


def _read_float32(text: str) -> float:
    if not _FLOAT.fullmatch(text):
        raise ValueError(f"strconv.ParseFloat: parsing {quoted(text)}: invalid syntax")
    try:
        value: float = struct.unpack("f", struct.pack("f", float(text)))[0]
    except OverflowError:
        value = math.inf
    if math.isinf(value) and "inf" not in text.lower():
        raise ValueError(f"strconv.ParseFloat: parsing {quoted(text)}: value out of range")
    # The double nearest to what is printed: 0.1 shall not become 0.10000000149011612.
    return float(_show_float32(value))


def _show_float32(value: float) -> str:
    """The shortest digits that mean the same 32-bit number, with Go's exponents."""
    shortest = next(
        text
        for text in (f"{value:.{precision}e}" for precision in range(17))
        if struct.pack("f", float(text)) == struct.pack("f", value)
    )
    return go_float(float(shortest))


def _read_ip(text: str) -> str:
    if not text:
        return "0.0.0.0"
    try:
        address = ipaddress.ip_address(text.strip())
    except ValueError:
        raise ValueError(f"failed to parse IP: {quoted(text)}") from None
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            raise ValueError(f"failed to parse IP: {quoted(text)}")
        return str(address.ipv4_mapped or address)
    return str(address)


def _read_strings(text: str) -> tuple[str, ...]:
    return read_record(text) if text else ()


def _show_strings(values: tuple[str, ...]) -> str:
    return f"[{write_record(values)}]"


def _read_numbers(text: str) -> tuple[int, ...]:
    return tuple(_integer(item, 32) for item in text.split(","))


def _show_numbers(values: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, values))}]"


def _read_map(text: str) -> Mapping[str, str]:
    if "=" not in text:
        raise ValueError(f"{text} must be formatted as key=value")
    pairs = (text.strip('"'),) if text.count("=") == 1 else read_record(text)
    result = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"{pair} must be formatted as key=value")
        result[key] = value
    return result


def _show_map(values: Mapping[str, str]) -> str:
    return _show_strings(tuple(f"{key}={values[key]}" for key in sorted(values)))


def _read_certificate(text: str) -> tuple[SniCertificate, ...]:
    files, colon, names = text.partition(":")
    if colon and not names.strip():
        raise ValueError("empty names list is not allowed")
    parts = [part.strip() for part in files.strip().split(",")]
    if len(parts) != 2:
        raise ValueError("expected comma separated certificate and key file paths")
    hosts = tuple(name.strip() for name in names.strip().split(",")) if colon else ()
    return (SniCertificate(parts[0], parts[1], hosts),)


def _show_certificates(values: tuple[SniCertificate, ...]) -> str:
    def one(value: SniCertificate) -> str:
        names = f":{','.join(value.names)}" if value.names else ""
        return f"{value.cert_file},{value.key_file}{names}"

    return f"[{';'.join(one(value) for value in values)}]"


def _read_gates(text: str) -> Mapping[str, tuple[str, ...]]:
    """Settings by the component they are for; the empty name is that of the scheduler itself."""
    result: dict[str, tuple[str, ...]] = {}
    for pair in text.split(","):
        if pair:
            component, colon, setting = pair.partition(":")
            key, value = (component, setting) if colon else ("", pair)
            result[key.strip()] = (*result.get(key.strip(), ()), value.strip())
    return result


def _join_gates(
    first: Mapping[str, tuple[str, ...]], second: Mapping[str, tuple[str, ...]]
) -> Mapping[str, tuple[str, ...]]:
    keys = dict.fromkeys([*first, *second])
    return {key: (*first.get(key, ()), *second.get(key, ())) for key in keys}


def _show_gates(values: Mapping[str, tuple[str, ...]]) -> str:
    return ",".join(f"{key}:{item}" for key in sorted(values) for item in values[key])


def _read_vmodule(text: str) -> tuple[tuple[str, int], ...]:
    result = []
    for item in filter(None, text.split(",")):
        parts = item.split("=")
        if len(parts) != 2 or not all(parts):
            raise ValueError(f"{quoted(item)} does not have the pattern=N format")
        try:
            result.append((parts[0], _natural(parts[1])))
        except ValueError as error:
            raise ValueError(f"parsing verbosity in {quoted(item)}: {error}") from None
    return tuple(result)


def _show_vmodule(values: tuple[tuple[str, int], ...]) -> str:
    return ",".join(f"{pattern}={level}" for pattern, level in values)


def _read_bytes(text: str) -> Bytes:
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(_QUANTITY_TEXT)
    try:
        milli = parse_milli(text)
    except ValueError:
        wrong_number = match[1].count(".") > 1 or not any(c.isdigit() for c in match[1])
        raise ValueError(
            _QUANTITY_TEXT if wrong_number else "unable to parse quantity's suffix"
        ) from None
    return Bytes(whole(milli), _canonical(milli, match[2]))


def _canonical(milli: int, suffix: str) -> str:
    """An amount with the largest suffix of its family that leaves a whole number."""
    if milli == 0:
        return "0"
    if suffix.endswith("i") and milli % 1000 == 0:
        amount, names, step = milli // 1000, ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"], 1024
    elif suffix[:1] in ("e", "E") and len(suffix) > 1 and milli % 1000 == 0:
        amount, names, step = milli // 1000, ["", "e3", "e6", "e9", "e12", "e15", "e18"], 1000
    else:
        amount, names, step = milli, ["m", "", "k", "M", "G", "T", "P", "E"], 1000
    while amount % step == 0 and len(names) > 1:
        amount, names = amount // step, names[1:]
    return f"{amount}{names[0]}"


def _joined(first: tuple[Any, ...], second: tuple[Any, ...]) -> tuple[Any, ...]:
    return (*first, *second)


_ZERO = frozenset(("0",))
STRING = FlagKind("string", str)
_KINDS = (
    STRING,
    FlagKind("", parse_bool, go_json, zero=False, unsaid=frozenset(("false",)), bare="true"),
    FlagKind("int", lambda text: _integer(text, 64), zero=0, unsaid=_ZERO),
    FlagKind("int32", lambda text: _integer(text, 32), zero=0, unsaid=_ZERO),
    FlagKind("float32", _read_float32, _show_float32, zero=0.0, unsaid=_ZERO),
    FlagKind("duration", parse_duration, zero=Duration(), unsaid=frozenset(("0s",))),
    FlagKind("ip", _read_ip),
    FlagKind(
        "strings", _read_strings, _show_strings, zero=(), unsaid=frozenset(("[]",)), join=_joined
    ),
    FlagKind("int32Slice", _read_numbers, _show_numbers, zero=(), join=_joined),
    FlagKind("stringToString", _read_map, _show_map, zero={}, join=lambda old, new: {**old, **new}),
    FlagKind("namedCertKey", _read_certificate, _show_certificates, zero=(), join=_joined),
    FlagKind(
        "colonSeparatedMultimapStringString", _read_gates, _show_gates, zero={}, join=_join_gates
    ),
    FlagKind("quantity", _read_bytes, lambda value: value.text, zero=Bytes(0, "0"), unsaid=_ZERO),
    FlagKind("Level", _natural, zero=0, unsaid=_ZERO),
    FlagKind("pattern=N,...", _read_vmodule, _show_vmodule, zero=(), join=_joined),
    FlagKind(
        "version[=true]", _read_version, zero="false", unsaid=frozenset(("false",)), bare="true"
    ),
)
KINDS = {kind.word or "bool": kind for kind in _KINDS}
