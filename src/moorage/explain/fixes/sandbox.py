"""Trying changes out: the engine is run again over all nodes, with the change in place.

Owns every question that is put to the engine for a fix, and how much of that there may be. What it
is asked never shows in the live scheduler: plugins are copies (`explain.trials`), no answer is
kept, and what is put into the state for a question is taken out again before the answer is given.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from moorage.cluster.columns import Bools
from moorage.cluster.state import ClusterState
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
from moorage.model.meta import ApiObject
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.plugins.default_preemption import DefaultPreemption


def attempt_without(cycle: Cycle, profile: Profile, pod: Pod, gone: Iterable[Pod]) -> AttemptResult:
    """How every node would answer to a pod, if others had left."""
    nodes = NodeView(cycle.state).changed({}, _by_row(cycle.state, gone))
    attempt = AttemptResult(profile, pod, nodes, cycle.clock.now())
    attempt.nominated = cycle.nominated.ahead_of(pod, nodes)
    Runner().filter(attempt)
    return attempt


def _by_row(state: ClusterState, gone: Iterable[Pod]) -> dict[int, list[Pod]]:
    found: dict[int, list[Pod]] = {}
    for pod in gone:
        row = state.nodes.row_of.get(state.node_of(pod) or "")
        if row is not None:
            found.setdefault(row, []).append(pod)
    return found


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

    def attempt(self, pod: Pod, within: Bools | None = None) -> AttemptResult:
        """How every node answers to a pod; `within` names the only rows that count."""
        self.runs += 1
        attempt = self.cycle.filter(self.profile, pod, within)
        attempt.extenders = ()  # or preemption would ask them about its victims
        return attempt

    def feasible(self, pod: Pod) -> list[str]:
        """The names of the nodes that would take the pod."""
        if not len(self.state) or self._is_gated(pod):
            return []
        try:
            attempt = self.attempt(pod)
        except PluginError:
            return []
        return names_of(attempt, attempt.outcome)

    def _is_gated(self, pod: Pod) -> bool:
        """Is the pod kept out of the queue, whatever nodes there are?"""
        return bool(every_gate(self.profile, pod))

    def gained(self, pod: Pod, change: Change) -> list[str]:
        """The nodes that would take the pod after a change."""
        try:
            changed = change.of(pod)
        except (ValueError, LookupError):
            return []
        with self.during(change):
            if change.gone:
                return self._without(changed, change.gone)
            return self.feasible(changed)

    @contextmanager
    def during(self, change: Change) -> Iterator[None]:
        """The cluster with a change's nodes and other objects in it, for as long as one asks."""
        with self._with_nodes(change.nodes), self._with_objects(change.objects):
            yield

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

    def _without(self, pod: Pod, gone: Sequence[Pod]) -> list[str]:
        if self._is_gated(pod):
            return []
        try:
            self.runs += 1
            attempt = attempt_without(self.cycle, self.profile, pod, gone)
        except PluginError:
            return []
        return names_of(attempt, attempt.outcome)

    @contextmanager
    def _with_nodes(self, nodes: Sequence[Node]) -> Iterator[None]:
        """The state with some nodes changed or added, until the question is answered."""
        state, rows = self.state, self.state.nodes.row_of
        before = [state.nodes.nodes[rows[n.name]] if n.name in rows else None for n in nodes]
        done: list[tuple[Node, Node | None]] = []
        try:
            for node, old in zip(nodes, before, strict=True):
                state.add_node(node)
                done.append((node, old))
            yield
        finally:
            for node, old in reversed(done):
                if old is None:
                    state.remove_node(node.name)
                else:
                    state.add_node(old)

    @contextmanager
    def _with_objects(self, objects: Sequence[ApiObject]) -> Iterator[None]:
        """The state with some objects changed or added, until the question is answered."""
        listers = self.state.listers
        done: list[tuple[ApiObject, ApiObject | None]] = []
        try:
            for obj in objects:
                lister = listers.of(type(obj))
                done.append((obj, lister.get(obj.name, obj.namespace)))
                lister.put(obj)
            yield
        finally:
            for obj, old in reversed(done):
                lister = listers.of(type(obj))
                if old is None:
                    lister.remove(obj)
                else:
                    lister.put(old)


def names_of(attempt: AttemptResult, outcome: FilterOutcome | None) -> list[str]:
    """The feasible nodes of an attempt; a node that fails with an error spoils all of them."""
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
