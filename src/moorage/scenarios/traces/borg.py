"""The traces of Google's Borg of 2019: instances of jobs, in shares of the largest machine.

Owns the layout of the tables `instance_events` and `machine_events` as CSV. What Borg's own
scheduler did (where instances were placed, when they were evicted) is passed over.
"""

from collections.abc import Iterator
from pathlib import Path

from moorage.scenarios.pods import pod_manifest
from moorage.scenarios.traces.changes import Json, Machine, TraceChange, came, patched, went
from moorage.scenarios.traces.rows import Row, csv_rows

_MICROSECONDS = 1e6
_INSTANCE = (
    "time",
    "type",
    "collection_id",
    "instance_index",
    "priority",
    "cpus",
    "memory",
)
_MACHINE = ("time", "machine_id", "type", "cpus", "memory")
_TYPES = (
    "SUBMIT",
    "QUEUE",
    "ENABLE",
    "SCHEDULE",
    "EVICT",
    "FAIL",
    "FINISH",
    "KILL",
    "LOST",
    "UPDATE_PENDING",
    "UPDATE_RUNNING",
)
_ENDS = ("FAIL", "FINISH", "KILL", "LOST")
_MACHINE_TYPES = ("UNKNOWN", "ADD", "REMOVE", "UPDATE")
_END_OF_TIME = 2**63 - 1
"""Of what happened after the trace."""


def borg_changes(path: Path, nodes: Path | None, machine: Machine) -> Iterator[TraceChange]:
    """The machines, if their file is given, and each instance from its first row to its end."""
    if nodes is not None:
        yield from _machine_changes(nodes, machine)
    attempts: dict[str, int] = {}
    running: dict[str, Json] = {}
    for row in csv_rows(path, _INSTANCE):
        time = row.amount("time")
        if time >= _END_OF_TIME or row.text("alloc_collection_id", missing="0") != "0":
            continue  # after the trace, or inside an allocation that is an instance itself
        event = row.choice("type", _TYPES)
        at = time / _MICROSECONDS
        name = f"{row.amount('collection_id')}-{row.amount('instance_index')}"
        if event in _ENDS:
            if name in running:
                yield went(at, running.pop(name))
        elif name not in running and event != "EVICT":
            attempts[name] = attempts.get(name, -1) + 1
            running[name] = _pod(row, f"{name}-{attempts[name]}", machine)
            yield came(at, running[name])


def _pod(row: Row, name: str, machine: Machine) -> Json:
    labels = {"collection": str(row.amount("collection_id"))}
    template = {"metadata": {"labels": labels}, "spec": {"priority": row.amount("priority", "0")}}
    requests = machine.share(row.share("cpus", "0"), row.share("memory", "0"))
    return pod_manifest(name, requests, None, template)


def _machine_changes(path: Path, machine: Machine) -> Iterator[TraceChange]:
    there: set[str] = set()
    for row in csv_rows(path, _MACHINE):
        time = row.amount("time")
        if time >= _END_OF_TIME:
            continue
        name, at = f"machine-{row.name('machine_id')}", time / _MICROSECONDS
        event = row.choice("type", _MACHINE_TYPES)
        node: Json = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
        if event == "REMOVE":
            if name in there:
                there.remove(name)
                yield went(at, node)
            continue
        amounts = {**machine.share(row.share("cpus", "0"), row.share("memory", "0"))}
        amounts["pods"] = "1000000"
        node["status"] = {"allocatable": amounts, "capacity": amounts}
        if name in there:
            yield patched(at, node)
            continue
        there.add(name)
        labels = {"kubernetes.io/hostname": name}
        for column in ("platform_id", "switch_id"):
            if row.values.get(column):
                labels[column.replace("_", "-")] = _label(row.text(column))
        node["metadata"]["labels"] = labels
        yield came(at, node)


def _label(text: str) -> str:
    """Obfuscated names have characters that labels must not have."""
    return "".join(one if one.isascii() and one.isalnum() else "-" for one in text).strip("-")[:63]
