"""Tracks of pods that take the short way: a kept ranking's columns, and what live plugins say.

A ranking writes its patches into the track's log by itself (`framework.rankings`), as column, row
and value. Its columns come first and in this order: one per filter, one per scorer, the raw scores
of those that are normalised. What it refuses it writes as bit 0, for words cost more than a
verdict; they are asked for when many rows can be asked about at once, while these are still the
same.
"""

import logging
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from moorage.cluster.columns import Bools, Codes, Rows
from moorage.engine.recording import ShortFindings
from moorage.framework.profile import Profile
from moorage.framework.rankings import Ranking, SteadyFilter
from moorage.framework.scores import Patches, RefusalDigest, ScoreDigest
from moorage.ledger.column import Column
from moorage.ledger.domains import Domains
from moorage.ledger.held import Array
from moorage.ledger.names import NameTable
from moorage.ledger.records import (
    FILTER,
    NORMALIZED,
    POINTS,
    RAW,
    SILENT,
    SKIPPED,
    TOLD,
    Words,
)
from moorage.ledger.tracks import Track, plugins_of
from moorage.ledger.wording import as_bits

log = logging.getLogger(__name__)

_MOST_LABELS = 8
_MOST_LIKELY = 8
"""With more rows that may have changed, a look at all of them is as quick."""
WORDLESS = 1
"""Bit 0 of a verdict: refused, and the words are not known."""


class ShortLog(list[int]):
    """The log of a ranking's track, with what is compared at every decision."""

    __slots__ = (
        "answers",
        "blocked",
        "chunk",
        "constants",
        "filters",
        "refusal_changes",
        "silent",
        "size",
        "track",
        "unfiltered",
        "unscored",
    )

    def __init__(self, track: "ShortTrack", size: int, filters: Mapping[str, Column]) -> None:
        super().__init__()
        self.track = track
        self.chunk = -1
        """The chunk it belongs to ..."""
        self.answers = track.answers
        """... and what was told in short in it."""
        self.size = size
        self.filters = filters
        """The columns of live filters."""
        self.refusal_changes = -1
        """How often its refusals had changed when rows were last picked out; -1: live ones have."""
        self.blocked: Bools | None = None
        """The rows that live filters refused last, if nobody may write to them."""
        # Which live plugins had nothing to say last time.
        self.silent: Sequence[str] | None = None
        self.unfiltered: list[str] = []
        self.unscored: list[str] = []
        self.constants: tuple[int, tuple[int, ...]] | None = None


