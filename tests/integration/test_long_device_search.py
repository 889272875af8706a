"""Claims whose search for devices takes long: the loop goes on, and other pods are bound."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from moorage.apiserver.resources import BY_PLURAL
from moorage.apiserver.server import ApiServer
from moorage.config import DEFAULT_FEATURE_GATES, load_config
from moorage.engine.clock import WallClock
from moorage.kube.access import Access
from moorage.kube.client import KubeClient
from moorage.kube.event_recorder import EventRecorder
from moorage.kube.live import LiveScheduler, build_scheduler
from moorage.kube.resources import resource_for
from moorage.plugins.defaults import in_tree_registry

Json = dict[str, Any]
SECONDS = 60
DRIVER = "gpu.example.com"
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
"""
RESOURCE = "resource.k8s.io/v1"
HOPELESS: list[Json] = [{"count": 10}, {"selectors": ["false"]}]
"""Millions of ways to choose the first ten devices, none of which helps the second request."""
COSTLY: list[Json] = [
    {"selectors": ["lists.range(480).all(a,lists.range(480).all(b,device.driver!=''))"]}
]
"""Just below the limit on costs, for each of many different devices."""
BACKTRACKING: list[Json] = [
    {"selectors": [f"device.attributes['{DRIVER}'].text.matches('(a+)+$') && false"]},
]


class Stage:
    """A server and a scheduler at work on it."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        access = Access(server=server.url, source="test")
        self._clients = [KubeClient(access, qps=1e6, burst=10**6) for _ in range(3)]
        self.client = self._clients[0]
        config = load_config(CONFIG, "test")
        self.scheduler = build_scheduler(
            config, in_tree_registry(), DEFAULT_FEATURE_GATES, WallClock()
        )
        self.live = LiveScheduler(self.scheduler, self._clients[1], EventRecorder(self._clients[2]))
        self.work = asyncio.create_task(self.live.run())

    async def close(self) -> None:
        self.live.stop()
        await asyncio.gather(self.work, return_exceptions=True)
        for client in self._clients:
            await client.close()

    async def create(self, kind: str, name: str, namespace: str = "", **parts: Any) -> None:
        version = "v1" if kind in ("Node", "Pod") else RESOURCE
        body = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **parts}
        await self.client.create(resource_for(kind), namespace, body)

    async def begin(self, requests: list[Json]) -> None:
        """A node with devices, and a pod with a claim that is hard to satisfy."""
        amounts = {"cpu": "4", "memory": "64Gi", "pods": "110"}
        await self.create("Node", "n1", status={"allocatable": amounts, "capacity": amounts})
        devices = [
            {"name": f"d{i}", "attributes": {"text": {"string": f"{'a' * 50}!{i}"}}}
            for i in range(60)
        ]
        pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "nodeName": "n1", "pool": pool, "devices": devices}
        await self.create("ResourceSlice", "s1", spec=spec)
        await self.create("DeviceClass", "gpu", spec={})
        asked = [
            {"name": f"r{i}", "exactly": _exactly(**request)} for i, request in enumerate(requests)
        ]
        claim = {"devices": {"requests": asked}}
        await self.create("ResourceClaim", "hard", "default", spec=claim)
        await until(lambda: "n1" in self.scheduler.state.nodes.row_of)
        await self.create_pod("hostile", {"resourceClaims": [_CLAIM]})

    async def create_pod(self, name: str, spec: Json | None = None) -> None:
        container = {"name": "c", "image": "i"}
        await self.create("Pod", name, "default", spec={"containers": [container], **(spec or {})})

    def pod(self, name: str) -> Json:
        pods = self.server.store.collection(BY_PLURAL["", "v1", "pods"].storage)
        found = {one.key.rpartition("/")[2]: one.object() for one in pods.all()}
        return found[name]

    def is_bound(self, name: str) -> bool:
        return bool(self.pod(name)["spec"].get("nodeName"))


_CLAIM = {"name": "gpu", "resourceClaimName": "hard"}


def _exactly(count: int = 1, selectors: list[str] | None = None) -> Json:
    wanted = [{"cel": {"expression": expression}} for expression in selectors or ()]
    return {
        "deviceClassName": "gpu",
        "allocationMode": "ExactCount",
        "count": count,
        "selectors": wanted,
    }


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


def run(test: Callable[[Stage], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(SECONDS):
            server = ApiServer(seed=7)
            await server.start()
            try:
                stage = Stage(server)
                try:
                    await until(lambda: stage.live.synced)
                    await test(stage)
                finally:
                    await stage.close()
            finally:
                await server.stop()

    asyncio.run(bounded())


@pytest.mark.parametrize("requests", [HOPELESS, COSTLY, BACKTRACKING])
def test_ordinary_pods_are_bound_while_a_claim_is_hard_to_satisfy(requests: list[Json]) -> None:
    async def test(stage: Stage) -> None:
        await stage.begin(requests)
        for number in range(3):
            await stage.create_pod(f"ordinary{number}")
            await until(lambda number=number: stage.is_bound(f"ordinary{number}"))  # type: ignore[misc]
        assert not stage.is_bound("hostile") or requests is COSTLY

    run(test)


def test_the_loop_goes_on_during_a_search_and_news_waits_for_its_end() -> None:
    async def test(stage: Stage) -> None:
        await stage.begin(HOPELESS)
        await until(lambda: stage.live.informers.held)
        for _ in range(20):  # turns of the loop, all of them in the same search
            assert stage.live.informers.held
            await asyncio.sleep(0)
        known = set(stage.scheduler.state.nodes.row_of)
        await stage.create("Node", "n2", status={})
        assert set(stage.scheduler.state.nodes.row_of) == known or not stage.live.informers.held
        await until(lambda: "n2" in stage.scheduler.state.nodes.row_of)

    run(test)


def test_a_scheduler_that_is_told_to_stop_does_not_wait_for_a_search() -> None:
    async def test(stage: Stage) -> None:
        await stage.begin(HOPELESS)
        await until(lambda: stage.live.informers.held)
        stage.live.stop()
        await stage.work

    run(test)
