"""The live scheduler against an API server that misbehaves: every pod ends bound exactly once."""

import asyncio
import gc
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from moorage.apiserver.resources import BY_PLURAL
from moorage.apiserver.server import ApiServer
from moorage.config import DEFAULT_FEATURE_GATES, default_config
from moorage.engine.actions import Binding
from moorage.engine.clock import WallClock
from moorage.engine.queue.entities import QueuedPodInfo
from moorage.kube.access import Access
from moorage.kube.client import KubeClient
from moorage.kube.event_recorder import EventRecorder
from moorage.kube.live import LiveScheduler, build_scheduler
from moorage.kube.resources import resource_for
from moorage.kube.store import Handler
from moorage.model.meta import ApiObject
from moorage.model.pod import Pod
from moorage.plugins.defaults import in_tree_registry

NODES, PODS, PODS_PER_NODE = 10, 120, 12
SECONDS = 90


class _Bell(Handler):
    """Rings whenever a pod changes."""

    def __init__(self) -> None:
        self.rung = asyncio.Event()

    def on_update(self, old: ApiObject, new: ApiObject, /) -> None:
        self.rung.set()

    def on_add(self, obj: ApiObject, /) -> None:
        self.rung.set()


class Stage:
    """A server, a scheduler at work on it, and a client of ours."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        access = Access(server=server.url, source="test")
        self.client = KubeClient(access, qps=1e6, burst=10**6)
        self._events = KubeClient(access, qps=1e6, burst=10**6)
        scheduler = build_scheduler(
            default_config(), in_tree_registry(), DEFAULT_FEATURE_GATES, WallClock()
        )
        self.live = LiveScheduler(scheduler, self.client, EventRecorder(self._events))
        self.bell = _Bell()
        self.live.informers.add_handler("Pod", self.bell)
        self.work = asyncio.create_task(self.live.run())

    async def create_nodes(self) -> None:
        amounts = {"cpu": str(PODS_PER_NODE), "memory": "64Gi", "pods": "110"}
        for index in range(NODES):
            body = {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": f"n{index}"},
                "status": {"allocatable": amounts, "capacity": amounts},
            }
            await self.client.create(resource_for("Node"), "", body)

    async def create_pods(self, count: int, prefix: str = "p") -> None:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
        for index in range(count):
            body = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"{prefix}{index}"},
                "spec": {"containers": [container]},
            }
            await self.client.create(resource_for("Pod"), "default", body)

    def nodes_of_pods(self) -> dict[str, str]:
        """What the server holds, looked up past HTTP."""
        pods = self.server.store.collection(BY_PLURAL["", "v1", "pods"].storage)
        return {
            stored.key.rpartition("/")[2]: stored.object()["spec"].get("nodeName", "")
            for stored in pods.all()
        }

    async def all_bound(self, count: int) -> None:
        async with asyncio.timeout(SECONDS):
            while True:
                self.bell.rung.clear()
                nodes = self.nodes_of_pods()
                if len(nodes) == count and all(nodes.values()):
                    return
                await self.bell.rung.wait()

    def check(self, count: int) -> None:
        """Everybody has a node, and no node has too many."""
        nodes = self.nodes_of_pods()
        assert len(nodes) == count
        assert max(Counter(nodes.values()).values()) <= PODS_PER_NODE

    async def close(self) -> None:
        self.live.stop()
        await self.work
        await self.client.close()
        await self._events.close()


@asynccontextmanager
async def staged(server: ApiServer) -> AsyncIterator[Stage]:
    stage = Stage(server)
    try:
        yield stage
    finally:
        await stage.close()


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(SECONDS + 30):
            await test()

    asyncio.run(bounded())


async def _served(test: Callable[[Stage], Awaitable[None]], **options: Any) -> None:
    server = ApiServer(seed=7, **options)
    await server.start()
    try:
        async with staged(server) as stage:
            await test(stage)
    finally:
        await server.stop()


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_failing_bind_calls_lose_and_double_nothing(after: bool) -> None:
    async def test(stage: Stage) -> None:
        fault = stage.server.faults.fail_bindings(0.1, after=after)
        await stage.create_nodes()
        await stage.create_pods(PODS)
        await stage.all_bound(PODS)
        stage.check(PODS)
        assert fault.hits > 0

    run(lambda: _served(test))


@pytest.mark.parametrize("code", [409, 503], ids=["conflict", "unavailable"])
def test_refused_bind_calls_are_tried_again(code: int) -> None:
    async def test(stage: Stage) -> None:
        fault = stage.server.faults.fail_bindings(1.0, times=15, code=code)
        await stage.create_nodes()
        await stage.create_pods(PODS)
        await stage.all_bound(PODS)
        stage.check(PODS)
        assert fault.hits == 15

    run(lambda: _served(test))


def test_throttled_requests_wait_as_they_are_told() -> None:
    async def test(stage: Stage) -> None:
        await stage.create_nodes()
        fault = stage.server.faults.throttle(0.2, retry_after=1, times=6)
        await stage.create_pods(PODS)
        await stage.all_bound(PODS)
        stage.check(PODS)
        assert fault.hits == 6

    run(lambda: _served(test))


def test_watches_that_are_cut_again_and_again_lose_nothing() -> None:
    async def test(stage: Stage) -> None:
        await stage.create_nodes()
        for batch in range(6):
            await stage.create_pods(20, f"b{batch}-")
            stage.server.faults.cut_watches()
            if batch % 2:
                # Nothing left to resume from: the reflectors must list again.
                stage.server.faults.compact()
        await stage.all_bound(PODS)
        stage.check(PODS)

    run(lambda: _served(test))


def test_a_server_that_is_restarted_finds_its_pods_scheduled_on(tmp_path: Path) -> None:
    async def test() -> None:
        server = ApiServer(data=tmp_path)
        await server.start()
        port = int(server.url.rpartition(":")[2])
        async with staged(server) as stage:
            await stage.create_nodes()
            await stage.create_pods(40, "before-")
            await stage.all_bound(40)
            await server.stop()
            stage.server = server = ApiServer(data=tmp_path)
            await server.start(port=port)
            await stage.create_pods(40, "after-")
            await stage.all_bound(80)
            stage.check(80)
        await server.stop()

    run(test)


def test_a_scheduler_that_is_restarted_goes_on_where_it_was() -> None:
    async def test(stage: Stage) -> None:
        await stage.create_nodes()
        await stage.create_pods(60, "first-")
        await stage.all_bound(60)
        async with staged(stage.server) as second:
            stage.live.stop()
            await stage.create_pods(60, "second-")
            await second.all_bound(120)
            second.check(120)

    run(lambda: _served(test))


def test_memory_does_not_grow_with_pods_that_come_and_go() -> None:
    async def test(stage: Stage) -> None:
        await stage.create_nodes()

        async def round_of_pods(number: int) -> int:
            await stage.create_pods(60, f"r{number}-")
            await stage.all_bound(60)
            for index in range(60):
                await stage.client.delete(
                    resource_for("Pod"), "default", f"r{number}-{index}", grace_seconds=0
                )
            async with asyncio.timeout(SECONDS):
                pods = stage.live.informers.stores["Pod"]
                while len(pods):
                    await asyncio.sleep(0)
            gc.collect()
            kept = (Pod, QueuedPodInfo, Binding)
            return sum(isinstance(thing, kept) for thing in gc.get_objects())

        left = [await round_of_pods(number) for number in range(4)]
        assert left[-1] <= left[1] + 5, left
        state = stage.live.scheduler.state
        assert not list(state.placed_pods())

    run(lambda: _served(test))
