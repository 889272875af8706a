"""How many bindings are under way at once, and that nobody who waits elsewhere holds them up."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from kube.fake_api import FakeApi
from moorage.apiserver.server import ApiServer
from moorage.config import DEFAULT_FEATURE_GATES, load_config
from moorage.engine.actions import Failure
from moorage.engine.clock import VirtualClock
from moorage.engine.scheduler import Scheduler
from moorage.framework.plugin import ApiPort, PreBindPlugin
from moorage.framework.status import Status
from moorage.kube.access import Access
from moorage.kube.client import KubeClient
from moorage.kube.event_recorder import EventRecorder
from moorage.kube.executor import Executor
from moorage.kube.live import build_scheduler
from moorage.kube.timing import WallTimer
from moorage.model.pod import Pod
from moorage.plugins.defaults import in_tree_registry
from moorage.testing import make_node, make_pod

SECONDS = 60
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {preBind: {enabled: [{name: Slow}]}}}]
"""


class Slow(PreBindPlugin):
    """Prepares pods with a label until it is told to let them go."""

    name = "Slow"
    at_work = 0
    go: asyncio.Event

    def has_pre_bind_work(self, pod: Pod, node_name: str) -> bool:
        return "slow" in pod.labels

    async def pre_bind(self, pod: Pod, node_name: str, api: ApiPort) -> Status | None:
        Slow.at_work += 1
        await Slow.go.wait()
        return None


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, SECONDS))


@asynccontextmanager
async def hands() -> AsyncIterator[tuple[Scheduler, Executor, KubeClient]]:
    """A scheduler with a node, whose pods no API server knows, and its executor."""
    registry = in_tree_registry()
    registry.register(Slow)
    Slow.at_work, Slow.go = 0, asyncio.Event()
    config = load_config(CONFIG, "test")
    scheduler = build_scheduler(config, registry, DEFAULT_FEATURE_GATES, VirtualClock(1.0))
    scheduler.handlers.add_node(make_node("n1", pods=500))
    server = ApiServer(seed=7)
    await server.start()
    access = Access(server=server.url, source="test")
    try:
        async with KubeClient(access, qps=0) as client:
            recorder = EventRecorder(client)
            executor = Executor(scheduler, client, recorder, WallTimer(), lambda: None)
            yield scheduler, executor, client
            await executor.drain(SECONDS)
    finally:
        await server.stop()


def decide(scheduler: Scheduler, *names: str, **more: Any) -> None:
    for name in names:
        scheduler.handlers.add_pod(make_pod(name, **more))
    while scheduler.schedule_one():
        pass


def workers() -> int:
    names = (getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks())
    return sum(name == "Executor._work" for name in names)


def test_one_binding_takes_one_worker() -> None:
    async def work() -> None:
        async with hands() as (scheduler, executor, _):
            decide(scheduler, "p1")
            executor.carry_out()
            assert workers() == 1

    run(work())


def test_a_burst_has_as_many_workers_as_requests_may_be_on_their_way() -> None:
    async def work() -> None:
        async with hands() as (scheduler, executor, client):
            decide(scheduler, *(f"p{number}" for number in range(200)))
            executor.carry_out()
            assert workers() == client.limit.limit

    run(work())


def test_pods_that_are_being_prepared_do_not_hold_up_the_others() -> None:
    async def work() -> None:
        async with hands() as (scheduler, executor, client):
            slow = client.limit.limit * 2
            decide(scheduler, *(f"s{number}" for number in range(slow)), labels={"slow": "1"})
            executor.carry_out()
            while Slow.at_work < slow:
                await asyncio.sleep(0)
            decide(scheduler, "quick")
            executor.carry_out()
            # It comes to its end, which is a failure, as the API server does not know it.
            while not any(getattr(one, "reason", "") for one in scheduler.outbox):
                await asyncio.sleep(0)
            assert Slow.at_work == slow
            Slow.go.set()

    run(work())


def test_who_has_given_up_takes_up_nothing_more() -> None:
    async def work() -> None:
        async with hands() as (scheduler, executor, _):
            decide(scheduler, *(f"p{number}" for number in range(100)))
            executor.carry_out()
            executor.cancel()
            decide(scheduler, "late")
            executor.carry_out()
            await executor.drain(0.0)
            assert workers() == 0

    run(work())


def test_a_pod_that_fails_again_while_its_status_waits_is_told_the_newest_word_only() -> None:
    async def work() -> None:
        async with FakeApi() as api, KubeClient(Access(server=api.url), env={}) as client:
            config = load_config(CONFIG.splitlines()[1] + "\nkind: KubeSchedulerConfiguration", "t")
            scheduler = build_scheduler(
                config, in_tree_registry(), DEFAULT_FEATURE_GATES, VirtualClock(1.0)
            )
            executor = Executor(scheduler, client, EventRecorder(client), WallTimer(), lambda: None)
            pod = make_pod("p1")
            for message, node in (("full", None), ("room", "n1"), ("not yet", None)):
                failure = Failure(pod, "default-scheduler", "Unschedulable", message, node)
                scheduler.outbox.append(failure)
                executor.carry_out()
                await asyncio.sleep(0)  # the first is on its way
            await executor.drain(SECONDS)
            told = [body["status"] for body in api.bodies]
            messages = [status["conditions"][0]["message"] for status in told]
            assert messages == ["full", "not yet"]
            assert told[-1]["nominatedNodeName"] == "n1"

    run(work())
