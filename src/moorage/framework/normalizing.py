"""Upstream's default way to bring scores to 0..100."""

import numpy as np

from moorage.cluster.columns import Ints
from moorage.framework.plugin import MAX_NODE_SCORE


def normalize_to_max(scores: Ints, *, reverse: bool = False) -> Ints:
    """Scale in place so that the largest becomes 100; `reverse` turns "more" into "worse"."""
    largest = int(scores.max()) if len(scores) else 0
    if largest == 0:
        if reverse:
            scores.fill(MAX_NODE_SCORE)
        return scores
    # Scores here are never negative, so NumPy's floor division equals Go's truncation.
    scores *= MAX_NODE_SCORE
    scores //= largest
    return np.subtract(MAX_NODE_SCORE, scores, out=scores) if reverse else scores
