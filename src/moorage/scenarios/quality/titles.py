"""What tables and reports call the measures, which of them they show, and in which unit."""

from collections.abc import Sequence
from typing import NamedTuple

from moorage.controllers.objects import Json


class Row(NamedTuple):
    """A measure as it is shown."""

    title: str
    name: str
    """Its path in the result."""
    unit: int = 1
    """What it is multiplied with."""


_ROWS = (
    Row("pods placed", "pods.placed"),
    Row("pods pending in the end", "pods.pending"),
    Row("pods preempted", "pods.preempted"),
    Row("pods evicted", "pods.evicted"),
    Row("pods moved", "pods.moved"),
    Row("waiting p50, s", "waitingSeconds.p50"),
    Row("waiting p90, s", "waitingSeconds.p90"),
    Row("waiting p99, s", "waitingSeconds.p99"),
    Row("completion p50, s", "completionSeconds.p50"),
    Row("makespan, s", "makespanSeconds"),
    Row("fairness", "fairness"),
    Row("nodes, mean", "nodes.mean"),
    Row("cost", "cost"),
)
_BY_RESOURCE = (
    Row("{} allocated, mean %", "allocation.{}.mean", 100),
    Row("{} used, mean %", "utilisation.{}.mean", 100),
    Row("{} free in vain, %", "fragmentation.{}.mean", 100),
    Row("imbalance of {}, %", "imbalance.{}", 100),
    Row("zones' skew of {}, %", "zoneSkew.{}", 100),
)
_TITLES = {"cpu": "CPU"}
_BEFORE, _AFTER = "allocation.", ".mean"


def rows_of(result: Json) -> Sequence[Row]:
    """The measures worth showing: those that some run has, of resources that pods ask for."""
    known: dict[str, float] = {}
    for scheduler in result["schedulers"]:
        for name, value in scheduler["summary"].items():
            known[name] = max(known.get(name, 0.0), value["mean"])
    asked = sorted(
        name.removeprefix(_BEFORE).removesuffix(_AFTER)
        for name, mean in known.items()
        if mean and name.startswith(_BEFORE) and name.endswith(_AFTER)
    )
    by_resource = (
        Row(row.title.format(_TITLES.get(one, one)), row.name.format(one), row.unit)
        for row in _BY_RESOURCE
        for one in asked
        if one != "pods"
    )
    return [row for row in (*_ROWS, *by_resource) if row.name in known]
