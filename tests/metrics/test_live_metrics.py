"""The same load as on the real kube-scheduler brings about the same counts.

data/upstream_counts.json says what the load was and what kube-scheduler showed after it.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from metrics.measuring import values_in
from moorage.apiserver.server import ApiServer
from moorage.config import DEFAULT_FEATURE_GATES, load_config
from moorage.config.feature_gates import FeatureGates
from moorage.engine.clock import WallClock
from moorage.framework.plugin import PermitPlugin, Plugin
from moorage.framework.status import Code, Status
from moorage.kube.access import Access
from moorage.kube.client import KubeClient
from moorage.kube.event_recorder import EventRecorder
from moorage.kube.live import LiveScheduler, build_scheduler
from moorage.kube.requests import Request
from moorage.kube.resources import resource_for
from moorage.kube.store import Handler
from moorage.metrics.exporter import AllMetrics
from moorage.model.meta import ApiObject
from moorage.model.pod import Pod
from moorage.plugins.defaults import in_tree_registry

UPSTREAM = json.loads((Path(__file__).with_name("data") / "upstream_counts.json").read_text())
SECONDS = 60
EVENTS = "scheduler_event_handling_duration_seconds_count"

# Upstream signs pods for its batching, which there is none of here.
NOT_OURS = 'extension_point="Sign"'


async def _create(client: KubeClient, kind: str, body: dict[str, Any]) -> None:
    namespace = "default" if kind == "Pod" else ""
    await client.create(resource_for(kind), namespace, {"apiVersion": "v1", "kind": kind, **body})


def _pod(name: str, cpu: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


class _Bell(Handler):
    """Rings whenever something changed, after the scheduler was told."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def on_add(self, obj: ApiObject, /) -> None:
        self._rung.set()

    def on_update(self, old: ApiObject, new: ApiObject, /) -> None:
        self._rung.set()

    async def until(self, reached: Callable[[], bool]) -> None:
        async with asyncio.timeout(SECONDS):
            while not reached():
                self._rung.clear()
                await self._rung.wait()


def _handled(metrics: AllMetrics) -> dict[str, float]:
    return values_in(metrics.render()[1], EVENTS)


async def _load(client: KubeClient, metrics: AllMetrics, bell: _Bell) -> None:
    amounts = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    for index in range(5):
        status = {"allocatable": amounts, "capacity": amounts}
        await _create(client, "Node", {"metadata": {"name": f"n{index}"}, "status": status})
    for index in range(12):
        await _create(client, "Pod", _pod(f"p{index}", "1"))
    await _create(client, "Pod", _pod("toobig", "100"))
    await _create(client, "Pod", _pod("gated", "1", schedulingGates=[{"name": "x"}]))
    important = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
    body = {"apiVersion": "scheduling.k8s.io/v1", **important}
    await client.send(Request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body=body))
    await bell.until(lambda: _handled(metrics).get('event="AssignedPodAdd"') == 12)
    for index in range(3):
        await _create(client, "Pod", _pod(f"vip{index}", "4", priorityClassName="high"))
    await client.patch(resource_for("Node"), "", "n0", {"metadata": {"labels": {"a": "b"}}})


def _run(test: Callable[[ApiServer], Awaitable[None]]) -> None:
    async def served() -> None:
        server = ApiServer(seed=7)
        await server.start()
        try:
            await test(server)
        finally:
            await server.stop()

    asyncio.run(served())


