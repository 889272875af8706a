"""The short way to a node: for pods like others before them, in an ordinary cluster.

Owns the choice by kept rankings (`framework.rankings`) and live plugins. It either finds the very
node that the plain path in `engine.cycle` would choose, or gives up and says nothing: no node fits,
a plugin rejects or narrows, a search ends early, an error. The plain path then decides and finds
the words. tests/properties checks that both always agree.
"""

import logging
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moorage.cluster.columns import Bools, Rows
from moorage.cluster.masked_view import MaskedView
from moorage.cluster.state import ClusterState
from moorage.cluster.view import NodeView
from moorage.engine.decisions import Bind
from moorage.engine.selection import nodes_to_find
from moorage.errors import PluginError
from moorage.framework.guard import FAULTS, checked_scores, guard, wrong_answer
from moorage.framework.kept_rankings import Rankings
from moorage.framework.metering import SILENT, Meter, RunningMeter, Tally
from moorage.framework.plugin import MAX_NODE_SCORE, PreFilterResult, ScorePlugin
from moorage.framework.profile import Profile
from moorage.framework.rankings import REFUSED, Ranking
from moorage.framework.status import SKIP
from moorage.model.pod import Pod

log = logging.getLogger(__name__)

Totals = NDArray[Any]

_MOST_TALLIES = 64
# From this share of feasible nodes on, asking about all of them is cheaper than picking them out.
_MOST = 4


