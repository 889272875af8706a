"""One pod's way through a profile: filter, score, select; or explain why nothing fits.

The cycle decides and does not act: assuming the pod on its node is a separate step, so that the
same code serves the live scheduler, the offline commands and the explanations.
"""

from collections.abc import Sequence
from random import Random

import numpy as np

from moorage.cluster.columns import Bools, Rows
from moorage.cluster.state import ClusterState
from moorage.cluster.view import NodeView
from moorage.engine.clock import Clock
from moorage.engine.decisions import Bind, Decision, Gated, Unschedulable
from moorage.engine.extension import Extension
from moorage.engine.fast_lane import FastLane
from moorage.engine.queue.nominated import NominatedPods
from moorage.engine.selection import NodeSearch, ascending, best, nodes_to_find
from moorage.errors import PluginError
from moorage.framework.attempt import Attempt
from moorage.framework.extenders import Extender
from moorage.framework.filtering import filter_nodes, pre_filter
from moorage.framework.guard import checked_status, guard
from moorage.framework.metering import SILENT, Meter
from moorage.framework.post_filtering import post_filter
from moorage.framework.profile import Profile
from moorage.framework.reuse import Answers
from moorage.framework.scoring import score_nodes
from moorage.framework.status import Code, Status
from moorage.model.pod import Pod

NO_NODES = "no nodes available to schedule pods"


