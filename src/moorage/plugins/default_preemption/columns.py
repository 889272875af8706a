"""Victims on all candidate nodes at once.

The same rule as `victims.select_victims`, in lockstep: every node loses its less important pods,
then every node gets its first one back, then its second, and so on; after each step one pass of
the filters over the columns tells which nodes cannot keep theirs. It holds only while no plugin
looks beyond a node: `applies` says when. Where pods are nominated to nodes, a second pass counts
them in.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from moorage.cluster.columns import Bools, Rows
from moorage.cluster.overlay import Overlay
from moorage.cluster.pod_table import LesserPods
from moorage.cluster.stamps import Aspect
from moorage.cluster.view import NodeView
from moorage.framework.attempt import AttemptResult
from moorage.framework.outcomes import first_rejections
from moorage.framework.plugin import Candidate, FilterPlugin
from moorage.framework.runner import judged_together, verdicts_on
from moorage.framework.status import Status, Verdicts
from moorage.model.pod import Pod
from moorage.plugins.default_preemption.victims import (
    NO_VICTIMS,
    PRIORITY_SHIFT,
    Budget,
    no_victim_needed,
    single,
    split_by_violation,
)

_POD_ASPECTS = frozenset((Aspect.REQUESTED, Aspect.PODS, Aspect.PORTS, Aspect.VOLUMES))


def applies(attempt: AttemptResult) -> bool:
    """Can all nodes be tried together?"""
    return judged_together(attempt, _active(attempt))


def select_victims_everywhere(
    attempt: AttemptResult, rows: Rows, budgets: Sequence[Budget]
) -> "DryRun":
    """Try all rows together."""
    lesser = attempt.nodes.lesser_pods(attempt.pod.priority, attempt.now)
    view = attempt.nodes.without(lesser, rows)
    views: list[NodeView] = [view]
    if attempt.nominated:
        views.insert(0, view.changed(attempt.nominated, {}))  # asked first, so that its words count
    refusals = _refusals(attempt, views)
    pods_here = np.bincount(view.places[view.places >= 0], minlength=len(rows))
    refusals.update((int(place), NO_VICTIMS) for place in np.flatnonzero(pods_here == 0))
    refused = np.zeros(len(rows), np.bool_)
    refused[list(refusals)] = True
    steps, violating = _order(lesser, view.places, refused, budgets)
    victims = _reprieve(attempt, view, views, steps)

    def name_of(place: int) -> str:
        return attempt.nodes.node(int(rows[place])).name

    return DryRun(lesser, view.places, victims, violating, refusals, len(rows), name_of)


class DryRun(Sequence[Candidate]):
    """The candidates found, kept as columns: only those that somebody looks at become objects."""

    def __init__(
        self,
        lesser: LesserPods,
        places: Rows,
        victims: Bools,
        violating: Bools,
        refusals: dict[int, Status],
        size: int,
        name_of: Callable[[int], str],
    ) -> None:
        self._lesser = lesser
        self._name_of = name_of
        self._chosen = np.flatnonzero(victims)
        at = places[self._chosen]
        order = np.argsort(at, kind="stable")
        # Victims by place, and within a place still by importance.
        self._chosen, at = self._chosen[order], at[order]
        self._places, self._starts = np.unique(at, return_index=True)
        self._ends = np.append(self._starts[1:], len(at))
        self._violating = violating
        found = set(self._places.tolist())
        self.refusals = [
            refusals.get(place) or no_victim_needed(name_of(place))
            for place in range(size)
            if place not in found
        ]

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: Any) -> Any:
        """One candidate."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        chosen = self._chosen[self._starts[index] : self._ends[index]]
        return Candidate(
            self._name_of(int(self._places[index])),
            tuple(self._lesser.pods[int(i)] for i in chosen),
            int(np.count_nonzero(self._violating[chosen])),
        )

    @property
    def places(self) -> Rows:
        """Where each candidate stands among the rows that were tried."""
        return self._places

    def first(self, enough: int) -> "DryRun":
        """As if the search had ended with enough candidates, one of them harmless to budgets."""
        violations = (
            np.add.reduceat(self._violating[self._chosen].astype(np.int64), self._starts)
            if len(self)
            else np.zeros(0, np.int64)
        )
        harmless = np.flatnonzero(violations == 0)
        stop = max(enough, int(harmless[0]) + 1) if len(harmless) else len(self)
        if stop < len(self):
            self._places, self._starts = self._places[:stop], self._starts[:stop]
            self._ends = self._ends[:stop]
            self._chosen = self._chosen[: self._ends[-1]]
        return self

    def best(self) -> Candidate:
        """The same choice as `victims.pick`, over columns."""
        chosen, starts = self._chosen, self._starts
        priorities = self._lesser.priorities[chosen]
        counts = self._ends - starts
        highest = priorities[starts]
        at_top = priorities == np.repeat(highest, counts)
        runs = np.where(at_top, self._lesser.starts[chosen], np.inf)
        keys = (
            -np.minimum.reduceat(runs, starts),
            counts,
            np.add.reduceat(priorities + PRIORITY_SHIFT, starts),
            highest,
            np.add.reduceat(self._violating[chosen].astype(np.int64), starts),
        )
        best: Candidate = self[int(np.lexsort(keys)[0])]
        return best


