"""Pods that come in a simulation, one after the other, as a trace has them."""

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from moorage.controllers.kubelet import FINISH_AFTER
from moorage.errors import InputError
from moorage.model.duration import parse_duration
from moorage.scenarios.scenario_file import ScenarioFile

_COLUMNS = ("at", "name", "cpu", "memory")


class ArrivingPod(NamedTuple):
    """A pod and when it comes, in seconds since the beginning."""

    at: float
    manifest: dict[str, Any]


def trace_pods(file: ScenarioFile, name: str) -> Iterator[ArrivingPod]:
    """The pods of a CSV file."""
    path = Path(file.file(name))
    try:
        lines = path.read_text("utf-8").splitlines()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    reader = csv.DictReader(lines)
    for column in _COLUMNS:
        if column not in (reader.fieldnames or ()):
            raise InputError(f"{path}:1: expected the column {column}")
    for row in reader:
        place = f"{path}:{reader.line_num}"
        missing = [column for column in _COLUMNS if not row.get(column)]
        if missing:
            raise InputError(f"{place}: {missing[0]}: expected a value, got nothing")
        requests = {name: row[name] for name in ("cpu", "memory")}
        try:
            at = _seconds(row["at"])
            lasts = _seconds(row["runTime"]) if row.get("runTime") else None
        except ValueError as error:
            raise InputError(f"{place}: at, runTime: expected durations: {error}") from None
        try:
            file.check_requests(requests, "requests")
        except InputError:
            raise InputError(f"{place}: cpu, memory: expected quantities such as 500m") from None
        yield ArrivingPod(at, pod_manifest(row["name"], requests, lasts, {}))


def pod_manifest(
    name: str, requests: Mapping[str, str], lasts: float | None, template: dict[str, Any]
) -> dict[str, Any]:
    """A pod; `template` has what else is in its metadata and spec."""
    metadata, spec = dict(template.get("metadata") or {}), dict(template.get("spec") or {})
    metadata["name"] = name
    if lasts is not None:
        notes = metadata.get("annotations") or {}
        metadata["annotations"] = {**notes, FINISH_AFTER: f"{lasts:.3f}s"}
        spec.setdefault("restartPolicy", "Never")
    containers = spec.get("containers") or [{"name": "main", "image": "main"}]
    first = {**containers[0], "resources": {"requests": dict(requests)}}
    spec["containers"] = [first, *containers[1:]]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _seconds(text: str) -> float:
    return parse_duration(text).seconds
