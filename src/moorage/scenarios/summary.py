"""What the runs of one scheduler have in common: means, and how far they can be relied on."""

from collections.abc import Iterator, Mapping, Sequence

from moorage.controllers.objects import Json
from moorage.scenarios.quality.statistics import Estimate, estimate, short

_NO_MEASURES = frozenset(("seed", "samples", "namespaces", "priorityClasses", "labels"))


def measures_of(run: Json) -> Mapping[str, float]:
    """Every number of a run by its path in the result, such as `waitingSeconds.p90`."""
    return {
        path: value
        for name, part in run.items()
        if name not in _NO_MEASURES
        for path, value in _numbers(name, part)
    }


def summary(runs: Sequence[Json]) -> Json:
    """Each measure's mean over the runs, and half the width of its 95 % confidence interval."""
    values: dict[str, list[float]] = {}
    for run in runs:
        for name, value in measures_of(run).items():
            values.setdefault(name, []).append(value)
    return {name: _told(estimate(each)) for name, each in values.items()}


def _numbers(path: str, part: object) -> Iterator[tuple[str, float]]:
    if isinstance(part, Mapping):
        for name, inner in part.items():
            yield from _numbers(f"{path}.{name}", inner)
    elif isinstance(part, int | float):
        yield path, part


def _told(found: Estimate) -> Json:
    spread = found.plus_minus
    return {"mean": short(found.mean), "plusMinus": None if spread is None else short(spread)}
