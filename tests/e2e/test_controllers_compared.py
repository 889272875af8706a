"""The same script with the real API server and controller manager, and with those of `moorage up`.

After each step all objects must come to be the same, up to names that are drawn and times.
"""

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from e2e.binaries import Binaries
from moorage.config import DEFAULT_FEATURE_GATES, default_config
from moorage.controllers.kubelet import KubeletOptions
from moorage.controlplane.plane import ADMIN, ControlPlane, TokenUser
from moorage.engine.clock import WallClock
from moorage.kube import deep_json
from moorage.kube.client import KubeClient
from moorage.kube.event_recorder import EventRecorder
from moorage.kube.kubeconfig import Kubeconfig
from moorage.kube.live import LiveScheduler, build_scheduler
from moorage.kube.requests import MERGE, Json, Request
from moorage.kube.resources import Resource, resource_for
from moorage.local.cluster import LocalCluster
from moorage.local.creation import create_missing
from moorage.local.kubelets import create_nodes, kubelets
from moorage.plugins.defaults import in_tree_registry
from moorage.simulator.node_shapes import node_manifests

_PATIENCE = 60
_POLL_SECONDS = 0.25
_QUIET = 12
"""So many looks in a row must see the same, for it to be what a controller leaves behind."""
_KINDS = {
    "ControllerRevision": "controllerrevisions.v1.apps",
    "DaemonSet": "daemonsets.v1.apps",
    "Deployment": "deployments.v1.apps",
    "Job": "jobs.v1.batch",
    "Node": "nodes.v1.",
    "PersistentVolume": "persistentvolumes.v1.",
    "PersistentVolumeClaim": "persistentvolumeclaims.v1.",
    "Pod": "pods.v1.",
    "PodDisruptionBudget": "poddisruptionbudgets.v1.policy",
    "ReplicaSet": "replicasets.v1.apps",
    "ReplicationController": "replicationcontrollers.v1.",
    "ResourceClaim": "resourceclaims.v1.resource.k8s.io",
    "ResourceClaimTemplate": "resourceclaimtemplates.v1.resource.k8s.io",
    "ServiceAccount": "serviceaccounts.v1.",
    "StatefulSet": "statefulsets.v1.apps",
    "StorageClass": "storageclasses.v1.storage.k8s.io",
}
_FLAGS = {
    # Pods of ours are given no tokens, and volumes in use are not protected.
    "disable-admission-plugins": "ServiceAccount,StorageObjectInUseProtection",
}
_DRAWN = {
    *("uid", "resourceVersion", "generation", "managedFields", "creationTimestamp"),
    *("observedGeneration", "deletionTimestamp", "deletionGracePeriodSeconds"),
}
_ZONE = "topology.kubernetes.io/zone"
_OF_PODS = ("nodeName", "serviceAccount", "serviceAccountName")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


class _Cluster:
    """A real API server with somebody's controllers, our scheduler and our kubelets."""

    def __init__(self, client: KubeClient) -> None:
        self.client = client

    async def create(self, kind: str, name: str, **content: Any) -> None:
        """Create an object."""
        of = _resource(kind)
        body = {"metadata": {"name": name}, **content}
        await self.client.create(of, _namespace(kind), body)

    async def patch(self, kind: str, name: str, **changes: Any) -> None:
        """Change an object."""
        of = _resource(kind)
        await self.client.patch(of, _namespace(kind), name, changes, content_type=MERGE)

    async def delete(self, kind: str, name: str, propagation: str = "Background") -> None:
        """Delete an object."""
        path = _resource(kind).item(_namespace(kind), name)
        await self.client.json(Request("DELETE", path, body={"propagationPolicy": propagation}))

    async def look(self) -> list[str]:
        """All objects, without what is drawn by lot."""
        found: list[Json] = []
        for kind in _KINDS:
            listing = await self.client.list_all(_resource(kind), deep_json.decode)
            found += [
                {"kind": kind, **obj}
                for obj in listing.items
                if isinstance(obj, dict) and obj["metadata"].get("namespace") in (None, "default")
            ]
        return _comparable(found)


def _resource(kind: str) -> Resource:
    return resource_for(_KINDS[kind])


def _namespace(kind: str) -> str:
    return "" if kind in ("Node", "PersistentVolume", "StorageClass") else "default"


