"""Asks the plugins of a profile about a pod: PreEnqueue, PreFilter, Filter, PreScore, Score.

The only place where these points are run, for the scheduling cycle, pods nominated to nodes,
preemption, pod groups, offline commands, explanations and benchmarks. What was answered goes into
an `AttemptResult`, and whoever counts or records reads it there. Choosing a node is the cycle's
business.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

import numpy as np

from moorage.cluster.columns import Bools, Ints, Rows
from moorage.cluster.view import NodeView
from moorage.errors import PluginError
from moorage.framework.attempt import AttemptResult
from moorage.framework.fast_path import FastPath, is_cacheable
from moorage.framework.guard import (
    ask_filter,
    ask_normalize,
    ask_pre_enqueue,
    ask_pre_filter,
    ask_pre_score,
    ask_score,
    checked_range,
    guard,
    raw_scores,
)
from moorage.framework.outcomes import (
    FilterOutcome,
    PluginScores,
    PreFiltered,
    Scores,
    first_rejection,
    first_rejections,
)
from moorage.framework.plugin import FilterPlugin, PreEnqueuePlugin, PreFilterPlugin, ScorePlugin
from moorage.framework.profile import Profile
from moorage.framework.status import SKIP, Code, Reason, Skip, Status, Verdicts
from moorage.framework.timing import SKIPPED, SUCCESS, UNSCHEDULABLE
from moorage.model.pod import Pod

_MOST = 2


class Ask(Enum):
    """What to ask."""

    UNTIL_REJECTED = "as the scheduler does"
    """A rejection that nothing can cure ends PreFilter; slow filters are asked only about nodes
    that are still in the running; an error ends the attempt."""
    EVERYTHING = "for explanations"
    """Every plugin about every node, whatever the others say; an error is a rejection, too."""
    NEARLY_EVERYTHING = "for fixes"
    """The same, but slow filters only about nodes that at most one other plugin rejects."""


def gate(plugin: PreEnqueuePlugin, pod: Pod) -> Status | None:
    """What a PreEnqueue plugin says of a pod; what goes wrong in it is an error's status."""
    try:
        return ask_pre_enqueue(plugin, pod)
    except PluginError as error:
        return Status(Code.ERROR, (str(error),), plugin.name)


def every_gate(profile: Profile, pod: Pod) -> list[Status]:
    """The answers of all PreEnqueue plugins that keep the pod out; an error does, too."""
    answers = (gate(plugin, pod) for plugin in profile.pre_enqueue)
    return [status for status in answers if status is not None]


def pre_enqueue(profile: Profile, pod: Pod) -> Status | None:
    """The answer of the first PreEnqueue plugin that keeps the pod out; None lets it in."""
    for plugin in profile.pre_enqueue:
        status = ask_pre_enqueue(plugin, pod)
        if status is not None:
            return status
    return None


class Runner:
    """Runs attempts over one cluster state; without a fast path every plugin is asked afresh."""

    def __init__(self, fast_path: FastPath | None = None) -> None:
        self.fast_path = fast_path

    def filter(self, attempt: AttemptResult, ask: Ask = Ask.UNTIL_REJECTED) -> None:
        """PreFilter and Filter: which nodes can take the pod?"""
        if self.fast_path is not None and ask is Ask.UNTIL_REJECTED:
            attempt.kept = self.fast_path.find(attempt.profile, attempt.pod, attempt.nodes)
        attempt.before = _pre_filter(attempt, ask)
        if attempt.before.rejection is None or ask is not Ask.UNTIL_REJECTED:
            attempt.outcome = _filter(attempt, ask)

    def score(self, attempt: AttemptResult, rows: Rows, nodes: NodeView | None = None) -> None:
        """PreScore and Score for some rows; `nodes` says how these look, if other than they are."""
        whole = attempt.nodes
        everywhere = len(rows) == len(whole)
        chosen = nodes or (whole if everywhere else whole.take(rows))
        if nodes is not None:
            attempt.kept = {}  # they were about the nodes as they are
        states, skipped = _pre_score(attempt, chosen)
        attempt.scored = rows
        picked = None if everywhere or nodes is not None else rows
        attempt.scores = _score(attempt, chosen, states, skipped, picked)


