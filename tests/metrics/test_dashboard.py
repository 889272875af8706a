"""deploy/grafana/moorage.json: a dashboard that asks only for what there is."""

import json
import re
from pathlib import Path
from typing import Any

from moorage.config.feature_gates import FeatureGates
from moorage.metrics.exporter import AllMetrics
from moorage.metrics.families import Histogram

DASHBOARD: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "deploy" / "grafana" / "moorage.json").read_text()
)
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES = [target["expr"] for panel in PANELS for target in panel["targets"]]
# Names in an expression that are no metrics: functions, keywords, and what stands in braces.
_IN_BRACES = re.compile(r"\{[^}]*\}|\[[^\]]*\]|by \([^)]*\)")
_NAME = re.compile(r"\b[a-z]\w*_\w+\b")
_FUNCTIONS = {"histogram_quantile"}


def metrics_in(expression: str) -> set[str]:
    return set(_NAME.findall(_IN_BRACES.sub("", expression))) - _FUNCTIONS


def shown_names() -> dict[str, tuple[str, ...]]:
    """Every name that a text may hold, with the labels it has."""
    names = {}
    for family in AllMetrics(FeatureGates()).registry.families.values():
        if isinstance(family, Histogram):
            for suffix in ("bucket", "sum", "count"):
                names[f"{family.name}_{suffix}"] = (*family.label_names, "le")
        else:
            names[family.name] = family.label_names
    return names


def test_every_metric_that_is_asked_for_exists() -> None:
    names = shown_names()
    for query in QUERIES:
        assert metrics_in(query), query
        assert metrics_in(query) <= set(names), query


def test_every_label_that_is_grouped_or_chosen_by_belongs_to_the_metric() -> None:
    names = shown_names()
    for query in QUERIES:
        labels = {label for metric in metrics_in(query) for label in names[metric]}
        grouped = [part.split(", ") for part in re.findall(r"by \(([^)]*)\)", query)]
        chosen = re.findall(r"(\w+)(?:=~|!~|=|!=)\"", query)
        used = {label for part in grouped for label in part} | set(chosen)
        assert used <= labels | {"job", "instance"}, query


def test_panels_are_numbered_and_do_not_overlap() -> None:
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    cells: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        own = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not own & cells, panel["title"]
        cells |= own


def test_the_dashboard_covers_what_operators_look_for() -> None:
    rows = [panel["title"] for panel in DASHBOARD["panels"] if panel["type"] == "row"]
    assert rows == [
        "Throughput",
        "Latency",
        "Queue",
        "Plugins",
        "Preemption",
        "API client",
        "Election, configuration and process",
    ]
    assert all(panel["title"] and panel["datasource"]["type"] == "prometheus" for panel in PANELS)
