"""What scores of several plugins have in common: scaling to 0..100, and broken lines."""

from collections.abc import Sequence

import numpy as np

from moorage.cluster.columns import Ints
from moorage.framework.plugin import MAX_NODE_SCORE


def normalize_to_max(scores: Ints, *, reverse: bool = False) -> Ints:
    """Scale in place so that the largest becomes 100; `reverse` turns "more" into "worse"."""
    largest = int(scores[scores.argmax()]) if len(scores) else 0
    if largest == 0:
        if reverse:
            scores.fill(MAX_NODE_SCORE)
        return scores
    # Scores here are never negative, so NumPy's floor division equals Go's truncation.
    scores *= MAX_NODE_SCORE
    if largest != 1:
        scores //= largest
    return np.subtract(MAX_NODE_SCORE, scores, out=scores) if reverse else scores


def broken_line(points: Sequence[tuple[int, int]], x: int) -> int:
    """The value of a line through points, as profiles describe scores over utilisation.

    It is flat beyond its ends; divisions truncate toward zero, as Go's do.
    """
    previous = points[0]
    for point in points:
        if x <= point[0]:
            if point is points[0]:
                return point[1]
            rise = (point[1] - previous[1]) * (x - previous[0])
            run = point[0] - previous[0]
            return previous[1] + (rise // run if rise >= 0 else -(-rise // run))
        previous = point
    return points[-1][1]
