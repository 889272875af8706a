"""A failing input made smaller, as long as it fails in the same way."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from fuzz.mutations import Token, encode

Fails = Callable[[bytes], bool]


def minimised(data: bytes, fails: Fails, seconds: float = 4.0) -> bytes:
    """The smallest input found in so many seconds."""
    until = time.monotonic() + seconds
    for smaller in (_smaller_json, _smaller_bytes):
        data = _descend(data, fails, smaller, until)
    return data


def _descend(
    data: bytes, fails: Fails, smaller: Callable[[bytes], Iterator[bytes]], until: float
) -> bytes:
    progress = True
    while progress:
        progress = False
        for candidate in smaller(data):
            if time.monotonic() > until:
                return data
            if len(candidate) < len(data) and fails(candidate):
                data, progress = candidate, True
                break
    return data


def _smaller_bytes(data: bytes) -> Iterator[bytes]:
    size = len(data) // 2
    while size:
        for at in range(0, len(data), size):
            yield data[:at] + data[at + size :]
        size //= 2 if len(data) < 2000 else 4


def _smaller_json(data: bytes) -> Iterator[bytes]:
    try:
        value = json.loads(data, parse_float=Token, parse_int=_number, parse_constant=Token)
    except (ValueError, RecursionError):
        return
    if isinstance(value, dict | list):
        yield from (encode(one) for one in _without_a_part(value))


def _number(text: str) -> Any:
    return int(text) if len(text) < 20 else Token(text)


def _without_a_part(value: Any) -> Iterator[Any]:
    """The value without one of its parts, the larger parts first."""
    if isinstance(value, dict):
        for key in value:
            yield {name: item for name, item in value.items() if name != key}
        for key, item in value.items():
            yield from ({**value, key: less} for less in _without_a_part(item))
    elif isinstance(value, list):
        if len(value) > 3:
            half = len(value) // 2
            yield from (value[:half], value[half:])
        for at in range(min(len(value), 50)):
            yield value[:at] + value[at + 1 :]
        for at, item in enumerate(value[:50]):
            yield from ([*value[:at], less, *value[at + 1 :]] for less in _without_a_part(item))
    elif isinstance(value, str) and len(value) > 40:
        yield from (value[: len(value) // 2], value[len(value) // 2 :])
