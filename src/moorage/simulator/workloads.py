"""Workloads in manifests taken apart: the pods that a Deployment, a Job and the like would have.

The controllers of `moorage up` make them, in memory, in a cluster where every pod is ready at once.
What an API server has written down (it has a uid) stays as it is: its pods are there already. Owns
only what becomes of the controllers' writes; everything else passes through.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from moorage.controllers.cluster import ClusterObjects, Key, key_of
from moorage.controllers.machine import UNREADABLE
from moorage.controllers.objects import Json, finds_its_own, meta, rfc3339
from moorage.controllers.plan import CreateObject, DeleteObject, PatchObject, Write
from moorage.controllers.triggers import CONTROLLERS, OWNED, affected, api_version
from moorage.errors import DecodeError
from moorage.model.decode import sentence, without_nulls
from moorage.model.defaulting import make_uid
from moorage.model.meta import merge_patch

Placed = tuple[Mapping[str, Any], str]

_LOOKED_AT = (*OWNED, "Node", "Pod", "PersistentVolumeClaim")
_OF_USE = ("PersistentVolumeClaim", "Pod", "ReplicaSet", "StatefulSet")
"""What the scheduler or a pod asks for; nobody needs revisions or the Deployment itself."""
_MOST = 20_000
_NOW = 1_000_000_000.0
_READY = {"type": "Ready", "status": "True", "lastTransitionTime": rfc3339(0)}


def expand_workloads(documents: Sequence[Placed]) -> list[Placed]:
    """The objects, with workloads replaced by what their controllers make of them."""
    workshop = _Workshop()
    orders: dict[int, Key] = {}
    for number, (document, where) in enumerate(documents):
        if _is_looked_at(document):
            plain = without_nulls(document)
            key = workshop.put(plain)
            if _is_order(plain):
                _check(workshop.get(key), where)
                orders[number] = key
    found: list[Placed] = []
    for number, placed in enumerate(documents):
        if number not in orders:
            found.append(placed)
            continue
        where = placed[1]
        try:
            made = workshop.carry_out(orders[number])
        except UNREADABLE as error:
            raise DecodeError(sentence(where, str(orders[number]), str(error))) from None
        found += [(obj, where) for obj in made if obj["kind"] in _OF_USE]
    return found


def _is_looked_at(document: Mapping[str, Any]) -> bool:
    kind, metadata = document.get("kind"), document.get("metadata")
    return (
        kind in _LOOKED_AT
        and document.get("apiVersion") == api_version(str(kind))
        and isinstance(metadata, Mapping)
        and isinstance(metadata.get("name"), str)
    )


def _is_order(obj: Json) -> bool:
    """Is it a workload that somebody wrote, and not what an API server says of one?"""
    return (
        obj["kind"] in OWNED and not meta(obj).get("uid") and "template" in (obj.get("spec") or {})
    )


def _check(obj: Json, where: str) -> None:
    try:
        sound = finds_its_own(obj)
    except UNREADABLE as error:
        raise DecodeError(sentence(where, str(key_of(obj)), str(error))) from None
    if not sound:
        text = "spec.selector does not select the labels of spec.template"
        raise DecodeError(sentence(where, str(key_of(obj)), text))


class _Workshop:
    """A cluster in which controllers work until nothing is left to do."""

    def __init__(self) -> None:
        self._cluster = ClusterObjects()
        self._version = 0
        self._waiting: dict[Key, None] = {}

    def get(self, key: Key) -> Json:
        """An object that is there."""
        found = self._cluster.get(*key)
        assert found is not None, f"{key} was put"
        return found

    def put(self, given: Json) -> Key:
        """Have an object as an API server would, with a uid and a version."""
        self._version += 1
        kind, metadata = given["kind"], {**meta(given)}
        if kind != "Node":
            metadata["namespace"] = metadata.get("namespace") or "default"
        metadata.setdefault("name", f"{metadata.get('generateName')}{self._version}")
        metadata.setdefault("uid", make_uid(kind, metadata.get("namespace", ""), metadata["name"]))
        metadata |= {"resourceVersion": str(self._version), "creationTimestamp": rfc3339(0)}
        metadata.setdefault("generation", 1)
        obj = {**given, "metadata": metadata}
        if kind == "Pod" and not given.get("status"):
            obj["status"] = {"phase": "Running", "conditions": [_READY]}
        elif kind == "StatefulSet":
            obj["spec"] = {**(given.get("spec") or {}), "podManagementPolicy": "Parallel"}
        elif kind == "Job":
            obj["spec"] = with_selector(metadata, given.get("spec") or {})
        before = self._cluster.put(obj)
        self._waiting |= dict.fromkeys(affected(self._cluster, before, obj))
        return key_of(obj)

    def carry_out(self, order: Key) -> list[Json]:
        """The workload, if it is of use, and what its controllers make, in that order."""
        made = [{**self.get(order), "metadata": {**meta(self.get(order))}}]
        self._waiting = {order: None}
        for _ in range(_MOST):
            key = next(iter(self._waiting), None)
            if key is None:
                return made
            del self._waiting[key]
            obj = self._cluster.get(*key)
            if obj is None:
                continue
            for write in CONTROLLERS[key.kind](self._cluster, obj, _NOW).writes:
                made += self._apply(write)
            if len(made) > _MOST:
                raise ValueError(f"it makes more than {_MOST} objects")
        raise ValueError("its controllers do not come to rest")

    def _apply(self, write: Write) -> Iterator[Json]:
        match write:
            case CreateObject(_, namespace, body):
                body = {**body, "metadata": {**meta(body), "namespace": namespace}}
                self.put(body)
                yield body
            case PatchObject(key, changes) if (found := self._cluster.get(*key)) is not None:
                self.put(merge_patch(found, changes))
            case DeleteObject(key, uid):
                self._cluster.remove(key, uid)


def with_selector(metadata: Json, spec: Json) -> Json:
    """A Job finds its pods by its own uid, unless it says how."""
    template = spec.get("template")
    if spec.get("selector") or not isinstance(template, dict):
        return spec
    own = {"batch.kubernetes.io/controller-uid": metadata["uid"]}
    known = template.get("metadata") or {}
    named = {"batch.kubernetes.io/job-name": metadata["name"], "job-name": metadata["name"]}
    labels = {**(known.get("labels") or {}), **own, **named, "controller-uid": metadata["uid"]}
    done = {} if "parallelism" in spec or "completions" in spec else {"completions": 1}
    template = {**template, "metadata": {**known, "labels": labels}}
    return {**spec, **done, "selector": {"matchLabels": own}, "template": template}
