"""The three strategies of NodeResourcesFit, over columns.

The arithmetic that the plugin is configured with. A resource that a node
does not offer at all takes no part in that node's score.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np

from moorage.cluster.columns import Bools, Ints
from moorage.framework.broken_line import broken_line
from moorage.framework.plugin import MAX_NODE_SCORE

_MAX_SHAPE_SCORE = 10
_FULL = 100
_EXACT = 2**45


class NodeShares(msgspec.Struct, frozen=True):
    """One resource: what would be requested of what is there, on every node."""

    requested: Ints
    allocatable: Ints
    weight: int
    bounds: tuple[int, int] | None = None
    """Nothing that is allocatable lies outside of these, if they are known."""

    @property
    def is_simple(self) -> bool:
        """Does every node offer some, and can it be counted in floats? See `_percent`."""
        if self.bounds is None:
            return False
        low, high = self.bounds
        return low > 0 and high < _EXACT


Scorer = Callable[[Sequence[NodeShares]], Ints]

RowShare = tuple[int, int, int]
"""The same for one node: requested, allocatable, weight."""

RowScorer = Callable[[Sequence[RowShare]], int]


def strategy_scorer(strategy: Any) -> Scorer:
    """The scorer that a `scoringStrategy` describes."""
    match strategy.type:
        case "LeastAllocated":
            return least_allocated
        case "MostAllocated":
            return most_allocated
        case _:
            shape = [
                (point.utilization, point.score * (MAX_NODE_SCORE // _MAX_SHAPE_SCORE))
                for point in strategy.requested_to_capacity_ratio.shape
            ]
            return requested_to_capacity_ratio(shape)


def row_scorer(strategy: Any) -> RowScorer | None:
    """The same for one node in plain integers; None where that would not be simpler."""
    match strategy.type:
        case "LeastAllocated":
            return least_allocated_row
        case "MostAllocated":
            return most_allocated_row
        case _:
            return None


def least_allocated(shares: Sequence[NodeShares]) -> Ints:
    """The emptier the better."""

    def free(share: NodeShares) -> Ints:
        left: Ints = share.allocatable - share.requested
        return _percent(np.maximum(left, 0, out=left), share)

    return _weighted_mean(shares, free)


def most_allocated(shares: Sequence[NodeShares]) -> Ints:
    """The fuller the better."""

    def used(share: NodeShares) -> Ints:
        return _percent(np.minimum(share.requested, share.allocatable), share)

    return _weighted_mean(shares, used)


def least_allocated_row(shares: Sequence[RowShare]) -> int:
    """`least_allocated` for one node."""
    total = weights = 0
    for requested, allocatable, weight in shares:
        if allocatable:
            if requested < allocatable:
                total += (allocatable - requested) * MAX_NODE_SCORE // allocatable * weight
            weights += weight
    return total // (weights or 1)


def most_allocated_row(shares: Sequence[RowShare]) -> int:
    """`most_allocated` for one node."""
    total = weights = 0
    for requested, allocatable, weight in shares:
        if allocatable:
            taken = requested if requested < allocatable else allocatable
            total += taken * MAX_NODE_SCORE // allocatable * weight
            weights += weight
    return total // (weights or 1)


def requested_to_capacity_ratio(shape: Sequence[tuple[int, int]]) -> Scorer:
    """A broken line over utilisation; resources that score 0 do not count in the mean."""
    table = np.array([broken_line(shape, percent) for percent in range(_FULL + 1)], np.int64)

    def score(shares: Sequence[NodeShares]) -> Ints:
        total: Ints = np.zeros(len(shares[0].requested), np.int64)
        weights: Ints = np.zeros(len(total), np.int64)
        for share in shares:
            over = share.requested > share.allocatable
            percent = share.requested * _FULL // np.maximum(share.allocatable, 1)
            # Amounts near 2**63 wrap around, as upstream's do; the table has no place for them.
            points = table[np.where(over, _FULL, percent.clip(0, _FULL))]
            counts: Bools = (share.allocatable != 0) & (points > 0)
            total += np.where(counts, points * share.weight, 0)
            weights += np.where(counts, share.weight, 0)
        mean = total / np.maximum(weights, 1)
        whole = np.floor(mean)
        # Go rounds halves away from zero, NumPy to even; the mean is never negative.
        return (whole + (mean - whole >= 0.5)).astype(np.int64)

    return score


def _percent(amount: Ints, share: NodeShares) -> Ints:
    """The share of an amount in what is allocatable, in percent, rounded down."""
    # As unsigned numbers negative ones are huge, so one reduction tests both ends.
    if share.is_simple and len(amount) and int(amount.view(np.uint64).max()) < _EXACT:
        # As floats a division is several times faster. With numbers below 2**45 the quotient is
        # further from the next whole number than it can be rounded.
        percent = amount * float(MAX_NODE_SCORE)
        percent /= share.allocatable
        return percent.astype(np.int64)
    return amount * MAX_NODE_SCORE // np.maximum(share.allocatable, 1)


def _weighted_mean(shares: Sequence[NodeShares], measure: Callable[[NodeShares], Ints]) -> Ints:
    if all(share.is_simple for share in shares):
        # The usual case: every node offers all of them.
        sums: Ints = np.zeros(len(shares[0].requested), np.int64)
        for share in shares:
            measured = measure(share)
            sums += measured if share.weight == 1 else measured * share.weight
        return sums // (sum(share.weight for share in shares) or 1)
    total: Ints = np.zeros(len(shares[0].requested), np.int64)
    weights: Ints = np.zeros(len(total), np.int64)
    for share in shares:
        offered = share.allocatable != 0
        total += np.where(offered, measure(share) * share.weight, 0)
        weights += np.where(offered, share.weight, 0)
    return total // np.maximum(weights, 1)