def _pre_filter(attempt: AttemptResult, ask: Ask) -> PreFiltered:
    """Ask every PreFilter plugin; a rejection that preemption cannot cure ends the round."""
    pod, nodes, plugins = attempt.pod, attempt.nodes.whole, attempt.profile.pre_filter
    states: dict[str, Any] = {}
    skipped: set[str] = set()
    ran = 0
    named: dict[str, frozenset[str]] = {}
    node_names: frozenset[str] | None = None
    rejections: list[Status] = []
    sampled = attempt.times.sampled
    with attempt.times.point("PreFilter") as point:
        for plugin in plugins:
            ran += 1
            kept = attempt.kept.get(plugin.name)
            try:
                answer = ask_pre_filter(plugin, pod, nodes) if kept is None else kept.pre_filter
            except PluginError as error:
                if ask is Ask.UNTIL_REJECTED:
                    raise
                answer = Status(Code.ERROR, (str(error),), plugin.name)
            if sampled:
                point.ran(plugin.name, _status_of(answer))
            if answer is SKIP:
                skipped.add(plugin.name)
            elif isinstance(answer, Status):
                rejections.append(answer)
                if answer.code is Code.UNRESOLVABLE and ask is Ask.UNTIL_REJECTED:
                    named, node_names = {}, None  # no other plugin has a part in it
                    break
            else:
                states[plugin.name] = answer.state
                if answer.node_names is not None:
                    named[plugin.name] = names = frozenset(answer.node_names)
                    node_names = names if node_names is None else node_names & names
                    if not node_names and ask is Ask.UNTIL_REJECTED:
                        rejections.append(Status(Code.UNRESOLVABLE, (_unsatisfied(named),)))
                        break
        if rejections:
            point.status = rejections[-1].code.value
    return PreFiltered(
        states=states,
        skipped=frozenset(skipped),
        node_names=node_names,
        named=named,
        rejections=tuple(rejections),
        ran=attempt.profile.pre_filter_names[:ran],
    )


def _status_of(answer: object) -> str:
    """How metrics call what a plugin answered."""
    if isinstance(answer, Status):
        return answer.code.value
    return SKIPPED if answer is SKIP else SUCCESS


def _unsatisfied(plugins: Mapping[str, object]) -> str:
    names = sorted(plugins)
    if len(names) == 1:
        return f"node(s) didn't satisfy plugin {names[0]}"
    return f"node(s) didn't satisfy plugin(s) [{' '.join(names)}] simultaneously"


def _filter(attempt: AttemptResult, ask: Ask) -> FilterOutcome:
    """Ask every Filter plugin about every node, then look again where pods are nominated."""
    nodes, before = attempt.nodes, attempt.before
    considered = ~np.zeros(len(nodes), np.bool_)  # faster than `np.ones`
    if before.node_names is not None and ask is Ask.UNTIL_REJECTED:
        considered[:] = False
        rows = (nodes.row_of(name) for name in before.node_names)
        considered[[row for row in rows if row is not None]] = True
    if attempt.within is not None:
        considered &= attempt.within
    outcome = FilterOutcome(considered)
    with attempt.times.point("Filter") as point:
        left_out = before.not_filtering
        filters = attempt.profile.filter
        if ask is Ask.NEARLY_EVERYTHING:
            filters = tuple(sorted(filters, key=lambda plugin: plugin.by_node))
        for plugin in filters:
            if plugin.name in left_out:
                continue
            kept = attempt.kept.get(plugin.name)
            if kept is not None and kept.verdicts is not None:
                verdicts = kept.verdicts
                outcome.rejected |= kept.rejected
            else:
                verdicts = _verdicts(plugin, attempt, outcome, ask)
                outcome.rejected |= verdicts.rejected
            outcome.verdicts.append((plugin.name, verdicts))
            if attempt.times.sampled:
                some_left = (considered & ~outcome.rejected).any()
                point.ran(plugin.name, SUCCESS if some_left else UNSCHEDULABLE)
        if attempt.nominated:
            outcome.overruled = _overruled(attempt, considered, ask)
            outcome.rejected[list(outcome.overruled)] = True
    return outcome


