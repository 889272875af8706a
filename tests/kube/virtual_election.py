"""Elections on virtual time: an event loop that jumps over waits, and Leases kept in memory."""

import asyncio
import selectors
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from copy import deepcopy
from random import Random
from typing import Any, TypeVar

import msgspec

from moorage.config.types import LeaderElectionConfiguration
from moorage.errors import ApiError, UnreachableError
from moorage.kube.client import Read
from moorage.kube.leader_election import Ended, LeaderElector
from moorage.kube.lease import LeaseEvents
from moorage.kube.requests import Json, Request
from moorage.kube.resources import Resource
from moorage.kube.timing import micro_time
from moorage.model.duration import Duration

T = TypeVar("T")
EPOCH = 1_800_000_000.0
CONFIG = LeaderElectionConfiguration()


class _JumpingSelector(selectors.DefaultSelector):
    """Lets the loop's time pass instead of waiting."""

    loop: "VirtualLoop"

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "nothing is left that could ever happen"
        self.loop.now += timeout
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose waits take no time."""

    def __init__(self) -> None:
        self.now = 0.0
        selector = _JumpingSelector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self.now


def run_virtually(work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)


def now() -> float:
    return asyncio.get_running_loop().time()


class SkewedTimer:
    """A time of day that is wrong by so many seconds."""

    def __init__(self, skew: float = 0.0) -> None:
        self.skew = skew

    def now(self) -> float:
        return EPOCH + self.skew + now()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def config(lease: float = 15, deadline: float = 10, retry: float = 2) -> Any:
    lengths = [Duration(int(seconds * 1e9)) for seconds in (lease, deadline, retry)]
    return LeaderElectionConfiguration(
        lease_duration=lengths[0], renew_deadline=lengths[1], retry_period=lengths[2]
    )


class LeaseStore:
    """The one Lease, as an API server keeps it."""

    def __init__(self) -> None:
        self.lease: Json | None = None
        self.version = 100
        self.writes: list[tuple[float, str]] = []
        self._watchers: list[asyncio.Queue[bytes]] = []

    @property
    def spec(self) -> Json:
        assert self.lease is not None
        spec: Json = self.lease["spec"]
        return spec

    def put(self, lease: Json) -> Json:
        self.version += 1
        kept = deepcopy(lease)
        kept.setdefault("metadata", {})["resourceVersion"] = str(self.version)
        change = "ADDED" if self.lease is None else "MODIFIED"
        self.lease = kept
        self.writes.append((now(), str(kept.get("spec", {}).get("holderIdentity"))))
        self._tell(change, kept)
        return deepcopy(kept)

    def edit(self, **spec: Any) -> None:
        """Change the spec by hand."""
        assert self.lease is not None
        self.put({**self.lease, "spec": {**self.lease["spec"], **spec}})

    def delete(self) -> None:
        assert self.lease is not None
        self.version += 1
        gone, self.lease = deepcopy(self.lease), None
        gone["metadata"]["resourceVersion"] = str(self.version)
        self._tell("DELETED", gone)

    def watch(self) -> asyncio.Queue[bytes]:
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._watchers.append(queue)
        if self.lease is not None:
            queue.put_nowait(_line("ADDED", self.lease))
        return queue

    def _tell(self, change: str, lease: Json) -> None:
        for queue in self._watchers:
            queue.put_nowait(_line(change, lease))


def _line(change: str, lease: Json) -> bytes:
    return msgspec.json.encode({"type": change, "object": lease}) + b"\n"


Trouble = Callable[[str], tuple[float, float, bool, bool]]
"""For a call: seconds on the way there and back, and whether either way swallows it."""


def calm(_: str) -> tuple[float, float, bool, bool]:
    return 0.001, 0.001, False, False


class InstanceApi:
    """One instance's way to the store: slow, lossy, or cut off.

    What has left goes its way although nobody waits for the answer any more, as on a network.
    """

    def __init__(self, store: LeaseStore, trouble: Trouble = calm) -> None:
        self.store = store
        self.trouble = trouble
        self.down = False
        self.dead = False
        self.watchable = True
        self.calls: list[str] = []
        self.next_errors: dict[str, list[ApiError]] = {}
        self._under_way: set[asyncio.Task[Json]] = set()

    async def get(self, resource: Resource, namespace: str, name: str) -> Json:
        def read() -> Json:
            if self.store.lease is None:
                raise ApiError(404, "NotFound", f'leases "{name}" not found')
            return deepcopy(self.store.lease)

        return await self._call("get", read)

    async def create(self, resource: Resource, namespace: str, body: Any) -> Json:
        def write() -> Json:
            if self.store.lease is not None:
                raise ApiError(409, "AlreadyExists", "already exists")
            return self.store.put(body)

        return await self._call("create", write)

    async def update(
        self, resource: Resource, namespace: str, name: str, body: Any, subresource: str = ""
    ) -> Json:
        expected = body["metadata"]["resourceVersion"]

        def write() -> Json:
            if self.store.lease is None:
                raise ApiError(404, "NotFound", f'leases "{name}" not found')
            if self.store.lease["metadata"]["resourceVersion"] != expected:
                raise ApiError(409, "Conflict", "the object has been modified")
            return self.store.put(body)

        return await self._call("update", write)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Read]:
        self.calls.append("watch")
        if not self.watchable:
            raise ApiError(403, "Forbidden", "cannot watch resource leases")
        if self.down:
            raise UnreachableError("down", maybe_applied=False)
        queue = self.store.watch()

        async def read() -> bytes:
            line = await queue.get()
            there, _, lost, _ = self.trouble("watch")
            await asyncio.sleep(there)
            if lost or self.down or self.dead:
                raise UnreachableError("the watch broke", maybe_applied=True)
            return line

        yield read

    async def _call(self, verb: str, act: Callable[[], Json]) -> Json:
        self.calls.append(verb)
        if errors := self.next_errors.get(verb):
            raise errors.pop(0)
        there, back, lost, unheard = self.trouble(verb)
        if self.down:
            raise UnreachableError("down", maybe_applied=False)
        if self.dead:
            await asyncio.Event().wait()

        async def served() -> Json:
            await asyncio.sleep(there)
            if lost:
                raise UnreachableError("lost on its way", maybe_applied=True)
            return act()

        serving = asyncio.create_task(served())
        self._under_way.add(serving)
        serving.add_done_callback(self._forget)
        answer = await asyncio.shield(serving)
        await asyncio.sleep(back)
        if unheard or self.down:
            raise UnreachableError("the answer was lost", maybe_applied=True)
        return answer

    def _forget(self, task: asyncio.Task[Json]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()


class Metrics:
    """Counts as the metrics do."""

    def __init__(self) -> None:
        self.status: int | None = None
        self.slow = 0

    def on(self, name: str) -> None:
        assert name == "kube-scheduler"
        self.status = 1

    def off(self, name: str) -> None:
        assert name == "kube-scheduler"
        self.status = 0

    def slowpath(self, name: str) -> None:
        assert name == "kube-scheduler"
        self.slow += 1


class EventList(LeaseEvents):
    def __init__(self) -> None:
        self.messages: list[str] = []

    def record(self, lease: Json, message: str) -> None:
        self.messages.append(message)


class Instance:
    """An elector with what it leads; `leading` is when the led part could act."""

    def __init__(
        self,
        store: LeaseStore,
        identity: str,
        times: LeaderElectionConfiguration = CONFIG,
        *,
        trouble: Trouble = calm,
        skew: float = 0.0,
        seed: int = 1,
        coordinated: bool = False,
        watch: Callable[["Instance"], None] | None = None,
    ) -> None:
        self.identity = identity
        self.api = InstanceApi(store, trouble)
        self.metrics = Metrics()
        self.events = EventList()
        self.elector = LeaderElector(
            self.api,
            times,
            identity,
            timer=SkewedTimer(skew),
            clock=now,
            random=Random(seed),
            observer=self.metrics,
            events=self.events,
            coordinated=coordinated,
        )
        self.stop = asyncio.Event()
        self.leading = False
        self.started_at: float | None = None
        self.started = asyncio.Event()
        self.ended_at: float | None = None
        self.lost_at: float | None = None
        self.leaders: list[str] = []
        self.work_seconds = 0.0
        self.at_loss: Callable[[], None] | None = None
        self._watch = watch
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> Ended:
        ended = await self.elector.run(
            self.stop, on_started=self._work, on_lost=self._lost, on_new_leader=self.leaders.append
        )
        self.ended_at = now()
        return ended

    async def _work(self) -> None:
        self.started_at = now()
        self.leading = True
        self.started.set()
        if self._watch is not None:
            self._watch(self)
        try:
            await self.stop.wait()
            await asyncio.sleep(self.work_seconds)
        finally:
            self.leading = False

    def _lost(self) -> None:
        self.lost_at = now()
        self.leading = False
        if self.at_loss is not None:
            self.at_loss()

    async def kill(self) -> None:
        """As kill -9: nothing leaves the process any more."""
        self.leading = False
        self.api.dead = True
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


def lease(holder: str | None, seconds: int = 15, **spec: Any) -> Json:
    """A Lease as somebody else would have written it."""
    moment = micro_time(EPOCH)
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "kube-scheduler", "namespace": "kube-system"},
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": seconds,
            "acquireTime": moment,
            "renewTime": moment,
            "leaseTransitions": 3,
            **spec,
        },
    }
