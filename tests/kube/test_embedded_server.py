"""The client side against Moorage's own API server: they meet only over HTTP."""

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kube.fake_api import JumpingTimer, Recorder, run
from moorage.apiserver.server import ApiServer
from moorage.errors import ApiError
from moorage.kube import requests
from moorage.kube.access import Access
from moorage.kube.access_discovery import scheduler_access
from moorage.kube.client import KubeClient
from moorage.kube.event_recorder import EventRecorder
from moorage.kube.informers import Informers
from moorage.kube.resources import RESOURCES
from moorage.model.decode import KINDS
from moorage.model.pod import Pod

POD, NODE, LEASE = RESOURCES["Pod"], RESOURCES["Node"], RESOURCES["Lease"]


def _pod(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }


def _node(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


class Cluster:
    """An embedded server, a client of it and informers."""

    def __init__(self, *kinds: str, **server: Any) -> None:
        self.server = ApiServer(**server)
        self.kinds = kinds
        self.timer = JumpingTimer()

    async def __aenter__(self) -> "Cluster":
        await self.server.start()
        self.port = int(self.server.url.rsplit(":", 1)[1])
        self.client = KubeClient(Access(server=self.server.url), qps=0, timer=self.timer, env={})
        self.informers = Informers(self.client, self.kinds, timer=self.timer, random=Random(1))
        self.recorders = {kind: Recorder() for kind in self.kinds}
        for kind, recorder in self.recorders.items():
            self.informers.add_handler(kind, recorder)
        self.informers.start()
        await self.informers.wait_for_sync(10)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.informers.stop()
        await self.client.close()
        await self.server.stop()


def test_every_kind_syncs() -> None:
    async def scenario() -> None:
        async with Cluster(*KINDS) as cluster:
            assert cluster.informers.has_synced
            assert "default" in cluster.informers.stores["Namespace"].objects
            assert not any(cluster.informers.skipped_by_kind().values())

    run(scenario())


def test_list_watch_and_bind() -> None:
    async def scenario() -> None:
        async with Cluster("Pod", "Node") as cluster:
            client, pods = cluster.client, cluster.recorders["Pod"]
            await client.create(NODE, "", _node("n1"))
            made = await client.create(POD, "default", _pod("web"))
            await pods.until(lambda: "default/web" in pods.objects)
            await client.send(requests.bind("default", "web", made["metadata"]["uid"], "n1"))

            def bound() -> bool:
                pod = pods.objects["default/web"]
                return isinstance(pod, Pod) and pod.spec.node_name == "n1"

            await pods.until(bound)
            with pytest.raises(ApiError) as caught:
                await client.send(requests.bind("default", "web", made["metadata"]["uid"], "n1"))
            assert caught.value.is_conflict
            with pytest.raises(ApiError) as caught:
                await client.delete(POD, "default", "web", uid="another")
            assert caught.value.is_conflict
            await client.patch_pod_status("default", "web", {"phase": "Succeeded"})
            await pods.until(lambda: not pods.objects)
            assert [event[0] for event in pods.events][-1] == "delete"
            await client.delete(POD, "default", "web", grace_seconds=0)
            with pytest.raises(ApiError) as caught:
                await client.get(POD, "default", "web")
            assert caught.value.is_not_found

    run(scenario())


def test_patches_leases_and_events() -> None:
    async def scenario() -> None:
        async with Cluster("Pod") as cluster:
            client = cluster.client
            await client.create(POD, "default", _pod("web"))
            for body, content_type in [
                ({"metadata": {"labels": {"a": "1"}}}, requests.MERGE),
                ({"metadata": {"labels": {"b": "2"}}}, requests.STRATEGIC),
                (
                    [{"op": "add", "path": "/metadata/labels/c", "value": "3"}],
                    requests.JSON_PATCH,
                ),
            ]:
                answer = await client.patch(POD, "default", "web", body, content_type=content_type)
            assert answer["metadata"]["labels"] == {"a": "1", "b": "2", "c": "3"}
            lease: dict[str, Any] = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": "kube-scheduler", "namespace": "kube-system"},
                "spec": {"holderIdentity": "me"},
            }
            made = await client.create(LEASE, "kube-system", lease)
            made["spec"]["holderIdentity"] = "you"
            await client.update(LEASE, "kube-system", "kube-scheduler", made)
            with pytest.raises(ApiError) as caught:
                await client.update(LEASE, "kube-system", "kube-scheduler", made)
            assert caught.value.is_conflict
            pods = cluster.recorders["Pod"]
            await pods.until(lambda: pods.objects["default/web"].labels.get("c") == "3")
            recorder = EventRecorder(client, hostname="h")
            recorder.start()
            for _ in range(4):
                recorder.event(
                    pods.objects["default/web"],
                    "Warning",
                    "FailedScheduling",
                    "Scheduling",
                    "0/0 nodes",
                    controller="default-scheduler",
                )
            await recorder.close()
            listing = await client.list_all(RESOURCES["Event"], bytes, "default")
            assert len(listing.items) == 1
            assert b'"count":4' in listing.items[0].replace(b" ", b"")
            assert recorder.failed == 0

    run(scenario())


