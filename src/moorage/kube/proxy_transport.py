"""The way to an API server through a proxy, over aiohttp.

Loaded only where a proxy is named, so that nobody else waits for the library. Knows no credentials
and no retries: `transport` and `client` do.
"""

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp

from moorage.errors import UnreachableError
from moorage.kube.access import Access
from moorage.kube.connection_pool import CONNECT_TIMEOUT
from moorage.kube.credentials import Headers
from moorage.kube.requests import Request
from moorage.kube.timing import Timer
from moorage.kube.transport import Answer, AnswerStream, Transport, encoded, unreachable

_BUFFER_BYTES = 1 << 18


class ProxyTransport(Transport):
    """Through one proxy."""

    def __init__(
        self, proxy: str, access: Access, timer: Timer, *, max_connections: int, **options: Any
    ) -> None:
        super().__init__(access, timer, max_connections=max_connections, **options)
        self._proxy = proxy
        self._max_connections = max_connections
        self._sessions: dict[bool, aiohttp.ClientSession] = {}

    async def send(self, request: Request, headers: Headers) -> Answer:
        """Send a request with these headers and read its answer."""
        body = None if request.body is None else encoded(request.body)
        response = await self._request(request, headers, body, long=False)
        try:
            with _translated(self.access):
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

    async def open(self, request: Request, headers: Headers) -> AnswerStream:
        """Send a request with these headers whose answer is long."""
        body = None if request.body is None else encoded(request.body)
        response = await self._request(request, headers, body, long=True)
        return _ProxiedStream(response, self.access)

    async def close(self) -> None:
        """Close all connections."""
        for session in self._sessions.values():
            await session.close()
        self._sessions.clear()

    async def _request(
        self, request: Request, headers: Headers, body: bytes | None, *, long: bool
    ) -> aiohttp.ClientResponse:
        all_headers = [*self.headers, *headers]
        if body is not None:
            all_headers.append(("Content-Type", request.content_type))
        context = await self.tls_context()
        timeout = self.timeout(request)
        with _translated(self.access):
            return await self._session(long).request(
                request.method,
                self.access.server + request.path,
                params=request.query or None,
                data=body,
                headers=all_headers,
                ssl=context if context is not None else True,
                server_hostname=(self.access.tls_server_name or None) if context else None,
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

    def __init__(self, response: aiohttp.ClientResponse, access: Access) -> None:
        self.status = response.status
        self.reason = response.reason or ""
        self.retry_after = response.headers.get("Retry-After", "")
        self._response = response
        self._access = access

    async def read(self) -> bytes:
        with _translated(self._access):
            return await self._response.content.readany()

    def close(self) -> None:
        self._response.close()


@contextmanager
def _translated(access: Access) -> Iterator[None]:
    """Turn failures of the network inside into `UnreachableError`."""
    try:
        yield
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise _unreachable(access, error) from error


def _unreachable(access: Access, error: Exception) -> UnreachableError:
    reached = not isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
    return unreachable(access, _reason(error), maybe_applied=reached)


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
