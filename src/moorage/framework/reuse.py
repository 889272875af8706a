"""Answers about nodes, kept per plugin and pod key, and brought up to date instead of redone.

The rule, entire: a plugin that looks only at the row it answers for, and names the pod's part in
the answer with `pod_key`, is asked again only about rows that changed since. Everything else is
asked afresh. Kept answers equal fresh ones after any events; tests/properties checks it.
"""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

import numpy as np

from moorage.cluster.columns import Bools, Ints, Rows
from moorage.cluster.state import ClusterState
from moorage.cluster.view import NodeView
from moorage.framework.guard import checked_scores, checked_verdicts
from moorage.framework.plugin import FilterPlugin, Plugin, ScorePlugin
from moorage.framework.status import Verdicts
from moorage.model.pod import Pod

DEFAULT_LIMIT_BYTES = 64 * 1024 * 1024
# In a small cluster bytes are no bound: an answer takes less than its key.
MOST_ANSWERS = 2048
# Past this share of changed rows one pass over everything is cheaper than picking them out.
_REDO_SHARE = 4
# What an entry takes apart from its rows: its key, its reasons, the objects around the arrays.
_ENTRY_BYTES = 1024


class _Kept:
    """A kept answer: what it says, the generation it is true for, and which rows it knows."""

    __slots__ = ("as_of", "bytes", "known", "scores", "verdicts")

    def __init__(self, size: int, *, partial: bool) -> None:
        self.as_of = -1
        self.bytes = _charge(size)
        self.verdicts: Verdicts | None = None
        self.scores: Ints | None = None
        self.known: Bools | None = np.zeros(size, np.bool_) if partial else None


