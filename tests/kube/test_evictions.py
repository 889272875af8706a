"""Evictions over real HTTP: each victim once, by its uid, and only while it is still there."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from kube.fake_api import JumpingTimer, run
from moorage.apiserver.server import ApiServer
from moorage.config import DEFAULT_FEATURE_GATES, default_config
from moorage.engine.actions import Eviction
from moorage.engine.clock import WallClock
from moorage.engine.scheduler import Scheduler
from moorage.kube.access import Access
from moorage.kube.client import KubeClient
from moorage.kube.event_recorder import EventRecorder
from moorage.kube.evictions import Evictions
from moorage.kube.live import build_scheduler, event_handler
from moorage.kube.resources import resource_for
from moorage.kube.timing import Timer, WallTimer
from moorage.model.decode import decode_object
from moorage.model.meta import Condition
from moorage.model.pod import Pod
from moorage.simulator.world import full_registry
from moorage.testing.builders import make_node

PODS = resource_for("Pod")


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


class _Counting:
    """Counts what a client sends, by method, and may do something before a request goes out."""

    def __init__(self) -> None:
        self.codes: list[tuple[str, int]] = []

    def answered(self, host: str, method: str, status: int) -> None:
        del host
        self.codes.append((method, status))

    def finished(self, host: str, method: str, seconds: float, sent: int, received: int) -> None:
        del host, method, seconds, sent, received

    def throttled(self, host: str, method: str, seconds: float) -> None:
        del host, method, seconds

    def retried(self, host: str, method: str, status: int) -> None:
        del host, method, status

    def plugin_ran(self, code: int, status: str) -> None:
        del code, status

    def plugin_certificate(self, begins: float, ends: float) -> None:
        del begins, ends


class Harbour:
    """An API server, and a scheduler's books and hands without its loop."""

    def __init__(self, server: ApiServer, timer: Timer) -> None:
        gates = DEFAULT_FEATURE_GATES
        self.scheduler: Scheduler = build_scheduler(
            default_config(gates), full_registry(), gates, WallClock()
        )
        self.pods = event_handler(self.scheduler.handlers, "Pod")
        self.sent = _Counting()
        self.client = KubeClient(Access(server=server.url), env={}, timer=timer, observe=self.sent)
        self.admin = KubeClient(Access(server=server.url), env={}, qps=0)
        self.recorder = EventRecorder(self.admin)
        self.evictions = Evictions(self.scheduler, self.client, self.recorder, WallTimer(), _nobody)
        event_handler(self.scheduler.handlers, "Node").on_add(make_node("node-00000"))

    async def create(self, name: str) -> Pod:
        """A pod on the node, known to the scheduler."""
        made = _read(await self.admin.create(PODS, "default", _body(name, nodeName="node-0")))
        self.pods.on_add(made)
        return made

    def preemptor(self, name: str = "frigate") -> Pod:
        """A pod that no node is deep enough for."""
        pod = _pod(name, priority=10, nodeSelector={"deep": "yes"})
        self.pods.on_add(pod)
        assert self.scheduler.schedule_one()
        self.scheduler.outbox.clear()
        return pod

    def evict(self, preemptor: Pod, *victims: Pod) -> Eviction | None:
        """What the scheduler wants to be done after a decision."""
        profile = self.scheduler.profiles["default-scheduler"]
        self.scheduler.evict(Eviction(preemptor, profile.name, "node-0", victims))
        if not self.scheduler.outbox:
            return None
        action = self.scheduler.outbox.pop()
        assert isinstance(action, Eviction)
        return action

    async def carry_out(self, preemptor: Pod, *victims: Pod) -> None:
        """Decide and evict."""
        eviction = self.evict(preemptor, *victims)
        assert eviction is not None
        await self.evictions.carry_out(eviction)

    @property
    def active(self) -> set[str]:
        """The names of pods that are ready to be tried."""
        return {pod.name for pod in self.scheduler.queue.view.pending_pods().active}


@asynccontextmanager
async def _harbour(timer: Timer | None = None) -> AsyncIterator[Harbour]:
    server = ApiServer()
    await server.start()
    harbour = Harbour(server, timer or WallTimer())
    try:
        yield harbour
    finally:
        await harbour.client.close()
        await harbour.admin.close()
        await server.stop()


def _body(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }


def _read(body: dict[str, Any]) -> Pod:
    decoded = decode_object(body, "test")
    assert isinstance(decoded, Pod)
    return decoded


def _on(work: Callable[[Harbour], Awaitable[None]], timer: Timer | None = None) -> None:
    async def within() -> None:
        async with _harbour(timer) as harbour:
            await work(harbour)

    run(within())


def test_a_victim_is_marked_and_deleted_once_for_any_number_of_preemptors() -> None:
    async def work(harbour: Harbour) -> None:
        raft, barge = await harbour.create("raft"), await harbour.create("barge")
        first, second = harbour.preemptor("first"), harbour.preemptor("second")
        eviction = harbour.evict(first, raft)
        assert eviction is not None
        later = harbour.evict(second, barge, raft)
        assert later is not None
        assert later.victims == (barge,)
        await asyncio.gather(
            harbour.evictions.carry_out(eviction), harbour.evictions.carry_out(later)
        )
        assert sorted(harbour.sent.codes) == [("DELETE", 200)] * 2 + [("PATCH", 200)] * 2
        # Until the watch shows that they are terminating they count as such.
        assert harbour.evict(first, raft, barge) is None

    _on(work)