def _active(attempt: AttemptResult) -> list[FilterPlugin[Any]]:
    """The filters whose answer can change when pods leave a node."""
    return [
        plugin
        for plugin in attempt.profile.filter
        if plugin.name not in attempt.before.skipped
        and (not plugin.row_local or not plugin.reads or _POD_ASPECTS.intersection(plugin.reads))
    ]


def _refusals(attempt: AttemptResult, views: Sequence[NodeView]) -> dict[int, Status]:
    """The places that would refuse the pod even without their less important pods."""
    plugins = attempt.profile.filter
    refusals: dict[int, Status] = {}
    wanted = np.ones(len(views[0]), np.bool_)
    for view in views:
        verdicts = verdicts_on(attempt, plugins, view)
        for places, status in first_rejections(verdicts, wanted):
            refusals.update(dict.fromkeys(places.tolist(), status))
        wanted &= ~_refused(verdicts, len(view))
    return refusals


def _refused(verdicts: Sequence[tuple[str, Verdicts]], size: int) -> Bools:
    refused = np.zeros(size, np.bool_)
    for _, answer in verdicts:
        refused |= answer.rejected
    return refused


def _order(
    lesser: LesserPods, places: Rows, refused: Bools, budgets: Sequence[Budget]
) -> tuple[list[Rows], Bools]:
    """The steps: in step i every node's i-th pod to be given back. Also who breaks a budget."""
    violating = np.zeros(len(lesser), np.bool_)
    concerned = np.flatnonzero(places >= 0)
    concerned = concerned[~refused[places[concerned]]]
    if budgets:
        _mark_violating(lesser, concerned, budgets, violating)
        # Within a node: those that break a budget first; the sort keeps importance otherwise.
        concerned = concerned[np.lexsort((~violating[concerned], lesser.rows[concerned]))]
    if not len(concerned):
        return [], violating
    rows = lesser.rows[concerned]
    starts = np.flatnonzero(np.r_[True, rows[1:] != rows[:-1]])
    lengths = np.diff(np.r_[starts, len(rows)])
    rank = np.arange(len(rows)) - np.repeat(starts, lengths)
    by_rank = np.argsort(rank, kind="stable")
    cuts = np.flatnonzero(np.diff(rank[by_rank])) + 1
    return np.split(concerned[by_rank], cuts), violating


def _mark_violating(
    lesser: LesserPods, concerned: Rows, budgets: Sequence[Budget], violating: Bools
) -> None:
    by_row: dict[int, list[int]] = {}
    for i in concerned:
        by_row.setdefault(int(lesser.rows[i]), []).append(int(i))
    for members in by_row.values():
        pods: list[Pod] = [lesser.pods[i] for i in members]
        broken, _ = split_by_violation(map(single, pods), budgets)
        breaking = {unit.pods[0].uid for unit, _ in broken}
        for i in members:
            violating[i] = lesser.pods[i].uid in breaking


def _reprieve(
    attempt: AttemptResult, view: Overlay, views: Sequence[NodeView], steps: Sequence[Rows]
) -> Bools:
    """Give pods back step by step; those that make the pod not fit are the victims."""
    victims = np.zeros(len(view.places), np.bool_)
    plugins = _active(attempt)
    for step in steps:
        view.give_back(step)
        refused = np.zeros(len(view), np.bool_)
        for one in views:
            refused |= _refused(verdicts_on(attempt, plugins, one), len(view))
        lost = step[refused[view.places[step]]]
        view.take_away(lost)
        victims[lost] = True
    return victims
