"""The page and its API for this machine alone, without a question who asks.

Owns the guard that loopback needs: a web site that a browser of this machine visits can have its
name lead here (DNS rebinding) or send requests here, so only requests that name this machine and do
not come from another origin are answered. Meant for a
cluster that lives on this machine as openly (`moorage up`); a scheduler's port has real guards.
"""

import logging
from collections.abc import Sequence

from aiohttp import web

from moorage.apiserver.cross_origin import is_cross_origin
from moorage.http.answers import failure
from moorage.http.application import Paths
from moorage.http.endpoints import Handler, Route
from moorage.http.explain_page import ROOT
from moorage.http.server import InsecureServer

log = logging.getLogger(__name__)

_NAMES = ("127.0.0.1", "localhost", "[::1]")
_GRACE = 0.5
"""Streams of decisions do not end by themselves."""


class LocalConsole:
    """Serves routes on loopback; making it opens the port, so that a taken one is told at once."""

    def __init__(self, port: int = 0) -> None:
        self._server = InsecureServer(port=port)

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://127.0.0.1:{self._server.port}{ROOT}"

    async def start(self, routes: Sequence[Route]) -> None:
        """Serve."""
        await self._server.start(_application(routes, self._server.port))

    async def stop(self) -> None:
        """End it, and whatever is still being answered."""
        await self._server.stop(_GRACE)


def _application(routes: Sequence[Route], port: int) -> web.Application:
    paths = Paths()
    for route in routes:
        paths.add({route.path: route.handler})
        if route.prefix:
            paths.add_prefixes({route.path.rstrip("/") + "/": route.handler})
    paths.add({"/": _to_the_page})
    mine = {f"{name}:{port}" for name in _NAMES} | (set(_NAMES) if port == 80 else set())

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.headers.get("Host", "").lower() not in mine:
            return failure(request, 421, "MisdirectedRequest", _elsewhere(port))
        if is_cross_origin(request.method, request.headers):
            return failure(request, 403, "Forbidden", "Pages of other origins are not answered.")
        try:
            return await handler(request)
        except (web.HTTPException, ConnectionError):
            raise
        except Exception:
            log.exception("%s %s failed", request.method, request.path)
            return failure(request, 500, "InternalError", "An error that is in the log.")

    async def dispatch(request: web.Request) -> web.StreamResponse:
        found = paths.find(request.path)
        if found is None:
            return failure(request, 404, "NotFound", f"There is nothing here; try {ROOT}")
        return await found[1](request)

    app = web.Application(middlewares=[guard])
    app.router.add_route("*", "/{path:.*}", dispatch)
    return app


def _elsewhere(port: int) -> str:
    return f"This is answered only under the name 127.0.0.1:{port} or localhost:{port}."


async def _to_the_page(request: web.Request) -> web.StreamResponse:
    del request
    return web.Response(status=307, headers={"Location": ROOT})
