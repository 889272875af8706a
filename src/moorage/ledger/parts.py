"""What a track leaves behind in a chunk that is over, until there is time to write it.

Owns the writer's half of a track's record; `rebuilding` is the reader's.
"""

from collections.abc import Iterator

import numpy as np

from moorage.ledger.packing import pack
from moorage.ledger.records import ZEROS, Blob, Bulk, Start, Tables, TrackRecord
from moorage.ledger.tracks import Track


class Part:
    """A track's part of a chunk that is over, to be written when there is time."""

    def __init__(self, track: Track) -> None:
        track.catch_up()
        self.chunk = track.chunk
        self._profile = track.profile
        self._names = track.names
        self._short = track.short
        self._plugins = track.plugins
        self._size = len(track.names.names)
        self._columns = tuple(column.spec for column in track.columns)
        self._starts = track.starts
        self.log = np.array(track.log, np.int64).reshape(-1, 3)
        self._sets = track.sets
        self._bulks = track.bulks
        self._heads = track.heads
        self._table_heads = track.table_heads
        self._tables = track.tables
        self._bulk_bytes = track.bulk_bytes

    @property
    def bytes(self) -> int:
        """How much memory it takes."""
        starts = sum(rows.nbytes + values.nbytes for _, _, rows, values in self._starts)
        return self.log.nbytes + self._bulk_bytes + starts

    def blobs(self) -> Iterator[Blob]:
        """All that is needed to read it."""
        yield from self._names.written()
        for base, _, _, _ in self._starts:
            if base is not None:
                yield base.written()

    def written(self) -> TrackRecord:
        """The record."""
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
            (pack(self.log[:, 0]), pack(self.log[:, 1]), pack(self.log[:, 2])),
            tuple(Bulk(number, pack(np.asarray(values))) for number, values in self._bulks),
            tuple(pack(rows) for rows in self._sets),
            self._written_tables(),
        )

    def _written_tables(self) -> Tables | None:
        if not self._tables:
            return None
        values = b"".join(self._tables)
        return Tables(
            tuple(pack(np.array(sets, np.int64)) for sets in self._heads),
            pack(np.array(self._table_heads, np.int64)),
            pack(np.frombuffer(values, np.int64)),
        )
