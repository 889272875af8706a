"""A live scheduler that hears of hostile objects: added, changed and deleted, over HTTP.

An ordinary pod that comes afterwards must be bound, and the scheduler must still be at work.
"""

import asyncio
import json
from random import Random
from typing import Any

import msgspec

from fuzz.corpus import Json, golden_cases
from fuzz.mutations import encode, mutate_bytes, mutate_json
from fuzz.raw_api import RawApi, deleted, event
from fuzz.target import PropertyError, Target
from fuzz.targets.engine import GOOD_NODE, good_pod, loaded_kind, mutated_objects
from moorage.config import DEFAULT_FEATURE_GATES, default_config
from moorage.engine.clock import WallClock
from moorage.errors import CorruptStateError
from moorage.kube.access import Access
from moorage.kube.client import KubeClient
from moorage.kube.event_recorder import EventRecorder
from moorage.kube.live import LiveScheduler, build_scheduler
from moorage.plugins.defaults import in_tree_registry

_SECONDS = 15.0
"""Of wall time, for a machine that others keep busy."""


class Stage:
    """A scheduler at work on a raw API server; `initial` is there from the beginning."""

    def __init__(self, initial: list[bytes]) -> None:
        self._initial = initial
        self._api = RawApi()
        self._bound: dict[str, asyncio.Event] = {}
        self._serial = 0

    async def start(self) -> None:
        """Begin to schedule."""
        self._api.on_write = self._written
        self._api.initial = {"Node": [json.dumps(GOOD_NODE).encode()]}
        for data in self._initial:
            self._api.initial.setdefault(loaded_kind(data), []).append(data)
        await self._api.start()
        access = Access(server=self._api.url, source="fuzz")
        self._clients = [KubeClient(access, qps=1e6, burst=10**6) for _ in range(2)]
        scheduler = build_scheduler(
            default_config(), in_tree_registry(), DEFAULT_FEATURE_GATES, WallClock()
        )
        self.live = LiveScheduler(scheduler, self._clients[0], EventRecorder(self._clients[1]))
        self.work = asyncio.create_task(self.live.run())
        await self._until_synced()

    async def stop(self) -> None:
        """End it all."""
        self.live.abandon()
        self.work.cancel()
        await asyncio.gather(self.work, return_exceptions=True)
        for client in self._clients:
            await client.close()
        await self._api.stop()

    async def _until_synced(self) -> None:
        async with asyncio.timeout(_SECONDS):
            while not self.live.synced:
                self._alive()
                await asyncio.sleep(0.001)

    def push(self, sort: str, data: bytes) -> None:
        """Tell of an object."""
        self._api.push(loaded_kind(data) or "Pod", event(sort, data))

    async def good_pod_is_bound(self) -> None:
        """One more ordinary pod."""
        self._serial += 1
        name = f"good-{self._serial}"
        bound = self._bound[name] = asyncio.Event()
        self._api.push("Pod", event("ADDED", json.dumps(good_pod(name)).encode()))
        waiting = asyncio.create_task(bound.wait())
        try:
            await asyncio.wait(
                {waiting, self.work}, timeout=_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            self._alive()
            if not bound.is_set():
                raise PropertyError("the ordinary pod was not bound")
        finally:
            waiting.cancel()
            del self._bound[name]

    async def clear(self) -> None:
        """Delete everything but the good node."""
        for kind, store in self.live.informers.stores.items():
            for obj in list(store.objects.values()):
                if obj.name != "good-node":
                    self._api.push(kind, deleted(obj.namespace, obj.name))
        async with asyncio.timeout(_SECONDS):
            while sum(len(store) for store in self.live.informers.stores.values()) > 1:
                self._alive()
                await asyncio.sleep(0)

    def _alive(self) -> None:
        if self.work.done():
            if (error := self.work.exception()) is not None:
                raise error
            raise PropertyError("the scheduler has ended")

    def _written(self, method: str, path: str, body: bytes) -> None:
        del method, body
        parts = path.split("/")
        if parts[-1] == "binding" and (bound := self._bound.get(parts[-2])) is not None:
            bound.set()


class Live(Target):
    """Stores, handlers, queue and executor of a live scheduler."""

    name = "live"

    def __init__(self) -> None:
        self._cases: list[Json] = []
        self._donors: list[Json] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stage: Stage | None = None

    def prepare(self, random: Random) -> None:
        """Golden cases."""
        self._cases = golden_cases(random, 200)
        self._donors = [obj for case in self._cases[:50] for obj in case["objects"][:5]]

    def make(self, random: Random) -> bytes:
        """Objects, and what happens to them; now and then they are there at the start."""
        case = random.choice(self._cases)
        events: list[Any] = []
        for obj in mutated_objects(case, random, self._donors):
            events.append(["ADDED", obj])
            while random.random() < 0.3:
                obj = _newer(obj, mutate_json(obj, random, self._donors), random)
                events.append([random.choice(("MODIFIED", "ADDED", "DELETED", "x")), obj])
        random.shuffle(events)
        data = encode({"start": random.random() < 0.02, "events": events})
        return mutate_bytes(data, random) if random.random() < 0.02 else data

    def check(self, data: bytes) -> None:
        """The ordinary pod is bound, before and after the hostile objects go."""
        try:
            asked = msgspec.json.decode(data, type=_Input)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return
        if asked.start:
            self.reset()
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        try:
            self._loop.run_until_complete(self._run(asked))
        except CorruptStateError:
            # On purpose, as upstream: an API server lets no pod change its node.
            self.reset()

    async def _run(self, asked: "_Input") -> None:
        events = [(sort, bytes(raw)) for sort, raw in asked.events]
        if self._stage is None:
            initial = [data for sort, data in events if sort == "ADDED"] if asked.start else []
            self._stage = Stage(initial)
            await self._stage.start()
        for sort, data in events:
            self._stage.push(sort if sort.isprintable() and '"' not in sort else "x", data)
        await self._stage.good_pod_is_bound()
        await self._stage.clear()
        await self._stage.good_pod_is_bound()
        await self._stage.clear()

    def reset(self) -> None:
        """End the scheduler; the next input gets a new one."""
        if self._loop is not None and not self._loop.is_closed():
            try:
                if self._stage is not None:
                    self._loop.run_until_complete(self._stage.stop())
            finally:
                self._loop.close()
        self._loop = self._stage = None


def _newer(old: Any, new: Any, random: Random) -> Any:
    """A later version of an object; a pod stays where it is."""
    if not isinstance(new, dict) or not isinstance(new.get("metadata"), dict):
        return new
    version = str(random.randrange(10**6))
    new = {**new, "metadata": {**new["metadata"], "resourceVersion": version}}
    if isinstance(new.get("spec"), dict) and isinstance(old, dict):
        node = (
            (old.get("spec") or {}).get("nodeName") if isinstance(old.get("spec"), dict) else None
        )
        new["spec"] = {**new["spec"], "nodeName": node}
    return new


class _Input(msgspec.Struct):
    events: list[tuple[str, msgspec.Raw]] = []
    start: bool = False


TARGET = Live
