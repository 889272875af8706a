"""Pods that come, run and go, and nodes that do the same: what a soak does to the cluster."""

import asyncio
import random
from collections.abc import Callable

from soak.api import NODES, PODS, Api
from soak.pods import HIGH, LOW, PodMaker, node
from soak.watching import Watcher

_NODES = 18
_SMALL_NODES = 2
_FILLERS = 8
"""They fill the small nodes: four processors each."""
_LIFETIME = (8.0, 12.0)
_URGENT_SECONDS = 5.0
_MISFIT_SECONDS = 2.0
_NODE_SECONDS = 15.0


class Churn:
    """Keeps about ten seconds' worth of pods in the cluster."""

    def __init__(self, api: Api, watcher: Watcher, rate: float, seed: int) -> None:
        self._api = api
        self._watcher = watcher
        self._rate = rate
        self._random = random.Random(seed)
        self._make = PodMaker(self._random)
        self._tasks: set[asyncio.Task[None]] = set()
        self._over = False
        self.created = 0

    async def prepare(self) -> None:
        """Create the nodes and priority classes."""
        for number in range(_NODES):
            await self._api.persistently("POST", NODES, node(f"node-{number}", number))
        for number in range(_SMALL_NODES):
            small = node(f"small-{number}", number, cpu="4", pool="small")
            await self._api.persistently("POST", NODES, small)
        for name, value in (("low", LOW), ("high", HIGH)):
            body = {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": value,
            }
            path = "/apis/scheduling.k8s.io/v1/priorityclasses"
            await self._api.persistently("POST", path, body)

    async def run(self) -> None:
        """Go on until `finish`."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._ordinary_pods())
            group.create_task(self._every(_URGENT_SECONDS, self._urgent))
            group.create_task(self._every(_MISFIT_SECONDS, self._misfit))
            group.create_task(self._every(1.0, self._refill))
            group.create_task(self._come_and_go())

    def finish(self) -> None:
        """Make nothing new; what is there goes on living."""
        self._over = True

    async def settle(self) -> None:
        """Wait until the pods that live shortly are gone."""
        await asyncio.gather(*self._tasks)

    async def _ordinary_pods(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        # Memory is compared at equal numbers of pods: where the machine is too slow, fewer come.
        most = self._rate * _LIFETIME[1] * 1.2 + _FILLERS
        while not self._over:
            if self._watcher.pods < most:
                self._start(self._live(self._make.ordinary(), self._random.uniform(*_LIFETIME)))
            # After a pause of the server the pods of that time are left out, not made up for.
            due = max(due + 1 / self._rate, loop.time() - 1)
            await asyncio.sleep(max(0.0, due - loop.time()))

    async def _every(self, seconds: float, act: Callable[[], None]) -> None:
        while not self._over:
            act()
            await asyncio.sleep(seconds)

    def _urgent(self) -> None:
        self._start(self._live(self._make.urgent(), _URGENT_SECONDS * 0.6))

    def _misfit(self) -> None:
        self._start(self._live(self._make.misfit(), 3.0, fits=False))

    def _refill(self) -> None:
        for _ in range(_FILLERS - self._watcher.named("filler-")):
            self._start(self._create(self._make.filler()))

    def _start(self, work: "asyncio._CoroutineLike[None]") -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _create(self, pod: dict[str, object]) -> None:
        await self._api.persistently("POST", PODS, pod)
        self.created += 1

    async def _live(self, pod: dict[str, object], seconds: float, *, fits: bool = True) -> None:
        await self._create(pod)
        name = str(pod["metadata"]["name"])  # type: ignore[index]
        if fits:
            await self._watcher.bound(name)
        await asyncio.sleep(seconds)
        self._watcher.deleting(name)
        await self._api.persistently("DELETE", f"{PODS}/{name}")

    async def _come_and_go(self) -> None:
        """Every now and then a node comes, works, is drained and goes."""
        number = 0
        while not self._over:
            number += 1
            name = f"guest-{number}"
            await self._api.persistently("POST", NODES, node(name, number))
            await asyncio.sleep(_NODE_SECONDS)
            await self._drain(name)

    async def _drain(self, name: str) -> None:
        path = f"{NODES}/{name}"
        await self._api.persistently("PATCH", path, {"spec": {"unschedulable": True}})
        query = f"?fieldSelector=spec.nodeName%3D{name}"
        while True:
            # A decision made before the node was closed may still be on its way.
            await asyncio.sleep(3.0)
            _, found = await self._api.persistently("GET", PODS + query)
            pods = [pod["metadata"]["name"] for pod in found["items"]]
            if not pods:
                break
            for pod in pods:
                self._watcher.deleting(pod)
                await self._api.persistently("DELETE", f"{PODS}/{pod}")
        await self._api.persistently("DELETE", path)
