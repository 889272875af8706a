"""Which plugins reject which nodes, all of them and not only the first.

Owns the survey: every PreEnqueue, PreFilter and Filter plugin is asked, and every Filter plugin
about every node, whatever the others say; then extenders about what is left. Must be asked with
the plugins of `explain.trials`, so that the scheduler's own notice nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from moorage.cluster.columns import Bools
from moorage.cluster.view import NodeView
from moorage.errors import MoorageError, PluginError
from moorage.explain.grounds import Ground, grouped
from moorage.explain.report import Rejection
from moorage.framework.attempt import AttemptResult
from moorage.framework.diagnosis import EXTENDER
from moorage.framework.extenders import Extender, passing
from moorage.framework.guard import ask_pre_enqueue
from moorage.framework.outcomes import FilterOutcome
from moorage.framework.profile import Profile
from moorage.framework.runner import Ask, Runner, TrialNode
from moorage.framework.status import Code, Reason, Status, Verdicts
from moorage.model.pod import Pod

PRE_ENQUEUE = "PreEnqueue"
PRE_FILTER = "PreFilter"
FILTER = "Filter"
EXTENDER_POINT = "Extender"


class Survey(msgspec.Struct, frozen=True):
    """What everybody says about a pod on every node of a view."""

    pod: Pod
    nodes: NodeView
    grounds: tuple[Ground, ...]
    skipped: frozenset[str]
    """The Filter plugins that have nothing to say about the pod."""
    asked: tuple[str, ...]
    """The plugins that were asked about nodes, in their order, the skipped ones among them."""

    @property
    def rejected(self) -> Bools:
        """The rows that somebody rejects."""
        rejected = np.zeros(len(self.nodes), np.bool_)
        for ground in self.grounds:
            rejected |= ground.rows
        return rejected


def survey(
    profile: Profile,
    pod: Pod,
    nodes: NodeView,
    *,
    nominated: Mapping[int, Sequence[Pod]] | None = None,
    extenders: Sequence[Extender] = (),
    gates: bool = True,
) -> Survey:
    """Ask everybody about a pod; `gates`: the PreEnqueue plugins, too.

    `nodes` may be a part of the cluster; `nominated` goes by rows of the whole.
    """
    attempt = AttemptResult(profile, pod, nodes, 0.0)
    Runner().filter(attempt, Ask.EVERYTHING)
    grounds = _gates(profile, pod, nodes) if gates else []
    grounds += _of_pre_filter(attempt)
    assert attempt.outcome is not None, "every filter was asked"
    for plugin, verdicts in attempt.outcome.verdicts:
        grounds += _of_verdicts(verdicts, plugin)
    skipped = attempt.before.skipped
    asked = Survey(pod, nodes, tuple(grounds), skipped, _asked(profile, grounds))
    grounds += _with_nominated(attempt, asked, nominated or {})
    grounds += _ask_extenders(asked, grounds, extenders)
    return msgspec.structs.replace(asked, grounds=tuple(grounds), asked=_asked(profile, grounds))


def rejections(found: Survey) -> tuple[Rejection, ...]:
    """The survey's rejections, those of most nodes first."""
    nodes = found.nodes
    return grouped(found.grounds, len(nodes), lambda row: nodes.node(row).name, found.asked)


def _asked(profile: Profile, grounds: Iterable[Ground]) -> tuple[str, ...]:
    before = [ground.plugin for ground in grounds if ground.point == PRE_ENQUEUE]
    preparing = {ground.plugin for ground in grounds if ground.point == PRE_FILTER}
    first = [plugin.name for plugin in profile.pre_filter if plugin.name in preparing]
    filters = [plugin.name for plugin in profile.filter]
    names = [*before, *(name for name in first if name not in filters), *filters]
    if any(ground.point == EXTENDER_POINT for ground in grounds):
        names.append(EXTENDER)
    return tuple(dict.fromkeys(names))


def _everywhere(nodes: NodeView) -> Bools:
    return np.ones(len(nodes), np.bool_)


def _of_status(status: Status, point: str, rows: Bools) -> list[Ground]:
    reasons = tuple(dict.fromkeys(status.reasons)) or ("",)
    return [Ground(status.plugin, point, reason, status.code.value, rows) for reason in reasons]


