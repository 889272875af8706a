"""Pods that come in a simulation, one after the other: at random, or as a trace has them.

The dice are handed in, so a seed gives the same pods whatever scheduler is tried.
"""

import csv
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from moorage.controllers.kubelet import FINISH_AFTER
from moorage.errors import InputError
from moorage.model.duration import parse_duration
from moorage.scenarios.scenario import Poisson, Times
from moorage.scenarios.scenario_file import ScenarioFile

_HOUR = 3600.0
_COLUMNS = ("at", "name", "cpu", "memory")
_MOST = 1_000_000


class ArrivingPod(NamedTuple):
    """A pod and when it comes, in seconds since the beginning."""

    at: float
    manifest: dict[str, Any]


def poisson_pods(given: Poisson, dice: Random) -> Iterator[ArrivingPod]:
    """Pods that come independently of one another."""
    at, until = _seconds(given.start), _seconds(given.until)
    weights = [size.weight for size in given.sizes]
    number = 0
    while True:
        at += dice.expovariate(given.per_hour / _HOUR)
        if at > until:
            return
        if number >= _MOST:
            raise InputError(f"arrivals: {given.name} makes more than {_MOST:,} pods")
        (size,) = dice.choices(given.sizes, weights)
        lasts = None if given.run_time is None else draw(given.run_time, dice)
        name = f"{given.name}-{number}"
        yield ArrivingPod(at, _pod(name, size.requests, lasts, given.template))
        number += 1


def draw(times: Times, dice: Random) -> float:
    """A duration, in seconds."""
    if times.exponential:
        return dice.expovariate(1 / max(_seconds(times.exponential), 1e-9))
    if times.uniform is not None:
        return dice.uniform(*map(_seconds, times.uniform))
    if times.lognormal is not None:
        median, sigma = times.lognormal
        return _seconds(median) * dice.lognormvariate(0, sigma)
    return _seconds(times.constant)


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
        yield ArrivingPod(at, _pod(row["name"], requests, lasts, {}))


def _pod(
    name: str, requests: dict[str, str], lasts: float | None, template: dict[str, Any]
) -> dict[str, Any]:
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
