"""Extenders over HTTP: one POST per question, its answer awaited.

Owns connections, TLS, time-outs, and Go's messages for what goes wrong with them. What is said is
`extender_messages`'; what follows from it is `framework.extenders`'.

The scheduling cycle waits for its answers, for at most `httpTimeout` each, as upstream's does:
deciding on while an answer is due would decide on another state. Who else may run meanwhile is
`engine_thread`'s business. Binding happens outside of the cycle and waits in a thread of its own.
Connections are reused. HTTP/2 and redirects are not offered; upstream's client would
follow the latter.
"""

import asyncio
import http.client
import io
import os
import select
import socket
import ssl
import time
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from moorage.config import KubeSchedulerConfiguration
from moorage.config.as_built import extenders_in_order
from moorage.config.types import ExtenderConfig, ExtenderTLSConfig
from moorage.errors import ConfigError, ExtenderError, KubeconfigError
from moorage.framework.extenders import Extender, FilterReply, MetaVictims, in_thread, uses_any
from moorage.framework.plugin import Candidate
from moorage.kube import extender_messages as messages
from moorage.kube.access import Pem
from moorage.kube.proxies import proxy_for
from moorage.kube.tls import client_context
from moorage.model.meta import ApiObject
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.redaction import redacted_url

DEFAULT_SECONDS = 5.0
_OK = 200
_IDLE_CONNECTIONS = 8
_PIECE = 64 * 1024
_UNKNOWN_AUTHORITY = frozenset({18, 19, 20, 21})
"""OpenSSL's numbers for certificates that lead to no authority we trust."""


def http_extenders(config: KubeSchedulerConfiguration) -> tuple[Extender, ...]:
    """The extenders of a configuration, in the order of asking."""
    return tuple(HttpExtender(one) for one in extenders_in_order(config))


def source_needs(extenders: Sequence[Extender]) -> frozenset[str]:
    """Of which objects extenders see more than the scheduler reads: `pods`, `victims`, `nodes`.

    Pods that wait are few and go along with every question; nodes and the pods on them are needed
    only by extenders that want whole nodes or whole victims.
    """
    needs = set()
    for one in extenders:
        if not (one.filters or one.prioritizes or one.preempts):
            continue
        needs.add("pods")
        if isinstance(one, HttpExtender) and one.by_name:
            continue
        if one.filters or one.prioritizes:
            needs.add("nodes")
        if one.preempts:
            needs.add("victims")
    return frozenset(needs)


def needs_source(extenders: Sequence[Extender]) -> Callable[[ApiObject], bool] | None:
    """Of which objects to store the JSON of the API server; None if nobody asks for any."""
    needs = source_needs(extenders)
    if not needs:
        return None

    def needed(obj: ApiObject) -> bool:
        if isinstance(obj, Pod):
            return "victims" in needs or not obj.spec.node_name
        return "nodes" in needs and isinstance(obj, Node)

    return needed


class HttpExtender(Extender):
    """An extender as configured."""

    def __init__(self, config: ExtenderConfig, env: Mapping[str, str] | None = None) -> None:
        self.name = redacted_url(config.url_prefix)
        self.ignorable = config.ignorable
        self.weight = config.weight
        self.filters = bool(config.filter_verb)
        self.prioritizes = bool(config.prioritize_verb)
        self.preempts = bool(config.preempt_verb)
        self.binds = bool(config.bind_verb)
        self.by_name = config.node_cache_capable
        """Does it know the nodes itself, so that names are enough?"""
        self._config = config
        self._managed = frozenset(resource.name for resource in config.managed_resources)
        seconds = config.http_timeout.seconds or DEFAULT_SECONDS
        self._client = _Client(config, seconds, os.environ if env is None else env)

    def is_interested(self, pod: Pod) -> bool:
        """Without managed resources every pod concerns it, otherwise those that use one."""
        return not self._managed or uses_any(pod, self._managed)

    def filter(self, pod: Pod, nodes: Sequence[Node]) -> FilterReply:
        """POST to the filter verb."""
        body = messages.about_nodes(pod, nodes, by_name=self.by_name)
        answer = self._client.post(self._config.filter_verb, body)
        return messages.filter_reply(answer, by_name=self.by_name)

    def prioritize(self, pod: Pod, nodes: Sequence[Node]) -> Sequence[tuple[str, int]]:
        """POST to the prioritize verb."""
        body = messages.about_nodes(pod, nodes, by_name=self.by_name)
        return messages.prioritize_reply(self._client.post(self._config.prioritize_verb, body))

    def preempt(self, pod: Pod, candidates: Sequence[Candidate]) -> Mapping[str, MetaVictims]:
        """POST to the preempt verb."""
        body = messages.about_victims(pod, candidates, by_uid=self.by_name)
        return messages.preempt_reply(self._client.post(self._config.preempt_verb, body))

    async def bind(self, pod: Pod, node_name: str) -> None:
        """POST to the bind verb, from a thread: many pods may be on their way at once."""
        body = messages.about_binding(pod, node_name)
        verb, client = self._config.bind_verb, self._client
        answer = await asyncio.wrap_future(in_thread(lambda: client.post(verb, body)))
        messages.check_binding_reply(answer)

    def close(self) -> None:
        """Close idle connections."""
        self._client.close()


