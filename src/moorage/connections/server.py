"""An aiohttp server on connections that the acceptor limits.

Owns what ties the two together: requests being answered, bodies that take too long, and the order
of stopping. What is answered is the runner's business.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

from aiohttp import web

from moorage.connections.acceptor import Acceptor
from moorage.connections.limits import ConnectionLimits

_MAX_HEADER = 1 << 16


class ProtocolLog(logging.LoggerAdapter[logging.Logger]):
    """What aiohttp says of broken requests, at debug level: anybody can send such."""

    def log(self, level: int, msg: object, *args: Any, **kwargs: Any) -> None:
        """Everything at debug level, without tracebacks."""
        kwargs.pop("exc_info", None)
        super().log(logging.DEBUG, msg, *args, **kwargs)


def app_server(app: web.Application, limits: ConnectionLimits, log: logging.Logger) -> "HttpServer":
    """A server of one application."""

    @web.middleware
    async def answered(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        with server.answering(request):
            return await handler(request)

    app.middlewares.insert(0, answered)
    runner = web.AppRunner(
        app,
        access_log=None,
        logger=ProtocolLog(log, {}),
        keepalive_timeout=limits.idle_seconds,
        max_line_size=_MAX_HEADER,
        max_field_size=_MAX_HEADER,
    )
    server = HttpServer(runner, limits)
    return server


class HttpServer:
    """Serves what an aiohttp runner has; every request must be answered within `answering`."""

    def __init__(self, runner: web.BaseRunner, limits: ConnectionLimits) -> None:
        self._runner = runner
        self._limits = limits
        self.acceptor = Acceptor(self._protocol, limits)

    async def start(
        self, listeners: Sequence[socket.socket], context: ssl.SSLContext | None = None
    ) -> None:
        """Serve on these sockets until `stop` closes them."""
        await self._runner.setup()
        self.acceptor.start(listeners, context)

    def use(self, context: ssl.SSLContext) -> None:
        """Use another context for connections to come; those that there are stay as they are."""
        self.acceptor.use(context)

    async def stop(self, grace: float) -> None:
        """Accept no more, let requests end, and close what is left after the grace."""
        self.acceptor.stop()
        if self._runner.server is not None:
            self._runner.server.pre_shutdown()
            await self._runner.server.shutdown(grace)
        self.acceptor.close()
        await self._runner.cleanup()

    @contextlib.contextmanager
    def answering(self, request: web.BaseRequest) -> Iterator[None]:
        """While this request is answered."""
        with self.acceptor.answering(request.protocol) as close:
            if not request.body_exists:
                yield
                return
            timer = asyncio.get_running_loop().call_later(
                self._limits.body_seconds, _close_if_incomplete, request, close
            )
            try:
                yield
            finally:
                timer.cancel()

    def _protocol(self) -> asyncio.Protocol:
        assert self._runner.server is not None, "started after its runner"
        return self._runner.server()


def _close_if_incomplete(request: web.BaseRequest, close: Callable[[], None]) -> None:
    if not request.content.is_eof():
        close()
