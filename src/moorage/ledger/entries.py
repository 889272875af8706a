"""The entries of a ledger, in memory and on disk: docs/ledger-format.md in code.

Owns their shapes and bytes. A ledger is a stream: what changed in the cluster and what was decided,
in the order the engine saw it, packed in chunks. A field may be appended to a shape within a
version of the format, if what was written without it still reads.
"""

import zlib
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import msgspec
import numpy as np

from moorage.engine.observer import SCHEDULED
from moorage.explain.report import DecisionSummary
from moorage.model.decode import KINDS
from moorage.model.meta import ApiObject
from moorage.model.pod import Pod

VERSION = 1
_LEVEL = 1
_MOST_BYTES = 2**30

T = TypeVar("T")


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """Base of everything that is written."""


# What changed. An object by itself stands for one that was added or replaced.


class Deleted(Entry, frozen=True):
    """An object is gone."""

    kind: str
    namespace: str
    name: str
    uid: str


class Assumed(Entry, frozen=True):
    """A pod counts on a node without confirmation; part of a snapshot."""

    pod: Pod
    node: str
    profile: str


class Forgotten(Entry, frozen=True):
    """A pod that was sent to a node does not count there any more."""

    uid: str


class Asked(Entry, frozen=True):
    """The pod of the next decision, where it is not the one among the objects."""

    pod: Pod


class Nominations(Entry, frozen=True):
    """All pods that wait for a node to be freed: uid and node of each."""

    pods: tuple[tuple[str, str], ...] = ()


class PluginArguments(Entry, frozen=True):
    """The decoded arguments of a plugin: their type in `moorage.config.args`, and MessagePack."""

    kind: str
    data: bytes


class ProfileSettings(Entry, frozen=True):
    """One profile: its plugins at each extension point, in their order."""

    name: str
    points: dict[str, tuple[str, ...]]
    weights: dict[str, int]
    placement_weights: dict[str, int]
    percentage_of_nodes_to_score: int | None
    arguments: dict[str, PluginArguments]
    foreign: tuple[str, ...] = ()
    """The plugins that do not come with Moorage: their answers are recorded."""


class ExtenderSettings(Entry, frozen=True):
    """One extender."""

    name: str
    weight: int
    filters: bool
    prioritizes: bool


class SchedulerSettings(Entry, frozen=True):
    """What decides from now on."""

    profiles: tuple[ProfileSettings, ...]
    gates: dict[str, bool]
    emulation: tuple[int, int]
    min_compatibility: tuple[int, int]
    extenders: tuple[ExtenderSettings, ...] = ()


Change = ApiObject | Deleted | Assumed | Forgotten | Asked | Nominations | SchedulerSettings


# What was decided.


class RecordedAnswer(Entry, frozen=True):
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
    bits: tuple[str, bytes] = ("", b"")
    """Which of the reasons each node is refused for: NumPy's type, and the numbers."""
    raw: tuple[str, bytes] = ("", b"")
    normalized: tuple[str, bytes] = ("", b"")


class Refused(Entry, frozen=True):
    """Who refused the chosen node."""

    point: str
    plugin: str
    code: str
    reasons: tuple[str, ...] = ()


