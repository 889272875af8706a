"""The controllers write what the real kube-apiserver accepts, and come to rest on it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from e2e.binaries import Binaries
from moorage.controllers.triggers import FOLLOWED
from moorage.controlplane.plane import control_plane
from moorage.errors import ApiError
from moorage.kube import deep_json
from moorage.kube.client import KubeClient
from moorage.kube.event_recorder import EventRecorder
from moorage.kube.kubeconfig import Kubeconfig
from moorage.kube.requests import Json
from moorage.kube.resources import Resource, resource_for
from moorage.local.controllers import Controllers

_SECONDS = 60
_GONE = 404
_READY = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}


class _Plane:
    """The real API server, our controllers, and kubelets of one node."""

    def __init__(self, client: KubeClient, recorder: EventRecorder) -> None:
        self.client = client
        self.recorder = recorder

    async def all(self, kind: str) -> list[Json]:
        """The objects of a kind."""
        listing = await self.client.list_all(_resource(kind), lambda raw: deep_json.decode(raw))
        found = [obj for obj in listing.items if isinstance(obj, dict)]
        return [obj for obj in found if obj["metadata"].get("namespace") in (None, "default")]

    async def status(self, kind: str) -> Json:
        """The status of the only object of a kind."""
        (only,) = await self.all(kind)
        found: Json = only.get("status") or {}
        return found

    async def create(self, kind: str, name: str, spec: Json) -> None:
        """Create an object."""
        body = {"metadata": {"name": name}, "spec": spec}
        await self.client.create(_resource(kind), "" if kind == "Node" else "default", body)

    async def until(self, kind: str, says: Callable[[Json], bool]) -> None:
        """Play the kubelets until the status of the only object of a kind says something."""
        while not says(await self.status(kind)):
            for pod in await self.all("Pod"):
                try:
                    await self._kubelet(pod)
                except ApiError as error:
                    if error.status != _GONE:
                        raise
            await asyncio.sleep(0.02)

    async def _kubelet(self, pod: Json) -> None:
        name, pods = pod["metadata"]["name"], _resource("Pod")
        if pod["metadata"].get("deletionTimestamp"):
            await self.client.delete(pods, "default", name, grace_seconds=0)
        elif pod["status"]["phase"] == "Pending":
            job = pod["metadata"]["ownerReferences"][0]["kind"] == "Job"
            ready = {**_READY, "status": str(not job)}
            status = {"phase": "Succeeded" if job else "Running", "conditions": [ready]}
            changes = {"status": status}
            await self.client.patch(pods, "default", name, changes, subresource="status")


def _resource(kind: str) -> Resource:
    return resource_for(FOLLOWED[kind])


@contextlib.asynccontextmanager
async def _working(access: Any) -> AsyncIterator[_Plane]:
    async with contextlib.AsyncExitStack() as stack:
        clients = [KubeClient(access, qps=1e5, burst=10**5) for _ in range(3)]
        for client in clients:
            stack.push_async_callback(client.close)
        recorder = EventRecorder(clients[0])
        recorder.start()
        task = asyncio.create_task(Controllers(clients[1], recorder).run())
        try:
            yield _Plane(clients[2], recorder)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await recorder.close()
            assert (recorder.failed, recorder.dropped) == (0, 0)


def _workload(**more: Any) -> Json:
    container = {"name": "c", "image": "app:1"}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    return {"selector": {"matchLabels": {"app": "web"}}, "template": template, **more}


async def _try_all(plane: _Plane) -> None:
    await plane.create("Node", "n1", {})
    await plane.create("Deployment", "web", _workload(replicas=3))
    await plane.until("Deployment", lambda status: status.get("availableReplicas") == 3)
    change = [{"name": "c", "image": "app:2"}]
    spec = {"template": {"spec": {"containers": change}}}
    await plane.client.patch(_resource("Deployment"), "default", "web", {"spec": spec})
    await plane.until(
        "Deployment",
        lambda status: (
            status["observedGeneration"] == 2
            and status.get("updatedReplicas") == status.get("replicas") == 3
            and status.get("availableReplicas") == 3
        ),
    )
    apart = {"matchLabels": {"app": "db"}}
    labels = {"metadata": {"labels": {"app": "db"}}}
    own = {**_workload(), "selector": apart}
    own["template"] = {**own["template"], **labels}
    await plane.create("PodDisruptionBudget", "db", {"selector": apart, "maxUnavailable": 1})
    await plane.create("StatefulSet", "db", {**own, "replicas": 2, "serviceName": "db"})
    await plane.until("StatefulSet", lambda status: status.get("availableReplicas") == 2)
    await plane.until("PodDisruptionBudget", lambda status: status.get("expectedPods") == 2)
    await plane.until("PodDisruptionBudget", lambda status: status["disruptionsAllowed"] == 1)
    await plane.create("DaemonSet", "agent", _apart("agent"))
    await plane.until("DaemonSet", lambda status: status.get("numberAvailable") == 1)
    pod = {"restartPolicy": "Never", "containers": change}
    job = {"completions": 2, "completionMode": "Indexed", "template": {"spec": pod}}
    await plane.create("Job", "j", job)
    await plane.until("Job", lambda status: bool(status.get("completionTime")))
    assert (await plane.status("Job"))["completedIndexes"] == "0,1"


def _apart(app: str) -> Json:
    spec = _workload()
    metadata = {"labels": {"app": app}}
    template = {**spec["template"], "metadata": metadata}
    return {"selector": {"matchLabels": {"app": app}}, "template": template}


async def _versions(plane: _Plane) -> dict[str, str]:
    return {
        f"{kind} {obj['metadata']['name']}": obj["metadata"]["resourceVersion"]
        for kind in FOLLOWED
        if kind != "Node"
        for obj in await plane.all(kind)
    }


def test_workloads_reach_what_they_ask_for_and_then_nothing_is_written(binaries: Binaries) -> None:
    async def work(access: Any) -> None:
        async with asyncio.timeout(_SECONDS), _working(access) as plane:
            await _try_all(plane)
            before: dict[str, str] = {}
            while before != (now := await _versions(plane)):
                before = now
                await asyncio.sleep(1)

    with control_plane(binaries.kubectl.parent) as running:
        asyncio.run(work(Kubeconfig([running.kubeconfig()], must_exist=True).access()))