def _comparable(objects: Sequence[Json]) -> list[str]:
    """Each object as text, without drawn names, uids and times, so that two clusters can agree."""
    drawn: dict[str, str] = {}
    for obj in objects:
        metadata, spec = obj["metadata"], obj.get("spec") or {}
        owners = metadata.get("ownerReferences") or [{"name": ""}]
        # A hash stands for a template, which the image tells.
        if obj["kind"] == "ReplicaSet" and "pod-template-hash" in (metadata.get("labels") or {}):
            image = spec["template"]["spec"]["containers"][0]["image"]
            drawn[metadata["labels"]["pod-template-hash"]] = f"<{image}>"
        elif obj["kind"] == "ControllerRevision":
            image = obj["data"]["spec"]["template"]["spec"]["containers"][0]["image"]
            drawn[metadata["name"].removeprefix(f"{owners[0]['name']}-")] = f"<{image}>"
        if "generateName" in metadata:
            drawn[metadata["name"]] = f"{metadata['generateName']}*"
        drawn[metadata["uid"]] = f"<uid of {obj['kind']} {metadata['name']}>"
    found = []
    for obj in objects:
        text = json.dumps(_without_drawn(_seen(obj)), sort_keys=True)
        for name in sorted(drawn, key=len, reverse=True):
            text = text.replace(name, drawn[name])
        found.append(_TIME.sub("T", text))
    return sorted(found)


def _seen(obj: Json) -> Json:
    """What controllers have a part in; the rest is the kubelets' and the scheduler's."""
    kind, metadata, status = obj["kind"], obj["metadata"], obj.get("status") or {}
    if kind == "Node":
        return {"kind": kind, "name": metadata["name"], "spec": obj["spec"]}
    seen = {**obj, "apiVersion": ""}
    if kind.startswith("PersistentVolume"):  # ours are not protected while in use
        seen |= {
            "metadata": {**metadata, "finalizers": None},
            "status": {"phase": status["phase"], "capacity": status.get("capacity")},
        }
    if kind == "Pod":
        labels = metadata.get("labels") or {}
        own = {name: value for name, value in labels.items() if name != _ZONE}
        spec = {name: value for name, value in obj["spec"].items() if name not in _OF_PODS}
        claims = status.get("resourceClaimStatuses")
        seen |= {
            "metadata": {**metadata, "labels": own},
            "spec": spec,
            "status": {"phase": status["phase"], "claims": claims},
        }
    return seen


def _without_drawn(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_drawn(one) for name, one in value.items() if name not in _DRAWN}
    if isinstance(value, list):
        return sorted((_without_drawn(one) for one in value), key=json.dumps)
    return value


# ---- the script ----


def _template(app: str, image: str = "app:1", **spec: Any) -> Json:
    containers = [{"name": "c", "image": image}]
    return {"metadata": {"labels": {"app": app}}, "spec": {"containers": containers, **spec}}


def _workload(app: str, replicas: int | None = None, image: str = "app:1", **more: Any) -> Json:
    count = {} if replicas is None else {"replicas": replicas}
    selector = {"matchLabels": {"app": app}}
    return {**count, "selector": selector, "template": _template(app, image), **more}


def _image(image: str) -> Json:
    return {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}


def _job(**spec: Any) -> Json:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "job:1"}]}}
    return {"template": template, **spec}


Step = tuple[str, Callable[[_Cluster], Awaitable[None]]]


def _steps() -> list[Step]:
    deployment, stateful, daemons = "Deployment", "StatefulSet", "DaemonSet"
    pdb = {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": "25%"}
    recreate = {"type": "Recreate", "rollingUpdate": None}
    partition = {"rollingUpdate": {"partition": 1}}
    disk = {
        "capacity": {"storage": "2Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/disk"},
    }
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "",
    }
    device = {"devices": {"requests": [{"name": "d", "exactly": {"deviceClassName": "gpu"}}]}}
    claims = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    out = [{"key": "away", "value": "now", "effect": "NoExecute"}]
    return [
        ("a deployment", lambda c: c.create(deployment, "web", spec=_workload("web", 3))),
        ("a budget", lambda c: c.create("PodDisruptionBudget", "web", spec=pdb)),
        ("it grows", lambda c: c.patch(deployment, "web", spec={"replicas": 5})),
        ("it rolls", lambda c: c.patch(deployment, "web", spec=_image("app:2"))),
        ("it is undone", lambda c: c.patch(deployment, "web", spec=_image("app:1"))),
        ("it is paused", lambda c: c.patch(deployment, "web", spec={"paused": True})),
        ("it rolls not", lambda c: c.patch(deployment, "web", spec=_image("app:3"))),
        ("but shrinks", lambda c: c.patch(deployment, "web", spec={"replicas": 2})),
        ("it goes on", lambda c: c.patch(deployment, "web", spec={"paused": None})),
        (
            "it is made anew",
            lambda c: c.patch(deployment, "web", spec={"strategy": recreate, **_image("app:4")}),
        ),
        ("it rests", lambda c: c.patch(deployment, "web", spec={"replicas": 0})),
        ("it leaves orphans", lambda c: c.delete(deployment, "web", "Orphan")),
        ("a set", lambda c: c.create(stateful, "db", spec=_workload("db", 3, serviceName="db"))),
        (
            "its later part rolls",
            lambda c: c.patch(
                stateful, "db", spec={"updateStrategy": partition, **_image("app:2")}
            ),
        ),
        ("it shrinks", lambda c: c.patch(stateful, "db", spec={"replicas": 1})),
        ("it goes", lambda c: c.delete(stateful, "db")),
        ("daemons", lambda c: c.create(daemons, "agent", spec=_workload("agent"))),
        ("they roll", lambda c: c.patch(daemons, "agent", spec=_image("app:2"))),
        ("a node is cordoned", lambda c: c.patch("Node", "node-0", spec={"unschedulable": True})),
        ("another drives out", lambda c: c.patch("Node", "node-1", spec={"taints": out})),
        ("they go", lambda c: c.delete(daemons, "agent", "Foreground")),
        ("all may come back", lambda c: c.patch("Node", "node-1", spec={"taints": None})),
        ("a job", lambda c: c.create("Job", "sum", spec=_job(completions=3, parallelism=2))),
        (
            "an indexed job",
            lambda c: c.create("Job", "parts", spec=_job(completions=3, completionMode="Indexed")),
        ),
        ("a suspended job", lambda c: c.create("Job", "later", spec=_job(suspend=True))),
        (
            "a controller",
            lambda c: c.create(
                "ReplicationController",
                "old",
                spec={"replicas": 2, "selector": {"app": "old"}, "template": _template("old")},
            ),
        ),
        ("a volume", lambda c: c.create("PersistentVolume", "disk", spec=disk)),
        ("its claim", lambda c: c.create("PersistentVolumeClaim", "data", spec=claim)),
        ("the claim goes", lambda c: c.delete("PersistentVolumeClaim", "data")),
        ("devices", lambda c: c.create("ResourceClaimTemplate", "gpu", spec={"spec": device})),
        (
            "a pod that wants one",
            lambda c: c.create("Pod", "p", spec=_template("p", resourceClaims=claims)["spec"]),
        ),
    ]


