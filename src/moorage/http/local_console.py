"""The page and its API for this machine alone, in plain text and without a question who asks.

Owns the guard that loopback needs. A web site that a browser of this machine visits can have its
name lead here (DNS rebinding) or send requests here, so only requests that name this machine and do
not come from another origin are answered. Meant for a cluster that lives on this machine as openly
(`moorage up`); a scheduler's port has real guards.
"""

import logging
from collections.abc import Sequence

from aiohttp import web

from moorage.apiserver.browsers import is_cross_origin
from moorage.connections.limits import LOCAL
from moorage.connections.server import HttpServer, app_server
from moorage.http.answers import failure
from moorage.http.application import add_routes
from moorage.http.endpoints import Handler, Route
from moorage.http.options import EXPLAIN_PAGE, ServingOptions
from moorage.http.secure_port import open_listener

log = logging.getLogger(__name__)

_HOST = "127.0.0.1"
_NAMES = (_HOST, "localhost", "[::1]")
_GRACE = 0.5
"""Streams of decisions do not end by themselves."""


class LocalConsole:
    """Serves routes on loopback; making it opens the port, so that a taken one is found at once."""

    def __init__(self, port: int = 0) -> None:
        self._listener = open_listener(ServingOptions(bind_address=_HOST, secure_port=port))
        self._port: int = self._listener.getsockname()[1]
        self._server: HttpServer | None = None

    @property
    def url(self) -> str:
        return f"http://{_HOST}:{self._port}{EXPLAIN_PAGE}"

    async def start(self, routes: Sequence[Route]) -> None:
        self._server = app_server(_application(routes, self._port), LOCAL, log)
        await self._server.start([self._listener])

    async def stop(self) -> None:
        """End it, and whatever is still being answered."""
        if self._server is not None:
            await self._server.stop(_GRACE)
            self._server = None
        self._listener.close()


def _application(routes: Sequence[Route], port: int) -> web.Application:
    mine = {f"{name}:{port}" for name in _NAMES} | (set(_NAMES) if port == 80 else set())

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.headers.get("Host", "").lower() not in mine:
            names = f"127.0.0.1:{port} or localhost:{port}"
            message = f"This is answered only under the name {names}."
            return failure(request, 421, "MisdirectedRequest", message)
        if is_cross_origin(request.method, request.headers):
            return failure(request, 403, "Forbidden", "Pages of other origins are not answered.")
        if request.match_info.http_exception is not None:
            return failure(request, 404, "NotFound", f"There is nothing here; try {EXPLAIN_PAGE}")
        try:
            return await handler(request)
        except (web.HTTPException, ConnectionError):
            raise
        except Exception:
            log.exception("%s %s failed", request.method, request.path)
            return failure(request, 500, "InternalError", "An error that is in the log.")

    app = web.Application(middlewares=[guard])
    add_routes(app, [*routes, Route("/", _to_the_page)])
    return app


async def _to_the_page(request: web.Request) -> web.StreamResponse:
    del request
    return web.Response(status=307, headers={"Location": EXPLAIN_PAGE})
