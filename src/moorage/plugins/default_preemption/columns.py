"""Victims on all candidate nodes at once.

The same rule as `victims.select_victims`, in lockstep: every node loses its less important pods,
then every node gets its first one back, then its second, and so on; after each step one pass of
the filters over the columns tells which nodes cannot keep theirs. It holds only while no plugin
looks beyond a node and nobody is nominated to one: `applies` says when.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from moorage.cluster.columns import Bools, Rows
from moorage.cluster.pod_table import LesserPods
from moorage.cluster.stamps import Aspect
from moorage.cluster.view import NodeView, WithoutLesserPods
from moorage.framework.attempt import Attempt
from moorage.framework.filtering import first_rejection
from moorage.framework.guard import guard
from moorage.framework.plugin import Candidate, FilterPlugin
from moorage.framework.status import Status, Verdicts
from moorage.model.pod import Pod
from moorage.plugins.default_preemption.budgets import Budget, split_by_violation
from moorage.plugins.default_preemption.victims import NO_VICTIMS, no_victim_needed

_POD_ASPECTS = frozenset((Aspect.REQUESTED, Aspect.PODS, Aspect.PORTS, Aspect.VOLUMES))


def applies(attempt: Attempt) -> bool:
    """Can all nodes be tried together?"""
    return not attempt.nominated and all(
        plugin.row_local and not plugin.by_node for plugin in _active(attempt)
    )


def select_victims_everywhere(
    attempt: Attempt, rows: Rows, budgets: Sequence[Budget]
) -> list[Candidate | Status]:
    """Per row, the victims there or why preemption does not help."""
    if not len(rows):
        return []
    lesser = attempt.nodes.lesser_pods(attempt.pod.priority, attempt.now)
    view = attempt.nodes.without(lesser, rows)
    refusals: list[Status | None] = _refusals(attempt, view)
    pods_here = np.bincount(view.places[view.places >= 0], minlength=len(rows))
    for empty in np.flatnonzero(pods_here == 0):
        refusals[empty] = NO_VICTIMS
    refused = np.fromiter((refusal is not None for refusal in refusals), np.bool_, len(rows))
    order, violating = _order(lesser, view.places, refused, budgets)
    victims = _reprieve(attempt, view, order)
    results: list[Candidate | Status] = []
    for place, (row, chosen) in enumerate(zip(rows, _by_place(victims, view, rows), strict=True)):
        refusal = refusals[place]
        name = attempt.nodes.node(int(row)).name
        if refusal is not None:
            results.append(refusal)
        elif not len(chosen):
            results.append(no_victim_needed(name))
        else:
            pods = tuple(lesser.pods[i] for i in chosen)
            results.append(Candidate(name, pods, int(np.count_nonzero(violating[chosen]))))
    return results


def _active(attempt: Attempt) -> list[FilterPlugin[Any]]:
    """The filters whose answer can change when pods leave a node."""
    return [
        plugin
        for plugin in attempt.profile.filter
        if plugin.name not in attempt.before.skipped
        and (not plugin.row_local or _POD_ASPECTS.intersection(plugin.reads))
    ]


def _judge(
    attempt: Attempt, plugins: Sequence[FilterPlugin[Any]], view: NodeView
) -> list[tuple[str, Verdicts]]:
    verdicts = []
    for plugin in plugins:
        with guard(plugin, "Filter"):
            state = attempt.before.states.get(plugin.name)
            verdicts.append((plugin.name, plugin.filter(attempt.pod, view, state)))
    return verdicts


def _refusals(attempt: Attempt, view: NodeView) -> list[Status | None]:
    """Which nodes would refuse the pod even without their less important pods?"""
    plugins = [p for p in attempt.profile.filter if p.name not in attempt.before.skipped]
    verdicts = _judge(attempt, plugins, view)
    refused = np.zeros(len(view), np.bool_)
    for _, answer in verdicts:
        refused |= answer.rejected
    refusals: list[Status | None] = [None] * len(view)
    for place in np.flatnonzero(refused):
        refusals[place] = first_rejection(verdicts, int(place))
    return refusals


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
        breaking = {pod.uid for pod in split_by_violation(pods, budgets)[0]}
        for i in members:
            violating[i] = lesser.pods[i].uid in breaking


def _reprieve(attempt: Attempt, view: WithoutLesserPods, steps: Sequence[Rows]) -> Bools:
    """Give pods back step by step; those that make the pod not fit are the victims."""
    victims = np.zeros(len(view.places), np.bool_)
    plugins = _active(attempt)
    for step in steps:
        view.give_back(step)
        refused = np.zeros(len(view), np.bool_)
        for _, answer in _judge(attempt, plugins, view):
            refused |= answer.rejected
        lost = step[refused[view.places[step]]]
        view.take_away(lost)
        victims[lost] = True
    return victims


def _by_place(victims: Bools, view: WithoutLesserPods, rows: Rows) -> list[Rows]:
    """Per place, the victims there; they are still sorted by importance."""
    chosen = np.flatnonzero(victims)
    places = view.places[chosen]
    order = np.argsort(places, kind="stable")
    return np.split(chosen[order], np.searchsorted(places[order], np.arange(1, len(rows))))
