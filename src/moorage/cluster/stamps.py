"""When did each part of each row last change?

One generation counter, never reset, and one stamp per aspect and row. Whoever keeps a derived
column remembers the generation it is true for and asks what changed since; nobody has to register,
and there are no change lists to trim.
"""

from collections.abc import Iterable, Sequence
from enum import IntEnum

import numpy as np

from moorage.cluster.columns import Column, Rows, RowSpace


class Aspect(IntEnum):
    """Parts of cluster state that change on their own; each keeps one stamp per row."""

    MEMBERSHIP = 0
    ALLOCATABLE = 1
    REQUESTED = 2
    LABELS = 3
    TAINTS = 4
    IMAGES = 5
    PORTS = 6
    PODS = 7
    VOLUMES = 8
    FEATURES = 9


class Stamps:
    """A stamp per aspect and row; `generation` is the newest of them."""

    def __init__(self, space: RowSpace) -> None:
        self.generation = 0
        self._rows: list[Column[np.int64]] = [space.column(np.int64) for _ in Aspect]
        self._latest = [0] * len(Aspect)

    def touch(self, row: int, aspects: Iterable[Aspect]) -> None:
        """Note a change of one row."""
        self.generation += 1
        for aspect in aspects:
            self._rows[aspect].data[row] = self.generation
            self._latest[aspect] = self.generation

    def touch_all_aspects(self, row: int) -> None:
        """Another node has taken this row: nothing known of it holds any more."""
        self.touch(row, Aspect)

    def touch_membership(self) -> None:
        """A node came or went; removing the last row stamps no surviving row, hence this."""
        self.generation += 1
        self._latest[Aspect.MEMBERSHIP] = self.generation

    def latest(self, aspect: Aspect) -> int:
        """The generation in which an aspect last changed anywhere."""
        return self._latest[aspect]

    def changed_since(self, aspects: Sequence[Aspect], generation: int) -> Rows:
        """The rows that changed after `generation` in any aspect, or are another node's now."""
        changed = None
        for aspect in (Aspect.MEMBERSHIP, *aspects):
            if self._latest[aspect] > generation:
                newer = self._rows[aspect].values > generation
                changed = newer if changed is None else changed | newer
        if changed is None:
            return np.empty(0, np.intp)
        return np.flatnonzero(changed)
