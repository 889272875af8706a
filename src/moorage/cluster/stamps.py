"""When did each part of each row last change?

One generation counter, never reset, and one stamp per aspect and row. Whoever keeps a derived
column remembers the generation it is true for and asks what changed since; nobody has to register.

Beside the stamps there is a log of the latest changes. It answers the most frequent question, what
changed since a moment ago, without a look at every row; where it does not reach back far enough the
stamps do.
"""

from collections.abc import Iterable, Sequence
from enum import IntEnum

import numpy as np

from moorage.cluster.columns import Column, Ints, Rows, RowSpace


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


_LONGEST_LOG = 4096

Change = tuple[int, int]
"""A row, and the aspects of it that changed, as bits (`1 << aspect`)."""


def bits_of(aspects: Iterable[Aspect]) -> int:
    """Aspects as bits, to be compared with those of a `Change`."""
    bits = 0
    for aspect in aspects:
        bits |= 1 << aspect
    return bits


_ALL = bits_of(Aspect)


class Stamps:
    """A stamp per aspect and row; `generation` is the newest of them."""

    def __init__(self, space: RowSpace) -> None:
        self.generation = 0
        self._rows: list[Column[np.int64]] = [space.column(np.int64) for _ in Aspect]
        self._latest = [0] * len(Aspect)
        self._aspects: dict[int, tuple[int, ...]] = {}
        """Bits taken apart."""
        self._log: list[Change] = []
        """The change of generation `g` is at `g - self._before - 1`."""
        self._before = 0

    def touch(self, row: int, aspects: Iterable[Aspect]) -> None:
        """Note a change of one row."""
        self.touch_bits(row, bits_of(aspects))

    def touch_bits(self, row: int, bits: int) -> None:
        """The same with the aspects as bits."""
        self.generation = generation = self.generation + 1
        rows, latest = self._rows, self._latest
        for aspect in self._aspects.get(bits) or self._aspects_of(bits):
            rows[aspect].cells[row] = generation
            latest[aspect] = generation
        self._note(row, bits)

    def _aspects_of(self, bits: int) -> tuple[int, ...]:
        aspects = tuple(aspect.value for aspect in Aspect if bits >> aspect & 1)
        self._aspects[bits] = aspects
        return aspects

    def _note(self, row: int, bits: int) -> None:
        log = self._log
        if len(log) >= _LONGEST_LOG:
            del log[: _LONGEST_LOG // 2]
            self._before += _LONGEST_LOG // 2
        log.append((row, bits))

    def touch_all_aspects(self, row: int) -> None:
        """Another node has taken this row: nothing known of it holds any more."""
        self.touch_bits(row, _ALL)

    def touch_membership(self) -> None:
        """A node came or went; removing the last row stamps no surviving row, hence this."""
        self.generation += 1
        self._latest[Aspect.MEMBERSHIP] = self.generation
        self._note(0, 0)

    def latest(self, aspect: Aspect) -> int:
        """The generation in which an aspect last changed anywhere."""
        return self._latest[aspect]

    def unchanged(self, aspects: Iterable[Aspect], since: int) -> bool:
        """Did none of the aspects change anywhere after a generation?"""
        latest = self._latest
        for aspect in aspects:  # noqa: SIM110  # `all` with a generator takes four times as long
            if latest[aspect] > since:
                return False
        return True

    def of(self, aspect: Aspect) -> Ints:
        """The generation in which each row last changed in an aspect, or became another node's."""
        return self._rows[aspect].values

    def log_since(self, generation: int) -> list[Change] | None:
        """The changes after `generation` in their order; None if they are not remembered.

        Rows mean the same as before only if `latest(MEMBERSHIP)` is not newer.
        """
        start = generation - self._before
        return self._log[start:] if start >= 0 else None

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
