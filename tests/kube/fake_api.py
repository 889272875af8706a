"""A small API server for tests: one collection of pods over real HTTP, with faults on order."""

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from random import Random
from typing import Any, Self, TypeVar
from urllib.parse import unquote

from aiohttp import web

from moorage.kube.access import Access
from moorage.kube.client import KubeClient
from moorage.kube.reflector import Reflector
from moorage.kube.resources import POD_FIELD_SELECTOR, RESOURCES
from moorage.kube.store import Store
from moorage.model.meta import ApiObject

T = TypeVar("T")
Json = dict[str, Any]
Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

LIMIT = 20.0
"""Seconds that any test may take at most."""


def run(work: Coroutine[Any, Any, T]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(LIMIT):
            return await work

    return asyncio.run(bounded())


class JumpingTimer:
    """A clock that jumps over every wait, and remembers the waits."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.time = now
        self.waits: list[float] = []

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.time += seconds
        await asyncio.sleep(0)


def status(code: int, reason: str, message: str = "", **more: Any) -> Json:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message or reason,
        **more,
    }


def failure(code: int, reason: str, headers: dict[str, str] | None = None) -> web.Response:
    return web.json_response(status(code, reason), status=code, headers=headers)


def pod(name: str, version: int, uid: str = "", **more: Any) -> Json:
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": uid or f"uid-{name}",
            "resourceVersion": str(version),
            "creationTimestamp": None,
        },
        "spec": {"containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": "Pending"},
        **more,
    }


class FakeApi:
    """Pods with a history, over HTTP.

    `faults` are answers for the next requests, `cuts` byte limits of the next watches (None: no
    limit).
    """

    def __init__(self, *, streaming: bool = True) -> None:
        self.streaming = streaming
        self.objects: dict[str, Json] = {}
        self.history: list[tuple[int, str, Any]] = []
        self.version = 10
        self.compacted = 0
        self.requests: list[str] = []
        self.bodies: list[Any] = []
        self.headers: list[Any] = []
        self.faults: deque[Answer] = deque()
        self.cuts: deque[int | None] = deque()
        self.page_hook: Callable[[int], None] | None = None
        self.routes: dict[str, Answer] = {}
        self._changed = asyncio.Event()
        self._server: web.Server | None = None
        self._listener: asyncio.Server | None = None
        self._port = 0
        self._life = 0
        self._ssl: Any = None

    # ---- the world ----

    def put(self, name: str, *, recreate: bool = False, **more: Any) -> Json:
        self.version += 1
        old = self.objects.get(name)
        if old is not None and recreate:
            self.delete(name)
            self.version += 1
            old = None
        uid = old["metadata"]["uid"] if old else f"uid-{name}-{self.version}"
        obj = pod(name, self.version, uid, **more)
        self.objects[name] = obj
        self._append("MODIFIED" if old else "ADDED", obj)
        return obj

    def delete(self, name: str) -> None:
        obj = self.objects.pop(name)
        self.version += 1
        gone = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.version)}}
        self._append("DELETED", gone)

    def bookmark(self) -> None:
        self.version += 1
        self._append(
            "BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(self.version)}}
        )

    def send(self, type_: str, obj: Json) -> None:
        """Put a raw event into the stream."""
        self._append(type_, obj)

    def send_line(self, line: bytes) -> None:
        """Put any bytes into the stream."""
        self.version += 1
        self._append("", line)

    def compact(self) -> None:
        self.compacted = self.version
        self.history.clear()
        self._wake()

    def _append(self, type_: str, obj: Json | bytes) -> None:
        self.history.append((self.version, type_, obj))
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    # ---- life ----

    @property
    def url(self) -> str:
        return f"http{'s' if self._ssl else ''}://localhost:{self._port}"

    async def start(self, ssl: Any = None) -> None:
        self._ssl = ssl or self._ssl
        life = self._life
        server = web.Server(self._handle)
        loop = asyncio.get_running_loop()

        def door() -> asyncio.Protocol:
            return _Door(server, lambda: life == self._life)

        self._listener = await loop.create_server(door, "127.0.0.1", self._port, ssl=self._ssl)
        self._server = server
        self._port = self._listener.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._listener is not None and self._server is not None:
            self._life += 1
            self._wake()
            await _last_guests(self._listener)
            self._listener.close()
            await self._server.shutdown(0.1)
            await self._listener.wait_closed()
            self._listener = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    # ---- answers ----

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests.append(unquote(f"{request.method} {request.rel_url}"))
        self.headers.append(request.headers.copy())
        body = await request.read()
        is_json = "json" in request.content_type and body
        self.bodies.append(json.loads(body) if is_json else None)
        if self.faults:
            return await self.faults.popleft()(request)
        route = self.routes.get(f"{request.method} {request.path}")
        if route is not None:
            return await route(request)
        if request.path != "/api/v1/pods":
            return failure(404, "NotFound")
        if request.query.get("watch") == "true":
            return await self._watch(request)
        return self._list(request)

    def _list(self, request: web.BaseRequest) -> web.Response:
        names = sorted(self.objects)
        token = request.query.get("continue", "")
        at, _, start = token.partition(":")
        if token and int(at) < self.compacted:
            return failure(410, "Expired")
        wanted = int(request.query.get("resourceVersion") or 0)
        if wanted > self.version:
            cause = {"causes": [{"reason": "ResourceVersionTooLarge"}]}
            return web.json_response(status(504, "Timeout", details=cause), status=504)
        first = int(start or 0)
        limit = int(request.query.get("limit") or 0) or len(names)
        page = names[first : first + limit]
        meta: Json = {"resourceVersion": at or str(self.version)}
        if first + limit < len(names):
            meta["continue"] = f"{at or self.version}:{first + limit}"
        items = [{k: v for k, v in self.objects[n].items() if k != "kind"} for n in page]
        if self.page_hook is not None:
            self.page_hook(first)
        return web.json_response({"kind": "PodList", "metadata": meta, "items": items})

    async def _watch(self, request: web.BaseRequest) -> web.StreamResponse:
        initial = request.query.get("sendInitialEvents") == "true"
        if initial and not self.streaming:
            return failure(422, "Invalid")
        since = int(request.query.get("resourceVersion") or 0)
        if not initial and since < self.compacted:
            return failure(410, "Expired")
        if since > self.version:
            cause = {"causes": [{"reason": "ResourceVersionTooLarge"}]}
            return web.json_response(status(504, "Timeout", details=cause), status=504)
        response = web.StreamResponse()
        await response.prepare(request)
        budget = self.cuts.popleft() if self.cuts else None
        out = _Cutting(request, response, budget)
        if initial:
            since = self.version
            for obj in list(self.objects.values()):
                await out.event("ADDED", obj)
            note = {"annotations": {"k8s.io/initial-events-end": "true"}}
            await out.event("BOOKMARK", {"metadata": {"resourceVersion": str(since), **note}})
        sent, life = since, self._life
        while not out.cut and life == self._life:
            changed = self._changed
            if sent < self.compacted:
                await out.event("ERROR", status(410, "Expired"))
                return response
            for entry in [entry for entry in self.history if entry[0] > sent]:
                sent, type_, obj = entry
                await out.event(type_, obj)
                if type_ == "ERROR":
                    self.history.remove(entry)
                    return response
            await changed.wait()
        return response


async def _last_guests(listener: asyncio.Server) -> None:
    """Take no more connections, and let those just accepted reach the door.

    asyncio's `Server` of Python 3.11 drops a connection that was accepted right before `close`
    without closing it: the client would wait until the garbage collector comes by.
    """
    loop = asyncio.get_running_loop()
    for socket in listener.sockets:
        loop.remove_reader(socket.fileno())
    for _ in range(3):
        await asyncio.sleep(0)


class _Door(asyncio.Protocol):
    """Lets connections in, but not those that were on their way when the server stopped."""

    def __init__(self, server: web.Server, is_open: Callable[[], bool]) -> None:
        self._server = server
        self._is_open = is_open

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        if not self._is_open():
            transport.abort()
            return
        protocol = self._server()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)


class _Cutting:
    """Writes events until a number of bytes has gone out, then breaks the connection."""

    def __init__(
        self, request: web.BaseRequest, response: web.StreamResponse, budget: int | None
    ) -> None:
        self._request = request
        self._response = response
        self._budget = budget
        self.cut = False

    async def event(self, type_: str, obj: Json | bytes) -> None:
        if isinstance(obj, bytes):
            await self.raw(obj)
            return
        await self.raw(json.dumps({"type": type_, "object": obj}).encode() + b"\n")

    async def raw(self, data: bytes) -> None:
        if self.cut:
            return
        if self._budget is None:
            await self._response.write(data)
            return
        part = data[: self._budget]
        self._budget -= len(part)
        if part:
            await self._response.write(part)
        if self._budget == 0:
            self.cut = True
            if self._request.transport is not None:
                self._request.transport.close()


class Recorder:
    """A handler that writes everything down and lets tests wait."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []
        self.objects: dict[str, ApiObject] = {}
        self.synced = 0
        self._news = asyncio.Event()

    def on_add(self, obj: ApiObject) -> None:
        assert obj.key not in self.objects, f"{obj.key} added twice"
        self.objects[obj.key] = obj
        self._note("add", obj)

    def on_update(self, old: ApiObject, new: ApiObject) -> None:
        assert self.objects[new.key] is old, f"{new.key} updated from what was never told"
        assert old.metadata.uid == new.metadata.uid
        assert int(new.metadata.resource_version) > int(old.metadata.resource_version)
        self.objects[new.key] = new
        self._note("update", new)

    def on_delete(self, old: ApiObject) -> None:
        assert self.objects.pop(old.key) is old, f"{old.key} deleted in another form"
        self._note("delete", old)

    def on_synced(self) -> None:
        self.synced += 1
        self._news.set()

    def _note(self, what: str, obj: ApiObject) -> None:
        self.events.append((what, obj.name, obj.metadata.resource_version))
        self._news.set()

    @property
    def versions(self) -> dict[str, str]:
        return {obj.name: obj.metadata.resource_version for obj in self.objects.values()}

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(LIMIT / 2):
            while not condition():
                self._news.clear()
                await self._news.wait()

    async def matches(self, api: FakeApi) -> None:
        """Wait until we know exactly what the server has."""
        await self.until(lambda: self.synced > 0 and self.versions == versions(api))


def versions(api: FakeApi) -> dict[str, str]:
    return {name: obj["metadata"]["resourceVersion"] for name, obj in api.objects.items()}


class Following:
    """A reflector of pods at a fake server, running as a task."""

    def __init__(self, api: FakeApi, *, streaming: bool = True) -> None:
        self.timer = JumpingTimer()
        self.client = KubeClient(Access(server=api.url), timer=self.timer, qps=0)
        self.recorder = Recorder()
        self.reflector = Reflector(
            self.client,
            RESOURCES["Pod"],
            Store([self.recorder]),
            timer=self.timer,
            random=Random(1),
            field_selector=POD_FIELD_SELECTOR,
            streaming=streaming,
        )
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "Following":
        self._task = asyncio.create_task(self.reflector.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        outcome = (await asyncio.gather(self._task, return_exceptions=True))[0]
        await self.client.close()
        if not isinstance(outcome, asyncio.CancelledError):
            assert isinstance(outcome, BaseException)
            raise outcome
