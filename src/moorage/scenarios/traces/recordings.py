"""Recordings of clusters by others: `kwokctl snapshot record`, and SimKube's tracer.

Owns their layouts, and what of them is input: what people and their programs wanted. What the
scheduler and the kubelets of the recorded cluster did is passed over, for it is done anew.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

from moorage.controllers.kubelet import FINISH_AFTER
from moorage.errors import InputError
from moorage.scenarios.traces.changes import Json, TraceChange, came, patched, went
from moorage.scenarios.traces.rows import read_text

_KINDS: Mapping[str, str] = {
    "namespaces": "Namespace",
    "priorityclasses": "PriorityClass",
    "nodes": "Node",
    "services": "Service",
    "poddisruptionbudgets": "PodDisruptionBudget",
    "pods": "Pod",
}
"""What a simulation takes from a recording, those that others need first."""
_PATCH = "ResourcePatch"
_OF_SERVERS = (
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "managedFields",
    "selfLink",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "finalizers",
)
_NANOSECONDS = 1e9
_ENDED = ("Succeeded", "Failed")


class _Resource(msgspec.Struct):
    resource: str


class _Target(msgspec.Struct):
    name: str
    namespace: str = ""


class _Patch(msgspec.Struct, rename="camel"):
    """KWOK's document for a change."""

    resource: _Resource
    target: _Target
    duration_nanosecond: int
    method: str
    template: dict[str, Any] | None = None


# ---- KWOK ----


def kwok_changes(path: Path) -> Iterator[TraceChange]:
    """The objects of the snapshot, then what came, changed and went; pods run as long as there."""
    start: list[Json] = []
    patches: list[_Patch] = []
    for place, document in _documents(path):
        if document.get("kind") == _PATCH:
            patches.append(_checked(place, document))
        elif document.get("kind") in _KINDS.values():
            start.append(document)
    lifetimes = _lifetimes(patches)
    ranks = {kind: rank for rank, kind in enumerate(_KINDS.values())}
    for obj in sorted(start, key=lambda obj: ranks[obj["kind"]]):
        if (obj.get("status") or {}).get("phase") not in _ENDED:
            yield came(0.0, _wanted(obj, lifetimes))
    for patch in patches:
        kind = _KINDS.get(patch.resource.resource)
        if kind is not None:
            yield from _changed(patch, kind, lifetimes)


def _documents(path: Path) -> Iterator[tuple[str, Json]]:
    loader = yaml.CSafeLoader(read_text(path))
    try:
        while loader.check_node():
            node = loader.get_node()
            assert node is not None, "it was checked"
            place = f"{path}:{node.start_mark.line + 1}"
            document = loader.construct_document(node)
            if document is None:
                continue
            metadata = document.get("metadata") if isinstance(document, dict) else None
            named = isinstance(metadata, dict) and isinstance(metadata.get("name"), str)
            if not isinstance(document, dict) or not (document.get("kind") == _PATCH or named):
                raise InputError(f"{place}: expected an object with kind and metadata.name")
            _check_parts(place, document)
            yield place, document
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark is not None else ""
        raise InputError(f"{path}{line}: expected YAML: {getattr(error, 'problem', '')}") from None
    finally:
        loader.dispose()


def _checked(place: str, document: Json) -> _Patch:
    try:
        patch = msgspec.convert(document, _Patch)
    except msgspec.ValidationError as error:
        what, _, field = str(error).partition(" - at `$.")
        name = f" {field.rstrip('`')}:" if field else ""
        raise InputError(f"{place}:{name} {what[:1].lower()}{what[1:]}") from None
    if patch.method not in ("create", "patch", "delete"):
        what = f"expected create, patch or delete, got {patch.method[:40]!r}"
        raise InputError(f"{place}: method: {what}")
    if patch.method == "create" and patch.template is None:
        raise InputError(f"{place}: template: expected the object that is created")
    _check_parts(f"{place}: template", patch.template or {})
    return patch


def _check_parts(place: str, obj: Json) -> None:
    for part in ("metadata", "spec", "status"):
        if not isinstance(obj.get(part) or {}, dict):
            raise InputError(f"{place}: {part}: expected a mapping")


_Pod = tuple[str, str]


