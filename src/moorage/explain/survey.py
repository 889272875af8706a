"""Which plugins reject which nodes, all of them and not only the first.

Owns the survey: every PreEnqueue, PreFilter and Filter plugin is asked, and every Filter plugin
about every node, whatever the others say; then extenders about what is left. Explanations and the
search for fixes both start from it. Must be asked with the plugins of `explain.trials`, so that the
scheduler's own notice nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from moorage.cluster.columns import Bools, Ints
from moorage.cluster.view import NodeView
from moorage.errors import MoorageError, PluginError
from moorage.explain.report import Rejection
from moorage.framework.attempt import AttemptResult
from moorage.framework.diagnosis import EXTENDER
from moorage.framework.extenders import Extender, passing
from moorage.framework.outcomes import FilterOutcome
from moorage.framework.profile import Profile
from moorage.framework.runner import Ask, Runner, TrialNode, every_gate
from moorage.framework.status import Code, Reason, Status
from moorage.model.pod import Pod

PRE_ENQUEUE = "PreEnqueue"
PRE_FILTER = "PreFilter"
FILTER = "Filter"
EXTENDER_POINT = "Extender"
MOST_EXAMPLES = 5
"""So many nodes of a rejection are named."""


class RejectedRows(msgspec.Struct, frozen=True):
    """One plugin rejects some rows for one reason."""

    plugin: str
    point: str
    reason: Reason
    rows: Bools
    with_nominated_pods: bool = False


@dataclass(slots=True)
class Survey:
    """What everybody says about a pod on every node of a view."""

    pod: Pod
    nodes: NodeView
    profile: Profile
    skipped: frozenset[str] = frozenset()
    """The Filter plugins that have nothing to say about the pod."""
    rejections: list[RejectedRows] = field(default_factory=list)

    @property
    def asked(self) -> tuple[str, ...]:
        """The plugins that were asked about nodes, in their order, the skipped ones among them.

        Those of other points count if they reject the pod.
        """
        rejecting = {(one.point, one.plugin): one.plugin for one in self.rejections}
        names = [plugin for (point, _), plugin in rejecting.items() if point == PRE_ENQUEUE]
        filters = [plugin.name for plugin in self.profile.filter]
        before = [plugin.name for plugin in self.profile.pre_filter]
        names += [n for n in before if (PRE_FILTER, n) in rejecting and n not in filters]
        extenders = [EXTENDER] if (EXTENDER_POINT, EXTENDER) in rejecting else []
        return tuple(dict.fromkeys((*names, *filters, *extenders)))

    def reject(self, plugin: str, point: str, reason: Reason, rows: Bools) -> None:
        """A plugin rejects some rows."""
        self.rejections.append(RejectedRows(plugin, point, reason, rows))

    @property
    def rejected(self) -> Bools:
        """The rows that somebody rejects."""
        return self.rejected_by(self.by_plugin)

    @property
    def by_plugin(self) -> dict[str, Bools]:
        """The rows that each plugin rejects, for whatever reason."""
        rows: dict[str, Bools] = {}
        for one in self.rejections:
            known = rows.get(one.plugin)
            rows[one.plugin] = one.rows if known is None else known | one.rows
        return rows

    @property
    def count(self) -> Ints:
        """How many plugins reject each row."""
        total: Ints = np.zeros(len(self.nodes), np.int64)
        for rows in self.by_plugin.values():
            total += rows
        return total

    def rejected_by(self, plugins: Iterable[str]) -> Bools:
        """The rows that some of the plugins reject, whoever else does."""
        chosen = set(plugins)
        found = np.zeros(len(self.nodes), np.bool_)
        for one in self.rejections:
            if one.plugin in chosen:
                found |= one.rows
        return found

    def rejected_only_by(self, plugins: Iterable[str]) -> Bools:
        """The rows that some of the plugins reject, and nobody else."""
        chosen = set(plugins)
        others = self.by_plugin.keys() - chosen
        return self.rejected_by(chosen) & ~self.rejected_by(others)

    def reasons(self, plugin: str) -> Mapping[str, Bools]:
        """Why a Filter plugin rejects: each reason with its rows."""
        found: dict[str, Bools] = {}
        for one in self.rejections:
            if one.plugin == plugin and one.point == FILTER:
                known = found.get(one.reason.text)
                found[one.reason.text] = one.rows if known is None else known | one.rows
        return found


def survey(
    profile: Profile,
    pod: Pod,
    nodes: NodeView,
    *,
    nominated: Mapping[int, Sequence[Pod]] | None = None,
    extenders: Sequence[Extender] = (),
    gates: bool = True,
    ask: Ask = Ask.EVERYTHING,
) -> Survey:
    """Ask everybody about a pod; `gates`: the PreEnqueue plugins, too.

    `nodes` may be a part of the cluster; `nominated` goes by rows of the whole.
    """
    attempt = AttemptResult(profile, pod, nodes, 0.0)
    Runner().filter(attempt, ask)
    found = Survey(pod, nodes, profile, attempt.before.skipped)
    for status in every_gate(profile, pod) if gates else ():
        _reject_everywhere(found, status, PRE_ENQUEUE)
    for status in attempt.before.rejections:
        _reject_everywhere(found, status, PRE_FILTER)
    for plugin, names in attempt.before.named.items():
        left_out = _left_out(nodes, names)
        if left_out.any():
            text = f"node(s) didn't satisfy plugin(s) [{plugin}]"
            found.reject(plugin, PRE_FILTER, Reason(text, Code.UNRESOLVABLE), left_out)
    assert attempt.outcome is not None, "every filter was asked"
    for plugin, verdicts in attempt.outcome.verdicts:
        for reason, rows in verdicts.by_reason():
            found.reject(plugin, FILTER, reason, rows)
    found.rejections += _with_nominated(attempt, found, nominated or {})
    if extenders:
        _ask_extenders(found, extenders)
    return found


def grouped_rejections(found: Survey) -> tuple[Rejection, ...]:
    """One rejection for each reason of a plugin, those of most nodes first."""
    alone = found.count == 1
    place_of = {plugin: place for place, plugin in enumerate(found.asked)}
    groups: dict[tuple[str, str, str, bool], list[RejectedRows]] = {}
    for one in found.rejections:
        key = (one.plugin, one.point, one.reason.text, one.with_nominated_pods)
        groups.setdefault(key, []).append(one)
    answers = [_rejection(group, alone, found.nodes) for group in groups.values()]
    answers.sort(key=lambda one: (-one.nodes, place_of.get(one.plugin, len(place_of)), one.reason))
    return tuple(answers)


def _rejection(parts: Sequence[RejectedRows], alone: Bools, nodes: NodeView) -> Rejection:
    """One plugin's rejection for one reason; its parts differ in their codes."""
    rows = np.zeros(len(alone), np.bool_)
    for part in parts:
        rows |= part.rows
    most = max(parts, key=lambda part: int(np.count_nonzero(part.rows)))
    return Rejection(
        plugin=most.plugin,
        reason=most.reason.text,
        nodes=int(np.count_nonzero(rows)),
        examples=tuple(nodes.node(int(row)).name for row in np.flatnonzero(rows)[:MOST_EXAMPLES]),
        point=most.point,
        code=most.reason.code.value,
        only=int(np.count_nonzero(rows & alone)),
        with_nominated_pods=most.with_nominated_pods,
        unresolvable=sum(
            int(np.count_nonzero(part.rows))
            for part in parts
            if part.reason.code is Code.UNRESOLVABLE
        ),
    )