class ShortTrack(Track):
    """What becomes of one ranking, from decision to decision."""

    def __init__(self, profile: Profile, ranking: Ranking, names: NameTable) -> None:
        columns = _Columns(profile, ranking)
        super().__init__(
            profile.name,
            names,
            columns.all,
            short=True,
            plugins=plugins_of(profile),
            patched=columns.patched,
        )
        self._ranking = weakref.ref(ranking)
        self._scores = columns.scores
        self._scaled = columns.scaled
        self._domains: dict[int, Domains] = {}
        """By the identity of the codes."""
        self._values: tuple[int, ...] | None = None
        """What the normalised columns of the ranking's own are filled with."""
        self.log: ShortLog = ShortLog(self, len(names.names), columns.filters)

    def enter(self, chunk: int, number: Callable[[], int]) -> None:
        """The first attempt in a chunk: note how the columns begin."""
        super().enter(chunk, number)
        self.log.chunk, self.log.answers = chunk, self.answers

    def adopt(self, ranking: Ranking) -> None:
        """Begin with what a ranking says."""
        for index, values in self._told_by(ranking):
            if values.any():
                column = self.columns[index]
                column.make_room(values)
                column.now[:] = values

    def follow(self, ranking: Ranking) -> None:
        """The ranking was worked out anew: compare all of it."""
        self.catch_up()
        for index, values in self._told_by(ranking):
            self._compare(index, values)
        # All of it is in the columns already, and in the log only for the reader.
        self._applied = len(self.log)

    def _told_by(self, ranking: Ranking) -> Iterator[tuple[int, Array]]:
        """All columns of a ranking's own."""
        for index, one in enumerate(ranking.filters):
            refused = np.flatnonzero(ranking.refusers & np.uint32(one.bit))
            bits = np.zeros(len(ranking.refusers), np.int64)
            bits[refused] = self._worded(index, ranking, one, refused)
            yield index, bits
        yield from enumerate((*ranking.points, *ranking.raw), len(ranking.filters))

    def _compare(self, index: int, values: Array) -> None:
        """Take what differs; a column stays as narrow as it is while it can."""
        column = self.columns[index]
        column.make_room(values)
        self.update(index, values.astype(column.now.dtype))

    def set_moods(self, short: ShortFindings) -> None:
        """Other live plugins than before have something to say."""
        log = self.log
        log.unfiltered, log.unscored, log.silent = short.unfiltered, short.unscored, short.silent
        log.refusal_changes = -1  # a filter that is silent now may have refused something before
        for name, refusals in log.filters.items():
            self.set_mood(refusals, SKIPPED if name in short.unfiltered else TOLD)
        scored = {one[0].name for one in short.scores}
        for name, raw in self._scores.items():
            if raw.index < self.patched:
                continue  # of a plugin that is not live
            mood = TOLD if name in scored else SILENT
            mood = SKIPPED if name in short.unscored else mood
            self.set_mood(raw, mood)
            if raw.normalized is not None:
                self.set_mood(raw.normalized, mood)

    def take_scores(self, short: ShortFindings) -> bool:
        """What live plugins scored for this very pod; is it much, or had it to be compared?"""
        log, answers, compared = self.log, self.answers, False
        for scorer, rows, raw, normalized, state in short.scores:
            column = self._scores[scorer.name]
            is_digest = type(state) is column.digest or _meet(column, state, ScoreDigest)
            if raw is None or not is_digest or (scale := state.scale) is None:
                self._compare_scores(short, column, raw, normalized, rows)
                compared = True
            elif (codes := state.codes) is not None and (table := state.table) is not None:
                domains = column.domains
                if domains is None or domains.codes is not codes or domains.as_of != state.labelled:
                    domains = self._follow_domains(column, codes, state.labelled, len(table))
                answers += (len(log), column, table.tobytes(), scale)
                compared |= domains.are_many
            elif (patches := state.patches) is column.patches and patches is not None:
                answers += (len(log), column, len(patches), scale)
            else:
                self._compare_raw(short, column, raw, rows, state)
                answers += (len(log), column, None, scale)
                compared = True
        return compared

    def take_refusals(self, short: ShortFindings) -> bool:
        """Which rows live plugins refused this very pod; did rows have to be compared?"""
        log, compared = self.log, False
        blocked = log.blocked = None
        for plugin, refused, state in short.refusals:
            column, patches = log.filters[plugin.name], None
            # Many plugins keep what they say. What nobody may write to is known when seen again.
            if refused is column.source:
                blocked = refused
                continue
            log.refusal_changes = -1
            if type(state) is column.digest or _meet(column, state, RefusalDigest):
                patches = state.patches
            if patches is column.patches and patches is not None:
                column.source = None
                self.answers += (len(log), column, len(patches), None)
            else:
                self._compare_refused(short, column, refused, patches)
                compared, blocked = True, column.source
        if len(short.refusals) == 1:
            log.blocked = blocked
        return compared

    def _look_closely(self, short: ShortFindings) -> None:
        """Make ready for answers that have to be compared with the last ones."""
        self.write_answers()
        log, ranking = self.log, short.ranking
        self.likely = ranking.patched if len(ranking.patched) <= _MOST_LIKELY else ()
        if ranking.refusal_changes != log.refusal_changes:
            # Somebody refuses other rows than before, so others are scored.
            log.refusal_changes = ranking.refusal_changes
            self.forget_parts()

    def _compare_refused(
        self, short: ShortFindings, column: Column, refused: Array, patches: Patches | None
    ) -> None:
        """Take what differs, in all rows."""
        self._look_closely(short)
        self.update_refused(column.index, refused)
        column.source = None if refused.flags.writeable else refused
        column.follow_patches(patches)

    def _compare_raw(
        self,
        short: ShortFindings,
        column: Column,
        raw: Array,
        rows: Rows | None,
        digest: ScoreDigest,
    ) -> None:
        """Take what differs; the rest follows from it."""
        self._look_closely(short)
        if digest.everywhere is None:
            self.update(column.index, raw, rows)
        else:
            self.update(column.index, digest.everywhere)
            column.follow_patches(digest.patches)

    def _compare_scores(
        self,
        short: ShortFindings,
        column: Column,
        raw: Array | None,
        normalized: Array | None,
        rows: Rows | None,
    ) -> None:
        """Take what differs in raw and normalised scores."""
        self._look_closely(short)
        if raw is None:
            self._values = None
        else:
            self.update(column.index, raw, rows)
        other = column.normalized
        assert other is not None, "raw scores are normalised"
        if normalized is None:
            self.fill(other.index, 0)
        else:
            self.update(other.index, normalized, rows)

    def _follow_domains(self, column: Column, codes: Codes, labelled: int, size: int) -> Domains:
        """From now on a column is told by these domains."""
        self.write_answers()
        domains = self._domains_of(codes, labelled, size)
        column.filled = column.patches = None
        column.follow_domains(domains)
        return domains

    def _domains_of(self, codes: Codes, labelled: int, size: int) -> Domains:
        """The rows of the domains that a plugin scores by."""
        domains = self._domains.get(id(codes))
        if domains is None or domains.codes is not codes or domains.as_of != labelled:
            if len(self._domains) >= _MOST_LABELS:
                self._domains.clear()
            domains = self._domains[id(codes)] = Domains(codes, size, labelled)
        return domains

    @property
    def chunk_bytes(self) -> int:
        """How much memory this chunk has cost, the log left out."""
        tables = max((domains.told_bytes for domains in self._domains.values()), default=0)
        return super().chunk_bytes + self.answers.unwritten * tables

    def take_constants(self, ranking: Ranking) -> None:
        """Scores that are the same for every node."""
        constants = self.log.constants = ranking.constants
        if constants is not None and constants[1] != self._values:
            for column, value in zip(self._scaled, constants[1], strict=True):
                self.fill(column, value)
            self._values = constants[1]

    @property
    def bytes(self) -> int:
        """How much memory it takes, the log left out."""
        return super().bytes + sum(domains.bytes for domains in self._domains.values())

    @property
    def is_wanted(self) -> bool:
        """Is the ranking still there, and writes here?"""
        ranking = self._ranking()
        return ranking is not None and (
            ranking.journal is self.log or ranking.last_journal is self.log
        )

    def close(self) -> None:
        """The ranking writes here no more."""
        ranking = self._ranking()
        if ranking is not None and self.is_wanted:
            ranking.journal = ranking.last_journal = None
        super().close()
        self._scores, self.log.filters = {}, {}
        del self.log  # which knows its track: see `Track.close`

    # Words

    def settle(self) -> None:
        """Complete what was noted in a hurry."""
        super().settle()
        self._find_words()

    def _find_words(self) -> None:
        """Ask for the words of refusals that came as patches, where nothing has changed since."""
        ranking = self._ranking()
        wordless = [
            (index, np.flatnonzero(self.columns[index].now == WORDLESS))
            for index in range(self.patched)
            if self.columns[index].role == FILTER
        ]
        if ranking is None or not any(len(rows) for _, rows in wordless):
            return
        changed = ranking.changed_rows()
        if changed is None or ranking.journal is not self.log:
            return
        for index, rows in wordless:
            still = np.setdiff1d(rows, changed)
            if len(still):
                words = self._worded(index, ranking, ranking.filters[index], still)
                self._say(index, still, words)

    def _say(self, index: int, rows: Rows, words: Array) -> None:
        """Put words to the last refusal of each row, in the log as well."""
        column = self.columns[index]
        column.make_room(words)
        column.now[rows] = words
        self._logged = None
        said = dict(zip(rows.tolist(), words.tolist(), strict=True))
        log = self.log
        for at in range(len(log) - 3, -1, -3):
            if not said:
                break
            if log[at] == index and log[at + 1] in said:
                log[at + 2] = said.pop(log[at + 1])

    def _worded(self, index: int, ranking: Ranking, one: SteadyFilter, rows: Rows) -> Array:
        if not len(rows):
            return np.zeros(0, np.int64)
        try:
            verdicts = ranking.words(one, rows)
        except Exception:
            log.debug("no words from %s", one.plugin.name, exc_info=True)
            return np.full(len(rows), WORDLESS, np.int64)
        bits = as_bits(verdicts, self.columns[index].reasons).astype(np.int64)
        bits[bits == 0] = WORDLESS
        return bits


