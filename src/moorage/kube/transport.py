"""Requests on their way to one API server: TLS, credentials, and what it means when they fail.

Turns a `Request` into an HTTP exchange and every failure of the network into an
`UnreachableError`, one sentence. Does not look at answers, retry or limit rates: `client` does.
"""

import os
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol
from urllib.parse import urlsplit

import msgspec

from moorage.errors import KubeconfigError, UnreachableError
from moorage.kube.access import Access
from moorage.kube.connection_pool import ConnectionPool
from moorage.kube.connections import BodyStream, BrokenError, ConnectError
from moorage.kube.credentials import Credentials, CredentialSource, Headers
from moorage.kube.http_wire import AnswerReader, fixed_head, request_bytes, target
from moorage.kube.proxies import proxy_for, usable_proxy
from moorage.kube.request_limits import AdaptiveLimit
from moorage.kube.requests import Request
from moorage.kube.timing import Timer
from moorage.kube.tls import client_context, stamp

FILES_PERIOD = 60.0
"""How often certificate files are looked at for having been replaced."""


class Answer(msgspec.Struct, frozen=True, gc=False):
    """An answer, whatever it says; `sent` counts the bytes of the request's body."""

    status: int
    reason: str
    retry_after: str
    body: bytes
    sent: int = 0


class AnswerStream(Protocol):
    """An answer whose body comes piece by piece; `body` reads all of it."""

    status: int
    reason: str
    retry_after: str

    async def read(self) -> bytes:
        """The next piece; empty at the end."""

    def close(self) -> None:
        """Hang up."""


class Carrier(Protocol):
    """How bytes travel: straight to the server, or through a proxy."""

    async def exchange(
        self, request: Request, headers: Headers, body: bytes | None, timeout: float
    ) -> Answer:
        """Send a request and read its answer."""

    async def stream(self, request: Request, headers: Headers, timeout: float) -> AnswerStream:
        """Send a request whose answer is long; whoever calls this closes it."""

    async def close(self) -> None:
        """Close all connections."""


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
        self.limit = AdaptiveLimit(timer, max_connections)
        """How many short requests may be on their way at once."""
        self._headers: Headers = (
            ("User-Agent", user_agent),
            ("Accept", "application/json"),
            ("Accept-Encoding", "identity"),
        )
        self.credentials = Credentials(access, timer, _source(access, timer, env))
        self._tls = access.server.startswith("https://")
        self._context: ssl.SSLContext | None = None
        self._context_stamp: tuple[object, ...] = ()
        self._files_seen_at = float("-inf")
        self._settled_until = float("-inf")
        if access.proxy_url:
            self._proxy: str | None = usable_proxy(access.proxy_url)
        else:
            self._proxy = proxy_for(access.server, env)
        self._carrier: Carrier | None = None

    def exchange(self, request: Request) -> Awaitable[Answer]:
        """Send a request and read its answer."""
        headers = self.credentials.known_headers()
        return self._exchange(request) if headers is None else self._sent(request, headers)

    async def _exchange(self, request: Request) -> Answer:
        return await self._sent(request, await self.credentials.headers())

    def _sent(self, request: Request, headers: Headers) -> Awaitable[Answer]:
        body = None if request.body is None else encoded(request.body)
        total = request.timeout if request.timeout is not None else self._timeout
        carrier = self._carrier or self._carried()
        return carrier.exchange(request, headers, body, total)

    async def stream(self, request: Request) -> AnswerStream:
        """Send a request whose answer is long; whoever calls this closes it."""
        headers = await self.credentials.headers()
        total = request.timeout if request.timeout is not None else self._timeout
        return await self._carried().stream(request, headers, total)

    async def close(self) -> None:
        """Close all connections."""
        carrier, self._carrier = self._carrier, None
        if carrier is not None:
            await carrier.close()

    def _carried(self) -> Carrier:
        if self._carrier is None:
            access = self._access
            if self._proxy is None:
                self._carrier = _Direct(
                    access, self._headers, self.limit, self._known_context, self._tls_context
                )
            else:
                # The library that knows proxies takes a while to load, and few need it.
                from moorage.kube.proxied import Proxied

                self._carrier = Proxied(
                    access, self._proxy, self._headers, self._max_connections, self._tls_context
                )
        return self._carrier

    def _known_context(self) -> ssl.SSLContext | None:
        """The context, where that takes no look at certificates; None: see `_tls_context`."""
        return self._context if self._timer.now() < self._settled_until else None

    async def _tls_context(self) -> ssl.SSLContext | None:
        """The context; a new one, and so new connections, when certificates were replaced."""
        if not self._tls or self._timer.now() < self._settled_until:
            return self._context
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
        if not self.credentials.issues_certificates:
            self._settled_until = now + FILES_PERIOD if files else float("inf")
        return self._context


