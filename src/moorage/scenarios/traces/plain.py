"""A plain table of pods: when they come, what they ask for, and perhaps how long they run."""

from collections.abc import Iterator
from pathlib import Path

from moorage.model.duration import parse_duration
from moorage.model.quantity import parse_milli
from moorage.scenarios.pods import pod_manifest
from moorage.scenarios.traces.changes import Json, TraceChange, came
from moorage.scenarios.traces.rows import Row, csv_rows

_COLUMNS = ("at", "name", "cpu", "memory")


def plain_changes(path: Path) -> Iterator[TraceChange]:
    """The pods of the table."""
    for row in csv_rows(path, _COLUMNS):
        yield came(_seconds(row, "at"), _manifest(row))


def _manifest(row: Row) -> Json:
    requests = {column: _quantity(row, column) for column in ("cpu", "memory")}
    lasts = _seconds(row, "runTime") if row.values.get("runTime") else None
    return pod_manifest(row.name("name"), requests, lasts, {})


def _quantity(row: Row, column: str) -> str:
    text = row.text(column)
    try:
        amount = parse_milli(text)
    except ValueError:
        amount = -1
    if amount < 0:
        row.refuse(column, f"expected a quantity such as 500m, got {text!r}")
    return text


def _seconds(row: Row, column: str) -> float:
    text = row.text(column)
    try:
        found = parse_duration(text).seconds
    except ValueError:
        found = -1.0
    if found < 0:
        row.refuse(column, f"expected a duration such as 90s or 1h30m, got {text!r}")
    return found
