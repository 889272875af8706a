"""All nodes ranked for pods that are alike, kept and patched instead of worked out again.

`framework.reuse` keeps each plugin's answer; this keeps what becomes of all of them together: which
rows are refused, and what the others score. After a pod was placed, only its node's row is asked
about again, and only by the plugins that read what changed there.

It holds for plugins whose whole part in a decision depends on the pod's key and the row alone
(`steady`), and for those that have nothing to say about the pod (`idle_for`). The others are
*live*: `engine.fast_lane` asks them for every pod. If a plugin's PreFilter rejects or narrows, or
its answer is an error, there is no ranking, and the plain path has to find the words. So whatever
a plugin raises is let through as it is: nobody is told.
"""

from collections.abc import Hashable, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from moorage.cluster.columns import Ints, Rows
from moorage.cluster.stamps import Aspect, Change, bits_of
from moorage.cluster.state import ClusterState
from moorage.cluster.view import NodeView
from moorage.framework.guard import checked_scores, guard, wrong_answer
from moorage.framework.metering import Tally
from moorage.framework.plugin import (
    MAX_NODE_SCORE,
    FilterPlugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    ScorePlugin,
)
from moorage.framework.ranking_roles import IDLE, LIVE, Roles
from moorage.framework.status import SKIP, Verdicts
from moorage.model.pod import Pod

REFUSED = -1
"""Stands for the total of a row that cannot take the pod."""

_ENTRY_BYTES = 4096
# Past this share of changed rows one pass over everything is cheaper than patching.
_REDO_SHARE = 128


class SteadyFilter(msgspec.Struct, frozen=True):
    """A filter in a ranking; `bit` is its own in the rows' sets of refusers."""

    plugin: FilterPlugin[Any]
    state: Any
    reads: int
    bit: int


class SteadyScorer(msgspec.Struct, frozen=True):
    """A scorer in a ranking."""

    plugin: ScorePlugin[Any]
    state: Any
    reads: int
    weight: int


class _Names:
    """The steady plugins that answered at each point, for whoever counts."""

    __slots__ = ("idle_score", "pre_filter", "pre_score")

    def __init__(self) -> None:
        self.pre_filter: list[str] = []
        self.pre_score: list[str] = []
        self.idle_score: list[str] = []
        """Those with nothing to say that have no PreScore to say so: they score 0 everywhere."""


def _merged(changes: Sequence[Change]) -> list[Change]:
    """One change per row."""
    merged: dict[int, int] = {}
    for row, bits in changes:
        merged[row] = merged.get(row, 0) | bits
    return list(merged.items())


