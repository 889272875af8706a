"""Attempts on their way into a chunk: noted while pods are decided, written when there is time.

Owns the columns of a chunk's decisions.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from moorage.engine.observer import SCHEDULED
from moorage.engine.recording import Setback
from moorage.explain.report import DecisionSummary
from moorage.ledger.packing import Packed, pack
from moorage.ledger.parts import Part
from moorage.ledger.records import (
    RESULTS,
    Blob,
    Chunk,
    Decisions,
    StatusWords,
    TrackRecord,
    pod_hash,
    squeeze,
    status_words,
)
from moorage.ledger.tracks import Track

_DECISION_BYTES = 700

T = TypeVar("T")


class Found(NamedTuple):
    """What is known of an attempt beside how it ended."""

    chunk: int
    """The track's log and answers count in this chunk only."""
    track: Track | None
    logged: int
    """How long the track's log was ..."""
    answered: int
    """... and how many fields its answers had."""
    nodes: int
    feasible: int
    total: int | None
    note: StatusWords | None = None


NOTHING = Found(-1, None, 0, 0, 0, 0, None)


class Ending(NamedTuple):
    """How an attempt ended that did not simply send its pod to a node found on the short way."""

    setback: Setback | None
    found: Found


class Noted(NamedTuple):
    """One attempt that ended."""

    time: float
    namespace: str
    name: str
    uid: str
    seconds: float
    profile: str
    node: str
    """Where the pod goes, or was refused in the end."""
    attempts: int
    setback: Setback | None
    """None: the pod goes to the node."""
    found: Found

    @property
    def pod(self) -> str:
        """The pod's key."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def result(self) -> str:
        """How it ended, in a word."""
        return SCHEDULED if self.setback is None else self.setback.result

    @property
    def message(self) -> str:
        """How it ended, in a sentence."""
        return "" if self.setback is None else self.setback.message

    @property
    def nominated_node(self) -> str:
        """The node that preemption frees."""
        return "" if self.setback is None else self.setback.nominated_node

    def summary(self, number: int) -> DecisionSummary:
        """The attempt in a line."""
        found = self.found
        return DecisionSummary(
            number=number,
            time=round(self.time * 1e6) / 1e6,
            pod=self.pod,
            result=self.result,
            profile=self.profile,
            node=self.node if self.setback is None else "",
            nodes=found.nodes,
            feasible=found.feasible,
            score=found.total,
            attempts=self.attempts,
            seconds=round(self.seconds * 1e6) / 1e6,
            message=self.message,
            uid=self.uid,
            nominated_node=self.nominated_node,
        )

    def status(self, note: StatusWords | None) -> StatusWords | None:
        """A refusal that is about no column."""
        setback = self.setback
        if setback is not None and setback.refusal is not None:
            return status_words(setback.refusal, setback.point)
        return note


class NotedFields(list[Any]):
    """The attempts of a chunk as plain fields, one after the other.

    The fields of each: when it ended and began, the pod's namespace, name and uid, profile, node,
    attempts, then the log (`ShortLog`) of the short way with its length, the length of the answers,
    how many nodes were feasible, and the total. In place of the log there may be an `Ending`, which
    has all that.

    Two objects less for every attempt than a list of `Noted`, none of which Python's garbage
    collector has to look at again and again.
    """

    __slots__ = ("chunk",)
    _WIDTH = 13

    def __init__(self, chunk: int) -> None:
        super().__init__()
        self.chunk = chunk

    @property
    def attempts(self) -> int:
        """How many there are."""
        return len(self) // self._WIDTH

    def attempt(self, index: int) -> Noted:
        """One of them; -1 is the last."""
        begin = index % self.attempts * self._WIDTH
        fields = self[begin : begin + self._WIDTH]
        ended, began, namespace, name, uid, profile, node, attempts = fields[:8]
        how, logged, answered, feasible, total = fields[8:]
        if isinstance(how, Ending):
            setback, found = how
        else:
            setback = None
            found = Found(self.chunk, how.track, logged, answered, how.size, feasible, total)
        # The clock may have been set back meanwhile.
        seconds = max(ended - began, 0.0) if began else 0.0
        return Noted(ended, namespace, name, uid, seconds, profile, node, attempts, setback, found)

    def all(self) -> list[Noted]:
        """All of them."""
        return [self.attempt(index) for index in range(self.attempts)]


class Pending:
    """A chunk that is complete but not written."""

    def __init__(self, first: int, noted: NotedFields, parts: Mapping[int, Part]) -> None:
        self.first = first
        self.noted = noted
        self._index = {track: place for place, track in enumerate(parts)}
        self._parts = list(parts.values())
        self.bytes = _DECISION_BYTES * noted.attempts + sum(part.bytes for part in self._parts)

    def written(self) -> tuple[Chunk, list[Blob]]:
        """The chunk, and all that is needed to read it."""
        noted = self.noted.all()
        blobs = {blob.number: blob for part in self._parts for blob in part.blobs()}
        tracks: list[TrackRecord] = [part.written() for part in self._parts]
        chunk = Chunk(
            self.first,
            len(noted),
            np.array([pod_hash(one.pod) for one in noted], "<u4").tobytes(),
            tuple(blobs),
            squeeze(self._decisions(noted)),
            squeeze(tracks),
        )
        return chunk, list(blobs.values())

    def _decisions(self, noted: Sequence[Noted]) -> Decisions:
        strings: _Table[str] = _Table("")
        statuses: _Table[StatusWords | None] = _Table(None)
        found = [one.found for one in noted]
        times = np.array([one.time for one in noted])
        micros = np.round(times * 1e6).astype(np.int64)
        tracks = [self._part_of(one) for one in found]
        return Decisions(
            namespaces=strings.codes(one.namespace for one in noted),
            profiles=strings.codes(one.profile for one in noted),
            nodes=strings.codes(one.node for one in noted),
            nominated=strings.codes(one.nominated_node for one in noted),
            messages=strings.codes(one.message for one in noted),
            notes=statuses.codes(
                one.status(each.note) for one, each in zip(noted, found, strict=True)
            ),
            strings=strings.values,
            statuses=tuple(status for status in statuses.values if status is not None),
            names=tuple(one.name for one in noted),
            uids=tuple(one.uid for one in noted),
            first_time=int(micros[0]) if len(micros) else 0,
            times=pack(np.diff(micros, prepend=micros[:1])),
            results=_ints(RESULTS.index(one.result) for one in noted),
            sizes=_ints(one.nodes for one in found),
            feasible=_ints(one.feasible for one in found),
            scored=_ints(one.total is not None for one in found),
            totals=_ints(one.total or 0 for one in found),
            attempts=_ints(one.attempts for one in noted),
            microseconds=_ints(round(one.seconds * 1e6) for one in noted),
            tracks=_ints(tracks),
            positions=_ints(
                0 if part < 0 else self._parts[part].position(one.logged, one.answered)
                for one, part in zip(found, tracks, strict=True)
            ),
        )

    def _part_of(self, found: Found) -> int:
        """Where the verdicts are; -1 if there are none, or they were in an earlier chunk."""
        return self._index.get(id(found.track), -1) if found.chunk == self.noted.chunk else -1


def _ints(numbers: Iterable[int]) -> Packed:
    return pack(np.array(list(numbers), np.int64))


class _Table(Generic[T]):
    """Values that are written once, and their indices."""

    def __init__(self, first: T) -> None:
        self._index: dict[T, int] = {first: 0}

    def codes(self, values: Iterable[T]) -> Packed:
        """The index of each value."""
        index = self._index
        return _ints(index.setdefault(value, len(index)) for value in values)

    @property
    def values(self) -> tuple[T, ...]:
        """All values in the order of their indices."""
        return tuple(self._index)
