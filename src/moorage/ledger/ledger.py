"""The ledger of a running scheduler: records, forgets what is too old, and can be asked.

Owns the budget. Everything is kept in memory, within `limit_bytes`; with a directory it is written
there as well. One thread uses it, the scheduler's.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from moorage.explain.report import DecisionSummary
from moorage.ledger.files import FILE_BYTES, KEPT_FILES, LedgerFiles
from moorage.ledger.pending import Noted
from moorage.ledger.reading import Entry, Reader
from moorage.ledger.recorder import Recorder
from moorage.ledger.records import Blob, Chunk
from moorage.ledger.ring import Ring

log = logging.getLogger(__name__)

DEFAULT_LIMIT_BYTES = 16 * 1024 * 1024
_REST_SECONDS = 1.0
"""How long decisions may wait in memory before they are written to disk."""

Listener = Callable[[DecisionSummary], None]


class Ledger(Reader):
    """Records attempts through `recorder`, and answers questions about them."""

    def __init__(
        self,
        limit_bytes: int = DEFAULT_LIMIT_BYTES,
        directory: Path | str | None = None,
        *,
        file_bytes: int = FILE_BYTES,
        kept_files: int = KEPT_FILES,
        now: Callable[[], float] = time.time,
        stopwatch: Callable[[], float] = time.perf_counter,
    ) -> None:
        super().__init__()
        self.limit_bytes = limit_bytes
        self._files: LedgerFiles | None = None
        first = 1
        if directory is not None:
            self._files = LedgerFiles(Path(directory), file_bytes, kept_files)
            first = self._files.next_number
        self._stopwatch = stopwatch
        self._written_at = stopwatch()
        self._ring = Ring()
        self._listeners: list[Listener] = []
        self.recorder = Recorder(
            self._keep,
            limit_bytes,
            first=first,
            now=now,
            rest=self.rest,
            completed=self._shrink,
        )
        """What `Scheduler.record` wants to have."""

    @property
    def directory(self) -> Path | None:
        """Where it is written on disk; None if it is not, or not any more as the disk failed."""
        return None if self._files is None or self._files.broken else self._files.directory

    @property
    def used_bytes(self) -> int:
        """About how much memory it takes."""
        return self._ring.bytes + self.recorder.bytes

    def __len__(self) -> int:
        """How many decisions it holds."""
        return self._ring.count + self.recorder.waiting

    def entries(self) -> Sequence[Entry]:
        """The chunks that are written."""
        return self._ring.entries

    def unwritten(self, before: int | None, pod: str | None) -> Iterator[DecisionSummary]:
        """Decisions that are in no chunk yet, newest first."""
        for number, noted in self.recorder.unwritten():
            if (before is None or number < before) and (pod is None or noted.pod == pod):
                yield noted.summary(number)

    def _numbers(self) -> range:
        recorder = self.recorder
        unwritten = recorder.first_unwritten
        written = super()._numbers()
        return range(written.start if written else unwritten, unwritten + recorder.waiting)

    def _entry_of(self, number: int) -> Entry:
        recorder = self.recorder
        first = recorder.first_unwritten
        # Small chunks are dear: only what can be found by it is worth writing one.
        if first <= number < first + recorder.waiting:
            recorder.flush()
        return super()._entry_of(number)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with every decision from now on, until the function returned is called.

        It is called in the scheduler's thread, between two pods: it must be quick.
        """
        self._listeners.append(listener)
        self.recorder.told = self._tell

        def unsubscribe() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)
            if not self._listeners:
                self.recorder.told = None

        return unsubscribe

    def rest(self) -> float | None:
        """There is nothing to decide: write something; the seconds until it wants to write more."""
        recorder = self.recorder
        if recorder.write_one():
            return 0.0
        if self._files is None or not recorder.waiting:
            return None
        left = self._written_at + _REST_SECONDS - self._stopwatch()
        if left > 0:
            return left
        recorder.flush()
        return None

    def close(self) -> None:
        """Write everything to disk."""
        self.recorder.flush()
        if self._files is not None:
            self._files.close()

    def _keep(self, chunk: Chunk, blobs: list[Blob]) -> None:
        self._written_at = self._stopwatch()
        if self._files is not None:
            self._files.write(chunk, blobs)
        self._ring.add(chunk, blobs)
        self._shrink()

    def _shrink(self) -> None:
        self._ring.shrink(max(self.limit_bytes - self.recorder.most_bytes, 0))

    def _tell(self, number: int, noted: Noted) -> None:
        summary = noted.summary(number)
        for listener in tuple(self._listeners):
            try:
                listener(summary)
            except Exception:
                log.exception("a listener failed on decision %d", number)