def _verdicts(
    plugin: FilterPlugin[Any], attempt: AttemptResult, outcome: FilterOutcome, ask: Ask
) -> Verdicts:
    pod, nodes, state = attempt.pod, attempt.nodes, attempt.before.states.get(plugin.name)
    try:
        if ask is Ask.EVERYTHING or not plugin.by_node:
            return ask_filter(plugin, pod, nodes, state)
        verdicts = Verdicts(len(nodes))
        rows = np.flatnonzero(_worth_asking(attempt, outcome, ask))
        if len(rows):
            verdicts.splice(rows, ask_filter(plugin, pod, nodes.take(rows), state))
        return verdicts
    except PluginError as error:
        if ask is Ask.UNTIL_REJECTED:
            raise
        everywhere = np.ones(len(nodes), np.bool_)
        return Verdicts(len(nodes)).reject(everywhere, Reason(str(error), Code.ERROR))


def _worth_asking(attempt: AttemptResult, outcome: FilterOutcome, ask: Ask) -> Bools:
    """The rows that a slow filter is asked about."""
    if ask is Ask.UNTIL_REJECTED:
        return outcome.considered & ~outcome.rejected
    rejecting: Ints = np.full(len(attempt.nodes), len(attempt.before.rejections), np.int64)
    for _, verdicts in outcome.verdicts:
        rejecting += verdicts.rejected
    few: Bools = rejecting <= 1
    return few


def _pre_score(attempt: AttemptResult, nodes: NodeView) -> tuple[dict[str, Any], set[str]]:
    states: dict[str, Any] = {}
    skipped: set[str] = set()
    sampled = attempt.times.sampled
    with attempt.times.point("PreScore") as point:
        for plugin in attempt.profile.pre_score:
            kept = attempt.kept.get(plugin.name)
            answer = ask_pre_score(plugin, attempt.pod, nodes) if kept is None else kept.pre_score
            if answer is SKIP:
                skipped.add(plugin.name)
            else:
                states[plugin.name] = answer
            if sampled:
                point.ran(plugin.name, _status_of(answer))
    return states, skipped


def _score(
    attempt: AttemptResult,
    nodes: NodeView,
    states: Mapping[str, Any],
    skipped: set[str],
    rows: Rows | None,
) -> Scores:
    profile = attempt.profile
    # Where most nodes are left it is cheaper to ask about all of them than to pick these out, but
    # only plugins whose answers may be kept have agreed to be asked about any node.
    most = rows if rows is not None and len(rows) * _MOST >= len(attempt.nodes) else None
    totals: Ints = np.zeros(len(nodes), np.int64)
    nothing: Ints = np.zeros(len(nodes), np.int64)
    parts = []
    with attempt.times.point("Score") as point:
        for plugin in profile.score:
            name = plugin.name
            if name in skipped:
                continue
            state, kept, weight = states.get(name), attempt.kept.get(name), profile.weights[name]
            answer: Ints | Skip
            if kept is not None and kept.raw is not None:
                answer = kept.raw if rows is None else kept.raw.take(rows)
            elif most is not None and is_cacheable(plugin):
                answer = raw_scores(plugin, attempt.pod, attempt.nodes, state).take(most)
            else:
                answer = ask_score(plugin, attempt.pod, nodes, state)
            if answer is SKIP:
                parts.append(PluginScores(name, nothing, nothing, weight))
            else:
                normalized = _normalized(plugin, answer, state)
                totals += normalized if weight == 1 else normalized * weight
                parts.append(PluginScores(name, answer, normalized, weight))
            if attempt.times.sampled:
                point.ran(name)
    return Scores(totals, tuple(parts), frozenset(skipped))


def _normalized(plugin: ScorePlugin[Any], scores: Ints, state: Any) -> Ints:
    if type(plugin).normalize is ScorePlugin.normalize:
        return checked_range(plugin, scores)
    return ask_normalize(plugin, scores.copy(), state)


# Nodes as they would be: with pods that are nominated to them, or without victims.


def _overruled(attempt: AttemptResult, considered: Bools, ask: Ask) -> dict[int, Status]:
    """The rows that reject the pod once the pods nominated to them are counted in."""
    concerned = {row: pods for row, pods in attempt.nominated.items() if considered[row]}
    if not concerned:
        return {}
    if ask is Ask.UNTIL_REJECTED and judged_together(attempt, attempt.profile.filter):
        return overruled_together(attempt, concerned)
    return overruled(attempt, concerned)