# ---- both ----


@contextlib.asynccontextmanager
async def _theirs(plane: ControlPlane) -> AsyncIterator[_Cluster]:
    """The real API server with kube-controller-manager, our scheduler and our kubelets."""
    access = Kubeconfig([plane.kubeconfig()], must_exist=True).access()
    await create_nodes(access, node_manifests(3))
    async with contextlib.AsyncExitStack() as stack:
        clients = [KubeClient(access, qps=1e5, burst=10**5) for _ in range(4)]
        for client in clients:
            stack.push_async_callback(client.close)
        scheduler = build_scheduler(
            default_config(), in_tree_registry(), DEFAULT_FEATURE_GATES, WallClock()
        )
        live = LiveScheduler(scheduler, clients[0], EventRecorder(clients[1]))
        running = asyncio.create_task(kubelets(clients[2], KubeletOptions()).run())
        scheduling = asyncio.create_task(live.run())
        try:
            yield _Cluster(clients[3])
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            live.stop()
            await scheduling


@contextlib.asynccontextmanager
async def _ours() -> AsyncIterator[_Cluster]:
    """What `moorage up` runs."""
    local = LocalCluster(default_config(), in_tree_registry(), DEFAULT_FEATURE_GATES)
    try:
        await local.start()
        await create_missing(local.client(), node_manifests(3))
        local.start_controllers()
        yield _Cluster(local.client())
    finally:
        await local.stop()


async def _left_behind(cluster: _Cluster) -> list[str]:
    """What is there when nobody has anything more to do."""
    seen: list[str] = []
    quiet = 0
    async with asyncio.timeout(_PATIENCE):
        while quiet < _QUIET:
            now = await cluster.look()
            quiet = quiet + 1 if now == seen else 0
            seen = now
            await asyncio.sleep(_POLL_SECONDS)
    return seen


async def _until(cluster: _Cluster, wanted: list[str]) -> list[str]:
    """What is there: as wanted, or when time is up."""
    seen: list[str] = []
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_PATIENCE):
            while seen != wanted:
                await asyncio.sleep(_POLL_SECONDS)
                seen = await cluster.look()
    return seen


def test_each_step_leaves_what_kube_controller_manager_leaves(
    binaries: Binaries, tmp_path: Path
) -> None:
    steps = _steps()

    async def theirs(plane: ControlPlane) -> list[list[str]]:
        async with _theirs(plane) as cluster:
            found = [await _left_behind(cluster)]
            for _, step in steps:
                await step(cluster)
                found.append(await _left_behind(cluster))
            return found

    async def ours(wanted: list[list[str]]) -> None:
        async with _ours() as cluster:
            assert await _until(cluster, wanted[0]) == wanted[0]
            for (name, step), expected in zip(steps, wanted[1:], strict=True):
                await step(cluster)
                assert await _until(cluster, expected) == expected, name

    users = {ADMIN: TokenUser("admin", "system:masters")}
    plane = ControlPlane(binaries.kubectl.parent, tmp_path, users, _FLAGS, controllers=True)
    try:
        wanted = asyncio.run(theirs(plane))
    finally:
        plane.stop()
    asyncio.run(ours(wanted))
