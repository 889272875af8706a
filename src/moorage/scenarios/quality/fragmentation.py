"""What is free but of no use: room on nodes where the usual pods do not fit, and for want of what.

Owns the usual pods of a run, too. Looks at resources only, not at taints or affinity.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moorage.cluster.columns import Ints
from moorage.cluster.derived import Floats
from moorage.model.resources import Resources

_MOST_SHAPES = 20


class Shapes(NamedTuple):
    """What the usual pods ask for: a row for each shape, a column for each resource."""

    requests: Ints
    weights: Floats
    """Shares of all pods."""


def usual_shapes(requests: Iterable[Resources], resources: Sequence[str]) -> Shapes:
    """The most frequent requests."""
    counts = Counter(tuple(one.get(name, 0) for name in resources) for one in requests)
    # Of equally frequent ones the smaller: the order must not depend on who came first.
    usual = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_MOST_SHAPES]
    weights = np.array([count for _, count in usual], np.float64)
    table = np.array([shape for shape, _ in usual], np.int64).reshape(-1, len(resources))
    return Shapes(table, weights / max(weights.sum(), 1.0))


class Unusable(NamedTuple):
    """Amounts of each resource that are free in vain."""

    amount: Floats
    """By resource."""
    because: Floats
    """By resource, and by the resource that is short."""


def unusable(free: Ints, shapes: Shapes) -> Unusable:
    """What is free on nodes (rows) that a pod asks for but cannot have, the mean over the pods.

    A pod that does not fit leaves all that it asks for unused there. Where several resources are
    short, each has an equal part in it.
    """
    asks: Floats = (shapes.requests > 0).astype(np.float64)
    short: NDArray[np.bool_] = shapes.requests[:, None, :] > free[None, :, :]
    parts = short / np.maximum(short.sum(axis=2, keepdims=True), 1)
    room = np.maximum(free, 0)
    because = np.einsum("s,snc,nr,sr->rc", shapes.weights, parts, room, asks, optimize=True)
    return Unusable(because.sum(axis=1), because)


def by_name(values: Floats, names: Sequence[str], digits: int = 6) -> Mapping[str, float]:
    """Those that are not zero."""
    rounded = (round(float(value), digits) for value in values)
    return {name: value for name, value in zip(names, rounded, strict=True) if value}
