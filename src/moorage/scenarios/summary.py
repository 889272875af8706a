"""What the runs of one scheduler have in common: means, and how far they can be relied on."""

import math
from collections.abc import Callable, Mapping
from statistics import mean, stdev

from moorage.controllers.objects import Json

_SUMMED_UP: Mapping[str, Callable[[Json], float | None]] = {
    "placed": lambda run: run["pods"]["placed"],
    "pending": lambda run: run["pods"]["pending"],
    "preempted": lambda run: run["pods"]["preempted"],
    "waitingP50": lambda run: run["waitingSeconds"]["p50"],
    "waitingP90": lambda run: run["waitingSeconds"]["p90"],
    "waitingP99": lambda run: run["waitingSeconds"]["p99"],
    "completionP50": lambda run: run["completionSeconds"]["p50"],
    "makespan": lambda run: run["makespanSeconds"],
    "cpuMean": lambda run: run["allocation"]["cpu"]["mean"],
    "memoryMean": lambda run: run["allocation"]["memory"]["mean"],
    "imbalance": lambda run: run["imbalance"],
}


def summary(runs: list[Json]) -> Json:
    """Each measure's mean over the runs, and half the width of its 95 % confidence interval."""
    found: Json = {}
    for name, take in _SUMMED_UP.items():
        values = [value for run in runs if (value := take(run)) is not None]
        if not values:
            found[name] = None
            continue
        spread = 1.96 * stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0
        found[name] = {"mean": round(mean(values), 6), "plusMinus": round(spread, 6)}
    return found
