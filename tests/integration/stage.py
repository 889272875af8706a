"""An embedded API server and a live scheduler at work on it, in one event loop."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

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
"""More than any of these tests takes."""


class LiveStage:
    """A server, a scheduler with a configuration, and a client of ours."""

    def __init__(
        self, server: ApiServer, config: str, live: Callable[..., LiveScheduler] = LiveScheduler
    ) -> None:
        self.server = server
        access = Access(server=server.url, source="test")
        self._clients = [KubeClient(access, qps=1e6, burst=10**6) for _ in range(3)]
        self.client = self._clients[0]
        self.scheduler = build_scheduler(
            load_config(config, "test"), in_tree_registry(), DEFAULT_FEATURE_GATES, WallClock()
        )
        self.live = live(self.scheduler, self._clients[1], EventRecorder(self._clients[2]))
        self.work = asyncio.create_task(self.live.run())

    async def close(self) -> None:
        """Stop the scheduler."""
        self.live.stop()
        await asyncio.gather(self.work, return_exceptions=True)
        for client in self._clients:
            await client.close()

    async def create(
        self, kind: str, name: str, namespace: str = "", version: str = "v1", **parts: Any
    ) -> None:
        """Create an object of any kind."""
        body = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **parts}
        await self.client.create(resource_for(kind), namespace, body)

    async def create_node(self, name: str, cpu: str = "4") -> None:
        """Create a node."""
        amounts = {"cpu": cpu, "memory": "64Gi", "pods": "110"}
        await self.create("Node", name, status={"allocatable": amounts, "capacity": amounts})

    async def begin_with(self, node: str, cpu: str = "4") -> None:
        """Create a node, and wait until the engine knows it."""
        await self.create_node(node, cpu)
        await until(lambda: node in self.nodes)

    async def create_pod(self, name: str, cpu: str = "1", **spec: Any) -> None:
        """Create a pod."""
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        await self.create("Pod", name, "default", spec={"containers": [container], **spec})

    def stored(self, pod: str) -> Json:
        """A pod as the server has it; empty if it is gone."""
        pods = self.server.store.collection(BY_PLURAL["", "v1", "pods"].storage)
        found = {one.key.rpartition("/")[2]: one.object() for one in pods.all()}
        return found.get(pod, {"spec": {}, "status": {}})

    def node_of(self, pod: str) -> str:
        """Where a pod is; empty if it is not bound."""
        return str(self.stored(pod)["spec"].get("nodeName", ""))

    @property
    def nodes(self) -> set[str]:
        """The nodes that the engine knows."""
        return set(self.scheduler.state.nodes.row_of)


AnyStage = TypeVar("AnyStage", bound=LiveStage)


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop go on until something is true."""
    while not condition():
        await asyncio.sleep(0.005)


@asynccontextmanager
async def at_work(make: Callable[[ApiServer], AnyStage]) -> AsyncIterator[AnyStage]:
    """A stage whose scheduler knows the cluster."""
    server = ApiServer(seed=7)
    await server.start()
    try:
        stage = make(server)
        try:
            await until(lambda: stage.live.synced)
            yield stage
        finally:
            await stage.close()
    finally:
        await server.stop()


def run_bounded(work: Callable[[], Awaitable[None]]) -> None:
    """Run a test in a loop of its own, for a while at most."""

    async def bounded() -> None:
        async with asyncio.timeout(SECONDS):
            await work()

    asyncio.run(bounded())
