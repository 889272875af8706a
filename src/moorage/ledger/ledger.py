"""The ledger of a running scheduler: records, forgets what is too old, and can be asked.

Owns the budget. Everything is kept in memory, within `limit_bytes`; with a directory it is written
there as well. One thread uses it, the scheduler's.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from moorage.explain.report import DecisionSummary
from moorage.ledger.entries import Chunk, ChunkPlace, Entry, RecordedDecision, make_chunk
from moorage.ledger.files import FILE_BYTES, KEPT_FILES, LedgerFiles
from moorage.ledger.moment import Moment, Steps
from moorage.ledger.objects import Objects
from moorage.ledger.reading import Reader
from moorage.ledger.recorder import Recorder
from moorage.model.meta import ApiObject
from moorage.model.node import Node

log = logging.getLogger(__name__)

DEFAULT_LIMIT_BYTES = 16 * 1024 * 1024
_ENTRY_BYTES = 1000
"""About how much memory an entry takes that is not packed."""
_CHUNK_WEIGHT = 512
"""How many entries are packed at once: a few milliseconds' work."""
_REST_SECONDS = 1.0
"""How long decisions may wait in memory before they are written to disk."""
_NEAR_SECONDS = 30.0
"""How long a rebuilt cluster is kept for whoever asks about its neighbours."""

Listener = Callable[[DecisionSummary], None]


class Ring:
    """The newest chunks, and the objects before the oldest of them."""

    name = "memory"

    def __init__(self) -> None:
        self.base = Objects()
        self.chunks: deque[ChunkPlace] = deque()
        self.bytes = 0
        self.count = 0

    def start(self) -> Objects:
        return self.base.copy()

    def add(self, chunk: Chunk) -> None:
        self.chunks.append(ChunkPlace(chunk))
        self.bytes += chunk.bytes
        self.count += chunk.count

    def drop(self, known: Callable[[Entry], Entry]) -> None:
        """Let the oldest chunk go; `known` says which objects are in memory anyway."""
        place = self.chunks.popleft()
        self.bytes -= place.chunk().bytes
        self.count -= len(place.numbers)
        for entry in place.entries:
            self.base.follow(known(entry))


