"""Which layout a trace of a scenario has, and what it comes down to.

Files are read when changes are asked for, not before.
"""

from collections.abc import Iterator

from moorage.controllers.kubelet import FINISH_AFTER
from moorage.errors import InputError
from moorage.scenarios.scenario import TraceOfPods
from moorage.scenarios.scenario_file import ScenarioFile
from moorage.scenarios.traces.changes import Json, TraceChange
from moorage.scenarios.traces.openb import openb_changes
from moorage.scenarios.traces.plain import plain_changes

_MOST = 2_000_000


def trace_changes(file: ScenarioFile, trace: TraceOfPods) -> Iterator[TraceChange]:
    """All that comes, changes and goes."""
    for number, change in enumerate(_changes(file, trace)):
        if number == _MOST:
            raise InputError(f"{file.file(trace.file)}: expected at most {_MOST:,} changes")
        yield change


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
    return [pod for _, pod in came.values()]


def _that_runs(pod: Json, seconds: float) -> Json:
    metadata = pod["metadata"]
    notes = {**(metadata.get("annotations") or {}), FINISH_AFTER: f"{seconds:.3f}s"}
    spec = {**pod["spec"], "restartPolicy": "Never"}
    return {**pod, "metadata": {**metadata, "annotations": notes}, "spec": spec}


def _changes(file: ScenarioFile, trace: TraceOfPods) -> Iterator[TraceChange]:
    pods = file.path.parent / trace.file
    nodes = file.path.parent / trace.nodes if trace.nodes else None
    match trace.layout:
        case "openb":
            return openb_changes(nodes, pods)
        case "csv":
            return plain_changes(pods)
