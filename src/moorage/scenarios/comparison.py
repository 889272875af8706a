"""Two schedulers side by side: the same seeds, so what differs between the runs is their doing."""

from collections.abc import Sequence

from moorage.controllers.objects import Json
from moorage.scenarios.quality.statistics import estimate, short
from moorage.scenarios.summary import measures_of


def comparisons(schedulers: Sequence[Json]) -> list[Json]:
    """Every scheduler but the first compared with the first."""
    return [
        {
            "name": other["name"],
            "with": schedulers[0]["name"],
            "differences": differences(schedulers[0]["runs"], other["runs"]),
        }
        for other in schedulers[1:]
    ]


def differences(runs: Sequence[Json], others: Sequence[Json]) -> Json:
    """By how much `others` have more of each measure: the mean over the seeds, and its interval.

    `seen`: the 95 % confidence interval does not contain 0; None: one seed says nothing of it.
    """
    pairs = {run["seed"]: measures_of(run) for run in runs}
    values: dict[str, list[float]] = {}
    for other in others:
        before = pairs.get(other["seed"], {})
        for name, value in measures_of(other).items():
            if name in before:
                values.setdefault(name, []).append(value - before[name])
    return {name: _told(each) for name, each in values.items()}


def _told(values: Sequence[float]) -> Json:
    mean, spread = estimate(values)
    return {
        "mean": short(mean),
        "plusMinus": None if spread is None else short(spread),
        "seen": None if spread is None else abs(short(mean)) > short(spread),
    }