class Ranking:
    """Every row's total for pods with one key, `REFUSED` where they cannot go."""

    def __init__(self, state: ClusterState, roles: Roles, pod: Pod, nodes: NodeView) -> None:
        self._state = state
        self.pod = pod
        self.filters: list[SteadyFilter] = []
        self.scorers: list[SteadyScorer] = []
        self.scaled: list[SteadyScorer] = []
        """Scorers that normalise: their raw scores are kept, the rest is done per decision."""
        self.live_filters: list[FilterPlugin[Any]] = []
        self.live_pre_filters: list[PreFilterPlugin[Any]] = []
        self.live_scorers: list[ScorePlugin[Any]] = []
        self.live_pre_scorers: dict[str, PreScorePlugin[Any]] = {}
        self.kept_names = _Names()
        self.usable = self._cast(roles, pod, nodes)
        self.filters_alone = not (self.live_filters or self.live_pre_filters)
        """Does it know the feasible rows, whatever the pod?"""
        self.live_names = (
            ("PreFilter", tuple(one.name for one in self.live_pre_filters)),
            ("PreScore", tuple(self.live_pre_scorers)),
            ("Score", tuple(one.name for one in self.live_scorers)),
        )
        self._first_refusals: dict[int, int] = {}
        """Per filter bit, how many rows that filter is the first to refuse."""
        self.refusal_changes = 0
        """Grows with every change of the refusals."""
        self.tallies: dict[Hashable, Tally] = {}
        """Where decisions are counted, by what is told of them alike."""
        self.tally: Tally | None = None
        """The last one, unless a refusal has changed since ..."""
        self.quiet_tally: Tally | None = None
        """... and if no live plugin had anything to do then: others like it need no more."""
        self._as_of = -1
        self.feasible = 0
        self._refusers: NDArray[np.uint32] = np.zeros(0, np.uint32)
        self._points: list[Ints] = []
        self.raw: list[Ints] = []
        self._raw_counts: list[int] = []
        """Per scaled scorer, how many rows have a raw score other than 0."""
        self._constants: dict[int, tuple[int, tuple[int, ...]] | None] = {}
        self.constants: tuple[int, tuple[int, ...]] | None = None
        """What `constant` found last, and how much of it each scaled scorer gives, unweighted."""
        self.journal: list[int] | None = None
        """Where patches are written down, if somebody wants that: column, row and value of each.

        Columns are the filters (1: refused), the scorers and the raw scores, counted through.
        """
        self.last_journal: list[int] | None = None
        """The journal that was in use before everything was worked out anew."""
        self.patched: Sequence[Change] = ()
        """What was patched when it was last brought up to date."""
        weights = sum(scorer.weight for scorer in (*self.scorers, *self.scaled))
        self._dtype = np.int32 if weights * MAX_NODE_SCORE < 2**31 else np.int64
        self._totals: NDArray[Any] = np.zeros(0, self._dtype)
        self.standing: NDArray[Any] = np.zeros(0, self._dtype)
        """The totals of the steady scorers, `REFUSED` for rows that a steady filter refuses."""
        self.bytes = _ENTRY_BYTES
        """About how much memory it takes."""
        self._readers: dict[int, _Readers] = {}
        """By the bits of what changed."""
        # The same arrays for whoever reads or writes one row.
        self._refuser_cells = self._refusers.data
        self._total_cells = self._totals.data
        self._standing_cells = self.standing.data

    def refresh(self, nodes: NodeView) -> None:
        """Bring everything up to date."""
        stamps = self._state.stamps
        generation = stamps.generation
        if self._as_of == generation:
            return
        changes = None
        if self._as_of >= stamps.latest(Aspect.MEMBERSHIP):
            changes = stamps.log_since(self._as_of)
        self._as_of = -1  # a plugin that fails in between leaves half-done work behind
        if changes is None or len(changes) * _REDO_SHARE > len(nodes) + 256:
            self.patched = ()
            self._redo(nodes)
        else:
            self.patched = changes if len(changes) == 1 else _merged(changes)
            for row, bits in self.patched:
                self._patch(nodes, row, bits)
        self._as_of = generation

    def constant(self, feasible: int) -> int | None:
        """What the scaled scorers add to every feasible row alike; None if they tell rows apart.

        Raw scores that are all 0 are the usual case: no preferences, no soft taints.
        """
        if any(self._raw_counts):
            self.constants = None
            return None
        if feasible not in self._constants:
            found = self._constant(feasible)
            if found == self.constants:
                found = self.constants  # still the same to whoever compares
            self._constants = {feasible: found}
        found = self.constants = self._constants[feasible]
        return None if found is None else found[0]

    def _constant(self, feasible: int) -> tuple[int, tuple[int, ...]] | None:
        total, parts = 0, []
        for scorer in self.scaled:
            scores = scorer.plugin.normalize(np.zeros(feasible, np.int64), scorer.state)
            if (scores != scores[0]).any() or not 0 <= scores[0] <= MAX_NODE_SCORE:
                return None
            total += int(scores[0]) * scorer.weight
            parts.append(int(scores[0]))
        return total, tuple(parts)

    # What a ledger reads

    @property
    def refusers(self) -> NDArray[np.uint32]:
        """The bits of the filters that refuse each row."""
        return self._refusers

    @property
    def points(self) -> Sequence[Ints]:
        """What each of `scorers` gives each row."""
        return self._points

    def changed_rows(self) -> Rows | None:
        """The rows that are not as they were ranked any more; None if they may be other nodes."""
        stamps = self._state.stamps
        if self._as_of < stamps.latest(Aspect.MEMBERSHIP):
            return None
        return stamps.changed_since(tuple(Aspect), self._as_of)

    def words(self, one: SteadyFilter, rows: Rows) -> Verdicts:
        """Why a filter refuses some rows, as they are now."""
        with guard(one.plugin, "Filter"):
            return one.plugin.filter(self.pod, NodeView(self._state).take(rows), one.state)

    # Who takes part

    def _cast(self, roles: Roles, pod: Pod, nodes: NodeView) -> bool:
        """Find out who has a part, asking PreFilter and PreScore of the steady plugins once."""
        profile = roles.profile
        states: dict[str, Any] = {}
        out: set[str] = set()
        for pre_filter in profile.pre_filter:
            role = roles.role(pre_filter, pod)
            if role is IDLE:
                out.add(pre_filter.name)
            elif role is LIVE:
                self.live_pre_filters.append(pre_filter)
            else:
                answer = pre_filter.pre_filter(pod, nodes)
                if answer is SKIP:
                    out.add(pre_filter.name)
                elif isinstance(answer, PreFilterResult) and answer.node_names is None:
                    states[pre_filter.name] = answer.state
                    self.kept_names.pre_filter.append(pre_filter.name)
                else:
                    return False
        for number, plugin in enumerate(profile.filter):
            role = roles.role(plugin, pod)
            if role is LIVE:
                self.live_filters.append(plugin)
            elif role is not IDLE and plugin.name not in out:
                reads = bits_of(plugin.reads)
                state = states.get(plugin.name)
                self.filters.append(SteadyFilter(plugin, state, reads, 1 << number))
        self._cast_scorers(roles, pod, nodes)
        return len(profile.filter) <= np.dtype(np.uint32).itemsize * 8

    def _cast_scorers(self, roles: Roles, pod: Pod, nodes: NodeView) -> None:
        profile = roles.profile
        states: dict[str, Any] = {}
        out: set[str] = set()
        for pre_scorer in profile.pre_score:
            role = roles.role(pre_scorer, pod)
            if role is IDLE:
                out.add(pre_scorer.name)
            elif role is LIVE:
                self.live_pre_scorers[pre_scorer.name] = pre_scorer
            else:
                answer = pre_scorer.pre_score(pod, nodes)
                if answer is SKIP:
                    out.add(pre_scorer.name)
                else:
                    states[pre_scorer.name] = answer
                    self.kept_names.pre_score.append(pre_scorer.name)
        for plugin in profile.score:
            role = roles.role(plugin, pod)
            if role is LIVE:
                self.live_scorers.append(plugin)
            elif role is IDLE and plugin.name not in out:
                self.kept_names.idle_score.append(plugin.name)
            elif role is not IDLE and plugin.name not in out:
                reads, weight = bits_of(plugin.reads), profile.weights[plugin.name]
                scorer = SteadyScorer(plugin, states.get(plugin.name), reads, weight)
                plain = type(plugin).normalize is ScorePlugin.normalize
                (self.scorers if plain else self.scaled).append(scorer)

    # Working it out

    def _redo(self, nodes: NodeView) -> None:
        size, pod = len(nodes), self.pod
        if self.journal is not None:
            self.last_journal, self.journal = self.journal, None
        self._refusers = np.zeros(size, np.uint32)
        for one in self.filters:
            refused = one.plugin.refused(pod, nodes, one.state)
            if len(refused) != size:
                raise wrong_answer(one.plugin, "Filter", refused, "an answer for each node")
            self._refusers[refused] |= np.uint32(one.bit)
        self._points = [self._column(scorer, nodes) for scorer in self.scorers]
        self.raw = [self._column(scorer, nodes) for scorer in self.scaled]
        self._raw_counts = [int(np.count_nonzero(raw)) for raw in self.raw]
        self._totals = np.zeros(size, self._dtype)
        for scorer, points in zip(self.scorers, self._points, strict=True):
            self._in_range(points)
            self._totals += (points * scorer.weight).astype(self._dtype)
        self.standing = np.where(self._refusers == 0, self._totals, self._dtype(REFUSED))
        self.feasible = size - int(np.count_nonzero(self._refusers))
        self._count_refusals()
        self._readers.clear()
        self._refuser_cells = self._refusers.data
        self._total_cells = self._totals.data
        self._standing_cells = self.standing.data
        per_row = 4 + 2 * self._totals.itemsize + 8 * (len(self.scorers) + len(self.scaled))
        self.bytes = _ENTRY_BYTES + per_row * size

    def _count_refusals(self) -> None:
        left = self._refusers != 0
        self._first_refusals = {}
        self.refusal_changes += 1
        self.tally = self.quiet_tally = None
        for one in self.filters:
            if left.any():
                first = left & ((self._refusers & np.uint32(one.bit)) != 0)
                self._first_refusals[one.bit] = int(np.count_nonzero(first))
                left &= ~first

    def nodes_asked(self) -> tuple[tuple[str, int], ...]:
        """Each steady filter with the nodes that none of them before had refused.

        Upstream asks no further about a node once it is refused, and this is what it counts.
        """
        left, asked = len(self._refusers), []
        for one in self.filters:
            asked.append((one.plugin.name, left))
            left -= self._first_refusals.get(one.bit, 0)
        return tuple(asked)

    def _column(self, scorer: SteadyScorer, nodes: NodeView) -> Ints:
        given = scorer.plugin.score(self.pod, nodes, scorer.state)
        return checked_scores(scorer.plugin, given, len(nodes)).copy()

    def _in_range(self, points: Ints) -> None:
        if len(points) and int(points.view(np.uint64).max()) > MAX_NODE_SCORE:
            self.usable = False

    def _patch(self, nodes: NodeView, row: int, bits: int) -> None:
        pod, journal = self.pod, self.journal
        readers = self._readers.get(bits) or self._readers_of(bits)
        before = after = self._refuser_cells[row]
        for column, plugin, state, bit in readers.filters:
            refused = plugin.refuses(pod, nodes, row, state)
            after = after | bit if refused else after & ~bit
            if journal is not None and (refused or before & bit):
                journal += (column, row, int(refused))
        if after != before:
            self._change_refusers(row, before, after)
        total = self._total_cells[row]
        for column, scorer, state, weight, points in readers.scorers:
            score = scorer.score_row(pod, nodes, row, state)
            if not 0 <= score <= MAX_NODE_SCORE:
                self.usable = False
            known = points[row]
            if score != known:
                total += (score - known) * weight
                points[row] = score
                if journal is not None:
                    journal += (column, row, score)
        for place, scorer, state in readers.scaled:
            raw, score = self.raw[place], scorer.score_row(pod, nodes, row, state)
            self._raw_counts[place] += bool(score) - bool(raw[row])
            raw[row] = score
            if journal is not None:
                journal += (len(self.filters) + len(self.scorers) + place, row, score)
        self._total_cells[row] = total
        self._standing_cells[row] = REFUSED if after else total

    def _change_refusers(self, row: int, before: int, after: int) -> None:
        self._refuser_cells[row] = after
        self.feasible += (not after) - (not before)
        self.refusal_changes += 1
        self.tally = self.quiet_tally = None
        for bits, change in ((before, -1), (after, 1)):
            first = bits & -bits
            if first:
                self._first_refusals[first] = self._first_refusals.get(first, 0) + change

    def _readers_of(self, bits: int) -> "_Readers":
        """The plugins that some changes of a row concern; asked for row after row, so kept."""
        readers = self._readers[bits] = _Readers()
        for column, one in enumerate(self.filters):
            if one.reads & bits:
                readers.filters.append((column, one.plugin, one.state, one.bit))
        for place, scorer in enumerate(self.scorers):
            if scorer.reads & bits:
                column, cells = len(self.filters) + place, self._points[place].data
                readers.scorers.append((column, scorer.plugin, scorer.state, scorer.weight, cells))
        for place, scorer in enumerate(self.scaled):
            if scorer.reads & bits:
                readers.scaled.append((place, scorer.plugin, scorer.state))
        return readers


class _Readers:
    """Whom to ask about a row of which certain aspects changed, and all there is to say to them."""

    __slots__ = ("filters", "scaled", "scorers")

    def __init__(self) -> None:
        self.filters: list[tuple[int, FilterPlugin[Any], Any, int]] = []
        """Column in the journal, plugin, state, bit."""
        self.scorers: list[tuple[int, ScorePlugin[Any], Any, int, memoryview]] = []
        """Column in the journal, plugin, state, weight, the scores so far."""
        self.scaled: list[tuple[int, ScorePlugin[Any], Any]] = []
        """Which of the ranking's raw columns, plugin, state."""
