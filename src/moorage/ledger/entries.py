"""The entries of a ledger, in memory and on disk: docs/ledger-format.md in code.

Owns their shapes and bytes. A ledger is a stream: what changed in the cluster and what was decided,
in the order the engine saw it, packed in chunks. A field may be appended to a shape within a
version of the format, if what was written without it still reads.
"""

import zlib
from collections.abc import Callable, Container, Iterable, Sequence
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np

from moorage.config.feature_gates import EffectiveVersion
from moorage.config.plugins import EffectivePlugins
from moorage.engine.observer import SCHEDULED
from moorage.explain.report import DecisionSummary
from moorage.model.decode import KINDS
from moorage.model.meta import ApiObject
from moorage.model.pod import Pod

VERSION = 1
_LEVEL = 1
_MOST_BYTES = 2**30


class Shape(msgspec.Struct, frozen=True, array_like=True):
    """Base of everything that is written."""


# What changed. An object by itself stands for one that was added or replaced.


class Deleted(Shape, frozen=True):
    """An object is gone."""

    kind: str
    namespace: str
    name: str
    uid: str


class Assumed(Shape, frozen=True):
    """A pod counts on a node without confirmation; part of a snapshot."""

    pod: Pod
    node: str
    profile: str


class Forgotten(Shape, frozen=True):
    """A pod that was sent to a node does not count there any more."""

    uid: str


class Asked(Shape, frozen=True):
    """The pod of the next decision, where it is not the one among the objects."""

    pod: Pod


class Nominations(Shape, frozen=True):
    """All pods that wait for a node to be freed: uid and node of each."""

    pods: tuple[tuple[str, str], ...] = ()


class ProfileSettings(Shape, frozen=True):
    """One profile."""

    name: str
    plugins: EffectivePlugins
    percentage_of_nodes_to_score: int | None
    arguments: dict[str, bytes]
    """By plugin, what it was configured with, as MessagePack."""
    foreign: tuple[str, ...] = ()
    """The plugins that do not come with Moorage: their answers are recorded."""


class ExtenderSettings(Shape, frozen=True):
    """One extender."""

    name: str
    weight: int
    filters: bool
    prioritizes: bool


class SchedulerSettings(Shape, frozen=True):
    """What decides from now on."""

    profiles: tuple[ProfileSettings, ...]
    gates: dict[str, bool]
    version: EffectiveVersion
    extenders: tuple[ExtenderSettings, ...] = ()


Change = ApiObject | Deleted | Assumed | Forgotten | Asked | Nominations | SchedulerSettings


# What was decided.


class RecordedAnswer(Shape, frozen=True):
    """What somebody said who cannot be asked again; a value for each node in the search order."""

    name: str
    status: tuple[str, tuple[str, ...]] | None = None
    """PreFilter refused the pod: code and reasons."""
    nodes: tuple[str, ...] | None = None
    """The only nodes that PreFilter left."""
    skipped: bool = False
    """Filter had nothing to say ..."""
    unscored: bool = False
    """... or Score."""
    reasons: tuple[tuple[str, str], ...] = ()
    """Text and code of each reason to refuse a node."""
    bits: tuple[int, ...] = ()
    """Which of the reasons each node is refused for: bit i stands for `reasons[i]`."""
    raw: tuple[int, ...] = ()
    normalized: tuple[int, ...] = ()


class Refused(Shape, frozen=True):
    """Who refused the chosen node."""

    point: str
    plugin: str
    code: str
    reasons: tuple[str, ...] = ()


class RecordedDecision(Shape, frozen=True):
    """How one attempt ended."""

    summary: DecisionSummary
    node: str = ""
    """The chosen node, also if it was refused in the end."""
    victims: tuple[str, ...] = ()
    refused: Refused | None = None
    search_start: int = 0
    binding: bool = False
    """The pod was on its way to the node: another decision sent it there."""
    answers: tuple[RecordedAnswer, ...] = ()

    @property
    def scheduled(self) -> bool:
        """Was the pod sent to a node?"""
        return self.summary.result == SCHEDULED


class AttemptSummary(msgspec.Struct, frozen=True):
    """Of a `DecisionSummary` what statistics need: it is read much faster."""

    time: float
    result: str
    seconds: float = 0.0


class _RecordedAttempt(Shape, frozen=True):
    summary: AttemptSummary


Entry = Change | RecordedDecision