class _Client:
    """Connections to one server; may be used from several threads."""

    def __init__(self, config: ExtenderConfig, seconds: float, env: Mapping[str, str]) -> None:
        self._prefix = config.url_prefix.rstrip("/")
        self._seconds = seconds
        self._server = urlsplit(self._prefix)
        tls = config.tls_config or ExtenderTLSConfig()
        self._server_name = tls.server_name
        try:
            # Loading the system's authorities takes a while; plain HTTP can do without them.
            needed = self._server.scheme == "https" or config.tls_config is not None
            self._context = _context(tls, insecure=config.enable_https) if needed else None
            proxy = proxy_for(self._prefix, env)
        except KubeconfigError as error:
            raise ConfigError(f"couldn't build extenders: {error}") from error
        self._proxy = urlsplit(proxy) if proxy else None
        self._idle: list[_Connection] = []

    def post(self, verb: str, body: bytes) -> bytes:
        """The body of the answer."""
        url = f"{self._prefix}/{verb}"
        shown = redacted_url(url)
        if self._server.scheme not in ("http", "https"):
            scheme = self._server.scheme
            raise ExtenderError(f'Post "{shown}": unsupported protocol scheme "{scheme}"')
        deadline = time.monotonic() + self._seconds
        connection, response = self._ask(url, body, deadline)
        try:
            if response.status != _OK:
                raise ExtenderError(
                    f"failed {verb} with extender at URL {shown}, code {response.status}"
                )
            answer = response.read()
        except TimeoutError:
            raise ExtenderError(
                "context deadline exceeded (Client.Timeout or context cancellation while "
                "reading body)"
            ) from None
        except (OSError, http.client.HTTPException) as error:
            raise ExtenderError(_reason(error)) from None
        finally:
            self._put_back(connection, response)
        return answer

    def close(self) -> None:
        """Close what is idle."""
        while self._idle:
            self._idle.pop().close()

    def _ask(
        self, url: str, body: bytes, deadline: float
    ) -> tuple["_Connection", http.client.HTTPResponse]:
        connection = self._take()
        connection.deadline = deadline
        headers = {"Content-Type": "application/json", **self._proxy_headers()}
        target = url if self._via_plain_proxy else _path(url)
        try:
            try:
                connection.request("POST", target, body, headers)
            except (BrokenPipeError, ConnectionResetError):
                if not connection.used:
                    raise
                # An idle connection that the other side had closed: nothing was asked yet.
                connection.close()
                connection = self._connection()
                connection.deadline = deadline
                connection.request("POST", target, body, headers)
            return connection, connection.getresponse()
        except TimeoutError:
            connection.close()
            raise ExtenderError(
                f'Post "{redacted_url(url)}": context deadline exceeded (Client.Timeout exceeded '
                "while awaiting headers)"
            ) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            where = connection.where
            connection.close()
            raise ExtenderError(f'Post "{redacted_url(url)}": {_reason(error, where)}') from None

    @property
    def _via_plain_proxy(self) -> bool:
        return self._proxy is not None and self._server.scheme == "http"

    def _proxy_headers(self) -> dict[str, str]:
        return _credentials(self._proxy) if self._via_plain_proxy and self._proxy else {}

    def _take(self) -> "_Connection":
        # Not "while there is one": another thread may take the last.
        with suppress(IndexError):
            while True:
                connection = self._idle.pop()
                if connection.alive:
                    connection.used = True
                    return connection
                connection.close()
        return self._connection()

    def _put_back(self, connection: "_Connection", response: http.client.HTTPResponse) -> None:
        reusable = response.isclosed() and not response.will_close
        if reusable and len(self._idle) < _IDLE_CONNECTIONS:
            self._idle.append(connection)
        else:
            response.close()
            connection.close()

    def _connection(self) -> "_Connection":
        context = self._context if self._server.scheme == "https" else None
        name = self._server_name or self._server.hostname or ""
        return _Connection(self._server, self._proxy, context, name)


