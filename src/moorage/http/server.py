"""The secure port itself: opened early, served with TLS, given new certificates while it serves.

Owns the life of the listening socket; connections are `connections.server`'s. Who may see what is
the application's business. A plain-text server for loopback stands beside it for local clusters and
tests.
"""

import asyncio
import contextlib
import ipaddress
import logging
import socket
import ssl
from collections.abc import Callable, Sequence

from aiohttp import web

from moorage.connections.limits import LOCAL, ConnectionLimits
from moorage.connections.server import HttpServer, ProtocolLog
from moorage.errors import InputError
from moorage.http.certificates import Bundle, KeyPair, KeyPairSource, serving_pair
from moorage.http.endpoints import Handler
from moorage.http.listener import joined, open_listener
from moorage.http.options import ServingOptions
from moorage.http.tls import Material, NamedPair, material, server_context, tls_settings
from moorage.log_fields import V

log = logging.getLogger(__name__)

GRACE = 5.0
RELOAD_PERIOD = 5.0
"""How often certificate files are looked at for having been replaced."""
_MAX_HEADER = 1 << 16


class _Pages:
    """One application on limited connections."""

    def __init__(self, app: web.Application, limits: ConnectionLimits) -> None:
        app.middlewares.insert(0, self._answer)
        runner = web.AppRunner(
            app,
            access_log=None,
            logger=ProtocolLog(log, {}),
            keepalive_timeout=limits.idle_seconds,
            max_line_size=_MAX_HEADER,
            max_field_size=_MAX_HEADER,
        )
        self.server = HttpServer(runner, limits)

    @web.middleware
    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        with self.server.answering(request):
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
        self._limits = options.connections
        self._server: HttpServer | None = None
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
        current = self._material()
        server = _Pages(app, self._limits).server
        await server.start([self._listener], server_context(self._settings, current))
        self._served, self._server = current, server
        self._polling = asyncio.create_task(self._poll(), name="serving certificates")
        if not self.announced:
            log.info("Serving securely on %s", _address(self._listener))

    async def reload(self) -> bool:
        """Look at certificates and authorities; True if new ones are served from now on."""
        assert self._server is not None, "start it first"
        current = self._material()
        if current == self._served:
            return False
        self._server.use(server_context(self._settings, current))
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
        if self._server is not None:
            log.info("[graceful-termination] secure server has stopped listening")
            await self._server.stop(grace)
            log.info("[graceful-termination] secure server is exiting")
            self._server = None
        self._listener.close()

    async def __aenter__(self) -> "SecureServer":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def _material(self) -> Material:
        named = [NamedPair(read(), names) for read, names in self._named]
        return material(self._pair(), named, self._bundles)

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
        self._server: HttpServer | None = None

    @property
    def port(self) -> int:
        """The port listened on."""
        found: int = self._listener.getsockname()[1]
        return found

    async def start(self, app: web.Application) -> None:
        """Serve the application."""
        self._server = _Pages(app, LOCAL).server
        await self._server.start([self._listener])

    async def stop(self, grace: float = GRACE) -> None:
        """Accept no more, let requests end within the grace, close."""
        if self._server is not None:
            await self._server.stop(grace)
            self._server = None
        self._listener.close()

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