def _meet(column: Column, state: object, digest: type) -> bool:
    """Does a plugin's state tell in short? Asked once, as long as all are of one type."""
    if isinstance(state, digest):
        column.digest = type(state)
        return True
    return False


class _Columns:
    """The columns of a ranking's track, and where to find them."""

    def __init__(self, profile: Profile, ranking: Ranking) -> None:
        self._size = len(ranking.refusers)
        self.all: list[Column] = []
        self.filters: dict[str, Column] = {}
        """Columns of live filters."""
        self.scores: dict[str, Column] = {}
        """The raw scores of scorers that normalise."""
        filter_place = {plugin.name: place for place, plugin in enumerate(profile.filter)}
        self._score_place = {plugin.name: place for place, plugin in enumerate(profile.score)}
        self._weights = profile.weights
        for one in ranking.filters:
            name = one.plugin.name
            column = Column(FILTER, np.zeros(self._size, np.uint8), name, filter_place[name])
            column.reasons.append(Words("", ""))
            self.all.append(column)
        for scorer in ranking.scorers:
            self._add(POINTS, scorer.plugin.name, np.uint8)
        raw_scaled = [self._add(RAW, scorer.plugin.name, np.int64) for scorer in ranking.scaled]
        self.patched = len(self.all)
        self.scaled = [self._add(NORMALIZED, one.plugin.name, np.uint8) for one in ranking.scaled]
        for scorer, raw, normalized in zip(ranking.scaled, raw_scaled, self.scaled, strict=True):
            self._pair(scorer.plugin.name, raw, normalized)
        for plugin in ranking.live_filters:
            place = filter_place[plugin.name]
            column = Column(FILTER, np.zeros(self._size, np.bool_), plugin.name, place)
            column.reasons.append(Words("", ""))
            column.is_bytes = True
            self.filters[plugin.name] = column
            self.all.append(column)
        for live in ranking.live_scorers:
            # Most have nothing to say about most pods; those that do make room.
            raw = self._add(RAW, live.name, np.uint8)
            normalized = self._add(NORMALIZED, live.name, np.uint8)
            self.all[normalized].raw = self.all[raw]
            self._pair(live.name, raw, normalized)

    def _pair(self, name: str, raw: int, normalized: int) -> None:
        self.scores[name] = self.all[raw]
        self.all[raw].normalized = self.all[normalized]

    def _add(self, role: str, name: str, dtype: type[np.generic]) -> int:
        now = np.zeros(self._size, dtype)
        column = Column(role, now, name, self._score_place[name], self._weights[name])
        column.is_bytes = role == NORMALIZED
        self.all.append(column)
        return len(self.all) - 1