class RecordedDecision(Entry, frozen=True):
    """How one attempt ended."""

    time: float
    seconds: float
    namespace: str
    name: str
    uid: str
    profile: str
    result: str
    attempts: int
    nodes: int
    node: str = ""
    feasible: int = 0
    total: int | None = None
    message: str = ""
    nominated_node: str = ""
    victims: tuple[str, ...] = ()
    refused: Refused | None = None
    search_start: int = 0
    binding: bool = False
    """The pod was on its way to the node: another decision sent it there."""
    answers: tuple[RecordedAnswer, ...] = ()

    @property
    def pod(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def scheduled(self) -> bool:
        """Was the pod sent to a node?"""
        return self.result == SCHEDULED

    def summary(self, number: int) -> DecisionSummary:
        """The decision in a line."""
        return DecisionSummary(
            number=number,
            time=self.time,
            pod=self.pod,
            result=self.result,
            profile=self.profile,
            node=self.node if self.scheduled else "",
            nodes=self.nodes,
            feasible=self.feasible,
            score=self.total,
            attempts=self.attempts,
            seconds=self.seconds,
            message=self.message,
            uid=self.uid,
            nominated_node=self.nominated_node,
        )


# Many of them.


class Chunk(Entry, frozen=True):
    """A stretch of the stream."""

    first: int
    """The number of its first decision, or of the next one if it has none."""
    count: int
    hashes: bytes
    """CRC-32 of each decision's pod, little-endian: where to look for a pod."""
    places: tuple[int, ...]
    """How many of the changes stand before each decision."""
    decisions: bytes
    changes: bytes

    @property
    def bytes(self) -> int:
        """About how much memory it takes."""
        return 500 + len(self.hashes) + len(self.decisions) + len(self.changes) + 8 * self.count


class ChunkPlace:
    """A chunk in memory or in a file; what is in it is read when it is asked for, and kept."""

    def __init__(self, chunk: Chunk, read: Callable[[], Chunk] | None = None) -> None:
        self.numbers = range(chunk.first, chunk.first + chunk.count)
        """Of its decisions."""
        self._hashes = chunk.hashes
        self.chunk: Callable[[], Chunk] = read or (lambda: chunk)
        self._decisions: list[RecordedDecision] | None = None
        self._changes: list[Change] | None = None

    def mentions(self, pod: str) -> bool:
        """May it have a decision about a pod?"""
        known = np.frombuffer(self._hashes, "<u4")
        return bool((known == zlib.crc32(pod.encode())).any())

    @property
    def decisions(self) -> list[RecordedDecision]:
        """Its decisions; ValueError if they cannot be read."""
        if self._decisions is None:
            chunk = self.chunk()
            self._decisions = _expand(chunk.decisions, list[RecordedDecision])
            if not len(self._decisions) == len(chunk.places) == len(self.numbers):
                raise ValueError("a chunk with another number of decisions than it says")
        return self._decisions

    @property
    def changes(self) -> list[Change]:
        """Its changes; ValueError if they cannot be read."""
        if self._changes is None:
            self._changes = changes_of(self.chunk().changes)
        return self._changes

    def close(self) -> None:
        """Keep what was read no longer."""
        self._decisions = self._changes = None


def pack(first: int, entries: Iterable[Change | RecordedDecision]) -> Chunk:
    """Make a chunk of some entries."""
    decisions: list[RecordedDecision] = []
    changes: list[Change] = []
    places: list[int] = []
    for entry in entries:
        if isinstance(entry, RecordedDecision):
            decisions.append(entry)
            places.append(len(changes))
        else:
            changes.append(entry)
    hashes = np.array([zlib.crc32(one.pod.encode()) for one in decisions], "<u4").tobytes()
    return Chunk(
        first, len(decisions), hashes, tuple(places), _squeeze(decisions), pack_changes(changes)
    )


def pack_changes(changes: Sequence[Change]) -> bytes:
    """Changes as compressed MessagePack, each after its kind."""
    return _squeeze([(type(change).__name__, change) for change in changes])


def changes_of(data: bytes) -> list[Change]:
    """What `pack_changes` wrote; ValueError if it is not that."""
    found = []
    for kind, raw in _expand(data, list[tuple[str, msgspec.Raw]]):
        if kind in KINDS or kind in _OTHERS:
            try:
                found.append(_decoder(kind).decode(raw))
            except msgspec.MsgspecError as error:
                raise ValueError(f"{kind}: {error}") from error
    return found


_OTHERS: dict[str, type[Entry]] = {
    kind.__name__: kind
    for kind in (Deleted, Assumed, Forgotten, Asked, Nominations, SchedulerSettings)
}


@lru_cache(maxsize=64)
def _decoder(kind: str) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(_OTHERS[kind] if kind in _OTHERS else KINDS[kind].struct)


def _squeeze(value: Any) -> bytes:
    return zlib.compress(msgspec.msgpack.encode(value), _LEVEL)


def _expand(body: bytes, kind: type[T]) -> T:
    """What `_squeeze` wrote; ValueError if it is not that."""
    try:
        stream = zlib.decompressobj()
        plain = stream.decompress(body, _MOST_BYTES)
        if not stream.eof:
            raise ValueError("the compressed data do not end")
        return msgspec.msgpack.decode(plain, type=kind)
    except (zlib.error, msgspec.MsgspecError) as error:
        raise ValueError(str(error)) from error
