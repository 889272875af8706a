"""The way to an API server through a proxy, over aiohttp.

Loaded only where a proxy is named, so that nobody else waits for the library. Knows no credentials
and no retries: `transport` and `client` do.
"""

import asyncio
import os
import ssl
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import aiohttp

from moorage.errors import UnreachableError
from moorage.kube.access import Access
from moorage.kube.connection_pool import CONNECT_TIMEOUT
from moorage.kube.credentials import Headers
from moorage.kube.requests import Request
from moorage.kube.transport import Answer, AnswerStream, encoded, unreachable

_BUFFER_BYTES = 1 << 18


class Proxied:
    """A `Carrier` through one proxy."""

    def __init__(
        self,
        access: Access,
        proxy: str,
        headers: Headers,
        max_connections: int,
        context: Callable[[], Awaitable[ssl.SSLContext | None]],
    ) -> None:
        self._access = access
        self._proxy = proxy
        self._headers = headers
        self._max_connections = max_connections
        self._context = context
        self._sessions: dict[bool, aiohttp.ClientSession] = {}

    async def exchange(
        self, request: Request, headers: Headers, body: bytes | None, timeout: float
    ) -> Answer:
        """Send a request and read its answer."""
        response = await self._open(request, headers, body, timeout, long=False)
        try:
            with _translated(self._access.address):
                received = await response.read()
        finally:
            response.release()
        return Answer(
            response.status,
            response.reason or "",
            response.headers.get("Retry-After", ""),
            received,
            len(body or b""),
        )

    async def stream(self, request: Request, headers: Headers, timeout: float) -> AnswerStream:
        """Send a request whose answer is long."""
        body = None if request.body is None else encoded(request.body)
        response = await self._open(request, headers, body, timeout, long=True)
        return _ProxiedStream(response, self._access.address)

    async def close(self) -> None:
        """Close all connections."""
        for session in self._sessions.values():
            await session.close()
        self._sessions.clear()

    async def _open(
        self, request: Request, headers: Headers, body: bytes | None, timeout: float, *, long: bool
    ) -> aiohttp.ClientResponse:
        all_headers = [*self._headers, *headers]
        if body is not None:
            all_headers.append(("Content-Type", request.content_type))
        context = await self._context()
        with _translated(self._access.address):
            return await self._session(long).request(
                request.method,
                self._access.server + request.path,
                params=request.query or None,
                data=body,
                headers=all_headers,
                ssl=context if context is not None else True,
                server_hostname=(self._access.tls_server_name or None) if context else None,
                proxy=self._proxy,
                timeout=aiohttp.ClientTimeout(total=timeout, sock_connect=CONNECT_TIMEOUT),
                allow_redirects=False,
            )

    def _session(self, long: bool) -> aiohttp.ClientSession:
        session = self._sessions.get(long)
        if session is None:
            session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0 if long else self._max_connections),
                read_bufsize=_BUFFER_BYTES,
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
            self._sessions[long] = session
        return session


class _ProxiedStream:
    """An aiohttp response as a stream."""

    def __init__(self, response: aiohttp.ClientResponse, server: str) -> None:
        self.status = response.status
        self.reason = response.reason or ""
        self.retry_after = response.headers.get("Retry-After", "")
        self._response = response
        self._server = server

    async def read(self) -> bytes:
        with _translated(self._server):
            return await self._response.content.readany()

    def close(self) -> None:
        self._response.close()


@contextmanager
def _translated(server: str) -> Iterator[None]:
    """Turn failures of the network inside into `UnreachableError`."""
    try:
        yield
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise _unreachable(server, error) from error


def _unreachable(server: str, error: Exception) -> UnreachableError:
    reached = not isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
    return unreachable(server, _reason(error), maybe_applied=reached)


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
