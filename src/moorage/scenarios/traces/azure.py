"""The packing trace of Azure of 2020: virtual machines, in shares of a physical one.

Owns the layout of its two tables, `vm` and `vmType`: as published in one SQLite file, or as CSV
files exported from it.
"""

from collections.abc import Iterator
from pathlib import Path

from moorage.scenarios.pods import pod_manifest
from moorage.scenarios.traces.changes import Machine, TraceChange, came, went
from moorage.scenarios.traces.rows import Row, csv_rows, is_sqlite, sqlite_rows

_DAY = 86_400.0
_VM = ("vmId", "tenantId", "vmTypeId", "priority", "starttime", "endtime")
_TYPE = ("vmTypeId", "machineId", "core", "memory")
_PRIORITIES = {"0": 100, "1": 0}
"""High is 0 in the trace, low is 1."""

_Shares = dict[str, tuple[float, float]]


def azure_changes(path: Path, types: Path | None, machine: Machine) -> Iterator[TraceChange]:
    """The virtual machines as pods; those that were there before the trace are there at once."""
    shares = _shares(path if types is None else types)
    for row in _rows(path, "vm", _VM):
        kind = row.text("vmTypeId")
        if kind not in shares:
            row.refuse("vmTypeId", f"expected a type of the table vmType, got {kind[:40]!r}")
        priority = row.text("priority")
        if priority not in _PRIORITIES:
            row.refuse("priority", f"expected 0 or 1, got {priority[:40]!r}")
        start = row.number("starttime") * _DAY
        labels = {"tenant": row.name("tenantId"), "vm-type": row.name("vmTypeId")}
        template = {"metadata": {"labels": labels}, "spec": {"priority": _PRIORITIES[priority]}}
        manifest = pod_manifest(
            f"vm-{row.name('vmId')}", machine.share(*shares[kind]), None, template
        )
        yield came(max(start, 0.0), manifest)
        if row.text("endtime", missing="NULL") != "NULL":
            end = row.number("endtime") * _DAY
            if end < start:
                row.refuse("endtime", "expected no less than starttime")
            yield went(max(end, 0.0), manifest)


def _shares(path: Path) -> _Shares:
    """CPU and memory of each type on the first machine that can have it."""
    found: dict[str, tuple[int, tuple[float, float]]] = {}
    for row in _rows(path, "vmType", _TYPE):
        kind, machine = row.text("vmTypeId"), row.amount("machineId")
        if kind not in found or machine < found[kind][0]:
            found[kind] = machine, (row.share("core"), row.share("memory"))
    return {kind: shares for kind, (_, shares) in found.items()}


def _rows(path: Path, table: str, columns: tuple[str, ...]) -> Iterator[Row]:
    return sqlite_rows(path, table, columns) if is_sqlite(path) else csv_rows(path, columns)