def test_cuts_compaction_and_throttling_lose_nothing() -> None:
    async def scenario() -> None:
        async with Cluster("Pod") as cluster:
            generator = Random(7)
            alive: set[str] = set()
            for number in range(150):
                name = f"p{number}"
                await cluster.client.create(POD, "default", _pod(name))
                alive.add(name)
                if number % 3 == 0:
                    gone = generator.choice(sorted(alive))
                    alive.discard(gone)
                    await cluster.client.delete(POD, "default", gone, grace_seconds=0)
                if number % 7 == 0:
                    cluster.server.faults.cut_watches()
                if number % 31 == 0:
                    cluster.server.faults.compact()
                if number % 11 == 0:
                    cluster.server.faults.throttle(0.5, retry_after=1, times=3)
            pods = cluster.recorders["Pod"]
            await pods.until(lambda: {obj.name for obj in pods.objects.values()} == alive)
            assert pods.synced == 1

    run(scenario())


def test_server_restarts_with_its_data(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster("Pod", data=tmp_path) as cluster:
            await cluster.client.create(POD, "default", _pod("before"))
            pods = cluster.recorders["Pod"]
            await pods.until(lambda: "default/before" in pods.objects)
            await cluster.server.stop()
            cluster.server = ApiServer(data=tmp_path)
            await cluster.server.start(port=cluster.port)
            await cluster.client.create(POD, "default", _pod("after"))
            await pods.until(lambda: "default/after" in pods.objects)
            assert [event[:2] for event in pods.events] == [("add", "before"), ("add", "after")]

    run(scenario())


def test_its_kubeconfig_over_tls(tmp_path: Path) -> None:
    async def scenario() -> None:
        server = ApiServer()
        await server.start(tls=True)
        server.write_kubeconfig(tmp_path / "config")
        access = scheduler_access(str(tmp_path / "config"), env={})
        async with KubeClient(access, env={}) as client:
            await client.create(NODE, "", _node("n1"))
            informers = Informers(client, ["Node"])
            informers.start()
            await informers.wait_for_sync(10)
            assert set(informers.stores["Node"].objects) == {"n1"}
            await informers.stop()
        await server.stop()

    run(scenario())


def test_many_clients_at_once() -> None:
    async def scenario() -> None:
        async with Cluster("Pod") as cluster:
            names = [f"p{number:03}" for number in range(300)]
            await asyncio.gather(
                *(cluster.client.create(POD, "default", _pod(name)) for name in names)
            )
            pods = cluster.recorders["Pod"]
            await pods.until(lambda: len(pods.objects) == 300)
            assert sorted(event[1] for event in pods.events) == names

    run(scenario())
