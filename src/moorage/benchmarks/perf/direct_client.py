"""A client of the embedded API server that calls it instead of asking over HTTP.

Everything is checked, defaulted, stored and watched as over HTTP, and travels as JSON; only the
network is left out. For one event loop that holds server and scheduler.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import msgspec

from moorage.apiserver.errors import ApiStatusError, method_not_allowed
from moorage.apiserver.requests import parse_target
from moorage.apiserver.server import ApiServer
from moorage.apiserver.storage import encode
from moorage.apiserver.verbs import ResourceCall
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

    async def send(self, request: Request, needed: Needed | None = None) -> bytes:
        """The body of the answer, or `ApiError`; others get a turn before it."""
        await asyncio.sleep(0)
        if needed is not None and not needed():
            raise NotNeededError(f"{request} was not sent: it is not needed any more")
        try:
            return b"".join(self._server.verbs.answer(_call(request)).parts)
        except ApiStatusError as error:
            raise _as_api_error(error) from None

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Read]:
        """A watch, from the server's own history."""
        try:
            call = _call(request)
            options, renderer = WatchOptions(call.query), self._server.verbs.renderer(call)
            store = self._server.store
            watch = WatchStream(store, call.target, call.selection, renderer, options)
        except ApiStatusError as error:
            raise _as_api_error(error) from None
        with watch.history.listening() as wake:
            yield _reader(watch, wake)


def _call(request: Request) -> ResourceCall:
    target = parse_target(request.path)
    if target is None:
        raise method_not_allowed()
    body = b"" if request.body is None else msgspec.json.encode(request.body)
    return ResourceCall(request.method, target, dict(request.query), body, request.content_type)


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
