"""Which nodes can take a pod: PreFilter, Filter, and the second look at nominated nodes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from moorage.cluster.columns import Bools, Rows
from moorage.cluster.view import NodeView
from moorage.errors import PluginError
from moorage.framework.guard import check_pre_filter_answer, checked_verdicts, guard
from moorage.framework.metering import SILENT, SKIPPED, SUCCESS, UNSCHEDULABLE, Meter, Span
from moorage.framework.plugin import FilterPlugin, PreFilterPlugin, PreFilterResult
from moorage.framework.profile import Profile
from moorage.framework.reuse import Answers
from moorage.framework.status import SKIP, Code, Skip, Status, Verdicts, worst
from moorage.model.pod import Pod


class PreFiltered(msgspec.Struct, frozen=True):
    """What PreFilter plugins said of a pod."""

    states: Mapping[str, Any] = {}
    skipped: frozenset[str] = frozenset()
    node_names: frozenset[str] | None = None
    """The only nodes worth looking at, or None for all."""
    narrowed_by: frozenset[str] = frozenset()
    """The plugins that named those nodes."""
    rejection: Status | None = None
    ran: frozenset[str] = frozenset()
    """The plugins that were asked; a rejection may end the round early."""


def pre_filter(profile: Profile, pod: Pod, nodes: NodeView, meter: Meter = SILENT) -> PreFiltered:
    """Ask every PreFilter plugin; a rejection that preemption cannot cure ends the round."""
    with meter.point("PreFilter", profile.name) as span:
        result = _pre_filter(profile, pod, nodes, span)
        if result.rejection is not None:
            span.status = result.rejection.code.value
        if meter.measures:
            asked: Sequence[PreFilterPlugin[Any]] = profile.pre_filter
            if len(result.ran) < len(asked):
                asked = [plugin for plugin in asked if plugin.name in result.ran]
            span.answered(asked, result.skipped, 1)
    return result


def _pre_filter(profile: Profile, pod: Pod, nodes: NodeView, span: Span) -> PreFiltered:
    states: dict[str, Any] = {}
    skipped: set[str] = set()
    narrowed_by: set[str] = set()
    ran: set[str] = set()
    node_names: frozenset[str] | None = None
    rejection: Status | None = None
    for plugin in profile.pre_filter:
        ran.add(plugin.name)
        with guard(plugin, "PreFilter"):
            answer = plugin.pre_filter(pod, nodes)
            check_pre_filter_answer(plugin, answer)
        if span.closely:
            span.ran(plugin.name, _status_of(answer))
        if answer is SKIP:
            skipped.add(plugin.name)
            continue
        if isinstance(answer, Status):
            if not answer.code.rejected:
                raise PluginError(plugin.name, "PreFilter", answer.message)
            rejection = msgspec.structs.replace(answer, plugin=plugin.name)
            if answer.code is Code.UNRESOLVABLE:
                return PreFiltered(
                    states=states,
                    skipped=frozenset(skipped),
                    rejection=rejection,
                    ran=frozenset(ran),
                )
            continue
        states[plugin.name] = answer.state
        if answer.node_names is not None:
            narrowed_by.add(plugin.name)
            node_names = answer.node_names if node_names is None else node_names & answer.node_names
            if not node_names:
                rejection = Status(Code.UNRESOLVABLE, (_unsatisfied(narrowed_by),))
                break
    return PreFiltered(
        states=states,
        skipped=frozenset(skipped),
        node_names=node_names,
        narrowed_by=frozenset(narrowed_by),
        rejection=rejection,
        ran=frozenset(ran),
    )


def _status_of(answer: PreFilterResult[Any] | Skip | Status) -> str:
    if isinstance(answer, Status):
        return answer.code.value
    return SKIPPED if answer is SKIP else SUCCESS


def _unsatisfied(plugins: set[str]) -> str:
    names = sorted(plugins)
    if len(names) == 1:
        return f"node(s) didn't satisfy plugin {names[0]}"
    return f"node(s) didn't satisfy plugin(s) [{' '.join(names)}] simultaneously"


class FilterOutcome:
    """Every node's verdict: kept as the plugins' bits, turned into statuses only when asked."""

    def __init__(self, considered: Bools) -> None:
        self.considered = considered
        self.rejected: Bools = np.zeros(len(considered), np.bool_)
        self.verdicts: list[tuple[str, Verdicts]] = []
        self.overruled: dict[int, Status] = {}
        """Rows that fail once the pods nominated to them are counted in."""
        self.refused: dict[int, Status] = {}
        """Rows that extenders say they refuse; goes before all that plugins said."""
        self.strangers: dict[str, Status] = {}
        """The same for nodes that do not exist: users are shown what an extender says of them."""
        self.thinned = False
        """Did extenders take away rows that the plugins had left?"""

    @property
    def feasible(self) -> Rows:
        """The rows that can take the pod."""
        return np.flatnonzero(self.considered & ~self.rejected)

    @property
    def any_feasible(self) -> bool:
        """Can any row take the pod?"""
        return bool((self.considered & ~self.rejected).any())

    def accepts(self, row: int) -> bool:
        """Can this row take the pod?"""
        return bool(self.considered[row] and not self.rejected[row])

    def thin_out(self, taken: Iterable[int]) -> None:
        """Extenders took rows away; one without a reason counts as never looked at."""
        self.thinned = True
        for row in taken:
            if row in self.refused:
                self.rejected[row] = True
            else:
                self.considered[row] = False

    def status(self, row: int) -> Status | None:
        """Why a row was refused: the first plugin's answer. None: it was not."""
        overruled = self.refused.get(row) or self.overruled.get(row)
        if overruled is not None:
            return overruled
        return first_rejection(self.verdicts, row)