class _Connection(http.client.HTTPConnection):
    """A connection on which everything together has to end by `deadline`."""

    def __init__(
        self,
        server: SplitResult,
        proxy: SplitResult | None,
        context: ssl.SSLContext | None,
        server_name: str,
    ) -> None:
        hop = proxy or server
        port = hop.port or (443 if hop.scheme == "https" else 80)
        super().__init__(hop.hostname or "", port)
        if proxy is not None and context is not None:
            self.set_tunnel(server.hostname or "", server.port or 443, _credentials(proxy))
        self._context = context
        self._server_name = server_name
        self._proxy_context = (
            ssl.create_default_context() if proxy and proxy.scheme == "https" else None
        )
        self.deadline = 0.0
        self.used = False
        self.where = ""
        """The address that is or was to be reached."""

    @property
    def alive(self) -> bool:
        """Has the other side neither closed nor sent anything unasked?"""
        if self.sock is None:
            return False
        return not select.select([self.sock], [], [], 0)[0]

    def connect(self) -> None:
        """Connect, through the proxy if there is one."""
        plain = self._reach()
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = plain
        if self._proxy_context is not None:
            self.sock = self._proxy_context.wrap_socket(plain, server_hostname=self.host)
        if self._tunnel_host:  # type: ignore[attr-defined]  # as set by set_tunnel
            self._tunnel()  # type: ignore[attr-defined]
        if self._context is not None:
            self.sock = self._context.wrap_socket(self.sock, server_hostname=self._server_name)
        self.sock = _Timed(self.sock, self)

    def _reach(self) -> socket.socket:
        failure: OSError | None = None
        for address in socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM):
            family, kind, protocol, _, where = address
            host, port = str(where[0]), int(where[1])
            self.where = f"[{host}]:{port}" if family == socket.AF_INET6 else f"{host}:{port}"
            sock = socket.socket(family, kind, protocol)
            try:
                sock.settimeout(self.left())
                sock.connect(where)
            except OSError as error:
                sock.close()
                failure = error
            else:
                return sock
        raise failure or OSError("no address")

    def left(self) -> float:
        """The seconds left."""
        seconds = self.deadline - time.monotonic()
        if seconds <= 0:
            raise TimeoutError
        return seconds


class _Timed:
    """A socket as `http.client` uses it, every wait cut to what is left of the time."""

    def __init__(self, sock: Any, connection: _Connection) -> None:
        self._sock = sock
        self._connection = connection

    def sendall(self, data: Any) -> None:
        self._sock.settimeout(self._connection.left())
        self._sock.sendall(data)

    def makefile(self, mode: str) -> io.BufferedReader:
        # The unbuffered file keeps the socket open until it is closed itself.
        raw = self._sock.makefile(mode, buffering=0)
        return io.BufferedReader(_TimedReader(raw, self._sock, self._connection), _PIECE)

    def fileno(self) -> int:
        number: int = self._sock.fileno()
        return number

    def close(self) -> None:
        self._sock.close()


class _TimedReader(io.RawIOBase):
    def __init__(self, raw: io.RawIOBase, sock: Any, connection: _Connection) -> None:
        super().__init__()
        self._raw = raw
        self._sock = sock
        self._connection = connection

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(self._connection.left())
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


def _context(tls: ExtenderTLSConfig, *, insecure: bool) -> ssl.SSLContext:
    """Go's rules: with `enableHTTPS` and no authority, nobody's certificate is checked."""
    authority = Pem(tls.ca_data, tls.ca_file)
    if tls.insecure and authority:
        raise ConfigError(
            "couldn't build extenders: specifying a root certificates file with the insecure "
            "flag is not allowed"
        )
    certificate, key = Pem(tls.cert_data, tls.cert_file), Pem(tls.key_data, tls.key_file)
    if not (certificate and key):
        certificate = key = Pem()
    unchecked = tls.insecure or (insecure and not authority)
    return client_context(authority, certificate, key, insecure=unchecked)


def _path(url: str) -> str:
    parts = urlsplit(url)
    path = parts.path or "/"
    return f"{path}?{parts.query}" if parts.query else path


def _credentials(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {b64encode(pair.encode()).decode()}"}


def _reason(error: Exception, where: str = "") -> str:
    """Go's messages for the commonest failures; Python's for the rest."""
    match error:
        case ssl.SSLCertVerificationError() if error.verify_code in _UNKNOWN_AUTHORITY:
            return (
                "tls: failed to verify certificate: x509: certificate signed by unknown authority"
            )
        case ssl.SSLError():
            return f"tls: {error.reason or error}"
        case socket.gaierror():
            return f"dial tcp: lookup failed: {error.strerror}"
        case ConnectionRefusedError():
            return f"dial tcp {where}: connect: connection refused"
        case http.client.RemoteDisconnected():
            return "EOF"
        case http.client.IncompleteRead():
            return "unexpected EOF"
        case OSError() if error.strerror:
            return error.strerror.lower()
        case _:
            return str(error) or type(error).__name__
