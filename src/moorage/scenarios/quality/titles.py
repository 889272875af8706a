"""What tables and reports call the measures, which of them they show, and in which unit."""

from collections.abc import Sequence
from typing import NamedTuple

from moorage.controllers.objects import Json


class MeasureRow(NamedTuple):
    """A measure as it is shown."""

    title: str
    name: str
    """Its path in the result."""
    unit: int = 1
    """What it is multiplied with."""


_ROWS = (
    MeasureRow("pods placed", "pods.placed"),
    MeasureRow("pods pending in the end", "pods.pending"),
    MeasureRow("pods preempted", "pods.preempted"),
    MeasureRow("pods evicted", "pods.evicted"),
    MeasureRow("pods moved", "pods.moved"),
    MeasureRow("waiting p50, s", "waitingSeconds.p50"),
    MeasureRow("waiting p90, s", "waitingSeconds.p90"),
    MeasureRow("waiting p99, s", "waitingSeconds.p99"),
    MeasureRow("completion p50, s", "completionSeconds.p50"),
    MeasureRow("makespan, s", "makespanSeconds"),
    MeasureRow("fairness", "fairness"),
    MeasureRow("nodes, mean", "nodes.mean"),
    MeasureRow("fewest nodes in the end", "fewestNodes"),
    MeasureRow("cost", "cost"),
    MeasureRow("placed as recorded", "recorded.same"),
    MeasureRow("ties with the recording", "recorded.tie"),
    MeasureRow("other than recorded", "recorded.different"),
    MeasureRow("what follows from that", "recorded.follows"),
)
_BY_RESOURCE = (
    MeasureRow("{} allocated, mean %", "allocation.{}.mean", 100),
    MeasureRow("{} used, mean %", "utilisation.{}.mean", 100),
    MeasureRow("{} free in vain, %", "fragmentation.{}.mean", 100),
    MeasureRow("imbalance of {}, %", "imbalance.{}", 100),
    MeasureRow("zones' skew of {}, %", "zoneSkew.{}", 100),
)
_TITLES = {"cpu": "CPU"}
_BEFORE, _AFTER = "allocation.", ".mean"


def rows_of(result: Json) -> Sequence[MeasureRow]:
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
        MeasureRow(row.title.format(_TITLES.get(one, one)), row.name.format(one), row.unit)
        for row in _BY_RESOURCE
        for one in asked
        if one != "pods"
    )
    return [row for row in (*_ROWS, *by_resource) if row.name in known]


def figure(value: Json | None, row: MeasureRow) -> str:
    """A mean and its interval, as tables show them."""
    if value is None:
        return "-"
    text = f"{row.unit * value['mean']:,.2f}"
    return f"{text} ± {row.unit * value['plusMinus']:,.2f}" if value["plusMinus"] else text


def parting_sentences(comparison: Json) -> Sequence[str]:
    """How many pods went elsewhere, where the two schedulers part, and who made the difference."""
    decisions, first = comparison["decisions"], comparison["decisions"]["first"]
    both = sum(one["placedByBoth"] for one in decisions["seeds"])
    elsewhere = sum(one["elsewhere"] for one in decisions["seeds"])
    counts = f"{elsewhere:,} of {both:,} pods that both placed went to another node"
    if first is None:
        return (f"{counts}; no decision differs",)
    where = ", ".join(
        f"{name} takes {node}" if node else f"{name} takes none"
        for name, node in first["nodes"].items()
    )
    plugin = first["plugin"]
    cause = f"; {plugin} makes the difference" if plugin else ""
    at = f"at {first['seconds']:,.0f} s with seed {first['seed']}"
    return counts, f"the first decision that differs, {at}: {first['pod']}: {where}{cause}"


def parting_scores(comparison: Json) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """The scores of the nodes in question, by plugin: a header and rows; both may be empty."""
    first = comparison["decisions"]["first"]
    if first is None:
        return (), ()
    columns = [
        (f"{name}: {node}", parts)
        for name, nodes in first["scores"].items()
        for node, parts in nodes.items()
    ]
    plugins = dict.fromkeys(plugin for _, parts in columns for plugin in parts)
    rows = [
        [plugin, *(str(parts.get(plugin, "-")) for _, parts in columns)]
        for plugin in plugins
        if len({parts.get(plugin) for _, parts in columns}) > 1
    ]
    return ["", *(title for title, _ in columns)], rows
