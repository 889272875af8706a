"""Where the values of a JSON document begin and end, found without recursion.

Owns the scan for brackets outside of strings, piece by piece, as lists may be large. Must not
decode anything.
"""

import msgspec
import numpy as np
from numpy.typing import NDArray

_CHUNK = 1 << 20
_QUOTE, _BACKSLASH, _OPEN, _CLOSE = b'"\\{}'
_CASE = 0x20  # what tells a brace from a bracket


def spans(data: bytes, level: int) -> list[tuple[int, int]]:
    """Where the objects and lists below so many levels begin and end."""
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


def _escapes(chunk: NDArray[np.uint8], escaped: bool) -> NDArray[np.bool_]:
    """The backslashes that escape what follows them; `escaped`: the first byte is escaped."""
    slashes: NDArray[np.bool_] = chunk == _BACKSLASH
    if not slashes.any():
        return slashes
    places = np.arange(len(chunk))
    others = np.where(slashes, -1, places)
    if escaped:
        others[0] = 0
    found: NDArray[np.bool_] = slashes & ((places - np.maximum.accumulate(others)) % 2 == 1)
    return found
