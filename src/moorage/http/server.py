"""The secure port itself: opened early, served with TLS, given new certificates while it serves.

Owns the life of the listening socket and of connections. Who may see what is the application's
business. A plain-text server for loopback stands beside it for local clusters and tests.
"""

import asyncio
import contextlib
import ipaddress
import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any

from aiohttp import web

from moorage.errors import InputError
from moorage.http.authorities import Bundle
from moorage.http.endpoints import Handler
from moorage.http.key_pairs import KeyPair, KeyPairSource, serving_pair
from moorage.http.listener import BACKLOG, joined, open_listener
from moorage.http.options import ServingOptions
from moorage.http.tls_contexts import Material, NamedPair, material, server_context
from moorage.http.tls_settings import tls_settings
from moorage.log_fields import V

log = logging.getLogger(__name__)

GRACE = 5.0
RELOAD_PERIOD = 5.0
"""How often certificate files are looked at for having been replaced."""
FIRST_REQUEST = 32.0
"""How long a new connection may take to shake hands and ask its first question."""
IDLE = 90.0
_MAX_HEADER = 1 << 16


class _Protocol(logging.LoggerAdapter[logging.Logger]):
    """aiohttp's words about broken requests, in a low voice: anybody can send such."""

    def log(self, level: int, msg: object, *args: Any, **kwargs: Any) -> None:
        """Everything at debug level."""
        kwargs.pop("exc_info", None)
        super().log(logging.DEBUG, msg, *args, **kwargs)


