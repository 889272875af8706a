"""What `moorage record` wrote, as a trace: the cluster of the beginning, then what came and went.

Owns what of a recording is input. What its scheduler decided is done anew, as is what controllers
write into volumes and claims; pods come as they were recorded, so nobody makes them a second time.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from moorage.controllers.kubelet import FINISH_AFTER
from moorage.model.meta import ApiObject
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.recordings.followed import RecordedStep, RecordedSteps
from moorage.recordings.recording_file import Named, Recording
from moorage.recordings.reduced import reduced
from moorage.scenarios.traces.changes import Json, TraceChange, came, patched, told, went

_TOLD = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet", "PodDisruptionBudget"})
"""A recording has not all of them that their controllers need, but what schedulers look at."""
_BOUND_ANEW = frozenset({"PersistentVolume", "PersistentVolumeClaim", "PodGroup", "ResourceClaim"})
"""What becomes of them is the doing of the scheduler and of controllers."""
_OF_SERVERS = (
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "finalizers",
)
_OF_CLAIMS = ("resourceClaimStatuses", "extendedResourceClaimStatus")


class _TimedStep(NamedTuple):
    at: float
    """Seconds since the recording began."""
    step: RecordedStep
    first: bool
    """Is it about what was there in the beginning?"""
    watched: bool
    """Was it recorded as it happened?"""


class _RecordedLife(msgspec.Struct):
    """What became of a pod, in seconds since the recording began."""

    bound: float | None = None
    node: str = ""
    told_to_go: float | None = None
    gone: float | None = None
    is_placed: bool = False
    """Did a scheduler send it to its node, while or before somebody looked again?"""

    @property
    def ran(self) -> float | None:
        """For how long, if it came to its end by itself."""
        if self.bound is None or self.gone is None or self.told_to_go is not None:
            return None
        return self.gone - self.bound


def recorded_changes(path: Path) -> Iterator[TraceChange]:
    """The cluster of the beginning, then what came, changed and went."""
    steps = list(_timed_steps(path))
    lives, names = _lives(steps), set[Named]()
    for timed in steps:
        obj = timed.step.after or timed.step.before
        if isinstance(obj, Pod):
            yield from _pod_changes(timed, lives, names)
        elif obj is not None:
            yield from _object_changes(timed, obj)


def recorded_nodes(path: Path) -> Mapping[str, str]:
    """By uid, the nodes of the pods that the recorded scheduler placed."""
    lives = _lives(list(_timed_steps(path)))
    return {uid: life.node for uid, life in lives.items() if life.is_placed}


def _timed_steps(path: Path) -> Iterator[_TimedStep]:
    recording = Recording(path)
    first, watched = True, False
    for step in RecordedSteps(recording):
        if isinstance(step, bool):
            first, watched = False, step
        else:
            at = 0.0 if first else max(step.at - recording.header.at, 0.0)
            yield _TimedStep(at, step, first, watched)


# ---- pods ----


def _lives(steps: Sequence[_TimedStep]) -> Mapping[str, _RecordedLife]:
    lives: dict[str, _RecordedLife] = {}
    for timed in steps:
        before, after = timed.step.before, timed.step.after
        if isinstance(before, Pod) and not _is_same(before, after):
            lives[before.uid].gone = timed.at
        if not isinstance(after, Pod):
            continue
        life = lives.setdefault(after.uid, _RecordedLife())
        if life.bound is None and after.spec.node_name:
            life.bound, life.node = timed.at, after.spec.node_name
            life.is_placed = _is_same(after, before) or not (timed.first or timed.watched)
        if life.told_to_go is None and after.terminating:
            life.told_to_go = timed.at
    return lives


def _is_same(pod: Pod, other: ApiObject | None) -> bool:
    return isinstance(other, Pod) and other.uid == pod.uid


def _pod_changes(
    timed: _TimedStep, lives: Mapping[str, _RecordedLife], names: set[Named]
) -> Iterator[TraceChange]:
    """`names`: of the pods so far."""
    at, before, after = timed.at, timed.step.before, timed.step.after
    if isinstance(after, Pod) and not _is_same(after, before):
        name = Named("Pod", after.name, after.namespace)
        if name in names:
            # Here it may still run, if it got its node later.
            yield went(at, _at_once(after))
        names.add(name)
        yield came(at, _arriving(after, lives[after.uid], whole=timed.first))
        if after.terminating:
            yield went(at, _named(after))
    elif isinstance(after, Pod) and isinstance(before, Pod):
        if after.terminating and not before.terminating:
            yield went(at, _named(after))
        elif changes := _difference(_wishes(before), _wishes(after)):
            yield patched(at, _with_name(changes, after))
    elif isinstance(before, Pod) and lives[before.uid].bound is None:
        yield went(at, _named(before))


def _arriving(pod: Pod, life: _RecordedLife, *, whole: bool) -> Json:
    """A pod as it was created; one that is there in the beginning (`whole`) keeps its node."""
    obj = reduced(pod)
    metadata, spec, status = _kept(obj["metadata"]), {**obj["spec"]}, obj.get("status") or {}
    # Their Jobs are not recorded, and would have them end when they like.
    owners = [one for one in metadata.get("ownerReferences", ()) if one.get("kind") != "Job"]
    metadata["ownerReferences"] = owners
    if life.is_placed:
        spec.pop("nodeName", None)
    if life.ran is not None:
        notes = metadata.get("annotations") or {}
        metadata["annotations"] = {**notes, FINISH_AFTER: f"{life.ran:.3f}s"}
        spec["restartPolicy"] = "Never"
    kept = {name: status[name] for name in _OF_CLAIMS if whole and name in status}
    return {**obj, "metadata": metadata, "spec": spec, "status": kept}


def _wishes(pod: Pod) -> Json:
    """What people and controllers may change of a pod."""
    obj = reduced(pod)
    metadata = {name: obj["metadata"].get(name, {}) for name in ("labels", "annotations")}
    spec = {name: obj["spec"].get(name) for name in ("schedulingGates", "tolerations")}
    return {"metadata": metadata, "spec": {name: part for name, part in spec.items() if part}}


def _at_once(pod: Pod) -> Json:
    named = _named(pod)
    return {**named, "metadata": {**named["metadata"], "deletionGracePeriodSeconds": 0}}


# ---- other objects ----


def _object_changes(timed: _TimedStep, obj: ApiObject) -> Iterator[TraceChange]:
    at, before, after, kind = timed.at, timed.step.before, timed.step.after, type(obj).__name__
    if kind in _TOLD:
        yield told(at, reduced(obj), gone=after is None)
    elif after is None:
        yield went(at, _named(obj))
    elif before is None:
        found = _cleaned(after)
        if timed.first or kind not in _BOUND_ANEW:
            yield came(at, found)
        elif not _is_made_again(found):
            spec = {name: part for name, part in found["spec"].items() if name != "volumeName"}
            yield came(at, {**found, "spec": spec, "status": {}})
    elif kind not in _BOUND_ANEW and (changes := _difference(_cleaned(before), _cleaned(after))):
        yield patched(at, _with_name(changes, after))


def _is_made_again(obj: Json) -> bool:
    """Do the simulation's controllers make such an object for a pod or for a claim?"""
    owners = obj["metadata"].get("ownerReferences") or ()
    return any(one.get("kind") == "Pod" for one in owners) or bool(obj["spec"].get("claimRef"))


