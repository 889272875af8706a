"""Requests on their way to one API server: TLS, credentials, and what it means when they fail.

Turns a `Request` into an HTTP exchange and every failure of the network into an
`UnreachableError`, one sentence. Does not look at answers, retry or limit rates: `client` does.
"""

import os
import ssl
from collections.abc import Awaitable, Mapping
from urllib.parse import urlsplit

import msgspec

from moorage.errors import BrokenError, ConnectError, KubeconfigError, UnreachableError
from moorage.kube.access import Access
from moorage.kube.connection import BodyStream, ServerRoute
from moorage.kube.connection_pool import ConnectionPool
from moorage.kube.credentials import Credentials, CredentialSource, Headers, PluginObserver
from moorage.kube.http_wire import AnswerReader, fixed_head, request_bytes, target
from moorage.kube.proxies import proxy_for, usable_proxy
from moorage.kube.proxy_tunnel import proxy_at
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


class Transport:
    """The way to one server: short calls share a pool, each watch has a connection of its own."""

    def __init__(
        self,
        access: Access,
        timer: Timer,
        *,
        user_agent: str,
        timeout: float,
        max_connections: int,
        env: Mapping[str, str] = os.environ,
        plugins: PluginObserver | None = None,
    ) -> None:
        self.access = access
        self._timer = timer
        self._timeout = timeout
        self.limit = AdaptiveLimit(timer, max_connections)
        """How many short requests may be on their way at once."""
        self.credentials = Credentials(access, timer, _source(access, timer, env, plugins))
        self._context: ssl.SSLContext | None = None
        self._context_stamp: tuple[object, ...] = ()
        self._files_seen_at = float("-inf")
        self._settled_until = float("-inf")
        parts = urlsplit(access.server)
        self._tls = parts.scheme == "https"
        self._host = parts.netloc.rpartition("@")[2]
        self._prefix = parts.path.rstrip("/")
        self._headers: Headers = (
            ("User-Agent", user_agent),
            ("Accept", "application/json"),
            ("Accept-Encoding", "identity"),
        )
        named = access.proxy_url
        url = usable_proxy(named) if named else proxy_for(access.server, env)
        proxy = None if url is None else proxy_at(url)
        if proxy is not None and not self._tls:
            self._prefix = f"http://{self._host}{self._prefix}"
            self._headers += proxy.headers
        host = parts.hostname or ""
        address = (host, parts.port or (443 if self._tls else 80))
        route = ServerRoute(address, access.tls_server_name or host, proxy)
        self._pool = ConnectionPool(route, self.limit)
        self._fixed: tuple[Headers, bytes] | None = None

    def exchange(self, request: Request) -> Awaitable[Answer]:
        """Send a request and read its answer."""
        headers = self.credentials.known_headers()
        return self._exchange(request) if headers is None else self._send(request, headers)

    async def _exchange(self, request: Request) -> Answer:
        return await self._send(request, await self.credentials.headers())

    async def stream(self, request: Request) -> "AnswerStream":
        """Send a request whose answer is long; whoever calls this closes it."""
        data, _ = self._bytes(request, await self.credentials.headers())
        try:
            context = await self._tls_context()
            return AnswerStream(
                await self._pool.stream(data, context, self._seconds(request)), self
            )
        except ConnectError as error:
            raise self.unreachable(error, maybe_applied=False) from None
        except BrokenError as error:
            raise self.unreachable(error, maybe_applied=True) from None

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()

    def unreachable(self, reason: Exception, *, maybe_applied: bool) -> UnreachableError:
        """The error for a server that cannot be reached."""
        message = f"the API server {self.access.address} cannot be reached: {reason}"
        return UnreachableError(message, maybe_applied=maybe_applied)

    async def _send(self, request: Request, headers: Headers) -> Answer:
        data, sent = self._bytes(request, headers)
        context = self._context if self._timer.now() < self._settled_until else None
        context = context or await self._tls_context()
        again = repeatable = request.repeatable
        while True:
            try:
                answer, received = await self._pool.exchange(
                    data, context, self._seconds(request), learn=not repeatable
                )
            except ConnectError as error:
                raise self.unreachable(error, maybe_applied=False) from None
            except BrokenError as error:
                # A server that closes an idle connection may do so just when it is used again.
                if not (again and error.stale):
                    raise self.unreachable(error, maybe_applied=True) from None
                again = False
            else:
                if answer.status < 300:
                    return Answer(answer.status, "", "", received, sent)
                return Answer(answer.status, answer.reason, _retry_after(answer), received, sent)

    def _bytes(self, request: Request, headers: Headers) -> tuple[bytes, int]:
        """The whole request, and how long its body is."""
        body = request.body
        if not (body is None or isinstance(body, bytes)):
            body = msgspec.json.encode(body)
        if self._fixed is None or self._fixed[0] != headers:
            try:
                self._fixed = (headers, fixed_head(self._host, (*self._headers, *headers)))
            except ValueError as error:
                raise KubeconfigError(f"a request to {self.access.address}: {error}") from None
        asked = target(self._prefix, request.path, request.query)
        data = request_bytes(request.method, asked, self._fixed[1], body, request.content_type)
        return data, len(body or b"")

    def _seconds(self, request: Request) -> float:
        return request.timeout if request.timeout is not None else self._timeout

    async def _tls_context(self) -> ssl.SSLContext | None:
        """The context; a new one, and so new connections, when certificates were replaced."""
        if not self._tls or self._timer.now() < self._settled_until:
            return self._context
        certificate, key = await self.credentials.certificate()
        now = self._timer.now()
        files = any(part.path for part in (self.access.ca, certificate, key))
        if self._context is not None and files and now - self._files_seen_at < FILES_PERIOD:
            return self._context
        self._files_seen_at = now
        current = stamp(self.access.ca, certificate, key)
        if self._context is None or current != self._context_stamp:
            self._context = client_context(
                self.access.ca, certificate, key, insecure=self.access.insecure
            )
            self._context_stamp = current
        if not self.credentials.issues_certificates:
            self._settled_until = now + FILES_PERIOD if files else float("inf")
        return self._context


class AnswerStream:
    """An answer whose body comes piece by piece."""

    def __init__(self, stream: BodyStream, transport: Transport) -> None:
        self.status = stream.answer.status
        self.reason = stream.answer.reason
        self.retry_after = _retry_after(stream.answer)
        self._stream = stream
        self._transport = transport

    async def read(self) -> bytes:
        """The next piece; empty at the end."""
        try:
            return await self._stream.read()
        except BrokenError as error:
            raise self._transport.unreachable(error, maybe_applied=True) from None

    def close(self) -> None:
        """Hang up."""
        self._stream.close()


def _retry_after(answer: AnswerReader) -> str:
    """The header, looked for only where it means something."""
    if answer.status == 429 or answer.status >= 500:
        return answer.header(b"retry-after").decode("latin-1")
    return ""


def _source(
    access: Access, timer: Timer, env: Mapping[str, str], plugins: PluginObserver | None
) -> CredentialSource | None:
    # Loaded only where they are used: a scheduler in a cluster has a token file.
    if access.exec_plugin is not None:
        from moorage.kube.exec_plugin import ExecSource

        return ExecSource(access, access.exec_plugin, env, plugins)
    if access.oidc is not None:
        from moorage.kube.oidc import OidcSource

        return OidcSource(access.oidc, timer, env)
    return None
