"""The ledger's ears in the engine: notes every attempt, cheaply, and has chunks written later.

While pods are decided this only appends, and compares what plugins do not tell in short with the
last attempt of the kind. A chunk is complete after so many attempts, or when somebody wants
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
from moorage.ledger.pending import NOTHING, Ending, Found, Noted, NotedFields, Pending
from moorage.ledger.records import Blob, Chunk, StatusWords, status_words
from moorage.ledger.shortly import ShortLog
from moorage.ledger.track_table import TrackTable
from moorage.model.pod import Pod

log = logging.getLogger(__name__)

_MOST_NOTED = 4096
_CHECK_BYTES = 4096
_RAREST_CHECK = 1024
_MOST_FREQUENT_CHECK = 64
_COMPARED = 15
"""An attempt with long answers, or that had to be compared, counts for so many more."""
_NOTED_BYTES = 800
_MOST_CHANGES = 100_000

Keep = Callable[[Chunk, list[Blob]], None]
Told = Callable[[int, Noted], None]


class Recorder(DecisionRecorder):
    """Notes attempts and makes chunks of them, which go to `keep`."""

    def __init__(
        self,
        keep: Keep,
        limit_bytes: int,
        *,
        first: int = 1,
        now: Callable[[], float] = time.time,
        rest: Callable[[], float | None] = lambda: None,
        completed: Callable[[], None] = lambda: None,
    ) -> None:
        # One clock for everything, as each look costs.
        super().__init__(on=True, clock=now)
        self._keep = keep
        self._chunk_limit = limit_bytes // 16
        self._pending_limit = 5 * limit_bytes // 16
        self._rest = rest
        self._completed = completed
        self.told: Told | None = None
        """Is called with every attempt and its number, if somebody listens."""
        self._first = first
        self._tracks = TrackTable(limit_bytes // 4)
        self._noted = NotedFields(self._tracks.chunk)
        self._message_bytes = 0
        # The more there is room for, the longer one may go without looking.
        self._check_every = min(
            max(self._chunk_limit // _CHECK_BYTES, _MOST_FREQUENT_CHECK), _RAREST_CHECK
        )
        self._before_check = self._check_every
        self._pod: Pod | None = None
        """Whom `_found` is about."""
        self._found = NOTHING
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

    def found(self, attempt: Attempt, decision: Bind | Unschedulable) -> None:
        """The plain path led to a node, or to none."""
        feasible, total = 0, None
        if isinstance(decision, Bind):
            feasible, total = decision.feasible_nodes, decision.total_score
        size, note = len(attempt.nodes), _note(attempt)
        self._pod, self.short = attempt.pod, None
        if attempt.outcome is None:
            self._found = Found(-1, None, 0, 0, size, feasible, total, note)
            return
        try:
            track = self._tracks.plain(attempt)
            track.take(attempt)
            self._before_check -= _COMPARED
            if self._tracks.are_many:
                self._before_check = 1
        except Exception:
            self._begin_again(attempt.pod)
            return
        self._found = Found(
            self._tracks.chunk, track, len(track.log), 0, size, feasible, total, note
        )

    def evidence(self, pod: Pod) -> Found:
        """What was found last."""
        short, found = self.short, NOTHING
        if short is not None and short.pod is pod:
            found = self._found_shortly(short)
        elif self._pod is pod:
            found = self._found
        self._pod = self.short = None
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
        short = self.short
        if short is None or short.pod is not pod:
            self._ended(pod, profile, node_name, attempts, started, None, evidence)
            return
        # From here on nothing is called that can be done without: this is for nearly every pod.
        self.short = None
        ranking, scores, noted = short.ranking, short.scores, self._noted
        journal: Any = ranking.journal  # a `ShortLog` if there is one; asking for its type costs
        try:
            if (
                journal is None
                or journal.chunk != noted.chunk
                or ranking.constants is not journal.constants
                or short.silent != journal.silent
                or short.unscored != journal.unscored
                or short.unfiltered != journal.unfiltered
            ):
                journal = self._follow(short)
            else:
                if short.blocked is not journal.blocked and journal.track.take_refusals(short):
                    self._before_check -= _COMPARED
                if scores and journal.track.take_scores(short):
                    self._before_check -= _COMPARED
        except Exception:
            self._begin_again(pod)
            self._ended(pod, profile, node_name, attempts, started, None, NOTHING)
            return
        meta, clock = pod.metadata, self.clock  # called as a method it would take longer
        # See `NotedFields`.
        noted += (
            clock(),
            started,
            meta.namespace,
            meta.name,
            meta.uid,
            profile.name,
            node_name,
            attempts,
            journal,
            len(journal),
            len(journal.answers),
            short.feasible,
            short.total,
        )
        self._before_check -= 1
        if self._before_check <= 0 or self.told is not None:
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
        self._message_bytes += len(setback.message)
        if self._noted_bytes > self._chunk_limit:
            self._before_check = 1
        self._ended(pod, profile, setback.node_name, attempts, started, setback, evidence)

    def _ended(
        self,
        pod: Pod,
        profile: Profile,
        node_name: str,
        attempts: int,
        started: float,
        setback: Setback | None,
        evidence: Found | None,
    ) -> None:
        """Note an attempt that is not of the usual kind."""
        last = self.evidence(pod)
        found = last if evidence is None or last is not NOTHING else evidence
        meta, noted = pod.metadata, self._noted
        noted += (self.clock(), started, meta.namespace, meta.name, meta.uid)
        noted += (profile.name, node_name, attempts, Ending(setback, found), 0, 0, 0, None)
        self._before_check -= 1
        if self._before_check <= 0 or self.told is not None:
            self._noted_one()

    def _found_shortly(self, short: ShortFindings) -> Found:
        try:
            log = self._follow(short)
        except Exception:
            self._begin_again(short.pod)
            return NOTHING
        lengths = len(log), len(log.answers)
        return Found(log.chunk, log.track, *lengths, log.size, short.feasible, short.total)

    def _follow(self, short: ShortFindings) -> ShortLog:
        """Take what was found on the short way; the log that now tells of it."""
        ranking, tracks = short.ranking, self._tracks
        log = ranking.journal
        if not isinstance(log, ShortLog):
            log = tracks.follow(short)
            if tracks.are_many:
                self._before_check = 1
        track = log.track
        if log.chunk != tracks.chunk:
            tracks.enter(track)
        track.set_moods(short)
        if short.blocked is not log.blocked and track.take_refusals(short):
            self._before_check -= _COMPARED
        if short.total is not None and track.take_scores(short):
            self._before_check -= _COMPARED
        if ranking.constants is not log.constants and short.total is not None:
            track.take_constants(ranking)
        return log

    def _noted_one(self) -> None:
        """Tell who listens, and now and then see whether it has become too much."""
        if self.told is not None:
            noted = self._noted
            self.told(self._first + noted.attempts - 1, noted.attempt(-1))
        if self._before_check > 0:
            return
        self._before_check = self._check_every
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
        self._pod = self.short = None
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
        self._noted = NotedFields(self._tracks.chunk)
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
