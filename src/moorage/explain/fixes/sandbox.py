"""Trying changes out: the engine is run again over all nodes, with the change in place.

Owns every question that is put to the engine for a fix, and how much of that there may be. What it
is asked never shows in the live scheduler: plugins are copies (`explain.trials`), no answer is
kept, and what is put into the state for a question is taken out again before the answer is given.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import numpy as np

from moorage.cluster.columns import Bools
from moorage.cluster.view import NodeView
from moorage.engine.cycle import Cycle
from moorage.errors import PluginError
from moorage.explain.fixes.changes import Change
from moorage.explain.survey import Survey, survey
from moorage.explain.trials import trial
from moorage.framework.attempt import AttemptResult
from moorage.framework.diagnosis import decisive_rows
from moorage.framework.outcomes import FilterOutcome
from moorage.framework.profile import Profile
from moorage.framework.runner import Ask, Runner, every_gate
from moorage.framework.status import Code
from moorage.model.pod import Pod
from moorage.plugins.default_preemption import DefaultPreemption

MOST_RUNS = 500


class Sandbox:
    """A cluster state and a profile to try changes of one pod on."""

    def __init__(self, cycle: Cycle, profile: Profile, pod: Pod, seconds: float) -> None:
        tried = trial(cycle, profile)
        self.cycle = tried.cycle
        self.profile = tried.profile
        # Preemptions that are under way keep a pod waiting only until they are done.
        self.profile.pre_enqueue = tuple(
            plugin
            for plugin in tried.profile.pre_enqueue
            if not isinstance(plugin, DefaultPreemption)
        )
        self.state = cycle.state
        self.pod = pod
        self._clock = cycle.clock
        self._deadline = cycle.clock.now() + seconds
        self.runs = 0

    @property
    def nodes(self) -> NodeView:
        """The cluster as it is."""
        return NodeView(self.state)

    @property
    def exhausted(self) -> bool:
        """Is time up, or has the engine been run often enough?"""
        return self.runs >= MOST_RUNS or self._clock.now() > self._deadline

    def concerns_extenders(self, pod: Pod) -> bool:
        """Will somebody else have a say about the pod? They are never asked here."""
        return any(one.filters and one.is_interested(pod) for one in self.cycle.extenders)

    def survey(self, pod: Pod) -> Survey:
        """Who rejects a pod where, as far as the search for fixes needs it."""
        self.runs += 1
        nodes = self.nodes
        nominated = self.cycle.nominated.ahead_of(pod, nodes)
        return survey(self.profile, pod, nodes, nominated=nominated, ask=Ask.NEARLY_EVERYTHING)

    def attempt(
        self, pod: Pod, within: Bools | None = None, gone: Sequence[Pod] = ()
    ) -> AttemptResult:
        """How every node answers to a pod; `within` names the only rows that count.

        `gone`: as if these pods had left. Preemption asks no extenders about its victims.
        """
        self.runs += 1
        nodes = self.nodes
        if gone:
            nodes = nodes.changed({}, self._by_row(gone))
        attempt = AttemptResult(self.profile, pod, nodes, self._clock.now(), within)
        nominated = self.cycle.nominated
        attempt.nominated = nominated.ahead_of(pod, nodes)
        attempt.nominated_node = nominated.node_of(pod) or pod.status.nominated_node_name
        Runner().filter(attempt)
        return attempt

    def _by_row(self, pods: Iterable[Pod]) -> dict[int, list[Pod]]:
        found: dict[int, list[Pod]] = {}
        for pod in pods:
            row = self.state.nodes.row_of.get(self.state.node_of(pod) or "")
            if row is not None:
                found.setdefault(row, []).append(pod)
        return found

    def feasible(self, pod: Pod, gone: Sequence[Pod] = ()) -> list[str]:
        """The names of the nodes that would take the pod."""
        if not len(self.state) or every_gate(self.profile, pod):
            return []
        try:
            return names_of(self.attempt(pod, gone=gone))
        except PluginError:
            return []

    def gained(self, pod: Pod, change: Change) -> list[str]:
        """The nodes that would take the pod after a change."""
        try:
            changed = change.of(pod)
        except (ValueError, LookupError):
            return []
        with self.during(change):
            return self.feasible(changed, change.gone)

    def takes(self, pod: Pod, change: Change) -> bool:
        """Would one of a change's nodes take the pod? Asks about no others."""
        with self.during(change):
            rows = [self.state.nodes.row_of[node.name] for node in change.nodes]
            within: Bools = np.zeros(len(self.state), np.bool_)
            within[rows] = True
            try:
                outcome = self.attempt(pod, within).outcome
            except PluginError:
                return False
            return outcome is not None and outcome.any_feasible

    @contextmanager
    def during(self, change: Change) -> Iterator[None]:
        """The cluster with a change's nodes and other objects in it, for as long as one asks."""
        state = self.state
        with ExitStack() as undo:
            for node in change.nodes:
                row = state.nodes.row_of.get(node.name)
                if row is None:
                    undo.callback(state.remove_node, node.name)
                else:
                    undo.callback(state.add_node, state.nodes.nodes[row])
                state.add_node(node)
            for obj in change.objects:
                lister = state.listers.of(type(obj))
                old = lister.get(obj.name, obj.namespace)
                undo.callback(lister.remove, obj) if old is None else undo.callback(lister.put, old)
                lister.put(obj)
            yield


def names_of(attempt: AttemptResult) -> list[str]:
    """The feasible nodes of an attempt; a node that fails with an error spoils all of them."""
    outcome = attempt.outcome
    if outcome is None or not outcome.any_feasible or _has_errors(outcome):
        return []
    return sorted(attempt.nodes.node(int(row)).name for row in outcome.feasible)


def _has_errors(outcome: FilterOutcome) -> bool:
    errors: Bools = np.zeros(len(outcome.considered), np.bool_)
    for _, decisive, verdicts in decisive_rows(outcome):
        if any(reason.code is Code.ERROR for reason in verdicts.reasons):
            errors |= decisive & verdicts.with_code([Code.ERROR])
    overruled = any(status.code is Code.ERROR for status in outcome.overruled.values())
    return overruled or bool(errors.any())
