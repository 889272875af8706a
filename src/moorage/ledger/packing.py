"""Arrays of whole numbers as few bytes: constants, bit sets, and the narrowest integers.

Owns how one array is written. Compression comes later, over many of them together.
"""

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from moorage.framework.scores import LARGEST_SCORE, Scale

Array = NDArray[Any]

CONSTANT = "c"
BITS = "b"
_WIDTHS = ("u1", "i1", "u2", "i2", "u4", "i4", "i8", "u8")
_RANGES = tuple((kind, np.iinfo(kind).min, np.iinfo(kind).max) for kind in _WIDTHS)
_MOST_NUMBERS = 2**26


class Packed(msgspec.Struct, frozen=True, array_like=True):
    """An array: `c` repeats `value`, `b` has a bit per number, others are little-endian."""

    kind: str
    size: int
    value: int = 0
    data: bytes = b""


def narrow(array: Array) -> Array:
    """A copy in the narrowest type that holds all of it."""
    if array.dtype == np.bool_:
        return array.copy()
    if not len(array):
        return array.astype("u1")
    low, high = int(array.min()), int(array.max())
    return array.astype(_narrowest(low, high))


def _narrowest(low: int, high: int) -> str:
    for kind, least, most in _RANGES:
        if least <= low and high <= most:
            return kind
    raise ValueError(f"no type holds both {low} and {high}")


def assign(array: Array, rows: Array, values: Array) -> None:
    """Write values to rows one after the other: of a row that is named again the last one stays."""
    last, place = np.unique(rows[::-1], return_index=True)
    array[last] = values[::-1][place]


def pack(array: Array) -> Packed:
    """Write an array."""
    size = len(array)
    if not size:
        return Packed(CONSTANT, 0)
    low, high = int(array.min()), int(array.max())
    if low == high:
        return Packed(CONSTANT, size, low)
    if low == 0 and high == 1:
        bits = np.packbits(array.astype(np.bool_), bitorder="little")
        return Packed(BITS, size, 0, bits.tobytes())
    kind = _narrowest(low, high)
    return Packed(kind, size, 0, array.astype(f"<{kind}").tobytes())


def unpack(packed: Packed) -> Array:
    """Read an array; ValueError if it is not one."""
    size, kind = packed.size, packed.kind
    if not 0 <= size <= _MOST_NUMBERS:
        raise ValueError(f"an array of {size} numbers")
    if kind == CONSTANT:
        dtype = _narrowest(packed.value, packed.value)
        return np.full(size, packed.value, dtype)
    if kind == BITS:
        bits = np.frombuffer(packed.data, np.uint8)
        if len(bits) != -(-size // 8):
            raise ValueError("a bit set of another size than it says")
        return np.unpackbits(bits, count=size, bitorder="little")
    if kind not in _WIDTHS:
        raise ValueError(f"an array of unknown kind {kind!r}")
    array: Array = np.frombuffer(packed.data, f"<{kind}")
    if len(array) != size:
        raise ValueError("an array of another size than it says")
    return array


def scaled(scale: Scale, raw: Array) -> Array:
    """What a normalised column says, given the raw one; of nodes that do not count, anything."""
    return scale.normalized(raw.astype(np.int64)).clip(0, LARGEST_SCORE)
