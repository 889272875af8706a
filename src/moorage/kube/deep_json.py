"""JSON that is nested deeper than the decoder can follow.

The decoder recurses even into values that nobody reads, and any user may store an object with
thousands of levels. Owns how such a document is taken apart: a scan without recursion finds where
the deep values begin and end, and they stay bytes (`msgspec.Raw`). Only needed after the decoder
has failed. Must not know what the documents mean.
"""

import secrets
from bisect import bisect
from collections.abc import Sequence
from typing import Any

import msgspec

from moorage.model.nesting import DEEPEST

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
    # Commands that talk to a server must not wait for NumPy, which this needs and they do not.
    from moorage.kube.json_spans import spans

    return spans(data, level)
