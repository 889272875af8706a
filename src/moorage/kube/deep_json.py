"""JSON that is nested deeper than the decoder can follow.

The decoder recurses even into values that nobody reads, and any user may store an object with
thousands of levels. A scan without recursion finds where the deep values begin and end, piece by
piece since lists may be large; they stay bytes (`msgspec.Raw`). Only needed after the decoder has
failed. Must not know what the documents mean.
"""

import secrets
from bisect import bisect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from moorage.model.meta import DEEPEST

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_CHUNK = 1 << 20
_QUOTE, _BACKSLASH, _OPEN, _CLOSE = b'"\\{}'
_CASE = 0x20  # the difference between a brace and a bracket
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
    # Commands that talk to a server do not wait for NumPy, which hardly any of them needs.
    import numpy as np

    codes = np.frombuffer(data, np.uint8)
    begins: list[NDArray[np.intp]] = []
    ends: list[NDArray[np.intp]] = []
    depth, quoted, escaped = 0, 0, False
    for at in range(0, len(codes), _CHUNK):
        chunk = codes[at : at + _CHUNK]
        quotes = chunk == _QUOTE
        escapes = _escapes(chunk, escaped)
        quotes[1:] &= ~escapes[:-1]
        quotes[0] &= not escaped
        escaped = bool(escapes[-1])
        inside = (np.cumsum(quotes, dtype=np.int32) + quoted) & 1
        quoted = int(inside[-1])
        folded = chunk | _CASE
        opens = (folded == _OPEN) & (inside == 0)
        places = np.flatnonzero(opens | ((folded == _CLOSE) & (inside == 0)))
        if not len(places):
            continue
        opening = opens[places]
        depths = depth + np.cumsum(np.where(opening, 1, -1))
        depth = int(depths[-1])
        begins.append(at + places[opening & (depths == level + 1)])
        ends.append(at + places[~opening & (depths == level)] + 1)
    first = np.concatenate(begins).tolist() if begins else []
    last = np.concatenate(ends).tolist() if ends else []
    if depth or quoted or len(first) != len(last):
        raise msgspec.DecodeError("brackets or quotes are not closed")
    return list(zip(first, last, strict=True))


def _escapes(chunk: "NDArray[np.uint8]", escaped: bool) -> "NDArray[np.bool_]":
    """The backslashes that escape what follows them; `escaped`: the first byte is escaped."""
    import numpy as np

    slashes: NDArray[np.bool_] = chunk == _BACKSLASH
    if not slashes.any():
        return slashes
    places = np.arange(len(chunk))
    others = np.where(slashes, -1, places)
    if escaped:
        others[0] = 0
    found: NDArray[np.bool_] = slashes & ((places - np.maximum.accumulate(others)) % 2 == 1)
    return found
