"""The three strategies of NodeResourcesFit, over columns.

The arithmetic that the plugin is configured with. A resource that a node
does not offer at all takes no part in that node's score.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from moorage.cluster.columns import Bools, Ints
from moorage.cluster.derived import Floats
from moorage.framework.plugin import MAX_NODE_SCORE
from moorage.framework.scores import broken_line

_MAX_SHAPE_SCORE = 10
_FULL = 100


class NodeShares(NamedTuple):
    """One resource: what would be requested of what is there, on every node."""

    requested: Ints
    allocatable: Ints
    weight: int


Scorer = Callable[[Sequence[NodeShares]], Ints]

RowShare = tuple[int, int, int]
"""The same of a plain resource for one node: requested, allocatable, weight."""

RowScorer = Callable[[Sequence[RowShare]], int]

PlainScorer = Callable[[Floats, Sequence[int], Sequence[int]], Ints]
"""What is used of plain resources on every node and what is allocatable, in one array; what a pod
would take; weights."""


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


def plain_scorer(strategy: Any) -> PlainScorer | None:
    """The same for plain resources; None if the strategy has no such scorer."""
    match strategy.type:
        case "LeastAllocated":
            return least_allocated_of_plain
        case "MostAllocated":
            return most_allocated_of_plain
        case _:
            return None


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
        return _percent(np.maximum(left, 0, out=left), share.allocatable)

    return _weighted_mean(shares, free)


def most_allocated(shares: Sequence[NodeShares]) -> Ints:
    """The fuller the better."""

    def used(share: NodeShares) -> Ints:
        return _percent(np.minimum(share.requested, share.allocatable), share.allocatable)

    return _weighted_mean(shares, used)


def least_allocated_row(shares: Sequence[RowShare]) -> int:
    """`least_allocated` for one node."""
    total = weights = 0
    for requested, allocatable, weight in shares:
        if requested < allocatable:
            total += (allocatable - requested) * MAX_NODE_SCORE // allocatable * weight
        weights += weight
    return total // (weights or 1)


def most_allocated_row(shares: Sequence[RowShare]) -> int:
    """`most_allocated` for one node."""
    total = weights = 0
    for requested, allocatable, weight in shares:
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


def _percent(amount: Ints, allocatable: Ints) -> Ints:
    """The share of an amount in what is allocatable, in percent, rounded down."""
    return amount * MAX_NODE_SCORE // np.maximum(allocatable, 1)


def _weighted_mean(shares: Sequence[NodeShares], measure: Callable[[NodeShares], Ints]) -> Ints:
    total: Ints = np.zeros(len(shares[0].requested), np.int64)
    weights: Ints = np.zeros(len(total), np.int64)
    for share in shares:
        offered = share.allocatable != 0
        total += np.where(offered, measure(share) * share.weight, 0)
        weights += np.where(offered, share.weight, 0)
    return total // np.maximum(weights, 1)


def least_allocated_of_plain(usage: Floats, wanted: Sequence[int], weights: Sequence[int]) -> Ints:
    """`least_allocated` for plain resources, in fewer and faster passes."""
    taken, total = _taken(usage, wanted)
    return _mean_percent(np.subtract(total, taken, out=taken), total, weights)


def most_allocated_of_plain(usage: Floats, wanted: Sequence[int], weights: Sequence[int]) -> Ints:
    """`most_allocated` for plain resources."""
    return _mean_percent(*_taken(usage, wanted), weights)


def _taken(usage: Floats, wanted: Sequence[int]) -> tuple[Floats, Floats]:
    """What would be used of each resource, at most all of it, and what is allocatable."""
    used, total = usage[: len(wanted)], usage[len(wanted) :]
    taken = used + np.array(wanted, np.float64)[:, None]
    return np.minimum(taken, total, out=taken), total


def _mean_percent(amounts: Floats, total: Floats, weights: Sequence[int]) -> Ints:
    """The weighted mean of the amounts in percent, each rounded down; it overwrites them."""
    amounts *= MAX_NODE_SCORE
    amounts /= total
    np.floor(amounts, out=amounts)
    if any(weight != 1 for weight in weights):
        amounts *= np.array(weights, np.float64)[:, None]
    mean: Floats = amounts[0]
    for more in amounts[1:]:
        mean += more
    mean /= sum(weights) or 1
    return mean.astype(np.int64)
