"""Asking a ledger: decisions by number or by pod, and everything about one of them.

Owns what both kinds of ledger share, the running one and the files. They say which chunks there
are; chunks are opened when they are asked for, and a few stay open.
"""

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any, Protocol, TypeVar

import msgspec

from moorage.errors import InputError
from moorage.explain.report import DecisionExplanation, DecisionSummary
from moorage.ledger.explaining import Evidence, rejections_without_columns
from moorage.ledger.packing import Array, unpack
from moorage.ledger.rebuilding import columns_at, node_names
from moorage.ledger.records import (
    RESULTS,
    Blob,
    Chunk,
    Decisions,
    StatusWords,
    TrackRecord,
    expand,
)

SOURCE = "ledger"
_MOST_OPEN = 8
_MOST_TRACKS_OPEN = 2

T = TypeVar("T")


class Entry(Protocol):
    """A chunk, wherever it is."""

    @property
    def first(self) -> int:
        """The number of its first decision."""

    @property
    def count(self) -> int:
        """How many decisions it has."""

    def mentions(self, pod: str) -> bool:
        """May it have a decision about a pod?"""

    def chunk(self) -> Chunk:
        """The chunk itself."""

    def blob(self, number: int) -> Blob:
        """A blob that belongs to it; ValueError if there is none."""


