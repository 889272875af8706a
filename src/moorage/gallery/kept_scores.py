"""Scores that are kept for equal pods, and worked out again only for nodes that changed.

For policies whose scores take long and depend on the node alone. The engine keeps answers, too, but
for few kinds of pods at a time (`framework.fast_path`): shared GPUs are asked for in hundreds of
sizes.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from weakref import ref

import numpy as np

from moorage.cluster.columns import Ints
from moorage.cluster.stamps import Aspect, Stamps
from moorage.cluster.view import NodeView

MOST_KINDS = 512
"""For so many kinds of pods scores are kept."""


class KeptScores:
    """Scores by kind of pod and row of the cluster."""

    def __init__(self, aspects: Sequence[Aspect]) -> None:
        """`aspects` are what the scores depend on."""
        self._aspects = aspects
        self._kinds: OrderedDict[Hashable, tuple[Ints, Ints]] = OrderedDict()
        """Per row the score, and the stamp of what it was worked out from; -1: never."""
        self._stamps: ref[Stamps] | None = None

    def __len__(self) -> int:
        return len(self._kinds)

    def of(self, kind: Hashable, nodes: NodeView, score: Callable[[NodeView], Ints]) -> Ints:
        """The scores of a view's nodes; `score` works out those that are not known."""
        stamps = nodes.stamps_of(self._aspects[0])
        for aspect in self._aspects[1:]:
            stamps = np.maximum(stamps, nodes.stamps_of(aspect))
        if (stamps < 0).any():  # a what-if
            return score(nodes)
        rows = nodes.rows
        scores, as_of = self._column(kind, nodes)
        stale = np.flatnonzero(as_of[rows] != stamps)
        if len(stale):
            some = nodes if len(stale) == len(nodes) else nodes.take(stale)
            scores[rows[stale]] = score(some)
            as_of[rows[stale]] = stamps[stale]
        return scores[rows]

    def _column(self, kind: Hashable, nodes: NodeView) -> tuple[Ints, Ints]:
        size = len(nodes.whole)
        if self._stamps is None or self._stamps() is not nodes.stamps:
            self._kinds.clear()  # another cluster
            self._stamps = ref(nodes.stamps)
        column = self._kinds.get(kind)
        if column is None or len(column[0]) != size:
            column = np.zeros(size, np.int64), np.full(size, -1, np.int64)
            self._kinds[kind] = column
            if len(self._kinds) > MOST_KINDS:
                self._kinds.popitem(last=False)
        self._kinds.move_to_end(kind)
        return column
