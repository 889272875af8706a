"""Connections to one API server: TLS, proxies, limits, and what it means when they fail.

Turns a `Request` into an HTTP exchange and every failure of the network into an
`UnreachableError`, one sentence. Does not look at answers, retry or limit rates: `client` does.
"""

import asyncio
import os
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import aiohttp
import msgspec

from moorage.errors import UnreachableError
from moorage.kube.access import Access
from moorage.kube.credentials import Credentials
from moorage.kube.exec_plugin import ExecSource
from moorage.kube.oidc import OidcSource
from moorage.kube.proxies import proxy_for, usable_proxy
from moorage.kube.requests import Request
from moorage.kube.timing import Timer
from moorage.kube.tls import client_context, stamp

CONNECT_TIMEOUT = 30.0
FILES_PERIOD = 60.0
"""How often certificate files are looked at for having been replaced."""
BUFFER_BYTES = 1 << 18


class Transport:
    """One server; short calls share a limited pool, long watches each have a connection."""

    def __init__(
        self,
        access: Access,
        timer: Timer,
        *,
        user_agent: str,
        timeout: float,
        max_connections: int,
        env: Mapping[str, str] = os.environ,
    ) -> None:
        self._access = access
        self._timer = timer
        self._timeout = timeout
        self._max_connections = max_connections
        self._headers = {
            "User-Agent": user_agent,
            "Accept": "application/json",
            "Accept-Encoding": "identity",
        }
        self.credentials = Credentials(access, timer, _source(access, timer, env))
        self._sessions: dict[bool, aiohttp.ClientSession] = {}
        self._tls = access.server.startswith("https://")
        self._context: ssl.SSLContext | None = None
        self._context_stamp: tuple[object, ...] = ()
        self._files_seen_at = float("-inf")
        if access.proxy_url:
            self._proxy: str | None = usable_proxy(access.proxy_url)
        else:
            self._proxy = proxy_for(access.server, env)

    async def open(self, request: Request, *, long: bool = False) -> aiohttp.ClientResponse:
        """Send a request; whoever calls this reads the body and closes the response."""
        headers = [*self._headers.items(), *await self.credentials.headers()]
        body = None
        if request.body is not None:
            body = msgspec.json.encode(request.body)
            headers.append(("Content-Type", request.content_type))
        total = request.timeout if request.timeout is not None else self._timeout
        context = await self._tls_context()
        with self.translated():
            return await self._session(long).request(
                request.method,
                self._access.server + request.path,
                params=request.query or None,
                data=body,
                headers=headers,
                ssl=context if context is not None else True,
                server_hostname=(self._access.tls_server_name or None) if self._tls else None,
                proxy=self._proxy,
                timeout=aiohttp.ClientTimeout(total=total, sock_connect=CONNECT_TIMEOUT),
                allow_redirects=False,
            )

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Turn failures of the network inside into `UnreachableError`."""
        try:
            yield
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._unreachable(error) from error

    async def close(self) -> None:
        """Close all connections."""
        for session in self._sessions.values():
            await session.close()
        self._sessions.clear()

    def _session(self, long: bool) -> aiohttp.ClientSession:
        session = self._sessions.get(long)
        if session is None:
            connector = aiohttp.TCPConnector(
                limit=0 if long else self._max_connections, socket_factory=_socket
            )
            session = aiohttp.ClientSession(
                connector=connector,
                read_bufsize=BUFFER_BYTES,
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
            self._sessions[long] = session
        return session

    async def _tls_context(self) -> ssl.SSLContext | None:
        """The context; a new one, and so new connections, when certificates were replaced."""
        if not self._tls:
            return None
        certificate, key = await self.credentials.certificate()
        now = self._timer.now()
        files = any(part.path for part in (self._access.ca, certificate, key))
        if self._context is not None and files and now - self._files_seen_at < FILES_PERIOD:
            return self._context
        self._files_seen_at = now
        current = stamp(self._access.ca, certificate, key)
        if self._context is None or current != self._context_stamp:
            self._context = client_context(
                self._access.ca, certificate, key, insecure=self._access.insecure
            )
            self._context_stamp = current
        return self._context

    def _unreachable(self, error: Exception) -> UnreachableError:
        reached = not isinstance(
            error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError
        )
        message = f"the API server {self._access.server} cannot be reached: {_reason(error)}"
        return UnreachableError(message, maybe_applied=reached)


def _source(access: Access, timer: Timer, env: Mapping[str, str]) -> ExecSource | OidcSource | None:
    if access.exec_plugin is not None:
        return ExecSource(access, access.exec_plugin, env)
    if access.oidc is not None:
        return OidcSource(access.oidc, timer, env)
    return None


def _socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket that notices within about a minute that the other side is gone."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def _reason(error: Exception) -> str:
    match error:
        case aiohttp.ClientConnectorCertificateError():
            cause = error.certificate_error
            text = getattr(cause, "verify_message", "") or str(cause)
            return f"its certificate is not trusted: {text}"
        case aiohttp.ClientConnectorDNSError():
            return f"the host {error.host} is not known"
        case aiohttp.ClientConnectorSSLError():
            return f"TLS failed: {error.os_error}"
        case aiohttp.ClientConnectorError():
            # asyncio replaces the system's word by "Connect call failed ('127.0.0.1', 6443)".
            number = error.os_error.errno
            return (os.strerror(number) if number else str(error.os_error)).lower()
        case asyncio.TimeoutError():
            return "no answer in time"
        case aiohttp.ServerDisconnectedError():
            return "it closed the connection without an answer"
        case _:
            return " ".join(str(error).split()) or type(error).__name__
