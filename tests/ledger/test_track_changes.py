"""Tracks: whatever way changes are noted in, what is rebuilt is what was told."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from moorage.framework.scores import Scale, Way
from moorage.ledger.column import Column
from moorage.ledger.domains import Domains
from moorage.ledger.names import NameTable
from moorage.ledger.packing import scaled, unpack
from moorage.ledger.parts import Part
from moorage.ledger.rebuilding import columns_at
from moorage.ledger.records import (
    BULK,
    FILTER,
    FIRST_SET,
    NORMALIZED,
    RAW,
    TABLE,
    Blob,
    TrackRecord,
)
from moorage.ledger.tracks import Track

SIZE = 40
NUMBERS = st.sampled_from([0, 1, 7, 100, 255, 256, -3, 2**40])
ROW = st.integers(0, SIZE - 1)

Ints = NDArray[np.int64]


class Attempt(NamedTuple):
    """What a plugin said in one attempt."""

    other_rows: frozenset[int] | None
    """These are left out from now on; None: as before."""
    codes: int
    """0: not by domain; otherwise rows are in that of their remainder."""
    by_domain: Sequence[int]
    scale: Scale | None
    """How raw scores are normalised, if that is told."""
    changes: Sequence[tuple[int, int]]
    everywhere: int | None
    likely: Sequence[int]
    ends_chunk: bool


attempts = st.builds(
    Attempt,
    st.none() | st.frozensets(ROW, max_size=SIZE - 1),
    st.sampled_from([0, 0, 1, 3, 4]),
    st.lists(NUMBERS, min_size=4, max_size=4),
    st.none() | st.sampled_from([Scale(Way.STRETCH, -3, 100), Scale(Way.INVERSE, 1, 255)]),
    st.lists(st.tuples(ROW, NUMBERS), max_size=12),
    st.none() | NUMBERS,
    st.lists(ROW, max_size=3),
    st.sampled_from([False, False, False, True]),
)


class Told(NamedTuple):
    """What has to be read back."""

    logged: int
    answered: int
    rows: Ints
    raw: Ints
    normalized: Ints


class Teller:
    """A plugin that says one thing after the other, and what has to become of it."""

    def __init__(self) -> None:
        names = NameTable(1, [f"node-{row}" for row in range(SIZE)])
        self.columns = [
            Column(RAW, np.zeros(SIZE, np.uint8), "Plugin"),
            Column(NORMALIZED, np.zeros(SIZE, np.uint8), "Plugin"),
        ]
        self.columns[1].is_bytes = True
        self.columns[1].raw = self.columns[0]
        self.columns[0].normalized = self.columns[1]
        self.track = Track("default", names, self.columns, short=True, plugins=((), ()))
        self.chunk, self.blobs = 0, 1
        self.raw: Ints = np.zeros(SIZE, np.int64)
        self.rows: Ints | None = None
        # The last domain of each has no node.
        self.domains = {n: Domains(np.arange(SIZE) % n, n + 1) for n in (1, 3, 4)}
        self.told: list[Told] = []
        self.found: dict[int, Blob] = {}
        self.seen: set[int] = set()
        self.track.enter(self.chunk, self.number)

    def number(self) -> int:
        self.blobs += 1
        return self.blobs

    def tell(self, attempt: Attempt) -> None:
        """Tell the track of an attempt, as `ShortTrack` does."""
        if attempt.other_rows is not None:
            left = [row for row in range(SIZE) if row not in attempt.other_rows]
            self.rows = np.array(left) if attempt.other_rows else None
            self.track.forget_parts()
        if attempt.everywhere is not None:
            self.raw[:] = attempt.everywhere
        for row, value in attempt.changes:
            self.raw[row] = value
        if attempt.codes:
            self.raw = np.array(attempt.by_domain)[np.arange(SIZE) % attempt.codes]
        raw = self.raw.copy() if self.rows is None else self.raw[self.rows]
        normalized = raw % 101
        self.track.likely = [(row, 1) for row in attempt.likely]
        table: bytes | None = None
        if attempt.codes:
            table = np.array([*attempt.by_domain[: attempt.codes], 9]).tobytes()
            if self.columns[0].domains is not self.domains[attempt.codes]:
                self.track.write_answers()
                self.columns[0].filled = self.columns[0].patches = None
                self.columns[0].follow_domains(self.domains[attempt.codes])
        else:
            self.track.write_answers()
            self.track.update(0, raw, self.rows)
        if table is not None or attempt.scale is not None:
            self.answer(table, attempt.scale)
        if attempt.scale is not None:
            normalized = scaled(attempt.scale, raw)
        else:
            self.track.write_answers()
            self.track.update(1, normalized, self.rows)
        self.expect(np.arange(SIZE) if self.rows is None else self.rows, raw, normalized)
        if attempt.ends_chunk:
            self.check()

    def answer(self, told: bytes | int | None, scale: Scale | None) -> None:
        """Something that is told in short."""
        self.track.answers += (len(self.track.log), self.columns[0], told, scale)

    def expect(self, rows: Ints, raw: Ints, normalized: Ints) -> None:
        """What is to be read back."""
        track = self.track
        self.told.append(Told(len(track.log), len(track.answers), rows, raw, normalized))

    def check(self) -> None:
        """Write the chunk, read it back, and begin another."""
        part = Part(self.track)
        self.found |= {blob.number: blob for blob in part.blobs()}
        record = msgspec.msgpack.decode(msgspec.msgpack.encode(part.written()), type=TrackRecord)
        self.seen |= set(unpack(record.log[1]).tolist())
        for told in self.told:
            position = part.position(told.logged, told.answered)
            raw, normalized = columns_at(record, position, self.found.__getitem__)
            assert raw.values[told.rows].tolist() == told.raw.tolist()
            assert normalized.values[told.rows].tolist() == told.normalized.tolist()
        self.told.clear()
        self.track.reset()
        self.chunk += 1
        self.track.enter(self.chunk, self.number)


@settings(max_examples=150, deadline=None)
@given(st.lists(attempts, min_size=1, max_size=25))
def test_what_is_rebuilt_is_what_was_told(said: list[Attempt]) -> None:
    teller = Teller()
    for attempt in said:
        teller.tell(attempt)
    teller.check()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.booleans(), st.lists(ROW, max_size=3))))
def test_refusals_are_rebuilt_whether_they_are_new_or_seen_before(
    said: list[tuple[int, bool, list[int]]],
) -> None:
    # Some differ in many rows, some in few.
    kept = [np.arange(SIZE) % 5 < number for number in range(4)]
    kept += [np.arange(SIZE) == number for number in range(3)]
    for refused in kept:
        refused.flags.writeable = False
    teller = Teller()
    column = Column(FILTER, np.zeros(SIZE, np.bool_), "Plugin")
    track = Track("default", teller.track.names, [column], short=True, plugins=((), ()))
    track.enter(0, teller.number)
    positions = []
    for number, as_kept, likely in said:
        track.likely = [(row, 1) for row in likely]
        before = len(track.log)
        changed = track.update_refused(0, kept[number] if as_kept else kept[number].copy())
        assert changed == (len(track.log) != before)
        positions.append(len(track.log) // 3)
    part = Part(track)
    found = {blob.number: blob for blob in part.blobs()}
    for (number, _, _), position in zip(said, positions, strict=True):
        [rebuilt] = columns_at(part.written(), position, found.__getitem__)
        assert rebuilt.values.tolist() == kept[number].tolist()


def test_refusals_that_come_back_are_written_once() -> None:
    teller = Teller()
    column = Column(FILTER, np.zeros(SIZE, np.bool_), "Plugin")
    track = Track("default", teller.track.names, [column], short=True, plugins=((), ()))
    for _ in range(5):
        for zone in range(3):
            track.update_refused(0, np.arange(SIZE) % 3 == zone)
    assert (len(track.log) // 3, len(track.bulks.values)) == (15, 3)


Patched = tuple[list[tuple[int, int]], int | None, bool, bool]
patched_scores = st.tuples(
    st.lists(st.tuples(ROW, st.integers(0, 9)), max_size=8),
    st.none() | st.integers(0, 9),
    st.booleans(),
    st.booleans(),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(patched_scores))
def test_scores_are_rebuilt_from_what_a_plugin_says_it_changed(said: list[Patched]) -> None:
    teller = Teller()
    track, column, raw = teller.track, teller.columns[0], np.zeros(SIZE, np.int64)
    patches: list[int] = []
    for changes, everywhere, anew, by_numbers in said:
        if everywhere is not None:
            raw[:] = everywhere
        if anew or everywhere is not None:
            patches = []
        for row, value in changes:
            raw[row] = value
            patches += (row, value)
        if patches is column.patches and not by_numbers:
            teller.answer(len(patches), None)
        else:
            track.write_answers()
            track.update(0, raw.copy())
            column.follow_patches(patches)
        track.fill(1, 0)
        teller.expect(np.arange(SIZE), raw.copy(), np.zeros(SIZE, np.int64))
    teller.check()


def test_domains_are_noted_as_one_change_and_not_again_while_they_stay_the_same() -> None:
    teller = Teller()
    scale = Scale(Way.INVERSE, 1, 4)
    nothing = Attempt(None, 4, (1, 2, 3, 4), scale, (), None, (), ends_chunk=False)
    teller.tell(nothing)
    teller.track.write_answers()
    assert teller.track.answers.changes == 2, "one for each column"
    teller.tell(nothing)
    teller.track.write_answers()
    assert teller.track.answers.changes == 2
    teller.check()
    assert teller.seen == {TABLE, BULK}


def test_scores_follow_the_raw_ones_in_the_next_chunk_too() -> None:
    teller = Teller()
    scale = Scale(Way.STRETCH, 0, 10)
    teller.tell(Attempt(None, 4, (1, 2, 3, 4), scale, (), None, (), ends_chunk=True))
    teller.tell(Attempt(None, 4, (9, 2, 3, 4), scale, (), None, (), ends_chunk=True))


def test_many_rows_with_one_value_are_noted_as_one_change() -> None:
    teller = Teller()
    changes = [(row, 500) for row in range(0, SIZE, 5)]
    teller.tell(Attempt(frozenset({1}), 0, (), None, changes, None, (), ends_chunk=False))
    teller.check()
    assert teller.seen == {FIRST_SET}


def test_a_track_of_version_1_reads_as_ever() -> None:
    teller = Teller()
    teller.tell(Attempt(None, 0, (), None, [(3, 9)], None, (), ends_chunk=False))
    record = Part(teller.track).written()
    fields = msgspec.msgpack.decode(msgspec.msgpack.encode(record))
    old = msgspec.msgpack.decode(msgspec.msgpack.encode(fields[:-1]), type=TrackRecord)
    assert old == record
