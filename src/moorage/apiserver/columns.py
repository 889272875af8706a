"""The columns `kubectl get` shows, per resource: `columns.yaml`; `cells` has what it names.

Upstream:
kubernetes@v1.37.1 pkg/printers/internalversion/printers.go.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from moorage.apiserver.cells import CELLS, Cell, age, age_of
from moorage.apiserver.errors import Json
from moorage.apiserver.json_paths import values_at
from moorage.apiserver.metadata import value_at
from moorage.apiserver.resources import ApiResource, CustomColumn, StorageKey
from moorage.apiserver.workload_cells import WORKLOAD_CELLS
from moorage.tables import read_table

INVALID = "<invalid>"

_CELLS = {**CELLS, **WORKLOAD_CELLS}


class TableColumn(NamedTuple):
    """One column; a priority above 0 shows only with `-o wide`."""

    name: str
    cell: Cell
    type: str = "string"
    priority: int = 0
    description: str = ""
    format: str = ""


def _at(path: Sequence[str], absent: Any) -> Cell:
    def cell(obj: Json, _: float) -> Any:
        value = value_at(obj, path)
        return absent if value is None or value == "" else value

    return cell


def _count(path: Sequence[str]) -> Cell:
    def cell(obj: Json, _: float) -> int:
        value = value_at(obj, path)
        return len(value) if isinstance(value, dict | list) else int(value or 0)

    return cell


NAME = TableColumn(
    "Name", _at(("metadata", "name"), ""), description="Name must be unique within a namespace."
)
AGE = TableColumn("Age", age, description="Time since creation.")
_SHARED = {
    "NAME": NAME,
    "AGE": AGE,
    "CREATED": TableColumn("Created At", _at(("metadata", "creationTimestamp"), ""), "date"),
    "CONTAINERS": TableColumn("Containers", _CELLS["container names"], priority=1),
    "IMAGES": TableColumn("Images", _CELLS["images"], priority=1),
    "SELECTOR": TableColumn("Selector", _CELLS["selector"], priority=1),
}


def _column(entry: Json | str) -> TableColumn:
    if isinstance(entry, str):
        return _SHARED[entry]
    if "cell" in entry:
        cell = _CELLS[entry["cell"]]
    elif "count" in entry:
        cell = _count(entry["count"].split("."))
    else:
        cell = _at(entry["at"].split("."), entry.get("absent", ""))
    return TableColumn(entry["name"], cell, entry.get("type", "string"), int("wide" in entry))


_COLUMNS: Mapping[StorageKey, tuple[TableColumn, ...]] = {
    storage: tuple(map(_column, entries))
    for storage, entries in read_table(
        "moorage.apiserver", "columns.yaml", dict[StorageKey, list[Json | str]]
    ).items()
}


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _custom(column: CustomColumn) -> TableColumn:
    def cell(obj: Json, now: float) -> Any:
        found = values_at(obj, column.path)
        if not found:
            return None
        if column.type == "date":
            return age_of(found[0], now)
        if column.type != "string":
            return found[0] if isinstance(found[0], int | float) else None
        return " ".join(one if isinstance(one, str) else _text(one) for one in found)

    return TableColumn(
        column.name, cell, column.type, column.priority, column.description, column.format
    )


def columns_of(resource: ApiResource) -> tuple[TableColumn, ...]:
    """The columns of a resource; name and age where nothing better is known."""
    if resource.columns:
        return (NAME, *map(_custom, resource.columns))
    return _COLUMNS.get(resource.storage, (NAME, AGE))