class Ledger(Reader):
    """Records changes and attempts through `recorder`, and answers questions about them.

    Before the first decision there is nothing to explain, so changes need no entry at all.
    """

    def __init__(
        self,
        limit_bytes: int = DEFAULT_LIMIT_BYTES,
        directory: Path | str | None = None,
        *,
        file_bytes: int = FILE_BYTES,
        kept_files: int = KEPT_FILES,
        stopwatch: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._ring = Ring()
        super().__init__((self._ring,))
        self.limit_bytes = limit_bytes
        self.recorder = Recorder(self._note, self.rest)
        """What `Scheduler.record` wants to have."""
        self._waiting: deque[Entry] = deque()
        """What is not packed yet."""
        self._weight = 0
        self._decisions = 0
        """How many decisions wait."""
        self._begun = False
        """Was there a decision?"""
        self._most_weight = max(limit_bytes // (4 * _ENTRY_BYTES), 16)
        self._files: LedgerFiles | None = None
        if directory is not None:
            self._files = LedgerFiles(Path(directory), file_bytes, kept_files)
            self.recorder.next_number = self._files.next_number
        self._stopwatch = stopwatch
        self._written_at = self._asked_at = stopwatch()
        self._listeners: list[Listener] = []

    @property
    def _next(self) -> int:
        """The number of the first decision that is not packed, or that comes next."""
        return self.recorder.next_number - self._decisions

    @property
    def directory(self) -> Path | None:
        """Where it is written on disk; None if it is not, or not any more as the disk failed."""
        return None if self._files is None or self._files.broken else self._files.directory

    @property
    def used_bytes(self) -> int:
        """About how much memory it takes, beside the objects that the scheduler has anyway."""
        return self._ring.bytes + self._weight * _ENTRY_BYTES

    def __len__(self) -> int:
        return self._ring.count + self._decisions

    def unpacked(self) -> Sequence[RecordedDecision]:
        return [one for one in self._waiting if isinstance(one, RecordedDecision)]

    def _numbers(self) -> range:
        chunks = self._ring.chunks
        return range(chunks[0].numbers.start if chunks else self._next, self.recorder.next_number)

    def moment(self, number: int) -> Steps[tuple[Moment, RecordedDecision]]:
        self._asked_at = self._stopwatch()
        while self._next <= number < self.recorder.next_number:
            self._pack()
            yield
        return (yield from super().moment(number))

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with every decision from now on, until the function returned is called.

        It is called in the scheduler's thread, between two pods: it must be quick.
        """
        self._listeners.append(listener)

        def unsubscribe() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return unsubscribe

    def rest(self) -> float | None:
        """There is nothing to decide: do some work; the seconds until there is more to do."""
        files, now = self._files, self._stopwatch()
        if self._weight >= _CHUNK_WEIGHT:
            self._pack()
            return 0.0
        if files is not None and files.behind:
            files.write_some()
            return 0.0
        left: list[float] = []
        if files is not None and self._decisions:
            left.append(self._written_at + _REST_SECONDS - now)
            if left[-1] <= 0:
                self._pack()
                return 0.0
        if self._near is not None:
            left.append(self._asked_at + _NEAR_SECONDS - now)
            if left[-1] <= 0:
                # A cluster takes more memory than all that is recorded of it.
                self._near = self._passed = None
        return min((seconds for seconds in left if seconds > 0), default=None)

    def flush(self) -> None:
        while self._waiting:
            self._pack()

    def close(self) -> None:
        """Write everything to disk."""
        if self._files is not None:
            self.flush()
            self._files.close()

    def _note(self, entry: Entry) -> None:
        if not isinstance(entry, RecordedDecision):
            if self._begun:
                self._append(entry)
            else:
                self._ring.base.follow(entry)
            return
        self._begun = True
        self._decisions += 1
        self._append(entry)
        if self._files is not None and self._files.full:
            # The cluster is now as the stream says, so another file may begin.
            self.flush()
            self._files.begin(self._next, self.recorder.snapshot())
        for listener in tuple(self._listeners):
            try:
                listener(entry.summary)
            except Exception:
                log.exception("a listener failed on decision %d", entry.summary.number)

    def _append(self, entry: Entry) -> None:
        self._waiting.append(entry)
        self._weight += _weight(entry)
        if self._weight > self._most_weight:
            self._pack()

    def _pack(self) -> None:
        """Pack the oldest entries that wait."""
        entries: list[Entry] = []
        weight = 0
        while self._waiting and weight < _CHUNK_WEIGHT:
            entries.append(self._waiting.popleft())
            weight += _weight(entries[-1])
        chunk = make_chunk(self._next, entries)
        self._weight -= weight
        self._decisions -= chunk.count
        self._written_at = self._stopwatch()
        if self._files is not None:
            if not self._files.begun:
                self._files.begin(chunk.first, self._ring.base.changes())
            self._files.write(chunk)
        self._ring.add(chunk)
        limit = self.limit_bytes - self._most_weight * _ENTRY_BYTES
        while self._ring.bytes > limit and self._ring.chunks:
            self._ring.drop(self._known)

    def _known(self, entry: Entry) -> Entry:
        """The object that the scheduler has, if it is the same: then it takes no memory twice."""
        cycle = self.recorder.cycle
        if cycle is None or not isinstance(entry, ApiObject):
            return entry
        state = cycle.state
        current: ApiObject | None
        if isinstance(entry, Node):
            row = state.nodes.row_of.get(entry.name)
            current = None if row is None else state.nodes.nodes[row]
        else:
            current = state.listers.of(type(entry)).get(entry.name, entry.namespace)
        return current if current is not None and current == entry else entry


def _weight(entry: Entry) -> int:
    """How much an entry counts for: 1 for a kilobyte or so."""
    if isinstance(entry, RecordedDecision):
        numbers = sum(len(a.bits) + len(a.raw) + len(a.normalized) for a in entry.answers)
        return 1 + len(entry.summary.message) // 500 + numbers // 50
    return 8 if isinstance(entry, Node) else 1
