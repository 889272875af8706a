"""The shapes of what is kept, in memory and on disk alike: docs/ledger-format.md in code.

Owns names, shapes and their bytes. A field may be appended within a version of the format, if what
was written without it still reads.

Decisions come in *chunks*. A chunk is read with the *blobs* it names: node names, and columns as
they were when some chunk began, shared by all chunks that begin with nearly the same.
"""

import zlib
from typing import Any, TypeVar

import msgspec
import numpy as np

from moorage.framework.status import Status
from moorage.ledger.packing import Packed

VERSION = 3
READABLE = (1, 2, 3)
"""Version 1 is the same without `TABLE` and `FIRST_SET`, version 2 without `SCALE`."""

# What a column of a track holds.
CONSIDERED = "considered"  # 1: the row was looked at
FILTER = "filter"  # bits over the column's reasons; 0: the plugin accepts the row
OVERRULED = "overruled"  # 1 + index of a status: refused with the pods nominated to it counted in
EXTENDER = "extender"  # 1 + index of a status: an extender refuses it
SCORED = "scored"  # 1: the row was scored
POINTS = "points"  # scores of a plugin that does not normalise
RAW = "raw"  # scores before normalising ...
NORMALIZED = "normalized"  # ... and after

# What the log of a track says in place of a row number.
BULK = -1  # many rows at once: the value is an index into `bulks`
MOOD = -2  # the value is the column's mood from now on
FILL = -3  # all rows have the value
TABLE = -4  # several sets of rows, each with a value of its own: an index into `tables`
FIRST_SET = -5  # all rows of the first of `sets` have the value; -6: of the second, and so on

# What a bulk says in place of a set.
ALL = -1  # the values are those of all rows
SCALE = -2  # a normalised column follows from the raw one: way, low and high of a `Scale`

# What a column as a whole says.
TOLD = 0
SKIPPED = 1  # the plugin had nothing to say about the pod
SILENT = 2  # all numbers are 0

RESULTS = ("scheduled", "unschedulable", "error")

ZEROS = 0
"""The number of the blob that is never written: zeros."""

_LEVEL = 1
_MOST_BYTES = 2**30

T = TypeVar("T")


class Words(msgspec.Struct, frozen=True, array_like=True):
    """A reason, and its status code."""

    text: str
    code: str


class StatusWords(msgspec.Struct, frozen=True, array_like=True):
    """A status: who said what, at which extension point."""

    plugin: str
    code: str
    reasons: tuple[str, ...] = ()
    point: str = ""


class ColumnSpec(msgspec.Struct, frozen=True, array_like=True):
    """What a column is about; `place` is the plugin's place in its profile."""

    role: str
    plugin: str = ""
    place: int = 0
    weight: int = 0
    reasons: tuple[Words, ...] = ()
    statuses: tuple[StatusWords, ...] = ()
    by_node: bool = False
    """Was the plugin asked only about rows that nobody before it had refused?"""


class Start(msgspec.Struct, frozen=True, array_like=True):
    """A column as the chunk begins: a blob, and the rows in which it differs from that."""

    blob: int
    mood: int
    rows: Packed
    values: Packed


class Bulk(msgspec.Struct, frozen=True, array_like=True):
    """New values of the rows of a set (by its index), or of all rows: see ALL and SCALE."""

    rows: int
    values: Packed


class Tables(msgspec.Struct, frozen=True, array_like=True):
    """Values of whole sets of rows, as they were one after the other."""

    heads: tuple[Packed, ...]
    """Sets (their indices) that have values together."""
    kinds: Packed
    """The index of each table's head."""
    values: Packed
    """The values of all tables in a row, one for each set of a table's head."""


