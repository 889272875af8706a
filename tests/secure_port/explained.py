"""A live scheduler at an embedded API server, whose explanations a port serves in tests."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from moorage.apiserver.server import ApiServer
from moorage.config import DEFAULT_FEATURE_GATES, default_config
from moorage.engine.clock import WallClock
from moorage.kube.access import Access
from moorage.kube.client import KubeClient
from moorage.kube.event_recorder import EventRecorder
from moorage.kube.explainer import Explainer
from moorage.kube.live import LiveScheduler, build_scheduler
from moorage.kube.resources import resource_for
from moorage.ledger import Ledger
from moorage.model.pod import Pod
from moorage.plugins.defaults import in_tree_registry

SECONDS = 60


class Stage:
    """An API server and a scheduler that follows it."""

    def __init__(self, server: ApiServer) -> None:
        access = Access(server=server.url, source="test")
        self.client = KubeClient(access, qps=1e6, burst=10**6)
        self.events = KubeClient(access, qps=1e6, burst=10**6)
        scheduler = build_scheduler(
            default_config(), in_tree_registry(), DEFAULT_FEATURE_GATES, WallClock()
        )
        self.live = LiveScheduler(scheduler, self.client, EventRecorder(self.events))
        self.ledger = Ledger(1 << 20)
        scheduler.record(self.ledger.recorder)
        self.explainer = Explainer(self.live, self.ledger)

    async def create_node(self, name: str, cpu: str = "4", **fields: Any) -> None:
        """Create a node."""
        amounts = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
        status = {"allocatable": amounts, "capacity": amounts}
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}
        await self.client.create(resource_for("Node"), "", {**body, **fields})

    async def create_pod(self, name: str, cpu: str = "1", **spec: Any) -> None:
        """Create a pod."""
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}}
        body |= {"spec": {"containers": [container], **spec}}
        await self.client.create(resource_for("Pod"), "default", body)

    def pod(self, name: str) -> Pod | None:
        """A pod as the scheduler knows it."""
        return self.live.scheduler.state.listers.of(Pod).get(name, "default")

    async def bound(self, name: str) -> None:
        """Wait until a pod has a node."""
        await until(lambda: (pod := self.pod(name)) is not None and bool(pod.spec.node_name))

    async def refused(self, name: str) -> None:
        """Wait until a pod was tried in vain."""
        await until(lambda: (pod := self.pod(name)) is not None and bool(pod.status.conditions))


@asynccontextmanager
async def stage(*, running: bool = True) -> AsyncIterator[Stage]:
    """A scheduler at work, or one that does not follow its cluster yet."""
    server = ApiServer(seed=7)
    await server.start()
    made = Stage(server)
    work = asyncio.create_task(made.live.run()) if running else None
    try:
        async with asyncio.timeout(SECONDS):
            if work is not None:
                await until(lambda: made.live.synced)
            yield made
    finally:
        made.explainer.close()
        if work is not None:
            made.live.stop()
            await work
        await made.client.close()
        await made.events.close()
        await server.stop()


async def until(condition: Callable[[], bool]) -> None:
    """Return when it holds."""
    while not condition():
        await asyncio.sleep(0.01)


def run_stage(scenario: Callable[[Stage], Awaitable[None]], *, running: bool = True) -> None:
    """Run a scenario on a stage of its own."""

    async def bounded() -> None:
        async with stage(running=running) as made:
            await scenario(made)

    asyncio.run(bounded())