def overruled(attempt: AttemptResult, added: Mapping[int, Sequence[Pod]]) -> dict[int, Status]:
    """The rows that reject the pod with others added to them, one tried after the other."""
    found: dict[int, Status] = {}
    for row, pods in added.items():
        status = TrialNode(attempt, row).adding(pods).rejection()
        if status is not None:
            found[row] = status
    return found


def judged_together(attempt: AttemptResult, filters: Sequence[FilterPlugin[Any]]) -> bool:
    """Can many nodes be asked about in one view with pods added or taken away?

    Yes if no filter looks beyond a node, and no plugin carries such changes in its state.
    """
    before = attempt.before
    carried = any(
        plugin.name in before.states and type(plugin).with_pod is not PreFilterPlugin.with_pod
        for plugin in attempt.profile.pre_filter
    )
    return not carried and all(
        plugin.row_local and not plugin.by_node
        for plugin in filters
        if plugin.name not in before.skipped
    )


def overruled_together(
    attempt: AttemptResult, added: Mapping[int, Sequence[Pod]]
) -> dict[int, Status]:
    """The same at once, where that is possible: preemptors wait by the hundred."""
    view = attempt.nodes.what_if(added, {})
    found: dict[int, Status] = {}
    verdicts = verdicts_on(attempt, attempt.profile.filter, view)
    for alike, status in first_rejections(verdicts, np.ones(len(view), np.bool_)):
        found.update(dict.fromkeys(view.rows[alike].tolist(), status))
    return found


def verdicts_on(
    attempt: AttemptResult, filters: Sequence[FilterPlugin[Any]], view: NodeView
) -> list[tuple[str, Verdicts]]:
    """What filters say about the nodes of a view, such as nodes without some of their pods."""
    before = attempt.before
    return [
        (plugin.name, ask_filter(plugin, attempt.pod, view, before.states.get(plugin.name)))
        for plugin in filters
        if plugin.name not in before.skipped
    ]


class TrialNode:
    """One node with pods added or taken away, and the plugins' states changed accordingly."""

    def __init__(self, attempt: AttemptResult, row: int) -> None:
        self._attempt = attempt
        self._row = row
        self._states = dict(attempt.before.states)
        self._added: tuple[Pod, ...] = ()
        self._removed: tuple[Pod, ...] = ()

    def adding(self, pods: Sequence[Pod]) -> "TrialNode":
        """The same with pods added; a removed pod may be added back."""
        changed, here = self._changed(pods, 1)
        changed._added = (*self._added, *here)
        return changed

    def removing(self, pods: Sequence[Pod]) -> "TrialNode":
        """The same without some of the node's pods.

        Of pods on other nodes, which leave with them, only the plugins' states take note.
        """
        changed, here = self._changed(pods, -1)
        changed._removed = (*self._removed, *here)
        return changed

    def rejection(self) -> Status | None:
        """Would the pod be rejected? None: it would fit."""
        return next(self.rejections(), None)

    def rejections(self) -> Iterator[Status]:
        """What every plugin says that would reject the pod, one asked after the other."""
        attempt, row = self._attempt, self._row
        left_out = attempt.before.not_filtering
        view = attempt.nodes.whole.what_if({row: self._added}, {row: self._removed})
        for plugin in attempt.profile.filter:
            if plugin.name in left_out:
                continue
            verdicts = ask_filter(plugin, attempt.pod, view, self._states.get(plugin.name))
            status = first_rejection([(plugin.name, verdicts)], 0)
            if status is not None:
                yield status

    def _changed(self, pods: Sequence[Pod], sign: int) -> tuple["TrialNode", Sequence[Pod]]:
        """The same with other states, and those of the pods that are about this node."""
        attempt, row = self._attempt, self._row
        nodes = attempt.nodes.whole
        rows = [row if (at := nodes.row_of_pod(pod)) is None else at for pod in pods]
        changed = TrialNode(attempt, row)
        changed._added, changed._removed = self._added, self._removed
        states = changed._states = dict(self._states)
        for plugin in attempt.profile.pre_filter:
            name = plugin.name
            if name not in states:
                continue
            with guard(plugin, "PreFilter"):
                for other, at in zip(pods, rows, strict=True):
                    states[name] = plugin.with_pod(
                        states[name], attempt.pod, other, nodes, at, sign
                    )
        return changed, [pod for pod, at in zip(pods, rows, strict=True) if at == row]
