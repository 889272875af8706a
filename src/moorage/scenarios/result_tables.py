"""A result as tables for other programs: CSV, or Parquet where pyarrow is installed."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from moorage.controllers.objects import Json
from moorage.errors import InputError
from moorage.scenarios.summary import measures_of

_ENDINGS = (".csv", ".parquet")

Cell = str | float | None


class ResultTable(NamedTuple):
    """Columns, and rows with a cell for each of them."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]


def run_table(result: Json) -> ResultTable:
    """A row for each run, a column for each measure by its path."""
    return _table(
        {
            "scheduler": scheduler["name"],
            "seed": run["seed"],
            "ended": run["ended"],
            **measures_of(run),
        }
        for scheduler in result["schedulers"]
        for run in scheduler["runs"]
    )


def sample_table(result: Json) -> ResultTable:
    """A row for each run and moment, a column for each measure over time."""
    return _table(
        {"scheduler": scheduler["name"], "seed": run["seed"], **moment}
        for scheduler in result["schedulers"]
        for run in scheduler["runs"]
        for moment in _moments(run["samples"])
    )


def check_table_path(path: Path) -> None:
    """Can a table be written into a file of this name? `InputError` if not."""
    if path.suffix not in _ENDINGS:
        raise InputError(f"{path}: expected a name that ends with {' or '.join(_ENDINGS)}")
    if not path.parent.is_dir():
        raise InputError(f"{path}: cannot be written: there is no folder {path.parent}")
    if path.suffix == ".parquet":
        try:
            import pyarrow.parquet  # noqa: F401 - is it there? a long run should not be in vain
        except ImportError:
            raise InputError(
                f"{path}: Parquet needs pyarrow, which is not installed: "
                "pip install 'moorage[parquet]', or write a file .csv"
            ) from None


def write_table(path: Path, table: ResultTable) -> None:
    """Write a table in the form that the name's ending says."""
    check_table_path(path)
    try:
        if path.suffix == ".csv":
            with path.open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(table.columns)
                writer.writerows(table.rows)
        else:
            _write_parquet(path, table)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None


def _write_parquet(path: Path, table: ResultTable) -> None:
    from pyarrow import Table, parquet

    columns = {name: [row[place] for row in table.rows] for place, name in enumerate(table.columns)}
    parquet.write_table(Table.from_pydict(columns), path)


def _table(rows: Iterator[dict[str, Cell]]) -> ResultTable:
    """Runs may lack measures: their cells stay empty."""
    found = list(rows)
    columns = tuple(dict.fromkeys(name for row in found for name in row))
    return ResultTable(columns, [[row.get(name) for name in columns] for row in found])


def _moments(samples: Json) -> Iterator[dict[str, Cell]]:
    columns = dict(_columns("", samples))
    for place in range(len(samples["seconds"])):
        yield {name: values[place] for name, values in columns.items()}


def _columns(path: str, part: Mapping[str, Any]) -> Iterator[tuple[str, Sequence[float]]]:
    for name, inner in part.items():
        if isinstance(inner, Mapping):
            yield from _columns(f"{path}{name}.", inner)
        else:
            yield f"{path}{name}", inner