class TrackRecord(msgspec.Struct, frozen=True, array_like=True):
    """A sequence of alike attempts: columns as they began, and every change to them."""

    profile: str
    names: int
    """The blob with the nodes' names."""
    size: int
    short: bool
    """The short way; `False`: the plain path."""
    filters: tuple[str, ...]
    """All Filter plugins in their order; those without a column had nothing to say."""
    scorers: tuple[str, ...]
    """The same of the Score plugins."""
    columns: tuple[ColumnSpec, ...]
    starts: tuple[Start, ...]
    log: tuple[Packed, Packed, Packed]
    """Column, row (or BULK, MOOD, FILL, TABLE, FIRST_SET and less) and value of each change."""
    bulks: tuple[Bulk, ...]
    sets: tuple[Packed, ...]
    """Sets of rows that changed together, most of them more than once."""
    tables: Tables | None = None
    """Since version 2."""


class Decisions(msgspec.Struct, frozen=True, array_like=True):
    """The attempts of a chunk, one field per column."""

    strings: tuple[str, ...]
    statuses: tuple[StatusWords, ...]
    names: tuple[str, ...]
    uids: tuple[str, ...]
    namespaces: Packed
    first_time: int
    """Microseconds since the epoch."""
    times: Packed
    """Microseconds since the attempt before."""
    profiles: Packed
    results: Packed
    nodes: Packed
    """Names of the nodes, as the next three indices into `strings`."""
    nominated: Packed
    messages: Packed
    sizes: Packed
    """How many nodes there were."""
    feasible: Packed
    scored: Packed
    totals: Packed
    attempts: Packed
    microseconds: Packed
    tracks: Packed
    """Index of the track, or -1."""
    positions: Packed
    """How many changes of the track had been made."""
    notes: Packed
    """1 + index into `statuses`, or 0: a refusal that is about no column."""


class Chunk(msgspec.Struct, frozen=True, array_like=True):
    """Some attempts in a row, with all that was found."""

    first: int
    """The number of its first decision."""
    count: int
    hashes: bytes
    """CRC-32 of each decision's `namespace/name`, little-endian: where to look for a pod."""
    blobs: tuple[int, ...]
    decisions: bytes
    tracks: bytes

    @property
    def after(self) -> int:
        """The number that follows its last."""
        return self.first + self.count

    @property
    def bytes(self) -> int:
        """About how much memory it takes."""
        return _OVERHEAD + len(self.hashes) + len(self.decisions) + len(self.tracks)

    def mentions(self, pod: str) -> bool:
        """May it have a decision about a pod?"""
        return mentions(self.hashes, pod)


class Blob(msgspec.Struct, frozen=True, array_like=True):
    """Something that chunks share: `names` or a `column`."""

    number: int
    kind: str
    body: bytes
    base: int = ZEROS
    """Another blob that is needed to read this one."""

    @property
    def bytes(self) -> int:
        """About how much memory it takes."""
        return _OVERHEAD + len(self.body)


class Names(msgspec.Struct, frozen=True, array_like=True):
    """The nodes by row: the base's names with some rows replaced, cut or stretched to `size`."""

    size: int
    rows: Packed
    names: tuple[str, ...]


_OVERHEAD = 400


def status_words(status: Status, point: str = "") -> StatusWords:
    """A status as it is written."""
    return StatusWords(status.plugin, status.code.value, status.reasons, point)


def mentions(hashes: bytes, pod: str) -> bool:
    """Is a pod's hash among those that a chunk begins with?"""
    return bool((np.frombuffer(hashes, "<u4") == pod_hash(pod)).any())


def pod_hash(pod: str) -> int:
    """What `Chunk.hashes` has for a pod."""
    return zlib.crc32(pod.encode())


def squeeze(value: Any) -> bytes:
    """A value as compressed MessagePack."""
    return zlib.compress(msgspec.msgpack.encode(value), _LEVEL)


def expand(body: bytes, kind: type[T]) -> T:
    """What `squeeze` wrote; ValueError if it is not that."""
    try:
        stream = zlib.decompressobj()
        plain = stream.decompress(body, _MOST_BYTES)
        if not stream.eof:
            raise ValueError("the compressed data do not end")
        return msgspec.msgpack.decode(plain, type=kind)
    except (zlib.error, msgspec.MsgspecError) as error:
        raise ValueError(str(error)) from error
