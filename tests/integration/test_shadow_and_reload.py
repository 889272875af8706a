"""Beside another scheduler, and with another configuration, on the embedded server."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from moorage.apiserver.resources import BY_PLURAL
from moorage.apiserver.server import ApiServer
from moorage.config import (
    DEFAULT_FEATURE_GATES,
    KubeSchedulerConfiguration,
    default_config,
    load_config,
)
from moorage.engine.clock import WallClock
from moorage.errors import ApiError, ConfigError
from moorage.kube import requests
from moorage.kube.access import Access
from moorage.kube.client import KubeClient
from moorage.kube.event_recorder import EventRecorder
from moorage.kube.live import LiveScheduler, build_scheduler
from moorage.kube.resources import resource_for
from moorage.kube.shadow import Shadow, ShadowComparison, ShadowOutcome, describe
from moorage.plugins.defaults import in_tree_registry

SECONDS = 60
HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
MOST_ALLOCATED = (
    HEAD
    + """
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
  plugins:
    score:
      disabled: [{name: "*"}]
      enabled: [{name: NodeResourcesFit}]
"""
)
WITHOUT_FIT = (
    HEAD
    + """
profiles:
- plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}]}}
"""
)
WITHOUT_VOLUMES = (
    HEAD
    + """
profiles:
- plugins: {multiPoint: {disabled: [{name: VolumeBinding}, {name: VolumeZone},
    {name: VolumeRestrictions}, {name: NodeVolumeLimits}]}}
"""
)


class Stage:
    """A server, and schedulers that come and go."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.client = self._client()
        self._clients = [self.client]
        self._running: list[tuple[LiveScheduler, asyncio.Task[None]]] = []

    def _client(self, *, read_only: bool = False) -> KubeClient:
        access = Access(server=self.server.url, source="test")
        return KubeClient(access, qps=1e6, burst=10**6, read_only=read_only)

    def start(
        self,
        config: KubeSchedulerConfiguration,
        tell: Callable[[ShadowComparison], None] | None = None,
    ) -> LiveScheduler:
        """A scheduler; one that `tell`s is a shadow."""
        scheduler = build_scheduler(config, in_tree_registry(), DEFAULT_FEATURE_GATES, WallClock())
        clients = [self._client(read_only=tell is not None) for _ in range(2)]
        self._clients += clients
        live = LiveScheduler(
            scheduler,
            clients[0],
            EventRecorder(clients[1]),
            shadow=None if tell is None else Shadow(scheduler, tell),
        )
        self._running.append((live, asyncio.create_task(live.run())))
        return live

    async def create_nodes(self, *cpus: int) -> None:
        for index, cpu in enumerate(cpus):
            amounts = {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}
            body = {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": f"n{index}"},
                "status": {"allocatable": amounts, "capacity": amounts},
            }
            await self.client.create(resource_for("Node"), "", body)

    async def create_pods(self, count: int, prefix: str = "p", cpu: str = "1") -> None:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        for index in range(count):
            body = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"{prefix}{index}"},
                "spec": {"containers": [container]},
            }
            await self.client.create(resource_for("Pod"), "default", body)

    def nodes_of_pods(self) -> dict[str, str]:
        pods = self.server.store.collection(BY_PLURAL["", "v1", "pods"].storage)
        return {
            stored.key.rpartition("/")[2]: stored.object()["spec"].get("nodeName", "")
            for stored in pods.all()
        }

    def uid_of(self, pod: str) -> str:
        pods = self.server.store.collection(BY_PLURAL["", "v1", "pods"].storage)
        found = next(one for one in pods.all() if one.key.endswith(f"/{pod}"))
        return str(found.object()["metadata"]["uid"])

    async def close(self) -> None:
        for live, task in self._running:
            live.stop()
            await task
        for client in self._clients:
            await client.close()


def run(test: Callable[[Stage], Awaitable[None]]) -> None:
    async def bounded() -> None:
        server = ApiServer(seed=7)
        await server.start()
        try:
            async with asyncio.timeout(SECONDS):
                stage = Stage(server)
                try:
                    await test(stage)
                finally:
                    await stage.close()
        finally:
            await server.stop()

    asyncio.run(bounded())


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


def test_a_shadow_with_the_same_configuration_agrees_and_writes_nothing() -> None:
    async def test(stage: Stage) -> None:
        seen: list[ShadowComparison] = []
        await stage.create_nodes(4, 4, 4)
        shadow = stage.start(default_config(), seen.append)
        await until(lambda: shadow.synced)
        await stage.create_pods(6)
        await stage.create_pods(1, "huge", cpu="100")
        assert set(stage.nodes_of_pods().values()) == {""}, "nobody else is there to bind"
        stage.start(default_config())
        await until(lambda: len(seen) == 7)
        assert shadow.shadow is not None
        assert shadow.shadow.counts == {ShadowOutcome.AGREE: 6, ShadowOutcome.BOTH_UNSCHEDULABLE: 1}
        assert "100.0 % of 7 decisions" in shadow.shadow.summary()

    run(test)