class Answers:
    """Kept answers of all plugins over one cluster state; `enabled=False` is the plain path."""

    def __init__(
        self,
        state: ClusterState,
        *,
        enabled: bool = True,
        limit_bytes: int = DEFAULT_LIMIT_BYTES,
    ) -> None:
        self._state = state
        self._enabled = enabled
        self._limit = limit_bytes
        self._bytes = 0
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()
        self.rows_asked = 0
        """Rows put to plugins so far: what tests count to see that reuse works."""

    def verdicts(
        self, plugin: FilterPlugin[Any], pod: Pod, nodes: NodeView, state: Any, wanted: Bools
    ) -> Verdicts:
        """The plugin's verdict on every node; per-node plugins answer at least for `wanted`."""
        if plugin.by_node:
            return self._verdicts_by_node(plugin, pod, nodes, state, wanted)
        kept = self._find(plugin, pod, "filter", len(nodes), partial=False)
        if kept is None:
            self.rows_asked += len(nodes)
            return checked_verdicts(plugin, plugin.filter(pod, nodes, state), len(nodes))
        changed = self._changed(plugin, kept)
        if kept.verdicts is None or len(changed) * _REDO_SHARE > len(nodes):
            kept.verdicts = checked_verdicts(plugin, plugin.filter(pod, nodes, state), len(nodes))
            self.rows_asked += len(nodes)
        else:
            kept.verdicts.resize(len(nodes))
            if len(changed):
                newer = plugin.filter(pod, nodes.take(changed), state)
                kept.verdicts.splice(changed, checked_verdicts(plugin, newer, len(changed)))
                self.rows_asked += len(changed)
        kept.as_of = self._state.stamps.generation
        return kept.verdicts

    def scores(
        self, plugin: ScorePlugin[Any], pod: Pod, nodes: NodeView, state: Any, feasible: Rows | None
    ) -> Ints:
        """The plugin's raw scores of the feasible rows (None: of all rows)."""
        if plugin.by_node:
            return self._scores_by_node(plugin, pod, nodes, feasible)
        kept = self._find(plugin, pod, "score", len(nodes), partial=False)
        if kept is None:
            chosen = nodes if feasible is None else nodes.take(feasible)
            self.rows_asked += len(chosen)
            return checked_scores(plugin, plugin.score(pod, chosen, state), len(chosen))
        changed = self._changed(plugin, kept)
        if kept.scores is None or len(changed) * _REDO_SHARE > len(nodes):
            # A copy: a plugin may hand out a column of the cluster state itself.
            kept.scores = checked_scores(plugin, plugin.score(pod, nodes, state), len(nodes)).copy()
            self.rows_asked += len(nodes)
        else:
            kept.scores = _resized(kept.scores, len(nodes))
            if len(changed):
                newer = plugin.score(pod, nodes.take(changed), state)
                kept.scores[changed] = checked_scores(plugin, newer, len(changed))
                self.rows_asked += len(changed)
        kept.as_of = self._state.stamps.generation
        # A copy in any case: what is kept must survive a `normalize` that works in place.
        return kept.scores.copy() if feasible is None else kept.scores[feasible]

    def clear(self) -> None:
        """Forget everything, because other plugins will be asked."""
        self._kept.clear()
        self._bytes = 0

    def _verdicts_by_node(
        self, plugin: FilterPlugin[Any], pod: Pod, nodes: NodeView, state: Any, wanted: Bools
    ) -> Verdicts:
        size = len(nodes)
        kept = self._find(plugin, pod, "filter", size, partial=True)
        if kept is None or kept.known is None:
            found = Verdicts(size)
            rows = np.flatnonzero(wanted)
        else:
            changed = self._changed(plugin, kept)
            kept.known = _resized(kept.known, size)
            kept.known[changed] = False
            found = kept.verdicts = kept.verdicts or Verdicts(size)
            found.resize(size)
            rows = np.flatnonzero(wanted & ~kept.known)
            kept.as_of = self._state.stamps.generation
        if len(rows):
            newer = plugin.filter(pod, nodes.take(rows), state)
            found.splice(rows, checked_verdicts(plugin, newer, len(rows)))
            self.rows_asked += len(rows)
            if kept is not None and kept.known is not None:
                # Only now: a plugin that raised has not answered.
                kept.known[rows] = True
        return found

    def _scores_by_node(
        self, plugin: ScorePlugin[Any], pod: Pod, nodes: NodeView, feasible: Rows | None
    ) -> Ints:
        size = len(nodes)
        wanted = np.arange(size) if feasible is None else feasible
        kept = self._find(plugin, pod, "score", size, partial=True)
        if kept is None or kept.known is None:
            self.rows_asked += len(wanted)
            return checked_scores(plugin, plugin.score(pod, nodes.take(wanted), None), len(wanted))
        changed = self._changed(plugin, kept)
        kept.known = _resized(kept.known, size)
        kept.known[changed] = False
        known = kept.scores = _resized(
            kept.scores if kept.scores is not None else np.zeros(size, np.int64), size
        )
        rows = wanted[~kept.known[wanted]]
        if len(rows):
            newer = plugin.score(pod, nodes.take(rows), None)
            known[rows] = checked_scores(plugin, newer, len(rows))
            kept.known[rows] = True
            self.rows_asked += len(rows)
        kept.as_of = self._state.stamps.generation
        chosen: Ints = known[wanted]
        return chosen

    def _find(
        self, plugin: Plugin, pod: Pod, what: str, size: int, *, partial: bool
    ) -> _Kept | None:
        """The kept answer for a pod's key, made now if it is the first; None if none is kept."""
        # A plugin that names nothing it reads may depend on anything.
        if not self._enabled or not plugin.row_local or not plugin.reads:
            return None
        pod_key = plugin.pod_key(pod)
        if pod_key is None:
            return None
        key = (plugin, what, pod_key)
        kept = self._kept.get(key)
        if kept is None:
            kept = self._kept[key] = _Kept(size, partial=partial)
            self._bytes += kept.bytes
            self._evict()
        else:
            self._kept.move_to_end(key)
            charge = _charge(size)
            if charge != kept.bytes:
                self._bytes += charge - kept.bytes
                kept.bytes = charge
                self._evict()
        return kept

    def _evict(self) -> None:
        while (self._bytes > self._limit and len(self._kept) > 1) or len(self._kept) > MOST_ANSWERS:
            self._bytes -= self._kept.popitem(last=False)[1].bytes

    def _changed(self, plugin: Plugin, kept: _Kept) -> Rows:
        return self._state.stamps.changed_since(plugin.reads, kept.as_of)


def _charge(size: int) -> int:
    # Verdicts take a byte or two per row, scores eight; an estimate is enough here.
    return 9 * size + _ENTRY_BYTES


def _resized(array: Any, size: int) -> Any:
    if len(array) == size:
        return array
    if len(array) > size:
        return array[:size].copy()
    return np.concatenate([array, np.zeros(size - len(array), array.dtype)])
