"""The API server of a simulation: objects as JSON, and everybody who follows hears of each change.

Owns names, uids, versions, refused writes, and how objects go: grace, finalizers, what belonged to
them. Controllers and kubelets write to it as to a live one. Reads no clock.
"""

from collections.abc import Callable, Mapping
from typing import Any

from moorage.apiserver.strategic_merge import strategic_merge
from moorage.apiserver.subresources import set_condition
from moorage.controllers.cluster import ClusterObjects, Key, key_of
from moorage.controllers.objects import Json, is_finished, is_going, meta, rfc3339, spec, status
from moorage.controllers.plan import CreateObject, DeleteObject, PatchObject, Write
from moorage.errors import ApiError
from moorage.kube.resources import RESOURCES
from moorage.model.custom import Definitions
from moorage.model.defaulting import make_uid
from moorage.model.meta import merge_patch
from moorage.simulator.workloads import with_selector

_GRACE = 30
_OWNED = (
    *("ReplicaSet", "Job", "Pod", "ControllerRevision"),
    *("PersistentVolumeClaim", "ResourceClaim"),
)

Follower = Callable[[Json | None, Json | None], None]
"""Is told of an object before and after a change; None if there was or is none."""


class JsonApi:
    """Objects, and what may be done to them."""

    def __init__(self, now: Callable[[], float], definitions: Definitions | None = None) -> None:
        self.cluster = ClusterObjects()
        self.definitions = definitions or Definitions(())
        """What is known of kinds that the model has no type for."""
        self.followers: list[Follower] = []
        self._now = now
        self._version = 0
        self._kinds: dict[str, str] = {}
        """By name (`foos.v1.example.com`), the kinds that the model has no type for."""

    def apply(self, write: Write) -> None:
        """Do what a controller or a kubelet wants, or raise `ApiError`."""
        match write:
            case CreateObject(_, namespace, body):
                self.create({**body, "metadata": {**meta(body), "namespace": namespace}})
            case PatchObject(key, changes):
                self.patch(key, changes)
            case DeleteObject(key, uid, grace):
                self.delete(key, uid, grace)

    def kind_of(self, name: str) -> str:
        """The kind behind a name such as `foos.v1.example.com`; unknown ones are given back."""
        return self._kinds.get(name, name)

    def create(self, given: Mapping[str, Any]) -> Json:
        """Make an object."""
        kind, metadata = given["kind"], {**given["metadata"]}
        if kind not in RESOURCES:
            name, placed = self.definitions.place(dict(given))
            self._kinds[str(name)], metadata = kind, placed["metadata"]
        elif RESOURCES[kind].namespaced:
            metadata["namespace"] = metadata.get("namespace") or "default"
        else:
            metadata.pop("namespace", None)
        metadata.setdefault("name", f"{metadata.get('generateName', '')}{self._version + 1}")
        key = Key(kind, metadata.get("namespace", ""), metadata["name"])
        if self.cluster.get(*key) is not None:
            raise ApiError(409, "AlreadyExists", f'{kind} "{key.name}" already exists')
        # What was read from a cluster keeps its uid: owners are named by it.
        uid = metadata.get("uid", "")
        if not uid or self.cluster.is_gone(uid):
            uid = make_uid(kind, key.namespace, f"{key.name}/{self._version + 1}")
        metadata["uid"] = uid
        metadata |= {"creationTimestamp": rfc3339(self._now()), "generation": 1}
        obj = {**given, "metadata": metadata}
        if kind == "Pod":
            obj["status"] = {"phase": "Pending", **(given.get("status") or {})}
        elif kind == "Job":
            obj["spec"] = with_selector(metadata, spec(obj))
        return self._put(None, obj)

    def patch(self, key: Key, changes: Json) -> Json:
        """Change parts of an object, if it is the one that is meant."""
        old = self.get(key)
        guard = changes.get("metadata") or {}
        for name in ("uid", "resourceVersion"):
            if guard.get(name) not in (None, meta(old)[name]):
                raise ApiError(409, "Conflict", f"{key} has changed")
        new = merge_patch(old, changes)
        if "spec" in changes:
            generation = (meta(old).get("generation") or 0) + 1
            new["metadata"] = {**meta(new), "generation": generation}
        new = self._put(old, new)
        if is_going(new) and not meta(new).get("deletionGracePeriodSeconds"):
            self._remove_unless_held(new)
        return new

    def patch_status(self, key: Key, changes: Json, uid: str = "") -> Json:
        """Change parts of a status, as strategic merge patches do."""
        old = self.get(key)
        if uid not in ("", meta(old)["uid"]):
            raise ApiError(409, "Conflict", f"{key} is another one")
        return self._put(old, {**old, "status": strategic_merge(status(old), changes)})

    def bind(self, key: Key, uid: str, node: str) -> None:
        """Assign a pod to a node, once and for good."""
        old = self.get(key)
        if uid != meta(old)["uid"] or is_going(old) or spec(old).get("nodeName"):
            raise ApiError(409, "Conflict", f"{key} cannot be assigned to a node any more")
        news = {**status(old), "conditions": list(status(old).get("conditions") or ())}
        news.pop("nominatedNodeName", None)
        set_condition(news, {"type": "PodScheduled", "status": "True"}, rfc3339(self._now()))
        self._put(old, {**old, "spec": {**spec(old), "nodeName": node}, "status": news})

    def delete(self, key: Key, uid: str = "", grace: int | None = None) -> None:
        """Begin the end of an object; a pod that runs has its time of grace."""
        old = self.get(key)
        if uid not in ("", meta(old)["uid"]):
            raise ApiError(409, "Conflict", f"{key} is another one")
        if key.kind == "Pod" and grace != 0 and spec(old).get("nodeName") and not is_finished(old):
            if is_going(old):
                return
            allowed = spec(old).get("terminationGracePeriodSeconds", _GRACE)
            self._end(old, allowed if grace is None else grace)
        else:
            self._remove_unless_held(old)

    def _end(self, old: Json, grace: int) -> Json:
        at = rfc3339(self._now() + grace)
        marks = {"deletionTimestamp": at, "deletionGracePeriodSeconds": grace}
        return self._put(old, {**old, "metadata": {**meta(old), **marks}})

    def _remove_unless_held(self, old: Json) -> None:
        if meta(old).get("finalizers"):
            if not is_going(old) or meta(old).get("deletionGracePeriodSeconds"):
                self._end(old, 0)
            return
        self.cluster.remove(key_of(old))
        self._tell(old, None)
        for kind in _OWNED:
            for obj in self.cluster.controlled(kind, old):
                self.delete(key_of(obj), meta(obj)["uid"])

    def get(self, key: Key) -> Json:
        """One object."""
        found = self.cluster.get(*key)
        if found is None:
            raise ApiError(404, "NotFound", f"{key} not found")
        return found

    def _put(self, old: Json | None, new: Json) -> Json:
        self._version += 1
        new["metadata"] = {**meta(new), "resourceVersion": str(self._version)}
        self.cluster.put(new)
        self._tell(old, new)
        return new

    def _tell(self, before: Json | None, after: Json | None) -> None:
        for follower in self.followers:
            follower(before, after)