def test_a_shadow_with_another_configuration_tells_where_it_differs() -> None:
    async def test(stage: Stage) -> None:
        seen: list[ShadowComparison] = []
        await stage.create_nodes(8, 8)
        shadow = stage.start(load_config(MOST_ALLOCATED, "test"), seen.append)
        await until(lambda: shadow.synced)
        stage.start(default_config())
        await stage.create_pods(6)
        await until(lambda: len(seen) == 6)
        nodes = stage.nodes_of_pods()
        assert Counter(nodes.values()) == {"n0": 3, "n1": 3}
        for one in seen:
            assert one.their_node == nodes[one.pod.rpartition("/")[2]]
            assert (one.outcome is ShadowOutcome.AGREE) == (one.our_node == one.their_node)
        different = [one for one in seen if one.outcome is ShadowOutcome.DISAGREE]
        assert different
        for one in different:
            assert (one.our_score or 0) > (one.their_score or 0) > 0
            assert f"to {one.our_node} (score {one.our_score})" in describe(one)

    run(test)


def test_another_node_that_is_as_good_is_a_tie_and_no_difference() -> None:
    async def test(stage: Stage) -> None:
        seen: list[ShadowComparison] = []
        await stage.create_nodes(4, 4, 8)
        shadow = stage.start(load_config(MOST_ALLOCATED, "test"), seen.append)
        await until(lambda: shadow.synced)
        for name, node in (("a", "n1"), ("b", "n2")):
            await stage.create_pods(1, name)
            await until(lambda: shadow.scheduler.queue.view.sizes()["active"] == 0)
            uid = stage.uid_of(f"{name}0")
            await stage.client.send(requests.bind("default", f"{name}0", uid, node))
        await until(lambda: len(seen) == 2)
        assert [one.outcome for one in seen] == [ShadowOutcome.TIE, ShadowOutcome.DISAGREE]
        assert shadow.shadow is not None
        assert [one.pod for one in shadow.shadow.recent] == ["default/b0"]
        assert "50.0 % of 2 decisions (agree: 0, tie: 1, disagree: 1" in shadow.shadow.summary()

    run(test)


def test_a_shadow_learns_that_only_one_of_both_finds_a_node() -> None:
    async def test(stage: Stage) -> None:
        ours: list[ShadowComparison] = []
        await stage.create_nodes(2)
        shadow = stage.start(load_config(WITHOUT_FIT, "test"), ours.append)
        await until(lambda: shadow.synced)
        stage.start(default_config())
        await stage.create_pods(1, "huge", cpu="100")
        await until(lambda: len(ours) == 1)
        assert ours[0].outcome is ShadowOutcome.ONLY_OURS
        assert ours[0].our_node == "n0"
        assert "Insufficient cpu" in ours[0].their_message

    run(test)


def test_a_client_that_only_reads_refuses_to_write() -> None:
    async def test(stage: Stage) -> None:
        client = stage._client(read_only=True)
        try:
            with pytest.raises(ApiError, match="only reads"):
                await client.create(resource_for("Node"), "", {"metadata": {"name": "n"}})
        finally:
            await client.close()

    run(test)


def test_under_load_a_new_configuration_loses_and_doubles_no_pod() -> None:
    async def test(stage: Stage) -> None:
        await stage.create_nodes(*[20] * 10)
        live = stage.start(default_config())
        await until(lambda: live.synced)
        configs = [load_config(MOST_ALLOCATED, "test"), default_config()]
        for batch in range(6):
            await stage.create_pods(25, f"b{batch}-")
            await live.reload(configs[batch % 2], in_tree_registry())
        await until(lambda: all(stage.nodes_of_pods().values()))
        nodes = stage.nodes_of_pods()
        assert len(nodes) == 150
        assert max(Counter(nodes.values()).values()) <= 20

    run(test)


def test_objects_that_only_the_new_plugins_need_are_fetched_first() -> None:
    async def test(stage: Stage) -> None:
        await stage.create_nodes(4)
        live = stage.start(load_config(WITHOUT_VOLUMES, "test"))
        await until(lambda: live.synced)
        assert "StorageClass" not in live.informers.kinds
        await live.reload(default_config(), in_tree_registry())
        assert "StorageClass" in live.informers.kinds
        assert live.synced
        await stage.create_pods(1)
        await until(lambda: all(stage.nodes_of_pods().values()))

    run(test)


def test_a_configuration_that_cannot_be_adopted_changes_nothing() -> None:
    async def test(stage: Stage) -> None:
        await stage.create_nodes(4)
        live = stage.start(default_config())
        await until(lambda: live.synced)
        before = dict(live.scheduler.profiles)
        extender = HEAD + 'extenders: [{urlPrefix: "http://127.0.0.1:1", filterVerb: filter}]'
        with pytest.raises(ConfigError, match="restart to use them"):
            await live.reload(load_config(extender, "test"), in_tree_registry())
        assert live.scheduler.profiles == before
        await stage.create_pods(1)
        await until(lambda: all(stage.nodes_of_pods().values()))

    run(test)
