"""Who stands in a pod's way on which node: all plugins' rejections as bit sets over the nodes.

Nothing here knows any particular plugin. A plugin that refuses the pod before nodes are looked at
stands in the way everywhere; one that names the only nodes worth looking at, on all others.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from moorage.cluster.columns import Bools, Ints
from moorage.cluster.view import NodeView
from moorage.errors import PluginError
from moorage.explain.fixes.bench import Bench
from moorage.framework.attempt import AttemptResult
from moorage.framework.guard import ask_filter, ask_pre_enqueue, ask_pre_filter
from moorage.framework.outcomes import PreFiltered
from moorage.framework.runner import TrialNode
from moorage.framework.status import SKIP, Status, Verdicts
from moorage.model.pod import Pod

MOST_AT_ONCE = 2
"""Nodes that more plugins refuse are out of reach, and not worth a dear question."""
_MOST_SECOND_LOOKS = 200


class Obstacles:
    """What refuses a pod, plugin by plugin."""

    def __init__(self, nodes: NodeView) -> None:
        self.nodes = nodes
        self.rejected: dict[str, Bools] = {}
        """By plugin, the rows it refuses (or refuses everywhere)."""
        self._reasons: dict[str, dict[str, Bools]] = {}
        """By plugin, its reasons, and the rows that it refuses for each."""
        self.statuses: dict[str, Status] = {}
        """By plugin, its answer before any node was looked at."""

    @property
    def count(self) -> Ints:
        """How many plugins refuse each row."""
        total: Ints = np.zeros(len(self.nodes), np.int64)
        for rows in self.rejected.values():
            total += rows
        return total

    def count_at_once(self, groups: Iterable[Iterable[str]]) -> Ints:
        """How many refuse each row, where all the plugins of a group count as one."""
        total = self.count
        for plugins in groups:
            for name in plugins:
                if name in self.rejected:
                    total -= self.rejected[name]
            total += self.refused_by(plugins)
        return total

    def only(self, plugins: Iterable[str]) -> Bools:
        """The rows that some of the plugins refuse, and nobody else."""
        chosen = set(plugins)
        within = np.zeros(len(self.nodes), np.bool_)
        beyond = np.zeros(len(self.nodes), np.bool_)
        for name, rows in self.rejected.items():
            if name in chosen:
                within |= rows
            else:
                beyond |= rows
        return within & ~beyond

    def refused_by(self, plugins: Iterable[str]) -> Bools:
        """The rows that some of the plugins refuse, whoever else does."""
        found = np.zeros(len(self.nodes), np.bool_)
        for name in plugins:
            if name in self.rejected:
                found |= self.rejected[name]
        return found

    def reasons(self, plugin: str) -> Mapping[str, Bools]:
        """Why a plugin refuses, where it was asked about nodes: each reason with its rows."""
        return self._reasons.get(plugin, {})

    def add_reason(self, plugin: str, text: str, rows: Bools) -> None:
        """A plugin refuses rows (as well) for a reason."""
        if rows.any():
            known = self._reasons.setdefault(plugin, {})
            known[text] = known[text] | rows if text in known else rows
            self.add(plugin, rows)

    def add(self, plugin: str, rows: Bools) -> None:
        """A plugin refuses rows (as well)."""
        if rows.any():
            known = self.rejected.get(plugin)
            self.rejected[plugin] = rows if known is None else known | rows


def obstacles_of(bench: Bench, pod: Pod) -> Obstacles:
    """Ask every plugin about every node, whatever the others say."""
    bench.runs += 1
    nodes = bench.nodes
    found = Obstacles(nodes)
    everywhere = np.ones(len(nodes), np.bool_)
    for plugin in bench.gates():
        try:
            status = ask_pre_enqueue(plugin, pod)
        except PluginError:
            found.add(plugin.name, everywhere)
            continue
        if status is not None:
            found.statuses[plugin.name] = status
            found.add(plugin.name, everywhere)
    before = _pre_filter(bench, pod, found)
    _filter(bench, pod, found, before)
    _second_looks(bench, pod, found, before)
    return found


def _pre_filter(bench: Bench, pod: Pod, found: Obstacles) -> PreFiltered:
    nodes = found.nodes
    everywhere = np.ones(len(nodes), np.bool_)
    states, skipped = {}, set()
    for plugin in bench.profile.pre_filter:
        try:
            answer = ask_pre_filter(plugin, pod, nodes)
        except PluginError:
            found.add(plugin.name, everywhere)
            skipped.add(plugin.name)
            continue
        if answer is SKIP:
            skipped.add(plugin.name)
        elif isinstance(answer, Status):
            found.statuses[plugin.name] = answer
            found.add(plugin.name, everywhere)
            skipped.add(plugin.name)
        else:
            states[plugin.name] = answer.state
            if answer.node_names is not None:
                outside = everywhere.copy()
                rows = [nodes.row_of(name) for name in answer.node_names]
                outside[[row for row in rows if row is not None]] = False
                found.add(plugin.name, outside)
    return PreFiltered(states=states, skipped=frozenset(skipped))


def _filter(bench: Bench, pod: Pod, found: Obstacles, before: PreFiltered) -> None:
    nodes = found.nodes
    plugins = [p for p in bench.profile.filter if p.name not in before.skipped]
    # Plugins that answer node by node are dear: they come last, and hear of fewer nodes.
    for plugin in sorted(plugins, key=lambda plugin: plugin.by_node):
        state = before.states.get(plugin.name)
        try:
            if plugin.by_node:
                near = np.flatnonzero(found.count < MOST_AT_ONCE)
                verdicts = Verdicts(len(nodes))
                if len(near):
                    verdicts.splice(near, ask_filter(plugin, pod, nodes.take(near), state))
            else:
                verdicts = ask_filter(plugin, pod, nodes, state)
        except PluginError:
            found.add(plugin.name, np.ones(len(nodes), np.bool_))
            continue
        for reason, rows in verdicts.by_reason():
            found.add_reason(plugin.name, reason.text, rows)


def _second_looks(bench: Bench, pod: Pod, found: Obstacles, before: PreFiltered) -> None:
    """Pods that wait for a node are in the way there, through the plugin that minds them."""
    nominated = bench.cycle.nominated.ahead_of(pod, found.nodes)
    attempt = AttemptResult(bench.profile, pod, found.nodes, 0.0, before=before)
    for row, waiting in list(nominated.items())[:_MOST_SECOND_LOOKS]:
        try:
            status = TrialNode(attempt, row).adding(waiting).rejection()
        except PluginError:
            continue
        if status is not None:
            here = np.zeros(len(found.nodes), np.bool_)
            here[row] = True
            for text in status.reasons:
                found.add_reason(status.plugin, text, here)
