"""A cluster in memory and in virtual time: applies what controllers plan, one write at a time."""

from collections.abc import Callable
from random import Random
from typing import Any

from moorage.controllers.cluster import ClusterObjects, Key, key_of
from moorage.controllers.objects import Json, is_active, is_ready, meta, rfc3339, status
from moorage.controllers.plan import CreateObject, DeleteObject, Note, PatchObject, Write
from moorage.controllers.triggers import CONTROLLERS, FOLLOWED, affected, api_version
from moorage.model.meta import merge_patch

START = 1_800_000_000.0
NAMESPACE = "default"
_CLUSTER_WIDE = ("Namespace", "Node", "PersistentVolume", "StorageClass")


class RefusedError(Exception):
    """A write was refused because the object is not as the plan thinks."""


class Stage:
    """What the API server, the clock and the kubelets do in a test."""

    def __init__(self, seed: int = 0) -> None:
        self.cluster = ClusterObjects()
        self.now = START
        self.random = Random(seed)
        self.waiting: dict[Key, None] = {}
        self.due: dict[Key, float] = {}
        self.events: list[str] = []
        self.refused: Callable[[Write], str] = lambda write: ""
        self.watch: Callable[[], None] = lambda: None
        """Called after every single write."""
        self._version = 0

    # ---- what users do ----

    def create(
        self,
        kind: str,
        name: str,
        spec: Json | None = None,
        fields: Json | None = None,
        **metadata: Any,
    ) -> Json:
        """CreateObject an object."""
        body: Json = {
            "apiVersion": api_version(kind),
            "kind": kind,
            "metadata": {"name": name, **metadata},
            **(fields or {}),
        }
        if kind not in _CLUSTER_WIDE:
            body["metadata"].setdefault("namespace", NAMESPACE)
        return self._store(body if spec is None else {**body, "spec": spec})

    def get(self, kind: str, name: str, namespace: str = NAMESPACE) -> Json:
        """One object that must be there."""
        found = self.cluster.get(kind, namespace, name)
        assert found is not None, f"there is no {kind} {name}"
        return found

    def all(self, kind: str) -> list[Json]:
        """The objects of a kind, in order of their names."""
        return sorted(self.cluster.all(kind, NAMESPACE), key=lambda obj: str(meta(obj)["name"]))

    def names(self, kind: str) -> list[str]:
        """Their names."""
        return [meta(obj)["name"] for obj in self.all(kind)]

    def patch(self, kind: str, name: str, namespace: str = NAMESPACE, **changes: Any) -> Json:
        """Change an object by a merge patch."""
        return self._change(self.get(kind, name, namespace), changes)

    def delete(self, kind: str, name: str, namespace: str = NAMESPACE) -> None:
        """Take an object away at once."""
        self._remove(self.get(kind, name, namespace))

    # ---- time, controllers and kubelets ----

    def pass_seconds(self, seconds: float) -> None:
        """Let time pass; who waits for it has its turn."""
        self.now += seconds
        for key, moment in list(self.due.items()):
            if moment <= self.now:
                del self.due[key]
                self.waiting[key] = None

    def step(self) -> bool:
        """One controller looks at one object; False if nobody has anything to do."""
        if not self.waiting:
            return False
        key = self.random.choice(list(self.waiting))
        del self.waiting[key]
        obj = self.cluster.get(*key)
        if obj is None:
            return True
        plan = CONTROLLERS[key.kind](self.cluster, obj, self.now)
        self.due.pop(key, None)
        if plan.again_in is not None:
            self.due[key] = self.now + plan.again_in
        try:
            for write in plan.writes:
                self.apply(write)
                self.watch()
        except RefusedError as error:
            self.cluster.failed(meta(obj)["uid"], str(error))
            self.due[key] = self.now + 1
        else:
            self.cluster.failed(meta(obj)["uid"], "")
        return True

    def settle(self, most: int = 2000) -> None:
        """Controllers work until they have nothing to do, and pods start and go meanwhile."""
        for _ in range(most):
            worked = self.step()
            if not worked and not self.kubelets():
                return
        raise AssertionError("the controllers do not come to rest")

    def kubelets(self) -> bool:
        """All pods that have not come or gone yet do so; False if there were none."""
        busy = False
        for pod in self.cluster.all("Pod", NAMESPACE):
            if meta(pod).get("deletionTimestamp"):
                self._remove(pod)
                busy = True
            elif status(pod).get("phase") == "Pending":
                self.start(pod)
                busy = True
        return busy

    def start(self, pod: Json, *, ready: bool = True) -> None:
        """A kubelet starts a pod."""
        since = {"status": str(ready), "lastTransitionTime": rfc3339(self.now)}
        condition = {"type": "Ready", **since}
        self._change(pod, {"status": {"phase": "Running", "conditions": [condition]}})

    def finish(self, pod: Json, phase: str = "Succeeded", **more: Any) -> None:
        """A pod runs to its end."""
        since = {"status": "False", "lastTransitionTime": rfc3339(self.now)}
        ended = {"phase": phase, "conditions": [{"type": "Ready", **since}], **more}
        self._change(pod, {"status": ended})

    def active(self) -> list[Json]:
        """The pods that count."""
        return [pod for pod in self.all("Pod") if is_active(pod)]

    def available(self) -> int:
        """How many pods serve."""
        return sum(is_ready(pod) for pod in self.active())

    # ---- the API server ----

    def apply(self, write: Write) -> None:
        """Do one write as the API server would, or refuse it."""
        text = self.refused(write)
        if text:
            raise RefusedError(text)
        match write:
            case CreateObject(_, namespace, body, note):
                stored = self._store({**body, "metadata": {**meta(body), "namespace": namespace}})
                self._say(note, meta(stored)["name"])
            case PatchObject(key, changes, _, note):
                found = self.cluster.get(*key)
                guard = changes.get("metadata") or {}
                if found is None or guard.get("uid", meta(found)["uid"]) != meta(found)["uid"]:
                    raise RefusedError(f"{key} is gone")
                if guard.get("resourceVersion") not in (None, meta(found)["resourceVersion"]):
                    raise RefusedError(f"{key} has changed")
                self._change(found, changes)
                self._say(note, key.name)
            case DeleteObject(key, uid, grace, note):
                found = self.cluster.get(*key)
                if found is not None and meta(found)["uid"] == uid:
                    self._begin_deletion(found, grace)
                    self._say(note, key.name)
            case Note():
                self._say(write, "")

    def _begin_deletion(self, obj: Json, grace: int | None) -> None:
        if obj["kind"] == "Pod" and grace != 0 and status(obj).get("phase") == "Running":
            going = {"deletionTimestamp": rfc3339(self.now + 30)}
            self._change(obj, {"metadata": going})
        else:
            self._remove(obj)

    def _say(self, note: Note | None, name: str) -> None:
        if note is not None:
            self.events.append(f"{note.reason}: {note.message.replace('{name}', name)}")

    def _store(self, body: Json) -> Json:
        self._version += 1
        metadata = dict(meta(body))
        metadata.setdefault("name", f"{metadata.get('generateName')}{self._version:05}")
        found = self.cluster.get(body["kind"], metadata.get("namespace", ""), metadata["name"])
        if found is not None:
            raise RefusedError(f"{key_of(found)} already exists")
        metadata |= {
            "uid": f"uid-{self._version}",
            "resourceVersion": str(self._version),
            "creationTimestamp": rfc3339(self.now),
            "generation": 1,
        }
        stored = {**body, "metadata": metadata}
        if body["kind"] == "Pod":
            stored["status"] = {"phase": "Pending", **(body.get("status") or {})}
        self._put(stored)
        return stored

    def _change(self, obj: Json, changes: Json) -> Json:
        self._version += 1
        new = merge_patch(self.get(obj["kind"], meta(obj)["name"], key_of(obj).namespace), changes)
        changed = new.get("spec") != obj.get("spec")
        generation = meta(obj).get("generation", 1) + changed
        version = {"resourceVersion": str(self._version), "generation": generation}
        new = {**new, "metadata": {**meta(new), **version}}
        self._put(new)
        return dict(new)

    def _put(self, obj: Json) -> None:
        before = self.cluster.put(obj)
        self.waiting |= dict.fromkeys(affected(self.cluster, before, obj))

    def _remove(self, obj: Json) -> None:
        self.cluster.remove(key_of(obj))
        self.waiting |= dict.fromkeys(affected(self.cluster, obj, None))
        for kind in FOLLOWED:
            for dependent in self.cluster.controlled(kind, obj):
                self._remove(dependent)


def template(image: str = "nginx:1", **labels: str) -> Json:
    """A pod template."""
    return {
        "metadata": {"labels": labels or {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": image}]},
    }


def workload(replicas: int | None = 3, image: str = "nginx:1", **more: Any) -> Json:
    """The spec of a workload that selects `app: web`."""
    wanted = {} if replicas is None else {"replicas": replicas}
    selector = {"matchLabels": {"app": "web"}}
    return {**wanted, "selector": selector, "template": template(image), **more}
