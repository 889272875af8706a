"""Evictions whose last victim has gone before: nobody else would wake the preemptor."""

import asyncio
from typing import Any

from moorage.apiserver.server import ApiServer
from moorage.config import DEFAULT_FEATURE_GATES, default_config
from moorage.engine.clock import WallClock
from moorage.engine.scheduler import Eviction
from moorage.kube.access import Access
from moorage.kube.client import KubeClient
from moorage.kube.event_recorder import EventRecorder
from moorage.kube.evictions import Evictions
from moorage.kube.handlers import NodeHandler, PodHandler
from moorage.kube.live import build_scheduler
from moorage.kube.timing import WallTimer
from moorage.model.decode import decode_object
from moorage.model.pod import Pod
from moorage.simulator.workloads import make_node
from moorage.simulator.world import full_registry


def _pod(name: str, **spec: Any) -> Pod:
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }
    decoded = decode_object(body, "test")
    assert isinstance(decoded, Pod)
    return decoded


def _nobody() -> None:
    """Nobody waits to be woken."""


def test_a_preemptor_whose_last_victim_has_gone_already_is_tried_again() -> None:
    async def evict() -> None:
        gates = DEFAULT_FEATURE_GATES
        scheduler = build_scheduler(default_config(gates), full_registry(), gates, WallClock())
        preemptor = _pod("frigate", priority=10, nodeSelector={"deep": "yes"})
        NodeHandler(scheduler.handlers, _nobody).on_add(make_node(0))
        PodHandler(scheduler.handlers, _nobody).on_add(preemptor)
        assert scheduler.schedule_one()  # no node is deep enough
        assert scheduler.queue.pending_pods().unschedulable == (preemptor,)
        server = ApiServer()
        await server.start()
        async with KubeClient(Access(server=server.url), env={}) as client:
            recorder, timer = EventRecorder(client), WallTimer()
            evictions = Evictions(scheduler, client, recorder, timer, _nobody)
            gone = _pod("raft", nodeName="quay")
            await evictions.carry_out(Eviction(preemptor, "default-scheduler", "quay", (gone,)))
        await server.stop()
        assert scheduler.queue.pending_pods().active == (preemptor,)

    asyncio.run(evict())
