"""A client of the embedded API server that calls it instead of asking over HTTP.

Everything is checked, defaulted, stored and watched as over HTTP, and travels as JSON; only the
network is left out. For one event loop that holds server and scheduler.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import msgspec

from moorage.apiserver.bodies import read_object
from moorage.apiserver.deletion import DeleteOptions
from moorage.apiserver.errors import ApiStatusError, Json, method_not_allowed, success
from moorage.apiserver.listing import Lists
from moorage.apiserver.patching import patch_function
from moorage.apiserver.requests import Form, Target, parse_target
from moorage.apiserver.responses import Renderer
from moorage.apiserver.selection import Selection, parse_selection
from moorage.apiserver.server import ApiServer
from moorage.apiserver.storage import encode
from moorage.apiserver.subresources import bind, evict
from moorage.apiserver.watching import WatchOptions, WatchStream
from moorage.errors import ApiError, NotNeededError
from moorage.kube.access import Access
from moorage.kube.client import KubeClient, Needed, Read, status_error
from moorage.kube.requests import Request

_ENOUGH = 1_000_000.0


class DirectClient(KubeClient):
    """Asks an `ApiServer` of this process."""

    def __init__(self, server: ApiServer) -> None:
        super().__init__(Access(server=server.url), qps=_ENOUGH, burst=int(_ENOUGH))
        self._server = server
        self._operations = server.operations
        self._lists = Lists(server.store)

    async def send(self, request: Request, needed: Needed | None = None) -> bytes:
        """The body of the answer, or `ApiError`; others get a turn before it."""
        await asyncio.sleep(0)
        if needed is not None and not needed():
            raise NotNeededError(f"{request} was not sent: it is not needed any more")
        try:
            return self._answer(request, _target(request), dict(request.query))
        except ApiStatusError as error:
            raise _as_api_error(error) from None

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Read]:
        """A watch, from the server's own history."""
        try:
            target, query = _target(request), dict(request.query)
            selection = self._selection(target, query)
            renderer = self._renderer(target)
            options = WatchOptions(query)
            watch = WatchStream(self._server.store, target, selection, renderer, options)
        except ApiStatusError as error:
            raise _as_api_error(error) from None
        with watch.history.listening() as wake:
            yield _reader(watch, wake)

    def _answer(self, request: Request, target: Target, query: dict[str, str]) -> bytes:
        item = target.resource, target.namespace, target.name
        match request.method:
            case "GET":
                return self._read(target, query)
            case "POST":
                return self._post(request, target)
            case "PUT":
                stored, _ = self._operations.replace(
                    *item, _body(request), subresource=target.subresource
                )
                return self._renderer(target).one(stored)
            case "PATCH":
                change = patch_function(msgspec.json.encode(request.body), request.content_type)
                stored = self._operations.change(*item, change, subresource=target.subresource)
                return self._renderer(target).one(stored)
            case "DELETE":
                return self._delete(request, target, query)
        raise method_not_allowed()

    def _read(self, target: Target, query: dict[str, str]) -> bytes:
        renderer = self._renderer(target)
        if target.name:
            stored = self._operations.get(target.resource, target.namespace, target.name)
            return renderer.one(stored)
        items, metadata = self._lists.read(target, query, self._selection(target, query))
        return b"".join(renderer.many(items, metadata))

    def _post(self, request: Request, target: Target) -> bytes:
        obj = _body(request)
        if target.subresource == "binding":
            bind(self._operations, target.namespace, target.name, obj)
        elif target.subresource == "eviction":
            evict(self._operations, target.namespace, target.name, obj)
        else:
            stored = self._operations.create(target.resource, target.namespace, obj)
            return self._renderer(target).one(stored)
        return encode(success(201))

    def _delete(self, request: Request, target: Target, query: dict[str, str]) -> bytes:
        options = DeleteOptions.read(_body(request), query)
        if target.name:
            self._operations.delete(target.resource, target.namespace, target.name, options)
        else:
            selection = self._selection(target, query)
            self._operations.delete_all(target.resource, target.namespace, selection, options)
        return encode(success(200))

    def _renderer(self, target: Target) -> Renderer:
        return Renderer(target.resource, Form.OBJECT, "", self._operations.identities.clock)

    @staticmethod
    def _selection(target: Target, query: dict[str, str]) -> Selection:
        labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
        return parse_selection(target.resource, labels, fields)


def _target(request: Request) -> Target:
    target = parse_target(request.path)
    if target is None:
        raise method_not_allowed()
    return target


def _body(request: Request) -> Json:
    if request.body is None:
        return {}
    return read_object(msgspec.json.encode(request.body), "application/json")


def _as_api_error(error: ApiStatusError) -> ApiError:
    return status_error(encode(error.status()), code=error.code)


def _reader(watch: WatchStream, wake: asyncio.Event) -> Read:
    opening: Iterator[bytes] = iter(watch.opening())

    async def read() -> bytes:
        await asyncio.sleep(0)
        for piece in opening:
            return piece
        while True:
            wake.clear()
            piece = watch.next_chunk()
            if piece:
                return piece
            if watch.finished:
                return b""
            if not watch.behind:
                await wake.wait()

    return read
