"""JSON that is nested deeper than the decoder can follow.

The decoder recurses even into values that nobody reads, and any user may store an object with
thousands of levels. A scan without recursion finds where the deep values begin and end; they stay
bytes (`msgspec.Raw`). Only needed after the decoder has failed. Must not know what the documents
mean.
"""

import re
import secrets
from bisect import bisect
from collections.abc import Sequence
from typing import Any

import msgspec

from moorage.model.meta import DEEPEST

# What stands between two brackets, strings included; nothing in it is looked at twice.
_TEXT = rb'[^"\[\]{}]*+(?:"(?:[^"\\]++|\\.)*+"[^"\[\]{}]*+)*+'
_BETWEEN, _BRACKET = re.compile(_TEXT, re.DOTALL), re.compile(_TEXT + rb"([\[\]{}])", re.DOTALL)
MOST_LEVELS = DEEPEST // 2
"""Values below this level stay bytes if they reach below `DEEPEST`; all others are decoded."""

Span = tuple[int, int]


def decode(data: bytes | msgspec.Raw) -> Any:
    """Like `msgspec.json.decode`, but values that are nested too deeply are `msgspec.Raw`."""
    try:
        return msgspec.json.decode(data)
    except RecursionError:
        pass
    whole = bytes(data)
    outer, inner = _spans(whole, MOST_LEVELS), _spans(whole, DEEPEST)
    begins = [begin for begin, _ in inner]
    deep = [span for span in outer if bisect(begins, span[0]) < bisect(begins, span[1])]
    # Nobody can have written a string that begins like this.
    mark = secrets.token_hex(16)
    plain = msgspec.json.decode(_replaced(whole, deep, f'"{mark}%d"'.encode()))
    return _restored(plain, mark, [msgspec.Raw(whole[a:b]) for a, b in deep])


def members(data: bytes, level: int) -> tuple[bytes, list[msgspec.Raw]]:
    """Objects and lists below so many levels, and the document with their numbers instead."""
    spans = _spans(data, level)
    return _replaced(data, spans, b"%d"), [msgspec.Raw(data[a:b]) for a, b in spans]


def _replaced(data: bytes, spans: Sequence[Span], number: bytes) -> bytes:
    pieces, at = [], 0
    for place, (begin, end) in enumerate(spans):
        pieces += [data[at:begin], number % place]
        at = end
    return b"".join([*pieces, data[at:]])


def _restored(value: Any, mark: str, cut: Sequence[msgspec.Raw]) -> Any:
    if isinstance(value, dict):
        return {name: _restored(item, mark, cut) for name, item in value.items()}
    if isinstance(value, list):
        return [_restored(item, mark, cut) for item in value]
    if isinstance(value, str) and value.startswith(mark):
        return cut[int(value.removeprefix(mark))]
    return value


def _spans(data: bytes, level: int) -> list[Span]:
    """Where the objects and lists below so many levels begin and end."""
    spans: list[Span] = []
    depth, begin, at = 0, 0, 0
    while match := _BRACKET.match(data, at):
        at = match.end()
        if match[1] in b"[{":
            depth += 1
            if depth == level + 1:
                begin = at - 1
        else:
            depth -= 1
            if depth == level:
                spans.append((begin, at))
    if depth or _BETWEEN.fullmatch(data, at) is None:
        raise msgspec.DecodeError("brackets or quotes are not closed")
    return spans