def _lifetimes(patches: list[_Patch]) -> dict[_Pod, float]:
    """How long pods ran that came to their end, in seconds."""
    began: dict[_Pod, int] = {}
    found: dict[_Pod, float] = {}
    for patch in patches:
        if patch.resource.resource != "pods":
            continue
        pod = patch.target.namespace, patch.target.name
        phase = ((patch.template or {}).get("status") or {}).get("phase")
        if phase == "Running":
            began[pod] = patch.duration_nanosecond
        elif phase in _ENDED:
            ran = patch.duration_nanosecond - began.get(pod, patch.duration_nanosecond)
            found[pod] = ran / _NANOSECONDS
    return found


def _changed(patch: _Patch, kind: str, lifetimes: dict[_Pod, float]) -> Iterator[TraceChange]:
    at, template = max(patch.duration_nanosecond, 0) / _NANOSECONDS, patch.template or {}
    metadata = {"name": patch.target.name, "namespace": patch.target.namespace}
    named = {"kind": kind, "metadata": metadata}
    if patch.method == "create":
        whole = {**template, "kind": kind}
        whole["metadata"] = {**(template.get("metadata") or {}), **metadata}
        created = _wanted(whole, lifetimes)
        if kind == "Pod":
            created["spec"].pop("nodeName", None)
        yield came(at, created)
    elif patch.method == "delete" or (template.get("metadata") or {}).get("deletionTimestamp"):
        yield went(at, named)
    else:
        changes = _wanted({**template, **named, "metadata": template.get("metadata") or {}}, {})
        del changes["kind"]
        if kind == "Pod":
            changes.pop("spec", None)
        if any(changes.values()):
            changes["metadata"] = {**changes.get("metadata", {}), **metadata}
            yield patched(at, {**changes, "kind": kind})


def _wanted(obj: Json, lifetimes: dict[_Pod, float]) -> Json:
    """The object without what servers, schedulers and kubelets wrote in it."""
    metadata = {
        key: value
        for key, value in obj["metadata"].items()
        if key not in _OF_SERVERS and not key.startswith("$")
    }
    wanted = {key: value for key, value in obj.items() if key not in ("metadata", "status")}
    if isinstance(obj.get("spec"), dict):
        wanted["spec"] = {key: val for key, val in obj["spec"].items() if not key.startswith("$")}
    if obj["kind"] == "Node":
        status = obj.get("status") or {}
        amounts = {key: status[key] for key in ("allocatable", "capacity") if key in status}
        if amounts:
            wanted["status"] = amounts
    lasts = lifetimes.get((metadata.get("namespace", ""), metadata.get("name", "")))
    if obj["kind"] == "Pod" and lasts is not None:
        notes = metadata.get("annotations") or {}
        metadata["annotations"] = {**notes, FINISH_AFTER: f"{lasts:.3f}s"}
        wanted["spec"] = {**wanted.get("spec", {}), "restartPolicy": "Never"}
    return {**wanted, "metadata": metadata}


# ---- SimKube ----


class _Event(msgspec.Struct):
    ts: int
    applied_objs: list[Json] = []
    deleted_objs: list[Json] = []


class _SimKubeTrace(msgspec.Struct):
    version: int
    events: list[_Event]


def simkube_changes(path: Path) -> Iterator[TraceChange]:
    """Workloads as they were applied and deleted; the simulation's controllers make the pods."""
    try:
        trace = msgspec.msgpack.decode(path.read_bytes(), type=_SimKubeTrace)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    except msgspec.DecodeError as error:
        raise InputError(f"{path}: expected a trace of SimKube: {error}") from None
    there: set[tuple[str, str, str]] = set()
    for number, event in enumerate(trace.events):
        at = float(event.ts - trace.events[0].ts)
        if at < 0:
            raise InputError(f"{path}: events[{number}].ts: expected no less than the first")
        for obj in event.applied_objs:
            key = _identity(path, number, obj)
            made = _wanted(obj, {})
            yield patched(at, made) if key in there else came(at, made)
            there.add(key)
        for obj in event.deleted_objs:
            there.discard(_identity(path, number, obj))
            yield went(at, _wanted(obj, {}))


def _identity(path: Path, number: int, obj: Json) -> tuple[str, str, str]:
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or not (obj.get("kind") and metadata.get("name")):
        what = "expected objects with kind and metadata.name"
        raise InputError(f"{path}: events[{number}]: {what}")
    _check_parts(f"{path}: events[{number}]", obj)
    return obj["kind"], metadata.get("namespace") or "", metadata["name"]
