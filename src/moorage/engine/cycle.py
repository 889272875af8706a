"""One pod's way through a profile: filter, score, select; or explain why nothing fits.

The cycle decides and does not act: assuming the pod on its node is a separate step, so that the
same code serves the live scheduler, the offline commands and the explanations.
"""

from collections.abc import Sequence
from random import Random

import numpy as np

from moorage import log_lines
from moorage.cluster.columns import Bools, Rows
from moorage.cluster.podless_view import PodlessView
from moorage.cluster.state import ClusterState
from moorage.cluster.view import NodeView
from moorage.engine.clock import Clock
from moorage.engine.decisions import Bind, Decision, Gated, Unschedulable
from moorage.engine.extender_stage import ExtenderStage
from moorage.engine.queue.nominated import NominatedPods
from moorage.engine.selection import (
    FeasibleNodes,
    NodeSearch,
    best,
    in_this_order,
    nodes_to_find,
)
from moorage.errors import PluginError
from moorage.framework.attempt import AttemptResult
from moorage.framework.extenders import Extender
from moorage.framework.fast_path import FastPath
from moorage.framework.plugin import PostFilterResult
from moorage.framework.post_filtering import post_filter
from moorage.framework.profile import Profile
from moorage.framework.runner import Runner, pre_enqueue
from moorage.framework.status import Code, Status
from moorage.framework.timing import UNTIMED, AttemptTimes
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
        self.runner = Runner(FastPath() if reuse else None)
        self._random = random
        self.extension = ExtenderStage(state, extenders, random) if extenders else None
        self.search = NodeSearch()

    @property
    def extenders(self) -> Sequence[Extender]:
        """Who else is asked, in the order of asking."""
        return self.extension.extenders if self.extension is not None else ()

    def use_extenders(self, extenders: Sequence[Extender]) -> None:
        """Other profiles and extenders from now on: what the old plugins answered is dropped."""
        if self.runner.fast_path is not None:
            self.runner.fast_path.clear()
        self.extension = ExtenderStage(self.state, extenders, self._random) if extenders else None

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
        other.search.start = self.search.start
        return other

    def filter(
        self, profile: Profile, pod: Pod, within: Bools | None = None, times: AttemptTimes = UNTIMED
    ) -> AttemptResult:
        """Look at every node the pod may go to."""
        self.state.nodes.trim_labels()
        nodes = NodeView(self.state)
        attempt = AttemptResult(profile, pod, nodes, self.clock.now(), within)
        attempt.times = times
        attempt.extenders = self.extenders
        attempt.nominated = self.nominated.ahead_of(pod, nodes)
        attempt.nominated_node = self.nominated.node_of(pod) or pod.status.nominated_node_name
        self.runner.filter(attempt)
        return attempt

    def decide(
        self, profile: Profile, pod: Pod, times: AttemptTimes = UNTIMED
    ) -> tuple[Decision, AttemptResult | None]:
        """Decide where the pod goes, and keep the record of how."""
        status = pre_enqueue(profile, pod)
        if status is not None:
            return Gated(pod, status), None
        return self.attempt(profile, pod, times=times)

    def attempt(
        self,
        profile: Profile,
        pod: Pod,
        within: Bools | None = None,
        times: AttemptTimes = UNTIMED,
        *,
        in_group: bool = False,
    ) -> tuple[Bind | Unschedulable, AttemptResult | None]:
        """Decide about a pod that is past the gate; `within` names the only rows that count.

        For a pod that is tried with its group nothing is done if no node will do.
        """
        if not len(self.state):
            return Unschedulable(pod, NO_NODES, code=Code.UNRESOLVABLE), None
        attempt = self.filter(profile, pod, within, times)
        attempt.in_group = in_group
        if log_lines.NODE_REJECTIONS:
            attempt.log_filtering()
        outcome = attempt.outcome
        feasible = None if outcome is None else outcome.feasible
        if feasible is None or not len(feasible):
            if outcome is not None:
                looked_at = int(np.count_nonzero(outcome.considered))
                self.search.nothing_found(looked_at, len(self.state))
            _raise_errors(attempt)
            return self._explain_failure(attempt), attempt
        return self._select(attempt, feasible), attempt

    def _select(self, attempt: AttemptResult, feasible: Rows) -> Bind | Unschedulable:
        profile, pod, outcome = attempt.profile, attempt.pod, attempt.outcome
        assert outcome is not None, "a pod is placed only after its nodes were filtered"
        names, extension = self.state.nodes, self.extension
        nominated = names.row_of.get(pod.status.nominated_node_name)
        if nominated is not None and outcome.accepts(nominated):
            if extension is None:
                return Bind(pod, pod.status.nominated_node_name, 1, evaluated_nodes=1)
            passed = extension.nominated_if_passing(attempt, nominated)
            if len(passed):
                return self._choose(attempt, in_this_order(passed, len(self.state)), 1)
        _raise_errors(attempt)
        considered = int(np.count_nonzero(outcome.considered))
        most = nodes_to_find(
            profile.percentage_of_nodes_to_score,
            considered,
            scoring=bool(profile.score) or (extension is not None and extension.filters_or_ranks),
        )
        search, nodes = self.search, len(self.state)
        if most == considered == nodes and extension is None:
            found = search.all_feasible(self.state.order, names.row_of, feasible)
            return self._choose(attempt, found, nodes)
        order = self.state.order.rows(names.row_of)
        found = search.feasible(order, outcome.considered, outcome.accepted, most)
        if extension is not None:
            passed = extension.passing(attempt, found.in_order(), search.looked_at)
            if not len(passed):
                return self._explain_failure(attempt)
            found = in_this_order(passed, nodes)
        evaluated = int(np.count_nonzero(outcome.considered[search.looked_at]))
        return self._choose(attempt, found, evaluated)

    def _choose(self, attempt: AttemptResult, found: FeasibleNodes, evaluated: int) -> Bind:
        """The best of the feasible nodes."""
        pod, names, extension = attempt.pod, self.state.nodes, self.extension
        rows = found.rows
        if len(rows) == 1:
            return Bind(pod, names.nodes[rows[0]].name, 1, evaluated_nodes=evaluated)
        # What an extender answered with objects comes without the pods that run on the nodes.
        podless = PodlessView(self.state, rows) if attempt.podless else None
        self.runner.score(attempt, rows, podless)
        assert attempt.scores is not None, "just scored"
        if extension is not None:
            row = extension.best(attempt, attempt.scores, found)
        else:
            row = best(found, attempt.scores.totals, names.emptiness.values)
        totals = attempt.scores.totals
        total = int(totals[totals.argmax()])
        return Bind(pod, names.nodes[row].name, len(rows), total, evaluated)

    def _explain_failure(self, attempt: AttemptResult) -> Unschedulable:
        diagnosis = attempt.diagnosis
        pod = attempt.pod
        result = PostFilterResult(Status(Code.SUCCESS))
        if attempt.in_group:
            pass  # the group's plugins are asked in the end
        elif attempt.profile.post_filter:
            result = attempt.post_filter = post_filter(attempt)
            failed = result.status.code is Code.ERROR
            told = log_lines.POST_FILTER_FAILED if failed else log_lines.POST_FILTERED
            told(pod, result.status.message)
        else:
            log_lines.NO_POST_FILTER(pod)
        return Unschedulable(
            pod,
            diagnosis.message(result.status.message),
            diagnosis.unschedulable_plugins,
            diagnosis.pending_plugins,
            result.nominated_node,
            result.victims,
            result.pdb_violations,
        )


def _raise_errors(attempt: AttemptResult) -> None:
    """A node whose first answer is an error fails the whole attempt, as upstream."""
    outcome = attempt.outcome
    if outcome is None:
        return
    if Code.ERROR not in [one.code for _, verdicts in outcome.verdicts for one in verdicts.reasons]:
        return
    for row in np.flatnonzero(outcome.considered & outcome.rejected):
        status = outcome.status(int(row))
        if status is not None and status.code is Code.ERROR:
            raise PluginError(status.plugin, "Filter", status.message)
