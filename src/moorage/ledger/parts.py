"""What a track leaves behind in a chunk that is over, until there is time to write it.

Owns the writer's half of a track's record; `rebuilding` is the reader's.
"""

from collections.abc import Iterator

import numpy as np

from moorage.ledger.packing import pack
from moorage.ledger.records import ZEROS, Blob, Bulk, Start, Tables, TrackRecord
from moorage.ledger.tracks import Track

_START_BYTES = 300
"""What a column's start takes apart from its values."""


class Part:
    """A track's part of a chunk that is over, to be written when there is time."""

    def __init__(self, track: Track) -> None:
        track.settle()
        self.chunk = track.chunk
        self._profile = track.profile
        self._names = track.names
        self._short = track.short
        self._plugins = track.plugins
        self._size = len(track.names.names)
        self._columns = tuple(column.spec for column in track.columns)
        self._starts = track.starts
        self._log = track.logged()
        self._answers = track.answers
        self._bulks = track.bulks

    @property
    def bytes(self) -> int:
        """How much memory it takes."""
        starts = sum(
            _START_BYTES + rows.nbytes + values.nbytes for _, _, rows, values in self._starts
        )
        return self._log.nbytes + self._answers.held_bytes + self._bulks.bytes + starts

    def position(self, logged: int, answered: int) -> int:
        """How many changes there were when the log and the answers had so many fields."""
        return self._answers.position(logged, answered)

    def blobs(self) -> Iterator[Blob]:
        """All that is needed to read it."""
        yield from self._names.written()
        for base, _, _, _ in self._starts:
            if base is not None:
                yield base.written()

    def written(self) -> TrackRecord:
        """The record."""
        log, bulks = self._answers.merged(self._log), self._bulks
        return TrackRecord(
            self._profile,
            self._names.number,
            self._size,
            self._short,
            *self._plugins,
            self._columns,
            tuple(
                Start(ZEROS if base is None else base.number, mood, pack(rows), pack(values))
                for base, mood, rows, values in self._starts
            ),
            (pack(log[:, 0]), pack(log[:, 1]), pack(log[:, 2])),
            tuple(Bulk(number, pack(np.asarray(values))) for number, values in bulks.values),
            tuple(pack(rows) for rows in bulks.sets),
            self._written_tables(),
        )

    def _written_tables(self) -> Tables | None:
        bulks = self._bulks
        if not bulks.tables:
            return None
        values = b"".join(bulks.tables)
        return Tables(
            tuple(pack(np.array(sets, np.int64)) for sets in bulks.heads),
            pack(np.array(bulks.table_heads, np.int64)),
            pack(np.frombuffer(values, np.int64)),
        )