def first_rejection(verdicts: Sequence[tuple[str, Verdicts]], row: int) -> Status | None:
    """The first plugin that refuses a row, with all of its reasons."""
    for name, answer in verdicts:
        if answer.bits[row]:
            reasons = answer.reasons_of(row)
            return Status(worst(reasons), tuple(reason.text for reason in reasons), name)
    return None


def first_rejections(
    verdicts: Iterable[tuple[str, Verdicts]], wanted: Bools
) -> Iterator[tuple[Rows, Status]]:
    """The same for all wanted rows at once.

    Rows are many and reasons few: those refused by one plugin for the same reasons share a status.
    """
    undecided = wanted.copy()
    for name, answer in verdicts:
        refused = np.flatnonzero(undecided & answer.rejected)
        if not len(refused):
            continue
        undecided[refused] = False
        bits = answer.bits[refused]
        for pattern in np.unique(bits):
            alike = refused[bits == pattern]
            status = first_rejection([(name, answer)], int(alike[0]))
            assert status is not None, "some bit is set in a row that is refused"
            yield alike, status


def filter_nodes(
    profile: Profile,
    pod: Pod,
    nodes: NodeView,
    before: PreFiltered,
    answers: Answers,
    nominated: Mapping[int, Sequence[Pod]],
    within: Bools | None = None,
    meter: Meter = SILENT,
) -> FilterOutcome:
    """Ask every Filter plugin about every node; `within` names the only rows that count."""
    with meter.point("Filter", profile.name) as span:
        outcome = _filter_nodes(profile, pod, nodes, before, answers, within, span)
        if meter.measures:
            _count_answers(profile, before, outcome, span)
        concerned = nominated
        if nominated and not outcome.considered.all():
            concerned = {row: pods for row, pods in nominated.items() if outcome.considered[row]}
        if concerned:
            together = judged_together(profile, before, profile.filter)
            judge = rejections_together if together else rejections_apart
            outcome.overruled = judge(profile, pod, nodes, before, concerned)
            outcome.rejected[list(outcome.overruled)] = True
    return outcome


def judged_together(
    profile: Profile, before: PreFiltered, filters: Sequence[FilterPlugin[Any]]
) -> bool:
    """Can many nodes be asked about in one view with pods added or taken away?

    Yes if no filter looks beyond a node, and no plugin carries such changes in its state.
    """
    carried = any(
        plugin.name in before.states and type(plugin).with_pod is not PreFilterPlugin.with_pod
        for plugin in profile.pre_filter
    )
    return not carried and all(
        plugin.row_local and not plugin.by_node
        for plugin in filters
        if plugin.name not in before.skipped
    )


def rejections_apart(
    profile: Profile,
    pod: Pod,
    nodes: NodeView,
    before: PreFiltered,
    added: Mapping[int, Sequence[Pod]],
) -> dict[int, Status]:
    """The rows that refuse the pod with others added to them: one hypothesis after the other."""
    found: dict[int, Status] = {}
    for row, pods in added.items():
        status = Hypothesis(profile, pod, nodes, before, row).adding(pods).rejection()
        if status is not None:
            found[row] = status
    return found