class OpenChunk:
    """The decisions of a chunk, ready to be read."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        chunk = entry.chunk()
        self._tracks = chunk.tracks
        told = self._told = expand(chunk.decisions, Decisions)
        self._columns: dict[str, Array] = {
            name: unpack(getattr(told, name))
            for name in msgspec.structs.asdict(told)
            if name in _COLUMNS
        }
        self._times = told.first_time + self._columns["times"].cumsum(dtype="i8")
        sizes = {len(told.names), len(told.uids), *(len(c) for c in self._columns.values())}
        if sizes != {chunk.count}:
            raise ValueError("columns of different lengths")

    def pod(self, index: int) -> str:
        """The pod of a decision."""
        namespace = self._string("namespaces", index)
        name = self._told.names[index]
        return f"{namespace}/{name}" if namespace else name

    def note(self, index: int) -> StatusWords | None:
        """A refusal that is about no column."""
        number = self.number("notes", index)
        return self._told.statuses[number - 1] if number else None

    def node(self, index: int) -> str:
        """The node that was chosen, be it refused later."""
        return self._string("nodes", index)

    def number(self, column: str, index: int) -> int:
        """What a column has for a decision."""
        return int(self._columns[column][index])

    def tracks(self) -> tuple[TrackRecord, ...]:
        """All tracks."""
        return expand(self._tracks, tuple[TrackRecord, ...])

    def name_lists(self) -> set[int]:
        """The blobs with the names of the nodes that were looked at."""
        return {track.names for track in self.tracks()}

    def summary(self, index: int) -> DecisionSummary:
        """One decision in a line."""
        number = self.number
        result = RESULTS[number("results", index)]
        return DecisionSummary(
            number=self.entry.first + index,
            time=int(self._times[index]) / 1e6,
            pod=self.pod(index),
            result=result,
            profile=self._string("profiles", index),
            node=self.node(index) if result == RESULTS[0] else "",
            nodes=number("sizes", index),
            feasible=number("feasible", index),
            score=number("totals", index) if number("scored", index) else None,
            attempts=number("attempts", index),
            seconds=number("microseconds", index) / 1e6,
            message=self._string("messages", index),
            uid=self._told.uids[index],
            nominated_node=self._string("nominated", index),
        )

    def _string(self, column: str, index: int) -> str:
        return self._told.strings[self.number(column, index)]


_COLUMNS = frozenset(
    name for name, kind in Decisions.__annotations__.items() if kind.__name__ == "Packed"
)


class Reader(ABC):
    """What can be asked of any ledger."""

    problems: Sequence[str] = ()
    """What could not be read, each as one sentence."""

    def __init__(self) -> None:
        self._open: OrderedDict[Entry, Any] = OrderedDict()
        self._open_tracks: OrderedDict[Entry, Any] = OrderedDict()

    @abstractmethod
    def entries(self) -> Sequence[Entry]:
        """The chunks, those with smaller numbers first."""

    def unwritten(self, before: int | None, pod: str | None) -> Iterator[DecisionSummary]:
        """Decisions that are in no chunk yet, newest first; see `summaries`."""
        del before, pod
        return iter(())

    def __len__(self) -> int:
        """How many decisions there are."""
        return sum(entry.count for entry in self.entries())

    def summaries(
        self, before: int | None = None, limit: int = 100, pod: str | None = None
    ) -> list[DecisionSummary]:
        """Decisions with smaller numbers than `before`, newest first; only those about `pod`."""
        summaries = (opened.summary(index) for opened, index in self._newest_first(before, pod))
        with _readable("The list of decisions"):
            return list(islice(chain(self.unwritten(before, pod), summaries), max(limit, 0)))

    def latest_about(self, pod: str) -> int | None:
        """The number of the latest decision about a pod."""
        for summary in self.unwritten(None, pod):
            return summary.number
        with _readable(f"The decisions about {pod}"):
            for opened, index in self._newest_first(None, pod):
                return opened.entry.first + index
        return None

    def explain(
        self, number: int, *, top: int = 10, matrix: tuple[int, int] | None = None
    ) -> DecisionExplanation:
        """Everything about a decision; `matrix` is a page as its offset and its length."""
        entry = self._entry_of(number)
        opened, index = self._opened(entry), number - entry.first
        with _readable(f"Decision {number}"):
            summary, note, node = opened.summary(index), opened.note(index), opened.node(index)
            track = opened.number("tracks", index)
            if track < 0:
                refusals = rejections_without_columns(note, summary.nodes, node)
                return DecisionExplanation(summary, SOURCE, rejections=refusals)
            evidence = self._evidence(opened, index, track, note, summary)
            return DecisionExplanation(
                summary,
                SOURCE,
                rejections=evidence.rejections(),
                scores=evidence.best(top, node),
                matrix=None if matrix is None else evidence.matrix(*matrix),
                skipped_filter_plugins=evidence.skipped_filters,
                skipped_score_plugins=evidence.skipped_scorers,
            )

    def evidence(self, number: int) -> Evidence | None:
        """The columns that a decision was made by; None if it has none."""
        entry = self._entry_of(number)
        opened, index = self._opened(entry), number - entry.first
        with _readable(f"Decision {number}"):
            track = opened.number("tracks", index)
            if track < 0:
                return None
            summary = opened.summary(index)
            return self._evidence(opened, index, track, opened.note(index), summary)

    def knows_node(self, name: str) -> bool:
        """Was a node of that name there when something was decided?

        What is damaged tells nothing of it.
        """
        for entry in reversed(self.entries()):
            try:
                opened = self._opened(entry)
                if any(name in node_names(one, entry.blob) for one in opened.name_lists()):
                    return True
            except (InputError, ValueError, IndexError):
                continue
        return False

    def _evidence(
        self,
        opened: OpenChunk,
        index: int,
        track: int,
        note: StatusWords | None,
        summary: DecisionSummary,
    ) -> Evidence:
        entry = opened.entry
        tracks = _kept(self._open_tracks, entry, opened.tracks, _MOST_TRACKS_OPEN)
        record = tracks[track]
        return Evidence(
            record,
            node_names(record.names, entry.blob),
            columns_at(record, opened.number("positions", index), entry.blob),
            note,
            node=opened.node(index),
            scored=summary.score is not None,
        )

    def _newest_first(self, before: int | None, pod: str | None) -> Iterator[tuple[OpenChunk, int]]:
        for entry in reversed(self.entries()):
            if before is not None and entry.first >= before:
                continue
            if pod is not None and not entry.mentions(pod):
                continue
            opened = self._opened(entry)
            last = entry.count if before is None else min(entry.count, before - entry.first)
            for index in range(last - 1, -1, -1):
                if pod is None or opened.pod(index) == pod:
                    yield opened, index

    def _entry_of(self, number: int) -> Entry:
        for entry in reversed(self.entries()):
            if entry.first <= number < entry.first + entry.count:
                return entry
        held = self._numbers()
        if not held:
            raise InputError(f"There is no decision {number}: the ledger holds no decisions.")
        raise InputError(
            f"There is no decision {number}: the ledger holds {held[0]} to {held[-1]}."
        )

    def _numbers(self) -> range:
        """From the first decision to the last."""
        entries = self.entries()
        if not entries:
            return range(0)
        return range(entries[0].first, max(entry.first + entry.count for entry in entries))

    def _opened(self, entry: Entry) -> OpenChunk:
        # Not by its first number: two ledgers in one directory may have the same.
        with _readable(f"The decisions from {entry.first} on"):
            return _kept(self._open, entry, lambda: OpenChunk(entry), _MOST_OPEN)


@contextmanager
def _readable(what: str) -> Iterator[None]:
    """Records that contradict each other are told in one sentence."""
    try:
        yield
    except (ValueError, IndexError, OverflowError) as error:
        raise InputError(f"{what} cannot be read: {error}.") from error


def _kept(store: "OrderedDict[Entry, Any]", key: Entry, make: Callable[[], T], most: int) -> T:
    if key in store:
        store.move_to_end(key)
    else:
        store[key] = make()
        while len(store) > most:
            store.popitem(last=False)
    found: T = store[key]
    return found
