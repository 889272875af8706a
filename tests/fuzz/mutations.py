"""Hostile variants of good inputs: of JSON values by their structure, of bytes by their place.

Everything is drawn from the generator that is passed in, so a seed repeats a run. Knows nothing of
Kubernetes beyond the texts in the pools below, and calls nothing of the product.
"""

import json
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

MOST_BYTES = 1 << 20
"""No input is larger."""


class Token:
    """Text that stands in the JSON as it is: what Python cannot hold, or not so deep."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def nested(levels: int, opening: str = "[", closing: str = "]", inside: str = "1") -> Token:
    """A value within so many lists or mappings."""
    return Token(opening * levels + inside + closing * levels)


NUMBERS: Sequence[Any] = (
    0, -1, 1, 2, -0.0, 0.5, 1e-320, 1e308, 2**31 - 1, 2**31, -(2**31) - 1, 2**53 + 1,
    2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64, 10**19, 10**40,
    Token("1e400"), Token("-1e400"), Token("1E+19"), Token("-0"), Token("NaN"), Token("Infinity"),
    Token("9" * 400), Token("1e-400"), Token("0.1e1"),
)  # fmt: skip
STRINGS: Sequence[str] = (
    "", " ", "\0", "a\nb", "a\r\nb", "\x1b[31mred", "\u2028", "\ufeff", "\ud800", "\udfff\ud800",
    "é", "\U0001f6a2", "../../etc", "%00", "a/b/c", "/", ".", "..", "-", "_", "*", "{}", "null",
    "true", "~", "x" * 64, "x" * 254, "x" * 5000, "kubernetes.io/hostname",
    "topology.kubernetes.io/zone", "default", "kube-system", "default-scheduler",
)  # fmt: skip
QUANTITIES: Sequence[Any] = (
    "0", "-1", "+1", "1", "0.1", ".5", "5.", "1m", "1u", "1n", "1p", "0.0000000001", "1e3", "1E3",
    "1e", "1e-3", "1e+1", "1e99", "1e400", "1e-400", "1e999999999", "1e-999999999", "1k", "1K",
    "1Ki", "1KI", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei", "1Zi", "8Ei", "9Ei", "9223372036854775807",
    "9223372036854775808", "-9223372036854775809", "9223372036854775807Ei", "1.5.5", "1 Gi", "Gi",
    "m", "--1", "0x10", "1_000", "٣", "1e１", "NaN", "inf", "\x00", "9" * 5000,
    "0." + "0" * 5000 + "1", "9" * 100_000, 0, -1, 1.5, 10**25,
)  # fmt: skip
OPERATORS: Sequence[str] = (
    "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equal", "in", "", "Ne", "GreaterThan",
    "NoSchedule", "NoExecute", "PreferNoSchedule", "DoNotSchedule", "ScheduleAnyway", "Honor",
    "Ignore", "Never", "PreemptLowerPriority", "WaitForFirstConsumer", "Immediate", "All",
    "ExactCount", "Succeeded", "Failed", "Running", "Pending",
)  # fmt: skip
TIMES: Sequence[str] = (
    "2026-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:60Z", "0000-00-00T00:00:00Z",
    "2026-01-01", "2026-01-01T00:00:00+99:99", "2026-01-01T00:00:00.123456789Z", "now",
    "-2026-01-01T00:00:00Z", "9999-12-31T23:59:59-23:59", "1", "2026-W01-1",
)  # fmt: skip
POOLS: Sequence[Sequence[Any]] = (NUMBERS, STRINGS, QUANTITIES, OPERATORS, TIMES)
DEPTHS = (10, 64, 200, 600, 1000, 1300, 3000)

Change = Callable[[Any, Random], Any]
_GONE = object()


def encode(value: Any) -> bytes:
    """The value as JSON; tokens as they are, lone surrogates as escapes."""
    texts: list[str] = []

    def token(item: Any) -> str:
        if isinstance(item, bytes):
            return item.decode("latin-1")
        assert isinstance(item, Token), item
        texts.append(item.text)
        return f"\0@{len(texts) - 1}@"

    text = json.dumps(value, default=token)
    if texts:
        text = re.sub(r'"\\u0000@(\d+)@"', lambda found: texts[int(found[1])], text)
    return text.encode("ascii")


def hostile(random: Random) -> Any:
    """A value that somebody may not expect."""
    if random.random() < 0.02:
        opening, closing = random.choice((("[", "]"), ('{"a":', "}"), ('[{"":', "}]")))
        return nested(random.choice(DEPTHS), opening, closing)
    if random.random() < 0.15:
        return random.choice((None, True, False, [], {}, [None], {"": None}, [[]], [{}], {"a": {}}))
    return random.choice(random.choice(POOLS))


def mutate_json(value: Any, random: Random, donors: Sequence[Any] = ()) -> Any:
    """The value with one to four changes; the original stays as it is."""
    for _ in range(random.choice((1, 1, 1, 2, 3, 4))):
        changed = _somewhere(value, random, donors)
        value = {} if changed is _GONE else changed
    return value


def _somewhere(value: Any, random: Random, donors: Sequence[Any]) -> Any:
    """Go down at random and change what is met there."""
    if isinstance(value, dict) and value and random.random() > 0.12:
        key = random.choice(list(value))
        changed = _somewhere(value[key], random, donors)
        copy = dict(value)
        if changed is _GONE:
            del copy[key]
        else:
            copy[key] = changed
        return copy
    if isinstance(value, list) and value and random.random() > 0.12:
        at = random.randrange(len(value))
        changed = _somewhere(value[at], random, donors)
        return [*value[:at], *([] if changed is _GONE else [changed]), *value[at + 1 :]]
    return _changed(value, random, donors)


def _changed(value: Any, random: Random, donors: Sequence[Any]) -> Any:
    choice = random.random()
    if choice < 0.08:
        return _GONE
    if choice < 0.14 and donors:
        return _part(random.choice(donors), random)
    if choice < 0.20:
        return random.choice(([value], {"a": value}, [value, value], str(value)[:1000]))
    if isinstance(value, dict) and choice < 0.75:
        return _changed_mapping(value, random)
    if isinstance(value, list) and choice < 0.75:
        return _changed_list(value, random)
    if isinstance(value, str) and choice < 0.45:
        return _changed_text(value, random)
    if isinstance(value, int) and choice < 0.35:
        return value + random.choice((1, -1, 2**31, 2**63, -value, -value - 1))
    return hostile(random)


def _changed_mapping(value: dict[str, Any], random: Random) -> Any:
    keys = list(value)
    way = random.randrange(7)
    if not keys or way == 0:
        return {**value, random.choice(STRINGS): hostile(random)}
    key, other = random.choice(keys), random.choice(keys)
    if way == 1:
        return {name: hostile(random) if name == key else item for name, item in value.items()}
    if way == 2:
        return {**value, key: value[other], other: value[key]}
    if way == 3:
        named = random.choice((key.upper(), key + "\0", key[:-1], random.choice(STRINGS)))
        return {named if name == key else name: item for name, item in value.items()}
    if way == 4:  # the same key twice
        text = encode(value).decode()
        twice = encode({key: hostile(random)}).decode()[1:]
        return Token(f"{text[:-1]}, {twice}")
    if way == 5:
        return {**value, **{f"{key}-{i}": value[key] for i in range(random.choice((3, 200)))}}
    return dict.fromkeys(keys) if random.random() < 0.2 else {**value, key: value}


def _changed_list(value: list[Any], random: Random) -> Any:
    way = random.randrange(6)
    if not value or way == 0:
        return [*value, hostile(random)]
    item = random.choice(value)
    if way == 1:
        return [*value, item]
    if way == 2:
        return [item] * random.choice((2, 17, 65, 1000))
    if way == 3:
        return value[::-1]
    if way == 4:
        return [*value, None]
    return []


def _changed_text(value: str, random: Random) -> str:
    at = random.randrange(len(value) + 1)
    other = random.choice(STRINGS)
    return random.choice(
        (value[:at], value[at:], value[:at] + other + value[at:], value * 3, value.upper(), other)
    )


def _part(value: Any, random: Random) -> Any:
    """Some value within a value."""
    while random.random() < 0.75:
        if isinstance(value, dict) and value:
            value = random.choice(list(value.values()))
        elif isinstance(value, list) and value:
            value = random.choice(value)
        else:
            break
    return value


_PIECES: Sequence[bytes] = (
    b"\0", b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\r\n", b"\n", b"\r", b'"',
    b"\\", b"\\u", b"\\ud800", b"{", b"}", b"[", b"]", b",", b":", b"null", b"1e999", b"-", b"0",
    b"\x80" * 8, b" " * 100, b"[" * 1500, b'{"a":' * 1500, b"9" * 5000, b"&a [*a]", b"!!python/x",
    b"%", b"#", b"---\n", b"<<: *x\n", b"\t", b"? ", b"- ", b"0" * 20,
)  # fmt: skip


def mutate_bytes(data: bytes, random: Random, donors: Sequence[bytes] = ()) -> bytes:
    """The bytes with one to four of: a flip, a cut, an insertion, a repetition, a splice."""
    for _ in range(random.choice((1, 1, 2, 3, 4))):
        data = _changed_bytes(data, random, donors)
    return data[:MOST_BYTES]


def _changed_bytes(data: bytes, random: Random, donors: Sequence[bytes]) -> bytes:
    at = random.randrange(len(data) + 1)
    end = min(len(data), at + random.choice((1, 1, 2, 4, 16, 100, 1000)))
    match random.randrange(7):
        case 0 if data:
            at = min(at, len(data) - 1)
            return data[:at] + bytes([data[at] ^ (1 << random.randrange(8))]) + data[at + 1 :]
        case 1:
            return data[:at] + data[end:]
        case 2:
            return data[:at] + data[at:end] * random.choice((2, 3, 50)) + data[end:]
        case 3 if donors:
            donor = random.choice(donors)
            start = random.randrange(len(donor) + 1)
            return data[:at] + donor[start : start + random.choice((8, 200, 10**6))]
        case 4:
            return data[:at] + random.randbytes(random.choice((1, 4, 32))) + data[end:]
        case 5:
            return data[:at] if random.random() < 0.3 else data[:at] + data[end:] + data[at:end]
        case _:
            return data[:at] + random.choice(_PIECES) + data[at:]


def split(data: bytes, random: Random) -> list[bytes]:
    """The bytes in pieces, as a network may deliver them."""
    pieces = []
    while data:
        size = random.choice((1, 2, 7, 64, 1000, 65536))
        pieces.append(data[:size])
        data = data[size:]
    return pieces