def rejections_together(
    profile: Profile,
    pod: Pod,
    nodes: NodeView,
    before: PreFiltered,
    added: Mapping[int, Sequence[Pod]],
) -> dict[int, Status]:
    """The same at once, where that is possible: preemptors wait by the hundred."""
    view = nodes.what_if(added, {})
    verdicts = []
    for plugin in profile.filter:
        if plugin.name in before.skipped:
            continue
        with guard(plugin, "Filter"):
            answer = plugin.filter(pod, view, before.states.get(plugin.name))
        verdicts.append((plugin.name, checked_verdicts(plugin, answer, len(view))))
    found: dict[int, Status] = {}
    for alike, status in first_rejections(verdicts, np.ones(len(view), np.bool_)):
        found.update(dict.fromkeys(view.rows[alike].tolist(), status))
    return found


def _filter_nodes(
    profile: Profile,
    pod: Pod,
    nodes: NodeView,
    before: PreFiltered,
    answers: Answers,
    within: Bools | None,
    span: Span,
) -> FilterOutcome:
    considered = np.ones(len(nodes), np.bool_)
    if before.node_names is not None:
        considered[:] = False
        rows = (nodes.row_of(name) for name in before.node_names)
        considered[[row for row in rows if row is not None]] = True
    if within is not None:
        considered &= within
    outcome = FilterOutcome(considered)
    for plugin in profile.filter:
        if plugin.name in before.skipped:
            continue
        state = before.states.get(plugin.name)
        wanted = considered & ~outcome.rejected
        with guard(plugin, "Filter"):
            verdicts = answers.verdicts(plugin, pod, nodes, state, wanted)
        if span.closely:
            some_left = (wanted & ~verdicts.rejected).any()
            span.ran(plugin.name, SUCCESS if some_left else UNSCHEDULABLE)
        outcome.verdicts.append((plugin.name, verdicts))
        outcome.rejected |= verdicts.rejected
    return outcome


def _count_answers(
    profile: Profile, before: PreFiltered, outcome: FilterOutcome, span: Span
) -> None:
    """Count for each plugin the nodes that none before it had refused, as upstream asks them.

    Whether an answer was kept from another pod makes no difference to who answered.
    """
    left = outcome.considered
    if not outcome.rejected.any():
        span.answered(profile.filter, before.skipped, int(np.count_nonzero(left)))
        return
    asked = (plugin for plugin in profile.filter if plugin.name not in before.skipped)
    for plugin, (_, verdicts) in zip(asked, outcome.verdicts, strict=True):
        span.answered((plugin,), (), int(np.count_nonzero(left)))
        left = left & ~verdicts.rejected


class Hypothesis:
    """One node with pods added or taken away, and the plugins' states changed accordingly."""

    def __init__(
        self, profile: Profile, pod: Pod, nodes: NodeView, before: PreFiltered, row: int
    ) -> None:
        self._profile = profile
        self._pod = pod
        self._nodes = nodes
        self._before = before
        self._row = row
        self._states = dict(before.states)
        self._added: tuple[Pod, ...] = ()
        self._removed: tuple[Pod, ...] = ()

    def adding(self, pods: Sequence[Pod]) -> "Hypothesis":
        """The same with pods added; a removed pod may be added back."""
        changed = self._changed(pods, 1)
        changed._added = (*self._added, *pods)
        return changed

    def removing(self, pods: Sequence[Pod]) -> "Hypothesis":
        """The same without some of the node's pods."""
        changed = self._changed(pods, -1)
        changed._removed = (*self._removed, *pods)
        return changed

    def rejection(self) -> Status | None:
        """Would the pod be refused? None: it would fit."""
        return next(self.rejections(), None)

    def rejections(self) -> Iterator[Status]:
        """What every plugin says that would refuse the pod, one asked after the other."""
        row = self._row
        view = self._nodes.what_if({row: self._added}, {row: self._removed})
        for plugin in self._profile.filter:
            if plugin.name in self._before.skipped:
                continue
            state = self._states.get(plugin.name)
            with guard(plugin, "Filter"):
                verdicts = plugin.filter(self._pod, view, state)
                checked_verdicts(plugin, verdicts, len(view))
            status = first_rejection([(plugin.name, verdicts)], 0)
            if status is not None:
                yield status

    def _changed(self, pods: Sequence[Pod], sign: int) -> "Hypothesis":
        changed = Hypothesis(self._profile, self._pod, self._nodes, self._before, self._row)
        changed._added, changed._removed = self._added, self._removed
        changed._states = dict(self._states)
        for plugin in self._profile.pre_filter:
            if plugin.name not in changed._states:
                continue
            with guard(plugin, "PreFilter"):
                for other in pods:
                    changed._states[plugin.name] = plugin.with_pod(
                        changed._states[plugin.name], self._pod, other, self._nodes, self._row, sign
                    )
        return changed