def _gates(profile: Profile, pod: Pod, nodes: NodeView) -> list[Ground]:
    grounds: list[Ground] = []
    for plugin in profile.pre_enqueue:
        try:
            status = ask_pre_enqueue(plugin, pod)
        except PluginError as error:
            status = Status(Code.ERROR, (str(error),), plugin.name)
        if status is not None:
            grounds += _of_status(status, PRE_ENQUEUE, _everywhere(nodes))
    return grounds


def _of_pre_filter(attempt: AttemptResult) -> list[Ground]:
    nodes, before = attempt.nodes, attempt.before
    grounds: list[Ground] = []
    for status in before.rejections:
        grounds += _of_status(status, PRE_FILTER, _everywhere(nodes))
    for plugin, names in before.named.items():
        left_out = _left_out(nodes, names)
        if left_out.any():
            text = f"node(s) didn't satisfy plugin(s) [{plugin}]"
            grounds.append(Ground(plugin, PRE_FILTER, text, Code.UNRESOLVABLE.value, left_out))
    return grounds


def _left_out(nodes: NodeView, names: Iterable[str]) -> Bools:
    rows = (nodes.row_of(name) for name in names)
    left_out: Bools = ~np.isin(nodes.rows, [row for row in rows if row is not None])
    return left_out


def _of_verdicts(verdicts: Verdicts, plugin: str) -> list[Ground]:
    return [
        Ground(plugin, FILTER, reason.text, reason.code.value, rows)
        for reason, rows in verdicts.by_reason()
    ]


def _with_nominated(
    attempt: AttemptResult, found: Survey, nominated: Mapping[int, Sequence[Pod]]
) -> list[Ground]:
    """Rows that only the pods nominated to them spoil, by the plugins that say so."""
    spoilt: dict[tuple[str, Reason], Bools] = {}
    if not nominated:
        return []
    rows = found.nodes.rows
    for place in np.flatnonzero(np.isin(rows, list(nominated)) & ~found.rejected):
        row = int(rows[place])
        for plugin, reason in _reasons(TrialNode(attempt, row), nominated[row]):
            spoilt.setdefault((plugin, reason), np.zeros(len(found.nodes), np.bool_))[place] = True
    return [
        Ground(plugin, FILTER, reason.text, reason.code.value, where, with_nominated_pods=True)
        for (plugin, reason), where in spoilt.items()
    ]


def _reasons(trial: TrialNode, pods: Sequence[Pod]) -> Iterator[tuple[str, Reason]]:
    """What plugins say of a node with further pods on it."""
    try:
        for status in trial.adding(pods).rejections():
            for text in status.reasons:
                yield status.plugin, Reason(text, status.code)
    except PluginError as error:
        yield error.plugin, Reason(str(error), Code.ERROR)


def _ask_extenders(
    found: Survey, grounds: Iterable[Ground], extenders: Sequence[Extender]
) -> list[Ground]:
    """What extenders say of the nodes that all plugins accept, one asked after the other."""
    if not extenders:
        return []
    rejected = np.zeros(len(found.nodes), np.bool_)
    for ground in grounds:
        rejected |= ground.rows
    place_of = {int(row): place for place, row in enumerate(found.nodes.rows)}
    order = (int(row) for row in found.nodes.search_order)
    left = [row for row in order if row in place_of and not rejected[place_of[row]]]
    refused: dict[Reason, Bools] = {}
    for extender in extenders:
        before, (left, reasons) = left, _ask_extender(found, extender, left)
        for row in set(before).difference(left):
            for reason in reasons.get(row, (Reason(f"left out by extender {extender.name}"),)):
                rows = refused.setdefault(reason, np.zeros(len(found.nodes), np.bool_))
                rows[place_of[row]] = True
    return [
        Ground(EXTENDER, EXTENDER_POINT, reason.text, reason.code.value, rows)
        for reason, rows in refused.items()
    ]


def _ask_extender(
    found: Survey, extender: Extender, asked: list[int]
) -> tuple[list[int], Mapping[int, Sequence[Reason]]]:
    """The rows that one extender leaves, and what it says of the others."""
    whole = found.nodes.whole
    outcome = FilterOutcome(np.ones(len(whole), np.bool_))
    try:
        left, _ = passing([extender], found.pod, whole, asked, outcome)
    except MoorageError as error:
        return [], {row: (Reason(str(error), Code.ERROR),) for row in asked}
    known = set(asked)
    return [row for row in left if row in known], {
        row: [Reason(text, status.code) for text in status.reasons]
        for row, status in outcome.refused.items()
    }
