"""Tracks of pods that take the short way: a kept ranking's columns, and what live plugins say.

A ranking writes its patches into the track's log by itself (`framework.rankings`), as column, row
and value. Its columns come first and in this order: one per filter, one per scorer, the raw scores
of those that are normalised. What it refuses it writes as bit 0, for words cost more than a
verdict; they are asked for when many rows can be asked about at once, while these are still the
same.
"""

import logging
import weakref
from collections.abc import Mapping

import numpy as np

from moorage.cluster.columns import Rows
from moorage.cluster.stamps import Aspect
from moorage.cluster.view import NodeView
from moorage.engine.recording import LiveScores, ShortFindings
from moorage.framework.profile import Profile
from moorage.framework.rankings import Ranking, SteadyFilter
from moorage.ledger.column import Column
from moorage.ledger.groups import Groups, Sample
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

_LABELS = Aspect.LABELS
_MOST_LABELS = 8
WORDLESS = 1
"""Bit 0 of a verdict: refused, and the words are not known."""


class ShortLog(list[int]):
    """The log of a ranking's track, with what is compared at every decision."""

    __slots__ = (
        "answered",
        "constants",
        "filters",
        "refusal_changes",
        "size",
        "track",
        "unfiltered",
        "unscored",
    )

    def __init__(self, track: "ShortTrack", size: int, filters: Mapping[str, int]) -> None:
        super().__init__()
        self.track = track
        self.size = size
        self.filters = filters
        """The columns of live filters."""
        self.refusal_changes = -1
        """How often its refusals had changed when rows were last picked out; -1: live ones have."""
        self.answered = -1
        """How many live scorers had something to say."""
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
        self._groups: dict[str, Groups] = {}
        """By label."""
        self._samples: dict[str, Sample] = {}
        """By plugin, of the rows that it scored."""
        self._values: tuple[int, ...] | None = None
        """What the normalised columns of the ranking's own are filled with."""
        self.log: ShortLog = ShortLog(self, len(names.names), columns.filters)

    def follow(self, ranking: Ranking) -> None:
        """The ranking was worked out anew: compare all of it."""
        self.catch_up()
        for index, one in enumerate(ranking.filters):
            refused = np.flatnonzero(ranking.refusers & np.uint32(one.bit))
            bits = np.zeros(len(ranking.refusers), np.int64)
            bits[refused] = self._worded(index, ranking, one, refused)
            self._compare(index, bits)
        columns = (*ranking.points, *ranking.raw)
        for index, values in enumerate(columns, len(ranking.filters)):
            self._compare(index, values)
        # All of it is in the columns already, and in the log only for the reader.
        self._applied = len(self.log)

    def _compare(self, index: int, values: Array) -> None:
        """Take what differs; a column stays as narrow as it is while it can."""
        column = self.columns[index]
        column.make_room(values)
        self.update(index, values.astype(column.now.dtype))

    def set_moods(self, short: ShortFindings) -> None:
        """Other live plugins than before have something to say."""
        log = self.log
        log.unfiltered, log.unscored = short.unfiltered, short.unscored
        log.answered = len(short.scores)
        log.refusal_changes = -1  # a filter that is silent now may have refused something before
        for name, column in log.filters.items():
            self.set_mood(column, SKIPPED if name in short.unfiltered else TOLD)
        scored = {one[0].name for one in short.scores}
        for name, (raw_column, column) in self._scores.items():
            if raw_column < self.patched:
                continue  # of a plugin that is not live
            mood = TOLD if name in scored else SILENT
            mood = SKIPPED if name in short.unscored else mood
            self.set_mood(raw_column, mood)
            self.set_mood(column, mood)

    def take_answers(self, short: ShortFindings, total: int | None) -> None:
        """What live plugins said about this very pod; without a total nothing was scored."""
        log, ranking = self.log, short.ranking
        for name, refused in short.refusals:
            if self.update_refused(log.filters[name], refused):
                log.refusal_changes = -1
        if total is None or not short.scores:
            return
        if ranking.refusal_changes != log.refusal_changes:
            # Somebody refuses other rows than before, so others are scored.
            log.refusal_changes = ranking.refusal_changes
            self.forget_parts()
            self._samples.clear()
        for scores in short.scores:
            self._take_scores(scores, short.nodes)

    def _take_scores(self, scores: LiveScores, nodes: NodeView) -> None:
        """Scores that were worked out for this very pod."""
        plugin, rows, raw, normalized, state = scores
        raw_column, column = self._scores[plugin.name]
        if normalized is None:
            self.fill(column, 0)
        if raw is None:
            self._values = None
            if normalized is not None:
                self.update(column, normalized, rows)
            return
        label = plugin.score_label(state)
        sample = None if label is None else self._sample(plugin.name, label, nodes, rows)
        if sample is not None:
            self.update_groups(raw_column, raw, sample)
            if normalized is not None:
                self.update_groups(column, normalized, sample)
            return
        patches = plugin.score_patches(state) if rows is None else None
        if patches is not None:
            self.update_patched(raw_column, raw, patches[0], None)
            if normalized is not None:
                self.update_patched(column, normalized, patches[0], patches[1])
            return
        self.update(raw_column, raw, rows)
        if normalized is not None:
            self.update(column, normalized, rows)

    def _sample(self, plugin: str, label: str, nodes: NodeView, rows: Rows | None) -> Sample | None:
        """A row that was scored out of each group of a label; None if there are many groups."""
        stamps, groups = nodes.stamps, self._groups.get(label)
        if groups is None or groups.as_of < stamps.latest(_LABELS):
            if len(self._groups) >= _MOST_LABELS:
                self._groups.clear()
            self._samples.clear()
            groups = self._groups[label] = Groups(nodes.label(label).codes, stamps.generation)
        if not groups.rows:
            return None
        sample = self._samples.get(plugin)
        if sample is None or sample.groups is not groups:
            sample = self._samples[plugin] = groups.sample(rows)
        return sample

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
        return super().bytes + sum(groups.bytes for groups in self._groups.values())

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

    # Words

    def find_words(self) -> None:
        """Ask for the words of refusals that came as patches, where nothing has changed since."""
        self.catch_up()
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


class _Columns:
    """The columns of a ranking's track, and where to find them."""

    def __init__(self, profile: Profile, ranking: Ranking) -> None:
        self._size = len(ranking.refusers)
        self.all: list[Column] = []
        self.filters: dict[str, int] = {}
        """Columns of live filters."""
        self.scores: dict[str, tuple[int, int]] = {}
        """Columns of scorers that normalise: raw and normalised."""
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
            self.scores[scorer.plugin.name] = (raw, normalized)
        for plugin in ranking.live_filters:
            place = filter_place[plugin.name]
            column = Column(FILTER, np.zeros(self._size, np.bool_), plugin.name, place)
            column.reasons.append(Words("", ""))
            column.is_bytes = True
            self.filters[plugin.name] = len(self.all)
            self.all.append(column)
        for live in ranking.live_scorers:
            # Most have nothing to say about most pods; those that do make room.
            raw = self._add(RAW, live.name, np.uint8)
            self.scores[live.name] = (raw, self._add(NORMALIZED, live.name, np.uint8))

    def _add(self, role: str, name: str, dtype: type[np.generic]) -> int:
        now = np.zeros(self._size, dtype)
        column = Column(role, now, name, self._score_place[name], self._weights[name])
        column.is_bytes = role == NORMALIZED
        self.all.append(column)
        return len(self.all) - 1