@asynccontextmanager
async def _scheduling(
    server: ApiServer, metrics: AllMetrics, gates: FeatureGates, *plugins: type[Plugin]
) -> AsyncIterator[tuple[LiveScheduler, KubeClient, _Bell]]:
    """A live scheduler, a client beside it, and a bell."""
    access = Access(server=server.url, source="test")
    registry = in_tree_registry()
    enabled = ", ".join(f"{{name: {plugin.name}}}" for plugin in plugins)
    for plugin in plugins:
        registry.register(plugin)
    config = load_config(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        f"profiles: [{{plugins: {{multiPoint: {{enabled: [{enabled}]}}}}}}]",
        "test",
        gates,
    )
    async with (
        KubeClient(access, qps=1e6, burst=10**6) as ours,
        KubeClient(access, qps=1e6, burst=10**6, observe=metrics.client) as client,
        KubeClient(access, qps=1e6, burst=10**6) as events,
    ):
        scheduler = build_scheduler(
            config,
            registry,
            gates,
            WallClock(),
            observer=metrics.scheduler,
        )
        live = LiveScheduler(scheduler, client, EventRecorder(events))
        work = asyncio.create_task(live.run())
        bell = _Bell()
        for kind in ("Pod", "Node"):
            live.informers.add_handler(kind, bell)
        yield live, ours, bell
        live.stop()
        await work


def test_a_live_scheduler_counts_as_kube_scheduler_does_under_the_same_load() -> None:
    metrics = AllMetrics(DEFAULT_FEATURE_GATES)

    async def test(server: ApiServer) -> None:
        async with _scheduling(server, metrics, DEFAULT_FEATURE_GATES) as (_, client, bell):
            await _load(client, metrics, bell)
            await bell.until(lambda: _handled(metrics) == UPSTREAM["values"][EVENTS])

    _run(test)
    text = metrics.render()[1]
    for name, values in UPSTREAM["values"].items():
        theirs = {labels: value for labels, value in values.items() if NOT_OURS not in labels}
        assert values_in(text, name) == theirs, name
    assert values_in(text, "scheduler_goroutines") == {'operation="binding"': 0}
    requests = values_in(text, "rest_client_requests_total")
    posts = {key: count for key, count in requests.items() if 'method="POST"' in key}
    assert list(posts.values()) == [12], "one for each binding"


class Porter(PermitPlugin):
    """Holds everybody back."""

    name = "Porter"

    def permit(self, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        return Status(Code.WAIT, ("one moment",)), 60.0


def test_waits_on_permit_and_asynchronous_calls_are_measured() -> None:
    gates = FeatureGates({"SchedulerAsyncAPICalls": True})
    metrics = AllMetrics(gates)

    async def test(server: ApiServer) -> None:
        async with _scheduling(server, metrics, gates, Porter) as (live, client, bell):
            amounts = {"cpu": "4", "pods": "110"}
            status = {"allocatable": amounts, "capacity": amounts}
            await _create(client, "Node", {"metadata": {"name": "n"}, "status": status})
            await _create(client, "Pod", _pod("lucky", "1"))
            await _create(client, "Pod", _pod("unlucky", "1"))
            waiting = live.scheduler.waiting
            # A pod that is held back is nominated, so the bell rings once more for each.
            await bell.until(lambda: len(waiting) == 2)
            running = values_in(metrics.render()[1], "scheduler_goroutines")
            assert running == {'operation="binding"': 2}
            for pod in waiting:
                if pod.pod.name == "lucky":
                    pod.allow("Porter")
                else:
                    pod.reject("Porter", "go away")
            await bell.until(lambda: _handled(metrics).get('event="AssignedPodAdd"') == 1)

    _run(test)
    text = metrics.render()[1]
    assert values_in(text, "scheduler_permit_wait_duration_seconds_count") == {
        'result="Success"': 1,
        'result="Unschedulable"': 1,
    }
    assert values_in(text, "scheduler_schedule_attempts_total") == {
        'profile="default-scheduler",result="scheduled"': 1,
        'profile="default-scheduler",result="unschedulable"': 1,
    }
    calls = values_in(text, "scheduler_async_api_call_execution_total")
    assert calls['call_type="pod_binding",result="success"'] == 1
    assert calls['call_type="pod_status_patch",result="success"'] >= 2
    assert set(values_in(text, "scheduler_pending_async_api_calls").values()) == {0}