def _cleaned(obj: ApiObject) -> Json:
    found = reduced(obj)
    if isinstance(obj, Node) and obj.status.conditions:
        # Of a node that is silent the simulated kubelet would say that it is ready.
        conditions = [
            {**one, "status": "False"} if one.get("status") == "Unknown" else one
            for one in found["status"]["conditions"]
        ]
        found = {**found, "status": {**found["status"], "conditions": conditions}}
    return {**found, "metadata": _kept(found["metadata"])}


def _kept(metadata: Json) -> Json:
    return {name: part for name, part in metadata.items() if name not in _OF_SERVERS}


def _named(obj: ApiObject) -> Json:
    return _with_name({}, obj)


def _with_name(changes: Json, obj: ApiObject) -> Json:
    """Changes with the name of what they change."""
    metadata = {**changes.get("metadata", {}), "name": obj.name, "namespace": obj.namespace}
    metadata.pop("uid", None)
    return {**changes, "kind": type(obj).__name__, "metadata": metadata}


def _difference(before: Any, after: Any) -> Any:
    """The JSON merge patch that makes one mapping of the other."""
    found = dict[str, Any]()
    for name in {**before, **after}:
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        both = isinstance(old, dict) and isinstance(new, dict)
        found[name] = _difference(old, new) if both else new
    return found
