"""Runs controllers or kubelets over the API: follows what they look at, carries out what they plan.

Owns the queue of objects to look at, retries with back-off, and how fast pods are made. Decides
nothing about workloads; meets the API server only through the client, so any will do.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from functools import partial

from moorage.controllers.cluster import ClusterObjects, Key, key_of
from moorage.controllers.machine import UNREADABLE, StateMachine
from moorage.controllers.objects import Json, is_going, meta
from moorage.controllers.plan import CreateObject, DeleteObject, Note, PatchObject, Write
from moorage.controllers.triggers import WORKLOADS
from moorage.errors import ApiError, reason_of
from moorage.kube import requests
from moorage.kube.client import KubeClient
from moorage.kube.event_recorder import EventRecorder
from moorage.kube.informers import Informers
from moorage.kube.requests import MERGE
from moorage.kube.resources import Resource, resource_for
from moorage.kube.store import FunctionHandler
from moorage.kube.timing import Timer, WallTimer
from moorage.model.custom import CustomObject, custom_object

log = logging.getLogger(__name__)

_WORKERS = 8
_MOST_AT_ONCE = 32
_LONG = 0.002
"""Planning takes so many seconds only for objects that have hundreds of pods or more."""
_RESTS = 10
_FIRST_WAIT = 0.05
_LONGEST_WAIT = 30.0
_PATIENCE = 6
"""What was refused so often will be refused again; nobody should wait for it."""
_GONE, _CONFLICT = 404, 409


class Controllers:
    """All controllers of a cluster, or whatever else is a state machine, in one task."""

    def __init__(
        self,
        client: KubeClient,
        recorder: EventRecorder | None = None,
        *,
        machine: StateMachine = WORKLOADS,
        workers: int = _WORKERS,
        timer: Timer | None = None,
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._machine = machine
        self._most_workers = workers
        self._timer = timer or WallTimer()
        self._cluster = ClusterObjects()
        followed = machine.followed
        self._resources = {kind: resource_for(name) for kind, name in followed.items()}
        self._informers = Informers(
            client, followed.values(), timer=self._timer, selectors=machine.selectors
        )
        for kind, name in followed.items():
            handler = FunctionHandler(
                on_add=partial(self._seen, kind, None),
                on_update=partial(self._seen, kind),
                on_delete=partial(self._gone, kind),
            )
            self._informers.add_handler(name, handler)
        self._waiting: dict[Key, None] = {}
        self._working: set[Key] = set()
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._tries: dict[Key, int] = {}
        self._planning: dict[Key, float] = {}
        """How many seconds planning took for what is being worked on."""
        self._told: set[tuple[str, int]] = set()
        self._wake = asyncio.Event()

    @property
    def busy(self) -> bool:
        """Is there anything to look at that does not only wait for time to pass?"""
        soon = any(tries < _PATIENCE for tries in self._tries.values())
        return bool(self._waiting or self._working) or soon or not self._informers.has_synced

    async def run(self) -> None:
        """Follow the cluster and bring about what its objects ask for, until cancelled."""
        self._informers.start()
        try:
            await self._informers.wait_for_sync()
            async with asyncio.TaskGroup() as workers:
                for number in range(self._most_workers):
                    workers.create_task(self._work(), name=f"controllers {number}")
        finally:
            for timer in self._timers.values():
                timer.cancel()
            await self._informers.stop()

    # ---- what changes ----

    def _seen(self, kind: str, before: CustomObject | None, after: CustomObject) -> None:
        obj = self._complete(kind, after.content)
        self._put(obj)
        self._look_at(None if before is None else self._complete(kind, before.content), obj)

    def _put(self, obj: Json) -> None:
        if obj["kind"] == "Pod":
            # Of tens of thousands, only what controllers read.
            obj["spec"] = self._machine.of_pods(obj.get("spec") or {})
        meta(obj).pop("managedFields", None)
        self._cluster.put(obj)

    def _gone(self, kind: str, before: CustomObject) -> None:
        obj = self._complete(kind, before.content)
        self._cluster.remove(key_of(obj), meta(obj)["uid"])
        self._tries.pop(key_of(obj), None)
        self._look_at(obj, None)

    def _complete(self, kind: str, content: Json) -> Json:
        """The members of lists leave out what kind they are."""
        if "kind" in content and "apiVersion" in content:
            return content
        return {"apiVersion": self._resource(kind).api_version, **content, "kind": kind}

    def _resource(self, kind: str) -> Resource:
        return self._resources.get(kind) or resource_for(kind)

    def _look_at(self, before: Json | None, after: Json | None) -> None:
        try:
            for key in self._machine.affected(self._cluster, before, after):
                self._add(key)
        except UNREADABLE as error:
            self._complain(key_of(after or before or {}), error)

    def _add(self, key: Key) -> None:
        self._waiting[key] = None
        self._wake.set()

    # ---- work ----

    async def _work(self) -> None:
        while True:
            key = next((one for one in self._waiting if one not in self._working), None)
            if key is None:
                self._wake.clear()
                await self._wake.wait()
                continue
            del self._waiting[key]
            self._working.add(key)
            try:
                await self._reconcile(key)
            finally:
                asyncio.get_running_loop().call_later(self._rest(key), self._release, key)

    def _rest(self, key: Key) -> float:
        """For how long an object is left alone: all that take long may take a tenth of the time."""
        planning = self._planning.pop(key, 0.0)
        return _RESTS * planning * len(self._working) if planning > _LONG else 0.0

    def _release(self, key: Key) -> None:
        self._working.discard(key)
        self._wake.set()

    async def _reconcile(self, key: Key) -> None:
        obj = self._cluster.get(*key)
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        if obj is None:
            return
        now = self._timer.now()
        try:
            plan = self._machine.reconcile(self._cluster, obj, now)
        except UNREADABLE as error:
            self._complain(key, error)
            return
        self._planning[key] = self._timer.now() - now
        wait = plan.again_in
        try:
            await self._carry_out(plan.writes)
        except ApiError as error:
            tries = self._tries[key] = self._tries.get(key, 0) + 1
            wait = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** min(tries, 16))
            log.debug("%s: %s", key, error)
            if error.status not in (_GONE, _CONFLICT):
                self._cluster.failed(meta(obj)["uid"], str(error))
                self._tell(key, error)
        else:
            self._tries.pop(key, None)
            self._cluster.failed(meta(obj)["uid"], "")
        if wait is not None:
            loop = asyncio.get_running_loop()
            self._timers[key] = loop.call_later(wait, self._add, key)

    def _tell(self, key: Key, error: ApiError) -> None:
        """Where no events tell of it, name the first object of a kind that meets such an error."""
        if self._recorder is None and (key.kind, error.status) not in self._told:
            self._told.add((key.kind, error.status))
            log.warning("%s: %s; it is tried again, others like it are not named", key, error)

    def _complain(self, key: Key, error: Exception) -> None:
        log.warning("%s is left alone, it cannot be read: %s", key, reason_of(error))

    # ---- writes ----

    async def _carry_out(self, writes: Sequence[Write]) -> None:
        """In order; equal steps about pods side by side, a few at first: the first may fail."""
        left, at_once = deque(writes), 1
        while left:
            kind = type(left[0])
            batch = [left.popleft()]
            if kind in (CreateObject, DeleteObject):
                while left and len(batch) < at_once and type(left[0]) is kind:
                    batch.append(left.popleft())
                at_once = min(2 * at_once, _MOST_AT_ONCE)
            results = await asyncio.gather(*map(self._write, batch), return_exceptions=True)
            for result in results:
                if isinstance(result, BaseException):
                    raise result

    async def _write(self, write: Write) -> None:
        match write:
            case CreateObject(kind, namespace, body, note):
                await self._create(kind, namespace, body, note)
            case PatchObject(key, changes, subresource, note):
                await self._patch(key, changes, subresource)
                self._say(note, key.name)
            case DeleteObject(key, uid, grace, note):
                await self._delete(key, uid, grace)
                self._say(note, key.name)

    async def _create(self, kind: str, namespace: str, body: Json, note: Note | None) -> None:
        try:
            answer = await self._client.create(self._resource(kind), namespace, body)
        except ApiError as error:
            if error.status == _CONFLICT and kind not in self._resources:
                # No watch tells what is there.
                found = await self._client.get(self._resource(kind), namespace, meta(body)["name"])
                self._put(found)
            if note is not None and error.status != _CONFLICT:
                failed = Note(note.regarding, "FailedCreate", f"Error creating: {error}", "Warning")
                self._say(failed, "")
            raise
        self._put(answer)
        self._say(note, meta(answer)["name"])

    async def _patch(self, key: Key, changes: Json, subresource: str) -> None:
        of, namespace, name = self._resource(key.kind), key.namespace, key.name
        try:
            answer = await self._client.patch(
                of, namespace, name, changes, content_type=MERGE, subresource=subresource
            )
        except ApiError as error:
            if error.status == _GONE:
                self._cluster.remove(key)
            raise
        self._put(answer)

    async def _delete(self, key: Key, uid: str, grace: int | None) -> None:
        request = requests.delete(
            self._resource(key.kind), key.namespace, key.name, uid=uid, grace_seconds=grace
        )
        try:
            answer = await self._client.json(request)
        except ApiError as error:
            if error.status not in (_GONE, _CONFLICT):
                raise
            answer = {}
        if answer.get("kind") == key.kind and is_going(answer):
            self._put(answer)
        else:
            self._cluster.remove(key, uid)

    def _say(self, note: Note | None, name: str) -> None:
        if note is None or self._recorder is None:
            return
        message = note.message.replace("{name}", name)
        regarding = custom_object(note.regarding)
        controller = f"{regarding.kind.lower()}-controller"
        self._recorder.event(
            regarding,
            note.type,
            note.reason,
            note.reason,  # the API wants an action, too
            message,
            controller=controller,
            apart=message,
        )