class Cycle:
    """The scheduling cycle over one cluster state."""

    def __init__(
        self,
        state: ClusterState,
        clock: Clock,
        *,
        reuse: bool = True,
        nominated: NominatedPods | None = None,
        extenders: Sequence[Extender] = (),
        random: Random | None = None,
    ) -> None:
        self.state = state
        self.clock = clock
        self.nominated = NominatedPods() if nominated is None else nominated
        self.answers = Answers(state, enabled=reuse)
        self._random = random
        self.extension = Extension(state, extenders, random) if extenders else None
        self._search = NodeSearch()
        self.fast_lane = FastLane(state) if reuse else None

    @property
    def extenders(self) -> Sequence[Extender]:
        """Who else is asked, in the order of asking."""
        return self.extension.extenders if self.extension is not None else ()

    @property
    def looked_at(self) -> Rows:
        """The rows that the last search among feasible nodes got to, in its order."""
        return self._search.looked_at

    @property
    def search_start(self) -> int:
        """How far from the first node the next search begins."""
        return self._search.start

    @search_start.setter
    def search_start(self, start: int) -> None:
        self._search.start = start

    def adopt(self, extenders: Sequence[Extender]) -> None:
        """Other profiles and extenders from now on: what the old plugins answered is dropped."""
        self.answers.clear()
        if self.fast_lane is not None:
            self.fast_lane.rankings.clear()
        self.extension = Extension(self.state, extenders, self._random) if extenders else None

    def aside(self) -> "Cycle":
        """A cycle that decides what this one would decide next, and leaves no trace in this one.

        It has no kept answers, and its own search start and chance.
        """
        random = None
        if self._random is not None:
            random = Random()
            random.setstate(self._random.getstate())
        other = Cycle(
            self.state,
            self.clock,
            reuse=False,
            nominated=self.nominated,
            extenders=self.extenders,
            random=random,
        )
        other._search.start = self._search.start
        return other

    def gate(self, profile: Profile, pod: Pod) -> Status | None:
        """The answer of the first PreEnqueue plugin that keeps the pod out; None lets it in."""
        for plugin in profile.pre_enqueue:
            with guard(plugin, "PreEnqueue"):
                status = checked_status(plugin, "PreEnqueue", plugin.pre_enqueue(pod))
            if status is not None:
                return Status(status.code, status.reasons, plugin.name)
        return None

    def filter(
        self, profile: Profile, pod: Pod, within: Bools | None = None, meter: Meter = SILENT
    ) -> Attempt:
        """Look at every node the pod may go to."""
        self.state.nodes.trim_labels()
        nodes = NodeView(self.state)
        attempt = Attempt(profile, pod, nodes, self.clock.now(), within)
        attempt.meter = meter
        attempt.extenders = self.extenders
        attempt.nominated = self.nominated.ahead_of(pod, nodes)
        attempt.nominated_node = self.nominated.node_of(pod) or pod.status.nominated_node_name
        attempt.before = pre_filter(profile, pod, nodes, meter)
        if attempt.before.rejection is None:
            attempt.outcome = filter_nodes(
                profile, pod, nodes, attempt.before, self.answers, attempt.nominated, within, meter
            )
        return attempt

    def decide(
        self, profile: Profile, pod: Pod, meter: Meter = SILENT
    ) -> tuple[Decision, Attempt | None]:
        """Decide where the pod goes, and keep the record of how."""
        status = self.gate(profile, pod)
        if status is not None:
            return Gated(pod, status), None
        return self.attempt(profile, pod, meter=meter)

    def choose(self, profile: Profile, pod: Pod, meter: Meter = SILENT) -> Bind | None:
        """The quick answer, where there is one: what `attempt` would decide, without the record."""
        if self.fast_lane is None or self.extension is not None or self.nominated:
            return None
        self.state.nodes.trim_labels()
        found = self.fast_lane.choose(profile, pod, self._search.start, meter)
        if found is not None:
            # All nodes were looked at, so the next search starts at the same one.
            self._search.start %= len(self.state)
        return found

    def attempt(
        self, profile: Profile, pod: Pod, within: Bools | None = None, meter: Meter = SILENT
    ) -> tuple[Bind | Unschedulable, Attempt | None]:
        """Decide about a pod that is past the gate; `within` names the only rows that count."""
        if not len(self.state):
            return Unschedulable(pod, NO_NODES, code=Code.UNRESOLVABLE), None
        attempt = self.filter(profile, pod, within, meter)
        outcome = attempt.outcome
        if outcome is None or not outcome.any_feasible:
            if outcome is not None:
                looked_at = int(np.count_nonzero(outcome.considered))
                self._search.nothing_found(looked_at, len(self.state))
            _raise_errors(attempt)
            return self._explain_failure(attempt), attempt
        return self._select(attempt), attempt

    def _select(self, attempt: Attempt) -> Bind | Unschedulable:
        profile, pod, outcome = attempt.profile, attempt.pod, attempt.outcome
        assert outcome is not None, "a pod is placed only after its nodes were filtered"
        names, extension = self.state.nodes, self.extension
        nominated = names.row_of.get(pod.status.nominated_node_name)
        if nominated is not None and outcome.accepts(nominated):
            if extension is None:
                return Bind(pod, pod.status.nominated_node_name, 1)
            feasible = extension.nominated_if_passing(attempt, nominated)
            if len(feasible):
                return self._choose(attempt, feasible)
        _raise_errors(attempt)
        most = nodes_to_find(
            profile.percentage_of_nodes_to_score,
            int(np.count_nonzero(outcome.considered)),
            scoring=bool(profile.score) or (extension is not None and extension.judges),
        )
        order = self.state.order.rows(names.row_of)
        feasible = self._search.feasible(order, outcome.considered, outcome.rejected, most)
        if extension is not None:
            feasible = extension.passing(attempt, feasible, self._search.looked_at)
            if not len(feasible):
                return self._explain_failure(attempt)
        return self._choose(attempt, feasible)

    def _choose(self, attempt: Attempt, feasible: Rows) -> Bind:
        """The best of the feasible rows, which come in the order of the search."""
        pod, names, extension = attempt.pod, self.state.nodes, self.extension
        if len(feasible) == 1:
            return Bind(pod, names.nodes[feasible[0]].name, 1)
        attempt.scored = rows = ascending(feasible, len(self.state))
        if extension is not None and attempt.podless:
            attempt.scores = extension.score_podless(attempt, rows)
        else:
            attempt.scores = score_nodes(
                attempt.profile, pod, attempt.nodes, rows, self.answers, attempt.meter
            )
        if extension is not None:
            row = extension.best(attempt, attempt.scores, feasible, rows)
        else:
            row = best(feasible, rows, attempt.scores.totals, names.emptiness.values)
        total = int(attempt.scores.totals.max())
        return Bind(pod, names.nodes[row].name, len(feasible), total)

    def _explain_failure(self, attempt: Attempt) -> Unschedulable:
        diagnosis = attempt.diagnosis
        pod = attempt.pod
        if not attempt.profile.post_filter:
            return Unschedulable(
                pod,
                diagnosis.message(),
                diagnosis.unschedulable_plugins,
                diagnosis.pending_plugins,
            )
        result = attempt.post_filter = post_filter(attempt)
        proposal = "" if result.status.code is Code.SUCCESS else result.status.message
        return Unschedulable(
            pod,
            diagnosis.message(proposal),
            diagnosis.unschedulable_plugins,
            diagnosis.pending_plugins,
            result.nominated_node,
            result.victims,
        )


def _raise_errors(attempt: Attempt) -> None:
    """A node whose first answer is an error fails the whole attempt, as upstream."""
    outcome = attempt.outcome
    if outcome is None:
        return
    for _, verdicts in outcome.verdicts:
        if any(reason.code is Code.ERROR for reason in verdicts.reasons):
            break
    else:
        return
    for row in np.flatnonzero(outcome.considered & outcome.rejected):
        status = outcome.status(int(row))
        if status is not None and status.code is Code.ERROR:
            raise PluginError(status.plugin, "Filter", status.message)
