"""Bindings that fail on their way through the API, each told at the point that ended it."""

import asyncio

import pytest

from moorage.apiserver.server import ApiServer
from moorage.config import DEFAULT_FEATURE_GATES, load_config
from moorage.engine.clock import VirtualClock
from moorage.explain.report import DecisionSummary, Rejection
from moorage.framework.plugin import ApiPort, PermitPlugin, PreBindPlugin, ReservePlugin
from moorage.framework.status import Code, Status
from moorage.kube.access import Access
from moorage.kube.client import KubeClient
from moorage.kube.event_recorder import EventRecorder
from moorage.kube.executor import Executor
from moorage.kube.live import build_scheduler
from moorage.kube.timing import WallTimer
from moorage.ledger import Ledger
from moorage.model.pod import Pod
from moorage.plugins.defaults import in_tree_registry
from moorage.testing import make_node, make_pod

SECONDS = 60
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {enabled: [{name: Porter}]}}}]
"""


class Porter(ReservePlugin, PermitPlugin, PreBindPlugin):
    """Is at several points, and refuses where the pod's label says."""

    name = "Porter"

    def reserve(self, pod: Pod, node_name: str) -> Status | None:
        return None

    def unreserve(self, pod: Pod, node_name: str) -> None:
        pass

    def permit(self, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        if pod.labels["ends"] == "waiting":
            return Status(Code.WAIT), 60.0
        return None, 0.0

    async def pre_bind(self, pod: Pod, node_name: str, api: ApiPort) -> Status | None:
        match pod.labels["ends"]:
            case "refused":
                return Status(Code.UNSCHEDULABLE, ("the door is locked",))
            case "raised":
                raise RuntimeError("the door is broken")
        return None


async def rejection(ends: str) -> Rejection:
    """What the ledger tells of a pod that is not bound after all."""
    registry = in_tree_registry()
    registry.register(Porter)
    clock, ledger = VirtualClock(1_000_000.0), Ledger()
    scheduler = build_scheduler(load_config(CONFIG, "test"), registry, DEFAULT_FEATURE_GATES, clock)
    scheduler.record(ledger.recorder)
    failed = asyncio.Event()

    def hear(summary: DecisionSummary) -> None:
        if summary.number == 2:
            failed.set()

    ledger.subscribe(hear)
    server = ApiServer(seed=7)
    await server.start()
    try:
        async with KubeClient(Access(server=server.url, source="test")) as client:
            executor = Executor(scheduler, client, EventRecorder(client), WallTimer(), lambda: None)
            for name in ("n1", "n2"):
                scheduler.handlers.add_node(make_node(name))
            # The API server does not know the pod: Bind cannot succeed.
            scheduler.handlers.add_pod(make_pod("web", labels={"ends": ends}))
            scheduler.schedule_one()
            executor.carry_out()
            for waiting in scheduler.waiting:
                waiting.reject("Porter", "nobody came")
            async with asyncio.timeout(SECONDS):
                await failed.wait()
            await executor.drain(SECONDS)
    finally:
        await server.stop()
    [found] = ledger.explain(2).rejections
    return found


@pytest.mark.parametrize(
    ("ends", "point", "words"),
    [
        ("waiting", "Permit", "nobody came"),
        ("refused", "PreBind", "the door is locked"),
        ("raised", "PreBind", "the door is broken"),
        ("unknown", "Bind", "not found"),
    ],
)
def test_the_point_that_ended_a_binding_is_told(ends: str, point: str, words: str) -> None:
    found = asyncio.run(rejection(ends))
    assert found.point == point
    assert words in found.reason
    assert (found.nodes, len(found.examples)) == (1, 1)