def test_a_pod_made_again_under_a_victims_name_is_neither_marked_nor_deleted() -> None:
    async def work(harbour: Harbour) -> None:
        raft = await harbour.create("raft")
        preemptor = harbour.preemptor()
        await harbour.admin.delete(PODS, "default", "raft", grace_seconds=0)
        again = _read(await harbour.admin.create(PODS, "default", _body("raft", nodeName="n9")))
        await harbour.carry_out(preemptor, raft)  # the watch has told nothing yet
        assert harbour.sent.codes == [("PATCH", 422)]
        marked = msgspec.structs.replace(raft.status, conditions=(_condition(),))
        later = msgspec.structs.replace(raft, status=marked)
        harbour.pods.on_update(raft, later)
        harbour.scheduler.handle.preempting.left(raft)
        await harbour.carry_out(preemptor, later)
        assert harbour.sent.codes[1:] == [("DELETE", 409)]
        found = _read(await harbour.admin.get(PODS, "default", "raft"))
        assert (found.uid, found.terminating) == (again.uid, False)
        assert not found.status.conditions
        assert harbour.active == {"frigate"}

    _on(work)


def _condition() -> Condition:
    return Condition(
        type="DisruptionTarget",
        status="True",
        reason="PreemptionByScheduler",
        message="default-scheduler: preempting to accommodate a higher priority pod",
    )


def test_a_victim_that_leaves_while_the_request_waits_for_its_turn_is_left_alone() -> None:
    class Meanwhile(JumpingTimer):
        """A clock that lets something happen during each wait."""

        happens: Callable[[], None] = staticmethod(_nobody)

        async def sleep(self, seconds: float) -> None:
            self.happens()
            await super().sleep(seconds)

    timer = Meanwhile()

    async def work(harbour: Harbour) -> None:
        raft = await harbour.create("raft")
        preemptor = harbour.preemptor()
        for _ in range(100):  # the burst
            await harbour.client.get(PODS, "default", "raft")
        harbour.sent.codes.clear()
        timer.happens = lambda: harbour.pods.on_delete(raft)
        await harbour.carry_out(preemptor, raft)
        assert harbour.sent.codes == []
        assert harbour.active == {"frigate"}

    _on(work, timer)


def test_a_preemptor_is_not_tried_before_its_terminating_victim_has_gone() -> None:
    async def work(harbour: Harbour) -> None:
        raft = await harbour.create("raft")
        preemptor = harbour.preemptor()
        eviction = harbour.evict(preemptor, raft)
        assert eviction is not None
        await harbour.admin.delete(PODS, "default", "raft")
        going = _read(await harbour.admin.get(PODS, "default", "raft"))
        harbour.pods.on_update(raft, going)
        await harbour.evictions.carry_out(eviction)
        assert harbour.sent.codes == []
        assert harbour.active == set()

    _on(work)


def test_when_an_eviction_fails_all_that_counted_on_it_are_tried_again() -> None:
    async def work(harbour: Harbour) -> None:
        raft = await harbour.create("raft")
        first, second = harbour.preemptor("first"), harbour.preemptor("second")
        eviction = harbour.evict(first, raft)
        assert eviction is not None
        assert harbour.evict(second, raft) is None
        await harbour.client.close()
        harbour.evictions = Evictions(
            harbour.scheduler,
            KubeClient(harbour.client.access, env={}, read_only=True),
            harbour.recorder,
            WallTimer(),
            _nobody,
        )
        await harbour.evictions.carry_out(eviction)
        assert harbour.active == {"first", "second"}
        assert harbour.evict(second, raft) is not None  # it may be chosen again

    _on(work)


def test_a_preemptor_whose_last_victim_has_gone_already_is_tried_again() -> None:
    async def evict() -> None:
        gates = DEFAULT_FEATURE_GATES
        scheduler = build_scheduler(default_config(gates), full_registry(), gates, WallClock())
        preemptor = _pod("frigate", priority=10, nodeSelector={"deep": "yes"})
        event_handler(scheduler.handlers, "Node").on_add(make_node("node-00000"))
        event_handler(scheduler.handlers, "Pod").on_add(preemptor)
        assert scheduler.schedule_one()  # no node is deep enough
        assert scheduler.queue.view.pending_pods().unschedulable == (preemptor,)
        server = ApiServer()
        await server.start()
        async with KubeClient(Access(server=server.url), env={}) as client:
            recorder, timer = EventRecorder(client), WallTimer()
            evictions = Evictions(scheduler, client, recorder, timer, _nobody)
            gone = _pod("raft", nodeName="quay")
            await evictions.carry_out(Eviction(preemptor, "default-scheduler", "quay", (gone,)))
        await server.stop()
        assert scheduler.queue.view.pending_pods().active == (preemptor,)

    asyncio.run(evict())


def test_a_preemptor_whose_last_victim_was_never_bound_is_tried_again() -> None:
    async def work(harbour: Harbour) -> None:
        preemptor, raft = harbour.preemptor(), _pod("raft")
        volumes = asyncio.create_task(asyncio.sleep(60, None))
        harbour.evictions.preparing[raft.uid] = volumes
        await harbour.carry_out(preemptor, raft)
        assert harbour.active == {"frigate"}, "no pod will be deleted that could wake it"
        assert not harbour.sent.codes
        await asyncio.wait([volumes])
        assert volumes.cancelled()

    _on(work)
