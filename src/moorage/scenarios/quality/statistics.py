"""Numbers about numbers: percentiles, means with confidence intervals, Jain's index."""

import math
from collections.abc import Iterable, Sequence
from statistics import mean, stdev
from typing import NamedTuple

_T_975 = (
    *(12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157),
    *(2.228139, 2.200985, 2.178813, 2.160369, 2.144787, 2.131450, 2.119905, 2.109816, 2.100922),
    *(2.093024, 2.085963, 2.079614, 2.073873, 2.068658, 2.063899, 2.059539, 2.055529, 2.051831),
    *(2.048407, 2.045230, 2.042272),
)
"""What 97.5 % of Student's t distribution are below, for 1 to 30 degrees of freedom."""
_Z_975 = 1.959964


class Estimate(NamedTuple):
    """A mean, and how far it can be relied on."""

    mean: float
    plus_minus: float | None
    """Half the width of the 95 % confidence interval; None: one value says nothing of it."""


def t_quantile(freedom: int) -> float:
    """97.5 % of Student's t distribution with so many degrees of freedom are below."""
    if freedom <= len(_T_975):
        return _T_975[freedom - 1]
    z, v = _Z_975, float(freedom)  # the first terms of Fisher's expansion
    return (
        z
        + (z**3 + z) / (4 * v)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3)
    )


def estimate(values: Sequence[float]) -> Estimate:
    """The mean of independent values."""
    if len(values) < 2:
        return Estimate(mean(values), None)
    return Estimate(
        mean(values), t_quantile(len(values) - 1) * stdev(values) / math.sqrt(len(values))
    )


def percentiles(values: Iterable[float]) -> dict[str, float | None]:
    """The mean, and what half, nine and 99 of a hundred stay within (the nearest rank)."""
    ordered = sorted(values)
    if not ordered:
        return dict.fromkeys(("mean", "p50", "p90", "p99"))
    found: dict[str, float | None] = {"mean": short(math.fsum(ordered) / len(ordered))}
    for percent in (50, 90, 99):
        rank = -(-len(ordered) * percent // 100)
        found[f"p{percent}"] = short(ordered[max(rank, 1) - 1])
    return found


def jain(values: Sequence[float]) -> float | None:
    """Jain's index of fairness: 1 if all have the same, 1/n if one of n has everything."""
    squares = math.fsum(value * value for value in values)
    return math.fsum(values) ** 2 / (len(values) * squares) if squares else None


def short(value: float) -> float:
    """To the microsecond: what is further behind is noise."""
    return round(value, 6)