class _Connections:
    """Accepts connections on a socket and serves one application on them."""

    def __init__(self, app: web.Application) -> None:
        self._waiting: dict[object, asyncio.TimerHandle] = {}
        app.middlewares.insert(0, self._asked)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            logger=_Protocol(log, {}),
            keepalive_timeout=IDLE,
            max_line_size=_MAX_HEADER,
            max_field_size=_MAX_HEADER,
        )
        self._server: asyncio.Server | None = None

    async def accept(self, listener: socket.socket, context: ssl.SSLContext | None) -> None:
        """Accept with this context from now on; connections that there are stay as they are."""
        if self._runner.server is None:
            await self._runner.setup()
        # The new server gets a handle of its own to the same queue of connections: none is lost.
        old, self._server = (
            self._server,
            await asyncio.get_running_loop().create_server(
                self._connected,
                sock=listener.dup(),
                backlog=BACKLOG,
                ssl=context,
                ssl_handshake_timeout=FIRST_REQUEST if context is not None else None,
            ),
        )
        if old is not None:
            old.close()

    async def stop(self, grace: float) -> None:
        """Accept no more, let requests end, and close what is left after the grace."""
        if self._server is not None:
            self._server.close()
        for timer in self._waiting.values():
            timer.cancel()
        self._waiting.clear()
        if self._runner.server is not None:
            self._runner.server.pre_shutdown()
            await self._runner.server.shutdown(grace)
        await self._runner.cleanup()

    def _connected(self) -> asyncio.Protocol:
        assert self._runner.server is not None
        made = self._runner.server()
        loop = asyncio.get_running_loop()
        self._waiting[made] = loop.call_later(FIRST_REQUEST, self._too_slow, made)
        return made

    def _too_slow(self, connection: web.RequestHandler) -> None:
        self._waiting.pop(connection, None)
        if connection.transport is not None:
            connection.transport.abort()

    @web.middleware
    async def _asked(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        timer = self._waiting.pop(request.protocol, None)
        if timer is not None:
            timer.cancel()
        return await handler(request)


class SecureServer:
    """HTTPS on one port.

    Making it opens the port and reads all certificates, so that what is wrong with them is found
    before anything else is started; `start` serves.
    """

    def __init__(self, options: ServingOptions, listener: socket.socket | None = None) -> None:
        try:
            self._pair = serving_pair(options)
            listener = listener or open_listener(options)
            self._pair()
            self._settings = tls_settings(options)
            self._named = _named_pairs(options)
        except BaseException:
            if listener is not None:
                listener.close()
            raise
        self._listener = listener
        self.announced = False
        """Has somebody said already that this port is served?"""
        for told in self._settings.warnings:
            log.warning("%s", told)
        self._bundles: Sequence[Bundle] = ()
        self._served: Material | None = None
        self._connections: _Connections | None = None
        self._polling: asyncio.Task[None] | None = None
        self._look_now = asyncio.Event()

    @property
    def port(self) -> int:
        """The port listened on."""
        found: int = self._listener.getsockname()[1]
        return found

    async def start(self, app: web.Application, bundles: Sequence[Bundle] = ()) -> None:
        """Serve the application; clients may show certificates of the authorities in `bundles`."""
        self._bundles = bundles
        self._connections = _Connections(app)
        await self.reload()
        self._polling = asyncio.create_task(self._poll(), name="serving certificates")
        if not self.announced:
            log.info("Serving securely on %s", _address(self._listener))

    async def reload(self) -> bool:
        """Look at certificates and authorities; True if new ones are served from now on."""
        assert self._connections is not None, "start it first"
        named = [NamedPair(read(), names) for read, names in self._named]
        current = material(self._pair(), named, self._bundles)
        if current == self._served:
            return False
        await self._connections.accept(self._listener, server_context(self._settings, current))
        self._served = current
        return True

    def reload_soon(self) -> None:
        """Have `reload` run at once rather than at the next look at the files."""
        self._look_now.set()

    def abandon(self) -> None:
        """Give the port back without ever having served."""
        self._listener.close()

    async def stop(self, grace: float = GRACE) -> None:
        """Accept no more, let requests end within the grace, close."""
        if self._polling is not None:
            self._polling.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._polling
        self._listener.close()
        if self._connections is not None:
            log.info("[graceful-termination] secure server has stopped listening")
            await self._connections.stop(grace)
            log.info("[graceful-termination] secure server is exiting")
            self._connections = None

    async def __aenter__(self) -> "SecureServer":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def _poll(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RELOAD_PERIOD):
                    await self._look_now.wait()
            self._look_now.clear()
            try:
                if await self.reload():
                    log.log(V(2), "Loaded new serving certificates or client CAs")
            except (InputError, ssl.SSLError, OSError) as error:
                # What was good enough until now is still better than nothing.
                log.error("DynamicCertificates failed with : %s", error)


class InsecureServer:
    """The same pages in plain text and without any guard, for this machine only."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0) -> None:
        if not _is_loopback(host):
            raise InputError(
                f"{host} is not a loopback address: pages without authentication are served to this"
                " machine only"
            )
        self._listener = open_listener(ServingOptions(bind_address=host, secure_port=port))
        self._connections: _Connections | None = None

    @property
    def port(self) -> int:
        """The port listened on."""
        found: int = self._listener.getsockname()[1]
        return found

    async def start(self, app: web.Application) -> None:
        """Serve the application."""
        self._connections = _Connections(app)
        await self._connections.accept(self._listener, None)

    async def stop(self, grace: float = GRACE) -> None:
        """Accept no more, let requests end within the grace, close."""
        self._listener.close()
        if self._connections is not None:
            await self._connections.stop(grace)
            self._connections = None

    async def __aenter__(self) -> "InsecureServer":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()


def _named_pairs(options: ServingOptions) -> list[tuple[Callable[[], KeyPair], tuple[str, ...]]]:
    found: list[tuple[Callable[[], KeyPair], tuple[str, ...]]] = []
    for entry in options.sni:
        try:
            source = KeyPairSource("sni-serving-cert", entry.cert_file, entry.key_file)
            source.read()
        except InputError as error:
            raise InputError(f"failed to load SNI cert and key: {error}") from None
        found.append((source.read, entry.names))
    return found


def _address(listener: socket.socket) -> str:
    return joined(*listener.getsockname()[:2])


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
