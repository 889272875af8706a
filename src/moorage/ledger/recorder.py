"""The ledger's ears in the engine: notes every attempt, cheaply, and has chunks written later.

While pods are decided this only compares what live plugins and the plain path say with the last
attempt of the kind, and appends. A chunk is complete after so many attempts, or when somebody wants
to read; writing it out (`write_one`) takes longer and waits for a moment without work, or until
what waits takes too much memory.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from moorage.engine.decisions import Bind, Unschedulable
from moorage.engine.recording import DecisionRecorder, Setback, ShortFindings
from moorage.framework.attempt import Attempt
from moorage.framework.profile import Profile
from moorage.ledger.pending import NOTHING, Found, Noted, NotedFields, Pending
from moorage.ledger.records import Blob, Chunk, StatusWords, status_words
from moorage.ledger.track_table import TrackTable
from moorage.model.pod import Pod

log = logging.getLogger(__name__)

_MOST_NOTED = 4096
_CHECK_EVERY = 64
_NOTED_BYTES = 800
_MOST_CHANGES = 100_000

Keep = Callable[[Chunk, list[Blob]], None]
Told = Callable[[int, Noted], None]


class Recorder(DecisionRecorder):
    """Notes attempts and makes chunks of them, which go to `keep`."""

    on = True

    def __init__(
        self,
        keep: Keep,
        limit_bytes: int,
        *,
        first: int = 1,
        now: Callable[[], float] = time.time,
        stopwatch: Callable[[], float] = time.perf_counter,
        rest: Callable[[], float | None] = lambda: None,
        completed: Callable[[], None] = lambda: None,
    ) -> None:
        self._keep = keep
        self._chunk_limit = limit_bytes // 16
        self._pending_limit = 5 * limit_bytes // 16
        self._now = now
        # Not a method: a call less for every attempt.
        self.start = stopwatch  # type: ignore[method-assign]
        self._rest = rest
        self._completed = completed
        self.told: Told | None = None
        """Is called with every attempt and its number, if somebody listens."""
        self._first = first
        self._noted = NotedFields()
        self._message_bytes = 0
        self._before_check = _CHECK_EVERY
        self._pod: Pod | None = None
        """Whom `_found` is about."""
        self._found: tuple[Any, ...] = NOTHING
        """The fields of `Found`; making a plain tuple is quicker."""
        self._tracks = TrackTable(limit_bytes // 4)
        self._pending: deque[Pending] = deque()
        self._pending_bytes = 0

    @property
    def bytes(self) -> int:
        """About how much memory everything takes that is not written."""
        return self._pending_bytes + self._noted_bytes + self._tracks.bytes

    @property
    def most_bytes(self) -> int:
        """How much memory it may come to take before it writes something."""
        return 2 * self._chunk_limit + self._pending_limit + self._tracks.most_bytes

    @property
    def _noted_bytes(self) -> int:
        return _NOTED_BYTES * self._noted.attempts + self._message_bytes

    @property
    def first_unwritten(self) -> int:
        """The number of the first attempt that is not written, or that comes next."""
        return self._pending[0].first if self._pending else self._first

    @property
    def waiting(self) -> int:
        """How many attempts are not written."""
        return self._first + self._noted.attempts - self.first_unwritten

    def unwritten(self) -> Iterator[tuple[int, Noted]]:
        """The attempts that are not written, newest first, with their numbers."""
        parts = [(pending.first, pending.noted) for pending in self._pending]
        for first, noted in reversed([*parts, (self._first, self._noted)]):
            for index in range(noted.attempts - 1, -1, -1):
                yield first + index, noted.attempt(index)

    # While pods are decided

    def found_shortly(self, short: ShortFindings, total: int | None) -> None:
        """The short way led to a node."""
        ranking, tracks = short.ranking, self._tracks
        journal: Any = ranking.journal  # a `ShortLog` if there is one; asking for its type costs
        try:
            if journal is None:
                journal = tracks.follow(short)
                if tracks.are_many:
                    self._before_check = 1
            track, scores = journal.track, short.scores
            if track.chunk != tracks.chunk:
                tracks.enter(track)
            if (
                short.unscored != journal.unscored
                or short.unfiltered != journal.unfiltered
                or len(scores) != journal.answered
            ):
                track.set_moods(short)
            if short.refusals or scores:
                track.take_answers(short, total)
            if ranking.constants is not journal.constants and total is not None:
                track.take_constants(ranking)
        except Exception:
            self._begin_again(short.pod)
            return
        self._pod = short.pod
        # In the order of `Found`.
        self._found = (
            track.chunk,
            track,
            len(journal) // 3,
            journal.size,
            short.feasible,
            total,
            None,
        )

    def found(self, attempt: Attempt, decision: Bind | Unschedulable) -> None:
        """The plain path led to a node, or to none."""
        feasible, total = 0, None
        if isinstance(decision, Bind):
            feasible, total = decision.feasible_nodes, decision.total_score
        size, note = len(attempt.nodes), _note(attempt)
        self._pod = attempt.pod
        if attempt.outcome is None:
            self._found = Found(-1, None, 0, size, feasible, total, note)
            return
        try:
            track = self._tracks.plain(attempt)
            track.take(attempt)
            if self._tracks.are_many:
                self._before_check = 1
        except Exception:
            self._begin_again(attempt.pod)
            return
        position = len(track.log) // 3
        self._found = Found(self._tracks.chunk, track, position, size, feasible, total, note)

    def evidence(self, pod: Pod) -> object:
        """What was found last."""
        found = self._found if self._pod is pod else NOTHING
        self._pod = None
        return found

    def scheduled(
        self,
        pod: Pod,
        profile: Profile,
        node_name: str,
        attempts: int,
        started: float,
        evidence: Any = None,
    ) -> None:
        """An attempt sent its pod to a node."""
        meta = pod.metadata
        noted = self._noted
        # In the order of `Noted`.
        noted += (
            self._now(),
            meta.namespace,
            meta.name,
            meta.uid,
            self.start() - started if started else 0.0,
            profile.name,
            node_name,
            attempts,
            None,
        )
        noted += self._found if self._pod is pod else evidence or NOTHING
        self._pod = None
        self._before_check -= 1
        if not self._before_check or self.told is not None:
            self._noted_one()

    def failed(
        self,
        pod: Pod,
        profile: Profile,
        setback: Setback,
        attempts: int,
        started: float,
        evidence: Any = None,
    ) -> None:
        """An attempt failed."""
        meta = pod.metadata
        seconds = self.start() - started if started else 0.0
        noted, node, name = self._noted, setback.node_name, profile.name
        noted += (self._now(), meta.namespace, meta.name, meta.uid)
        noted += (seconds, name, node, attempts, setback)
        noted += self._found if self._pod is pod else evidence or NOTHING
        self._message_bytes += len(setback.message)
        self._pod = None
        self._before_check -= 1
        if self._noted_bytes > self._chunk_limit:
            self._before_check = 0
        self._noted_one()

    def _noted_one(self) -> None:
        """Tell who listens, and now and then see whether it has become too much."""
        if self.told is not None:
            noted = self._noted
            self.told(self._first + noted.attempts - 1, noted.attempt(-1))
        if self._before_check > 0:
            return
        self._before_check = _CHECK_EVERY
        tracks = self._tracks
        if (
            self._noted.attempts >= _MOST_NOTED
            or self._noted_bytes + tracks.log_bytes > self._chunk_limit
            or tracks.changes > _MOST_CHANGES
            or tracks.are_many
        ):
            self.complete()
            while self._pending_bytes > self._pending_limit:
                self.write_one()

    def _begin_again(self, pod: Pod) -> None:
        """Something is wrong here; scheduling must not suffer, nor what is recorded already."""
        log.exception("the decision about pod %s is recorded without its verdicts", pod.key)
        self._pod = None
        self.complete()
        self._tracks.clear()

    def rest(self) -> float | None:
        """There is nothing to decide."""
        return self._rest()

    # Chunks

    def complete(self) -> None:
        """End the chunk, so that it can be written."""
        parts = self._tracks.next_chunk()
        if self._noted:
            pending = Pending(self._first, self._noted, parts)
            self._pending.append(pending)
            self._pending_bytes += pending.bytes
        self._first += self._noted.attempts
        self._noted = NotedFields()
        self._message_bytes = 0
        self._completed()

    def write_one(self) -> bool:
        """Write the oldest chunk that is complete; false if there is none."""
        if not self._pending:
            return False
        pending = self._pending.popleft()
        self._pending_bytes -= pending.bytes
        self._keep(*pending.written())
        return True

    def flush(self) -> None:
        """Write everything."""
        if self._noted:
            self.complete()
        while self.write_one():
            pass


def _note(attempt: Attempt) -> StatusWords | None:
    """Why some nodes, or all of them, were not looked at."""
    absent = attempt.diagnosis.absent_status
    if absent is None:
        return None
    words = status_words(absent, "PreFilter")
    if words.plugin:
        return words
    narrowing = ", ".join(sorted(attempt.before.narrowed_by))
    return StatusWords(narrowing, words.code, words.reasons, words.point)