def encoded(body: object) -> bytes:
    """A request's body; what is bytes already was encoded by its maker."""
    return body if isinstance(body, bytes) else msgspec.json.encode(body)


def unreachable(server: str, reason: str, *, maybe_applied: bool) -> UnreachableError:
    """The error for a server that cannot be reached, directly or through a proxy."""
    message = f"the API server {server} cannot be reached: {reason}"
    return UnreachableError(message, maybe_applied=maybe_applied)


class _Direct:
    """Straight to the server, over connections of our own."""

    def __init__(
        self,
        access: Access,
        headers: Headers,
        limit: AdaptiveLimit,
        known_context: Callable[[], ssl.SSLContext | None],
        context: Callable[[], Awaitable[ssl.SSLContext | None]],
    ) -> None:
        parts = urlsplit(access.server)
        host = parts.hostname or ""
        port = parts.port or (443 if parts.scheme == "https" else 80)
        self._server = access.address
        self._host = parts.netloc.rpartition("@")[2]
        self._prefix = parts.path.rstrip("/")
        self._headers = headers
        self._known_context = known_context
        self._context = context
        self._pool = ConnectionPool((host, port), access.tls_server_name or host, limit)
        self._fixed: tuple[Headers, bytes] | None = None

    async def exchange(
        self, request: Request, headers: Headers, body: bytes | None, timeout: float
    ) -> Answer:
        data = self._bytes(request, headers, body)
        context = self._known_context() or await self._context()
        again = repeatable = request.repeatable
        while True:
            try:
                answer, received = await self._pool.exchange(
                    data, context, timeout, learn=not repeatable
                )
            except ConnectError as error:
                raise unreachable(self._server, str(error), maybe_applied=False) from None
            except BrokenError as error:
                # A server that closes an idle connection may do so just when it is used again.
                if not (again and error.stale):
                    raise unreachable(self._server, str(error), maybe_applied=True) from None
                again = False
            else:
                sent = 0 if body is None else len(body)
                if answer.status < 300:
                    return Answer(answer.status, "", "", received, sent)
                return Answer(answer.status, answer.reason, _retry_after(answer), received, sent)

    async def stream(self, request: Request, headers: Headers, timeout: float) -> AnswerStream:
        body = None if request.body is None else encoded(request.body)
        data = self._bytes(request, headers, body)
        try:
            stream = await self._pool.stream(data, await self._context(), timeout)
        except ConnectError as error:
            raise unreachable(self._server, str(error), maybe_applied=False) from None
        except BrokenError as error:
            raise unreachable(self._server, str(error), maybe_applied=True) from None
        return _DirectStream(stream, self._server)

    async def close(self) -> None:
        self._pool.close()

    def _bytes(self, request: Request, headers: Headers, body: bytes | None) -> bytes:
        if self._fixed is None or self._fixed[0] != headers:
            try:
                self._fixed = (headers, fixed_head(self._host, (*self._headers, *headers)))
            except ValueError as error:
                raise KubeconfigError(f"a request to {self._server}: {error}") from None
        asked = target(self._prefix, request.path, request.query)
        return request_bytes(request.method, asked, self._fixed[1], body, request.content_type)


class _DirectStream:
    """A `BodyStream` that raises what the transport raises."""

    def __init__(self, stream: BodyStream, server: str) -> None:
        self.status = stream.answer.status
        self.reason = stream.answer.reason
        self.retry_after = _retry_after(stream.answer)
        self._stream = stream
        self._server = server

    async def read(self) -> bytes:
        try:
            return await self._stream.read()
        except BrokenError as error:
            raise unreachable(self._server, str(error), maybe_applied=True) from None

    def close(self) -> None:
        self._stream.close()


def _retry_after(answer: AnswerReader) -> str:
    """The header, looked for only where it means something."""
    if answer.status == 429 or answer.status >= 500:
        return answer.header(b"retry-after").decode("latin-1")
    return ""


def _source(access: Access, timer: Timer, env: Mapping[str, str]) -> CredentialSource | None:
    # Loaded only where they are used: a scheduler in a cluster has a token file.
    if access.exec_plugin is not None:
        from moorage.kube.exec_plugin import ExecSource

        return ExecSource(access, access.exec_plugin, env)
    if access.oidc is not None:
        from moorage.kube.oidc import OidcSource

        return OidcSource(access.oidc, timer, env)
    return None