_KINDS: dict[str, type[Any]] = {name: kind.struct for name, kind in KINDS.items()} | {
    kind.__name__: kind
    for kind in (
        Deleted,
        Assumed,
        Forgotten,
        Asked,
        Nominations,
        SchedulerSettings,
        RecordedDecision,
    )
}
_NAMED = msgspec.msgpack.Decoder(list[tuple[str, msgspec.Raw]])
_ATTEMPT = msgspec.msgpack.Decoder(_RecordedAttempt)


# Many of them.


class Chunk(Shape, frozen=True):
    """A stretch of the stream."""

    first: int
    """The number of its first decision, or of the next one if it has none."""
    count: int
    """How many decisions it has."""
    hashes: bytes
    """CRC-32 of each decision's pod, little-endian: where to look for a pod."""
    entries: bytes

    @property
    def numbers(self) -> range:
        """Of its decisions."""
        return range(self.first, self.first + self.count)

    @property
    def bytes(self) -> int:
        """About how much memory it takes."""
        return 500 + len(self.hashes) + len(self.entries)


class ChunkPlace:
    """A chunk in memory or in a file; what is in it is read when it is asked for, and kept."""

    def __init__(self, chunk: Chunk, read: Callable[[], Chunk] | None = None) -> None:
        self.numbers = chunk.numbers
        self._hashes = chunk.hashes
        self.chunk: Callable[[], Chunk] = read or (lambda: chunk)
        self._decisions: list[RecordedDecision] | None = None
        self._entries: list[Entry] | None = None

    def mentions(self, pod: str) -> bool:
        """May it have a decision about a pod?"""
        known = np.frombuffer(self._hashes, "<u4")
        return bool((known == zlib.crc32(pod.encode())).any())

    @property
    def decisions(self) -> list[RecordedDecision]:
        """Its decisions; ValueError if they cannot be read."""
        if self._decisions is None:
            found = unpack(self.chunk().entries, (RecordedDecision.__name__,))
            self._decisions = [one for one in found if isinstance(one, RecordedDecision)]
            if len(self._decisions) != len(self.numbers):
                raise ValueError("a chunk with another number of decisions than it says")
        return self._decisions

    def attempts(self) -> list[AttemptSummary]:
        """Its decisions in short; ValueError if they cannot be read. They are not kept."""
        return unpack_attempts(self.chunk().entries)

    @property
    def entries(self) -> list[Entry]:
        """Everything in it, in order; ValueError if it cannot be read."""
        if self._entries is None:
            self._entries = unpack(self.chunk().entries)
        return self._entries

    def close(self) -> None:
        """Keep what was read no longer."""
        self._decisions = self._entries = None


def make_chunk(first: int, entries: Sequence[Entry]) -> Chunk:
    """Make a chunk of some entries."""
    pods = [one.summary.pod for one in entries if isinstance(one, RecordedDecision)]
    hashes = np.array([zlib.crc32(pod.encode()) for pod in pods], "<u4").tobytes()
    return Chunk(first, len(pods), hashes, pack(entries))


def pack(entries: Iterable[Entry]) -> bytes:
    """Entries as compressed MessagePack, each after its kind."""
    named = [(type(entry).__name__, entry) for entry in entries]
    return zlib.compress(msgspec.msgpack.encode(named), _LEVEL)


def unpack(data: bytes, kinds: Container[str] = _KINDS) -> list[Entry]:
    """The entries of some kinds that `pack` wrote; ValueError if it is not that."""
    return [_decoded(kind, raw) for kind, raw in _named(data) if kind in kinds]


def unpack_attempts(data: bytes) -> list[AttemptSummary]:
    """Of the decisions among the entries that `pack` wrote, their summaries in short."""
    decision = RecordedDecision.__name__
    try:
        return [_ATTEMPT.decode(raw).summary for kind, raw in _named(data) if kind == decision]
    except msgspec.MsgspecError as error:
        raise ValueError(f"{decision}: {error}") from error


def _named(data: bytes) -> list[tuple[str, msgspec.Raw]]:
    """What was packed, each after its kind."""
    try:
        stream = zlib.decompressobj()
        plain = stream.decompress(data, _MOST_BYTES)
        if not stream.eof:
            raise ValueError("the compressed data do not end")
        return _NAMED.decode(plain)
    except (zlib.error, msgspec.MsgspecError) as error:
        raise ValueError(str(error)) from error


def _decoded(kind: str, raw: msgspec.Raw) -> Entry:
    try:
        entry: Entry = _decoder(kind).decode(raw)
    except msgspec.MsgspecError as error:
        raise ValueError(f"{kind}: {error}") from error
    return entry


@lru_cache(maxsize=64)
def _decoder(kind: str) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(_KINDS[kind])