def _reject_everywhere(found: Survey, status: Status, point: str) -> None:
    for text in dict.fromkeys(status.reasons or ("",)):
        rows = np.ones(len(found.nodes), np.bool_)
        found.reject(status.plugin, point, Reason(text, status.code), rows)


def _left_out(nodes: NodeView, names: Iterable[str]) -> Bools:
    rows = (nodes.row_of(name) for name in names)
    left_out: Bools = ~np.isin(nodes.rows, [row for row in rows if row is not None])
    return left_out


def _with_nominated(
    attempt: AttemptResult, found: Survey, nominated: Mapping[int, Sequence[Pod]]
) -> list[RejectedRows]:
    """Rows that only the pods nominated to them spoil, by the plugins that say so."""
    rejected: dict[tuple[str, Reason], Bools] = {}
    if not nominated:
        return []
    rows = found.nodes.rows
    for place in np.flatnonzero(np.isin(rows, list(nominated)) & ~found.rejected):
        row = int(rows[place])
        for plugin, reason in _reasons(TrialNode(attempt, row), nominated[row]):
            rejected.setdefault((plugin, reason), np.zeros(len(found.nodes), np.bool_))[place] = (
                True
            )
    return [
        RejectedRows(plugin, FILTER, reason, where, with_nominated_pods=True)
        for (plugin, reason), where in rejected.items()
    ]


def _reasons(trial: TrialNode, pods: Sequence[Pod]) -> Iterator[tuple[str, Reason]]:
    """What plugins say of a node with further pods on it."""
    try:
        for status in trial.adding(pods).rejections():
            for text in status.reasons:
                yield status.plugin, Reason(text, status.code)
    except PluginError as error:
        yield error.plugin, Reason(str(error), Code.ERROR)


def _ask_extenders(found: Survey, extenders: Sequence[Extender]) -> None:
    """What extenders say of the nodes that all plugins accept, one asked after the other."""
    rejected = found.rejected
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
    for reason, rows in refused.items():
        found.reject(EXTENDER, EXTENDER_POINT, reason, rows)


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
