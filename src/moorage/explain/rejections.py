"""Which plugins reject which nodes, all of them and not only the first.

Owns the survey: every PreEnqueue, PreFilter and Filter plugin is asked, and every Filter plugin
about every node, whatever the others say; then extenders about what is left. Must be asked with
the plugins of `explain.trials`, so that the scheduler's own notice nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from moorage.cluster.columns import Bools
from moorage.cluster.view import NodeView
from moorage.errors import MoorageError, PluginError
from moorage.explain.grounds import Ground, grouped
from moorage.explain.report import Rejection
from moorage.framework.diagnosis import EXTENDER
from moorage.framework.extenders import Extender, passing
from moorage.framework.filtering import FilterOutcome, Hypothesis, PreFiltered
from moorage.framework.guard import guard
from moorage.framework.profile import Profile
from moorage.framework.status import SKIP, Code, Reason, Status, Verdicts
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
    grounds: list[Ground] = []
    if gates:
        grounds += _gates(profile, pod, nodes)
    before, refusals = _ask_pre_filter(profile, pod, nodes)
    grounds += refusals
    grounds += _ask_filter(profile, pod, nodes, before, refusals)
    asked = Survey(pod, nodes, tuple(grounds), before.skipped, _asked(profile, grounds))
    grounds += _with_nominated(profile, asked, before, nominated or {})
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


def _of_status(status: Status, plugin: str, point: str, rows: Bools) -> list[Ground]:
    reasons = tuple(dict.fromkeys(status.reasons)) or ("",)
    return [Ground(plugin, point, reason, status.code.value, rows) for reason in reasons]


def _failed(error: MoorageError, plugin: str, point: str, rows: Bools) -> Ground:
    return Ground(plugin, point, str(error), Code.ERROR.value, rows)


def _gates(profile: Profile, pod: Pod, nodes: NodeView) -> list[Ground]:
    grounds: list[Ground] = []
    everywhere = _everywhere(nodes)
    for plugin in profile.pre_enqueue:
        try:
            with guard(plugin, PRE_ENQUEUE):
                status = plugin.pre_enqueue(pod)
        except MoorageError as error:
            grounds.append(_failed(error, plugin.name, PRE_ENQUEUE, everywhere))
            continue
        if status is not None:
            grounds += _of_status(status, plugin.name, PRE_ENQUEUE, everywhere)
    return grounds


def _ask_pre_filter(
    profile: Profile, pod: Pod, nodes: NodeView
) -> tuple[PreFiltered, list[Ground]]:
    """Ask all of them, where the cycle would stop at some rejections."""
    states: dict[str, Any] = {}
    skipped: set[str] = set()
    grounds: list[Ground] = []
    everywhere, whole = _everywhere(nodes), nodes.whole
    for plugin in profile.pre_filter:
        name = plugin.name
        try:
            with guard(plugin, PRE_FILTER):
                answer = plugin.pre_filter(pod, whole)
        except MoorageError as error:
            grounds.append(_failed(error, name, PRE_FILTER, everywhere))
            continue
        if answer is SKIP:
            skipped.add(name)
        elif isinstance(answer, Status):
            grounds += _of_status(answer, name, PRE_FILTER, everywhere)
        else:
            states[name] = answer.state
            if answer.node_names is not None:
                left_out = _left_out(nodes, answer.node_names)
                if left_out.any():
                    text = f"node(s) didn't satisfy plugin(s) [{name}]"
                    grounds.append(
                        Ground(name, PRE_FILTER, text, Code.UNRESOLVABLE.value, left_out)
                    )
    return PreFiltered(states=states, skipped=frozenset(skipped)), grounds


def _left_out(nodes: NodeView, names: Iterable[str]) -> Bools:
    rows = (nodes.row_of(name) for name in names)
    left_out: Bools = ~np.isin(nodes.rows, [row for row in rows if row is not None])
    return left_out


def _ask_filter(
    profile: Profile, pod: Pod, nodes: NodeView, before: PreFiltered, refusals: Iterable[Ground]
) -> list[Ground]:
    """Ask all but those that skipped; a plugin whose PreFilter refused has nothing to go by."""
    stateless = {ground.plugin for ground in refusals} - before.states.keys()
    grounds: list[Ground] = []
    for plugin in profile.filter:
        name = plugin.name
        if name in before.skipped or name in stateless:
            continue
        try:
            with guard(plugin, FILTER):
                verdicts = plugin.filter(pod, nodes, before.states.get(name))
        except MoorageError as error:
            grounds.append(_failed(error, name, FILTER, _everywhere(nodes)))
            continue
        grounds += _of_verdicts(verdicts, name)
    return grounds


def _of_verdicts(verdicts: Verdicts, plugin: str) -> list[Ground]:
    return [
        Ground(plugin, FILTER, reason.text, reason.code.value, rows)
        for reason, rows in verdicts.by_reason()
    ]


def _with_nominated(
    profile: Profile, found: Survey, before: PreFiltered, nominated: Mapping[int, Sequence[Pod]]
) -> list[Ground]:
    """Rows that only the pods nominated to them spoil, by the plugins that say so."""
    spoilt: dict[tuple[str, Reason], Bools] = {}
    if not nominated:
        return []
    rows = found.nodes.rows
    for place in np.flatnonzero(np.isin(rows, list(nominated)) & ~found.rejected):
        row = int(rows[place])
        trial = Hypothesis(profile, found.pod, found.nodes.whole, before, row)
        for plugin, reason in _reasons(trial, nominated[row]):
            spoilt.setdefault((plugin, reason), np.zeros(len(found.nodes), np.bool_))[place] = True
    return [
        Ground(plugin, FILTER, reason.text, reason.code.value, where, with_nominated_pods=True)
        for (plugin, reason), where in spoilt.items()
    ]


def _reasons(trial: Hypothesis, pods: Sequence[Pod]) -> Iterator[tuple[str, Reason]]:
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
