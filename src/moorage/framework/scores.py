"""What a plugin's answer comes down to, where that is less than a number per node.

Owns the range of scores, the usual ways to bring them into it, and the forms in which a plugin can
tell scores and refusals in short, for whoever keeps them: a ledger writes down a few numbers then
instead of comparing thousands. A digest never takes the place of the answers themselves.
"""

from enum import IntEnum
from typing import NamedTuple

import msgspec
import numpy as np

from moorage.cluster.columns import Codes, Ints

LARGEST_SCORE = 100

_FEW_VALUES = 4096


class Way(IntEnum):
    """How raw scores become 0..100. Ledgers hold the numbers, so they keep their meaning."""

    STRETCH = 0
    """`low` becomes 0, `high` 100, what is outside is cut; all 0 if both are equal."""
    INVERSE = 1
    """Less is better: `low` becomes 100, the share of `high` above it is taken off."""


class Scale(NamedTuple):
    """How raw scores become 0..100, where no more than two of them matter."""

    way: Way
    low: int
    high: int
    """The smallest and the largest raw score of the nodes that count."""

    def normalized(self, raw: Ints) -> Ints:
        """The scores of nodes; of those that do not count they may be out of range."""
        if self.way is Way.INVERSE:
            if not self.high:
                return np.full_like(raw, LARGEST_SCORE)
            return LARGEST_SCORE * (self.high + self.low - raw) // self.high
        most = self.high - self.low
        if not most:
            return np.zeros(len(raw), np.int64)
        above: Ints = raw - self.low
        if most > _FEW_VALUES or most > len(raw):
            return _stretched(above.clip(0, most), most)
        # There are fewer values than nodes: work each out once.
        return _stretched(np.arange(most + 1), most).take(above, mode="clip")


ALL_ALIKE = Scale(Way.STRETCH, 0, 0)
"""Raw scores that are all the same, whichever they are: 0."""


def _stretched(above: Ints, most: int) -> Ints:
    # Division before multiplication, in floats, then truncation: upstream's order.
    return (float(LARGEST_SCORE) * (above / float(most))).astype(np.int64)


Patches = list[int]
"""What changed from pod to pod in an array over all nodes: rows and their new values by turns.

In the order of the changes; none is left out. The list only grows; if more changed than is worth a
list, it is another one.
"""


class RefusalDigest(msgspec.Struct, frozen=True, kw_only=True):
    """A state of `pre_filter` that tells `refused` in short.

    It holds until the plugin is asked about another pod; Reserve must not change it.
    """

    patches: Patches | None = None
    """What has changed in the answers about all nodes; None if that is not known."""


class ScoreDigest(msgspec.Struct, frozen=True, kw_only=True):
    """A state of `pre_score` that tells the scores in short: by domain, or by what changed.

    It holds until the plugin is asked about another pod; Reserve must not change it.
    """

    scale: Scale | None = None
    """How raw scores are normalised; None: nothing is told in short."""
    table: Ints | None = None
    """The raw scores by the codes of a label with few values, if they follow from it alone: ..."""
    codes: Codes | None = None
    """... these codes (`NodeView.label`, of the whole cluster). If a node's code changes, ..."""
    labelled: int = -1
    """... they are another array, or this is another number: when labels last changed."""
    everywhere: Ints | None = None
    """Otherwise the raw scores of all nodes, if the plugin keeps them, ..."""
    patches: Patches | None = None
    """... and what has changed in them."""