class FastLane:
    """Decides about pods that need no explanation."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self.rankings = Rankings(state)
        self.taken = 0
        """How many pods were decided here."""

    def choose(self, profile: Profile, pod: Pod, start: int, meter: Meter) -> Bind | None:
        """The node for a pod, looking at all of them from `start` on; None: ask the plain path."""
        size = len(self._state)
        if not size or pod.status.nominated_node_name or not profile.score:
            return None
        if nodes_to_find(profile.percentage_of_nodes_to_score, size, scoring=True) < size:
            return None
        short = _ShortAttempt(profile, pod, self._state, meter)
        try:
            ranking = self.rankings.find(profile, pod, short.nodes)
            if ranking is None or not short.filter(ranking):
                return None
            short.score()
        except FAULTS:
            # The plain path meets the same error and tells it, if it is one.
            log.debug("pod %s cannot take the short way", pod.key, exc_info=True)
            return None
        row = self._best(short.totals, start)
        self.taken += 1
        if isinstance(meter, RunningMeter):
            short.tell(meter)
        total = None if short.feasible == 1 else int(short.totals[row]) + short.constant
        return Bind(pod, self._state.nodes.nodes[row].name, short.feasible, total)

    def _best(self, totals: Totals, start: int) -> int:
        """What `selection.best` would take, searching from `start` on."""
        order, nodes = self._state.order, self._state.nodes
        rows = order.rows(nodes.row_of)
        ordered = totals if order.is_identity else totals.take(rows)
        best = int(ordered.argmax())
        highest, after = ordered[best], ordered[best + 1 :]
        if len(after) and after[after.argmax()] == highest:
            emptiness = nodes.emptiness.values
            if not order.is_identity:
                emptiness = emptiness.take(rows)
            # Zero where the total is not the largest, else the larger the fewer pods there are.
            merits = (ordered == highest) * emptiness
            start %= len(merits)
            best, later = int(merits.argmax()), start + int(merits[start:].argmax())
            if merits[later] == merits[best]:
                best = later
        return best if order.is_identity else int(rows[best])


class _ShortAttempt:
    """One pod on the short way."""

    __slots__ = (
        "_asked",
        "_chosen",
        "_filtered",
        "_now",
        "_out",
        "_prepared",
        "_quiet",
        "_ranked",
        "_scored",
        "_state",
        "_weighed",
        "constant",
        "feasible",
        "nodes",
        "pod",
        "profile",
        "ranking",
        "totals",
        "unfiltered",
        "unscored",
    )

    def __init__(
        self,
        profile: Profile,
        pod: Pod,
        state: ClusterState,
        meter: Meter,
    ) -> None:
        self.profile = profile
        self.pod = pod
        self._state = state
        # When what was done, for whoever measures; see `metering.Readings`.
        self._now = meter.now
        # Read only where there is something to measure, as every reading costs.
        self._ranked = self._prepared = self._filtered = self._weighed = 0.0
        self._quiet = True
        self.unfiltered: list[str] = []
        """Live plugins that have nothing to say about the pod where nodes are filtered ..."""
        self.unscored: list[str] = []
        """... and where they are scored."""
        """Live scorers that have nothing to say and no PreScore part to say so; () until asked."""
        self._scored = False
        self._asked: list[tuple[str, int]] = []
        # What was answered about this very pod, if somebody wants to know.
        self.nodes = self._chosen = NodeView(state)
        self._out: Bools | None = None
        """The rows that live filters refuse."""
        self.feasible = 0
        self.constant = 0
        """What every total lacks alike."""

    def filter(self, ranking: Ranking) -> bool:
        """Find the feasible rows; False if there are none, or to be asked about otherwise."""
        self.ranking = ranking
        if ranking.filters_alone:
            self.totals, self.feasible = ranking.standing, ranking.feasible
            return bool(self.feasible)
        now = self._now  # see `RunningMeter`
        if ranking.quiet_tally is not None:
            now = self._now = SILENT.now
        self._ranked = now()
        states = self._live_states()
        if states is None:
            return False
        self._prepared = now()
        blocked = self._blocked(states)
        self.totals, self.feasible = ranking.standing, ranking.feasible
        if blocked is not None:
            self.totals = ranking.standing.copy()
            self.totals[blocked] = REFUSED
            self.feasible = int(np.count_nonzero(self.totals >= 0))
        return bool(self.feasible)

    def score(self) -> None:
        """Add to the totals what the ranking does not know in advance."""
        ranking = self.ranking
        if self.feasible == 1:
            return
        self._scored = True
        constant = ranking.constant(self.feasible)
        self.constant = constant or 0
        if constant is not None and not ranking.live_scorers:
            return
        now = self._now
        self._filtered = now()
        if self.feasible != len(self.nodes):
            self._out = self.totals < 0
            self._chosen = MaskedView(self._state, ~self._out, self.feasible)
        if constant is None:
            for scorer, raw in zip(ranking.scaled, ranking.raw, strict=True):
                rows = None if self._out is None else self._chosen.rows
                here = raw.copy() if rows is None else raw[rows]
                self._add(rows, scorer.plugin, here, scorer.state, scorer.weight)
        self._add_live()

    def tell(self, meter: RunningMeter) -> None:
        """Leave with the observer what there is to count."""
        ranking, now = self.ranking, meter.now
        quiet = ranking.quiet_tally
        if quiet is not None and self._quiet and self._scored and not self._ranked:
            quiet.quiet.append(now() - meter.started)
            if meter.closely:
                quiet.quiet_looks += 1
            return
        tally = ranking.tally
        if (
            tally is None
            or tally.scored is not self._scored
            or tally.unfiltered != self.unfiltered
            or tally.unscored != self.unscored
        ):
            tally = ranking.tally = self._known_tally(meter)
        # The next pod of the kind will probably find the same plugins with nothing to do.
        ranking.quiet_tally = tally if self._quiet and self._scored else None
        tally.feasible += self.feasible
        began, ended = meter.started, now()
        filtered = self._filtered or ended  # what was not read took no time
        tally.busy += (
            began,
            self._ranked or began,
            self._prepared or began,
            filtered,
            self._weighed or filtered,
            ended,
        )
        if meter.closely:
            tally.close.append(len(tally.busy))

    def _known_tally(self, meter: RunningMeter) -> Tally:
        """The same for all decisions that are told of alike; the observer knows of it."""
        ranking = self.ranking
        key = (
            tuple(self.unfiltered),
            tuple(self.unscored),
            self._scored,
            ranking.refusal_changes,
        )
        found = ranking.tallies.get(key)
        if found is None:
            if len(ranking.tallies) >= _MOST_TALLIES:
                ranking.tallies.clear()
            found = ranking.tallies[key] = self._tally()
        if not found.known:
            found.known = True
            meter.observer.tallies.append(found)
        return found

    def _tally(self) -> Tally:
        ranking = self.ranking
        tally = Tally(self.profile.name, ranking.live_names, ranking)
        tally.standing = ranking.feasible
        tally.scored, tally.unfiltered, tally.unscored = (
            self._scored,
            self.unfiltered,
            self.unscored,
        )
        live = [one.name for one in ranking.live_pre_filters if one.name not in self.unfiltered]
        tally.pre_filter = (*ranking.kept_names.pre_filter, *live)
        tally.filter = (*ranking.nodes_asked(), *self._asked)
        if self._scored:
            waiting = [name for name in ranking.live_pre_scorers if name not in self.unscored]
            tally.pre_score = (*ranking.kept_names.pre_score, *waiting)
            steady = [one.plugin.name for one in (*ranking.scorers, *ranking.scaled)]
            asked = [one.name for one in ranking.live_scorers if one.name not in self.unscored]
            tally.score = (*steady, *ranking.kept_names.idle_score, *asked)
        return tally

    def _live_states(self) -> dict[str, Any] | None:
        """What live PreFilter plugins prepared; None if one of them rejects or narrows."""
        states: dict[str, Any] = {}
        for plugin in self.ranking.live_pre_filters:
            answer = plugin.pre_filter(self.pod, self.nodes)
            if answer is SKIP:
                self.unfiltered.append(plugin.name)
            elif isinstance(answer, PreFilterResult) and answer.node_names is None:
                states[plugin.name] = answer.state
                self._quiet = False
            else:
                return None
        return states

    def _blocked(self, states: dict[str, Any]) -> Bools | None:
        """The rows that live filters refuse; None for none of them."""
        blocked: Bools | None = None
        for plugin in self.ranking.live_filters:
            if plugin.name in self.unfiltered:
                continue
            state = states.get(plugin.name)
            refused = plugin.refused(self.pod, self.nodes, state)
            if len(refused) != len(self.nodes):
                raise wrong_answer(plugin, "Filter", refused, "an answer for each node")
            self._quiet = False
            self._asked.append((plugin.name, self.ranking.feasible))
            blocked = refused if blocked is None else blocked | refused
        return blocked

    def _add_live(self) -> None:
        chosen = self._chosen
        states: dict[str, Any] = {}
        for pre_scorer in self.ranking.live_pre_scorers.values():
            with guard(pre_scorer, "PreScore"):
                answer = pre_scorer.pre_score(self.pod, chosen)
            if answer is SKIP:
                self.unscored.append(pre_scorer.name)
            else:
                states[pre_scorer.name] = answer
                self._quiet = False
        now = self._now
        self._weighed = now()
        for plugin in self.ranking.live_scorers:
            if plugin.name in self.unscored:
                continue
            if plugin.is_silent(self.pod, chosen):
                continue
            state = states.get(plugin.name)
            anywhere = plugin.scores_anywhere and self.feasible * _MOST >= len(self.nodes)
            asked = self.nodes if anywhere else chosen
            with guard(plugin, "Score"):
                raw = plugin.score(self.pod, asked, state)
            rows = None if asked is self.nodes else chosen.rows
            self._add(rows, plugin, raw, state, self.profile.weights[plugin.name])

    def _add(
        self,
        rows: Rows | None,
        plugin: ScorePlugin[Any],
        raw: Totals,
        state: Any,
        weight: int,
    ) -> None:
        """Add a plugin's part; its scores are those of the rows, or of all nodes."""
        self._quiet = False
        with guard(plugin, "Score"):
            normalized = plugin.normalize(raw, state)
        size = len(self.nodes) if rows is None else len(rows)
        normalized = checked_scores(plugin, normalized, size, "NormalizeScore")
        # As unsigned numbers negative scores are huge, so one reduction tests both ends.
        highest = int(normalized.view(np.uint64).max())
        if highest > MAX_NODE_SCORE:
            raise PluginError(plugin.name, "Score", "a score is out of range")
        if not highest:
            return
        points = normalized * weight
        if rows is not None:
            self.totals = self.totals.astype(np.int64)
            self.totals[rows] += points
            return
        points += self.totals
        if self._out is not None:
            points[self._out] = REFUSED
        self.totals = points
