"""The tracks of a running ledger: which there are, and which have a part in the current chunk.

Owns finding them and forgetting them, those that were used least recently, within a limit of bytes.
"""

import logging
from collections import OrderedDict

from moorage.cluster.view import NodeView
from moorage.engine.recording import ShortFindings
from moorage.framework.attempt import Attempt
from moorage.ledger.names import NameTable
from moorage.ledger.parts import Part
from moorage.ledger.plainly import PlainTrack, kind_of
from moorage.ledger.shortly import ShortLog, ShortTrack
from moorage.ledger.tracks import Track

log = logging.getLogger(__name__)

_CHANGE_BYTES = 60
_NAME_BYTES = 16


class TrackTable:
    """All tracks."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._all: OrderedDict[int, Track] = OrderedDict()
        """Those used last at the end."""
        self._used: list[Track] = []
        self._plain: dict[object, PlainTrack] = {}
        self._new_bytes = 0
        self.chunk = 0
        """Grows with every chunk."""
        self._membership = -1
        self._names = NameTable(0, ())
        self._blobs = 0

    @property
    def bytes(self) -> int:
        """About how much memory everything takes."""
        names = _NAME_BYTES * len(self._names.names)
        return names + sum(track.bytes for track in self._all.values()) + self.log_bytes

    @property
    def most_bytes(self) -> int:
        """How much memory they may come to take before the chunk has to end."""
        return self.bytes + self._limit // 4

    @property
    def are_many(self) -> bool:
        """Did so many come in this chunk that it has to end?"""
        return self._new_bytes > self._limit // 4

    @property
    def changes(self) -> int:
        """About how many changes there are in this chunk."""
        logged = sum(len(track.log) for track in self._all.values()) // 3
        return logged + sum(track.answers.changes for track in self._used)

    @property
    def log_bytes(self) -> int:
        """About how much memory the changes take."""
        beside = sum(track.chunk_bytes for track in self._used)
        return _CHANGE_BYTES * self.changes + beside

    def follow(self, short: ShortFindings) -> ShortLog:
        """The log of a ranking that is new, or was worked out anew."""
        ranking, names = short.ranking, self._names_of(short.nodes)
        log = ranking.last_journal
        if isinstance(log, ShortLog) and log.track.names is names:
            if log.chunk != self.chunk:
                self.enter(log.track)
            log.track.follow(ranking)
        else:
            track = ShortTrack(short.profile, ranking, names)
            log = track.log
            track.adopt(ranking)
            self._add(track)
            self.enter(track)
        ranking.journal, ranking.last_journal = log, None
        return log

    def plain(self, attempt: Attempt) -> PlainTrack:
        """The track for an attempt on the plain path."""
        names = self._names_of(attempt.nodes)
        kind = (names.number, kind_of(attempt))
        track = self._plain.get(kind)
        if track is None:
            track = self._plain[kind] = PlainTrack(attempt, names)
            self._add(track)
        if track.chunk != self.chunk:
            self.enter(track)
        return track

    def _add(self, track: Track) -> None:
        self._all[id(track)] = track
        self._new_bytes += track.bytes

    def enter(self, track: Track) -> None:
        """A track has a part in this chunk."""
        track.enter(self.chunk, self._next_blob)
        self._used.append(track)
        self._all.move_to_end(id(track))

    def next_chunk(self) -> dict[int, Part]:
        """Begin another chunk; the parts of the last one, by the identity of their tracks."""
        parts: dict[int, Part] = {}
        for track in self._used:
            try:
                parts[id(track)] = Part(track)
            except Exception:
                # Scheduling must not suffer: these attempts are recorded without their verdicts.
                log.exception("the verdicts of attempts with profile %s are lost", track.profile)
                track.close()
                del self._all[id(track)]
        for track in self._all.values():
            track.reset()
        self._used = []
        self.chunk += 1
        self._forget()
        return parts

    def clear(self) -> None:
        """Forget all tracks."""
        for track in self._all.values():
            track.close()
        self._all.clear()
        self._plain.clear()

    def _forget(self) -> None:
        self._new_bytes = 0
        left = self._limit
        for key, track in reversed(tuple(self._all.items())):
            left -= track.bytes
            if left < 0 or not track.is_wanted:
                track.close()
                del self._all[key]
        self._plain = {kind: track for kind, track in self._plain.items() if id(track) in self._all}

    def _names_of(self, nodes: NodeView) -> NameTable:
        membership = nodes.membership
        if membership != self._membership:
            self._membership = membership
            base = self._names.whole if self._names.number else None
            self._names = NameTable(self._next_blob(), nodes.whole.names(), base)
        return self._names

    def _next_blob(self) -> int:
        self._blobs += 1
        return self._blobs
