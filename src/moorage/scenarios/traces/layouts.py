"""Which layout a trace of a scenario has, and what it comes down to.

Files are read when changes are asked for, not before.
"""

import math
from collections.abc import Iterator
from zlib import crc32

from moorage.controllers.kubelet import FINISH_AFTER
from moorage.errors import InputError
from moorage.model.quantity import parse_milli
from moorage.scenarios.scenario import TraceOfPods
from moorage.scenarios.scenario_file import ScenarioFile
from moorage.scenarios.traces.azure import azure_changes
from moorage.scenarios.traces.borg import borg_changes
from moorage.scenarios.traces.changes import Json, Machine, TraceChange
from moorage.scenarios.traces.moorage_recordings import recorded_changes
from moorage.scenarios.traces.openb import openb_changes
from moorage.scenarios.traces.plain import plain_changes
from moorage.scenarios.traces.recordings import kwok_changes, simkube_changes

_MOST = 2_000_000
_OF_ONE = ("uid", "ownerReferences")


def trace_changes(file: ScenarioFile, trace: TraceOfPods) -> Iterator[TraceChange]:
    """All that comes, changes and goes, of as much as the scenario wants."""
    until = file.seconds(trace.until, "until") if trace.until else math.inf
    number = 0
    for change in _changes(file, trace):
        if change.at > until or not _is_sampled(change, trace.sample):
            continue
        number += 1
        if number > _MOST:
            what = f"expected at most {_MOST:,} changes; until and sample take fewer"
            raise InputError(f"{file.file(trace.file)}: {what}")
        yield change


def _is_sampled(change: TraceChange, share: float) -> bool:
    """By its name, so it is the same whenever it is asked for."""
    if share == 1 or change.object["kind"] != "Pod":
        return True
    return crc32(change.object["metadata"]["name"].encode()) < share * 2**32


def trace_pods(file: ScenarioFile, trace: TraceOfPods) -> list[Json]:
    """The pods by themselves; who is deleted in the trace runs for as long as it was there."""
    came: dict[str, tuple[float, Json]] = {}
    for change in trace_changes(file, trace):
        if change.object["kind"] != "Pod":
            continue
        name = change.object["metadata"]["name"]
        if change.what == "create":
            came[name] = (change.at, change.object)
        elif change.what == "delete" and name in came:
            came[name] = (change.at, _that_runs(came[name][1], change.at - came[name][0]))
    if not came:
        raise InputError(f"{file.file(trace.file)}: expected at least one pod")
    return [_anywhere(pod) for _, pod in came.values()]


def _anywhere(pod: Json) -> Json:
    """Another pod like it, on no node yet."""
    metadata = {key: part for key, part in pod["metadata"].items() if key not in _OF_ONE}
    spec = {key: part for key, part in pod["spec"].items() if key != "nodeName"}
    return {**pod, "metadata": metadata, "spec": spec}


def _that_runs(pod: Json, seconds: float) -> Json:
    metadata = pod["metadata"]
    notes = {**(metadata.get("annotations") or {}), FINISH_AFTER: f"{seconds:.3f}s"}
    spec = {**pod["spec"], "restartPolicy": "Never"}
    return {**pod, "metadata": {**metadata, "annotations": notes}, "spec": spec}


def _changes(file: ScenarioFile, trace: TraceOfPods) -> Iterator[TraceChange]:
    path = file.path.parent / trace.file
    nodes = file.path.parent / trace.nodes if trace.nodes else None
    match trace.layout:
        case "csv":
            return plain_changes(path)
        case "openb":
            return openb_changes(nodes, path)
        case "azure":
            types = file.path.parent / trace.types if trace.types else None
            return azure_changes(path, types, _machine(trace))
        case "borg":
            return borg_changes(path, nodes, _machine(trace))
        case "kwok":
            return kwok_changes(path)
        case "simkube":
            return simkube_changes(path)
        case "recording":
            return recorded_changes(path)


def _machine(trace: TraceOfPods) -> Machine:
    return Machine(parse_milli(trace.machine["cpu"]), parse_milli(trace.machine["memory"]) // 1000)
