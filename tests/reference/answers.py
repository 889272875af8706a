"""What a naive plugin answers; only plain values, so that nothing is shared with the product."""

from enum import Enum
from typing import NamedTuple

UNSCHEDULABLE = "Unschedulable"
UNRESOLVABLE = "UnschedulableAndUnresolvable"

Labels = dict[str, str]


class Refusal(NamedTuple):
    """Why a node (or the pod as a whole) is refused."""

    code: str
    reasons: tuple[str, ...]


class Skip(Enum):
    """The plugin has nothing to say about the pod."""

    SKIP = "skip"


SKIP = Skip.SKIP


def truncated(dividend: int, divisor: int) -> int:
    """Go's integer division."""
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend >= 0) == (divisor >= 0) else -quotient


def to_largest(scores: dict[str, int], *, reverse: bool) -> dict[str, int]:
    """The default normalising: the largest becomes 100, or 0 when reversed."""
    largest = max([0, *scores.values()])
    if largest == 0:
        return dict.fromkeys(scores, 100) if reverse else dict(scores)
    scaled = {name: truncated(100 * score, largest) for name, score in scores.items()}
    return {name: 100 - score for name, score in scaled.items()} if reverse else scaled
