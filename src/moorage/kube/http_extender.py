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
import os
import select
import socket
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from urllib.parse import urlsplit

from moorage.config import KubeSchedulerConfiguration
from moorage.config.as_built import extenders_in_order
from moorage.config.types import ExtenderConfig, ExtenderTLSConfig
from moorage.errors import (
    ConfigError,
    ConnectError,
    ExtenderError,
    KubeconfigError,
    WireError,
)
from moorage.framework.extenders import Extender, FilterReply, MetaVictims, in_thread, uses_any
from moorage.framework.plugin import Candidate
from moorage.kube import extender_messages as messages
from moorage.kube.access import Pem
from moorage.kube.http_wire import AnswerReader, fixed_head, request_bytes
from moorage.kube.proxies import proxy_for
from moorage.kube.proxy_tunnel import Address, Proxy, proxy_at, tunnel_request
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
        self._idle: list[socket.socket] = []
        self._prefix = config.url_prefix.rstrip("/")
        self._seconds = seconds
        self._server = urlsplit(self._prefix)
        tls = config.tls_config or ExtenderTLSConfig()
        self._server_name = tls.server_name or self._server.hostname or ""
        secure = self._server.scheme == "https"
        try:
            # Loading the system's authorities takes a while; plain HTTP can do without them.
            needed = secure or config.tls_config is not None
            context = _context(tls, insecure=config.enable_https) if needed else None
            proxy = proxy_for(self._prefix, env)
        except KubeconfigError as error:
            raise ConfigError(f"couldn't build extenders: {error}") from error
        self._context = context if secure else None
        self._proxy = proxy_at(proxy) if proxy else None
        port = self._server.port or (443 if secure else 80)
        self._address = (self._server.hostname or "", port)
        self._host = self._server.netloc.rpartition("@")[2]
        headers = self._proxy.headers if self._proxy is not None and not secure else ()
        self._head = fixed_head(self._host, (("Accept-Encoding", "identity"), *headers))

    def post(self, verb: str, body: bytes) -> bytes:
        """The body of the answer; connecting, asking and reading share the time there is."""
        url = f"{self._prefix}/{verb}"
        shown = redacted_url(url)
        if self._server.scheme not in ("http", "https"):
            scheme = self._server.scheme
            raise ExtenderError(f'Post "{shown}": unsupported protocol scheme "{scheme}"')
        path = url if self._proxy is not None and self._context is None else _path(url)
        data = request_bytes("POST", path, self._head, body, "application/json")
        deadline = time.monotonic() + self._seconds
        answer = AnswerReader()
        sock: socket.socket | None = None
        pieces: list[bytes] = []
        try:
            sock = self._ask(data, deadline)
            while not answer.done and answer.status in (0, _OK):
                pieces.append(_received(sock, answer, deadline))
        except (OSError, ValueError, ConnectError, WireError) as error:
            if sock is not None:
                sock.close()
            # What was asked is told only where nothing was answered.
            where = "" if answer.status else f'Post "{shown}": '
            raise ExtenderError(where + _reason(error, answer)) from None
        if answer.done and answer.reusable and len(self._idle) < _IDLE_CONNECTIONS:
            self._idle.append(sock)
        else:
            sock.close()
        if answer.status != _OK:
            raise ExtenderError(f"failed {verb} with extender at URL {shown}, code {answer.status}")
        return b"".join(pieces)

    def close(self) -> None:
        """Close what is idle."""
        while self._idle:
            self._idle.pop().close()

    def __del__(self) -> None:
        # Of a configuration that was replaced, nobody says so.
        self.close()

    def _ask(self, data: bytes, deadline: float) -> socket.socket:
        """A connection on which the request has been sent."""
        while (sock := self._idle_socket()) is not None:
            try:
                _send(sock, data, deadline)
            except (BrokenPipeError, ConnectionResetError):
                sock.close()  # by the other side already: nothing was asked yet
            else:
                return sock
        sock = self._connected(deadline)
        try:
            _send(sock, data, deadline)
        except BaseException:
            sock.close()
            raise
        return sock

    def _idle_socket(self) -> socket.socket | None:
        """An idle connection that the other side has neither closed nor sent anything on."""
        # Not "while there is one": another thread may take the last.
        with suppress(IndexError):
            while True:
                sock = self._idle.pop()
                if not select.select([sock], [], [], 0)[0]:
                    return sock
                sock.close()
        return None

    def _connected(self, deadline: float) -> socket.socket:
        proxy = self._proxy
        sock = _reach(self._address if proxy is None else proxy.address, deadline)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if proxy is not None and proxy.secure:
                context = ssl.create_default_context()
                sock = context.wrap_socket(sock, server_hostname=proxy.address[0])
            if self._context is not None:
                if proxy is not None:
                    self._tunnel(sock, proxy, deadline)
                sock = self._context.wrap_socket(sock, server_hostname=self._server_name)
        except BaseException:
            sock.close()
            raise
        return sock

    def _tunnel(self, sock: socket.socket, proxy: Proxy, deadline: float) -> None:
        """Have the proxy pass on what is sent from here on."""
        _send(sock, tunnel_request(proxy, self._address), deadline)
        answer = AnswerReader()
        while not answer.status:
            _received(sock, answer, deadline)
        if answer.status != _OK:
            raise ConnectError(f"Tunnel connection failed: {answer.status} {answer.reason}")


def _reach(target: Address, deadline: float) -> socket.socket:
    """A connection to the first address that takes one."""
    failure: Exception | None = None
    found = socket.getaddrinfo(*target, type=socket.SOCK_STREAM)
    for family, kind, protocol, _, where in found:
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(_left(deadline))
            sock.connect(where)
        except ConnectionRefusedError:
            host, number = str(where[0]), int(where[1])
            host = f"[{host}]" if family == socket.AF_INET6 else host
            failure = ConnectError(f"dial tcp {host}:{number}: connect: connection refused")
        except OSError as error:
            failure = error
        else:
            return sock
        sock.close()
    raise failure or OSError("no address")


def _left(deadline: float) -> float:
    """The seconds left."""
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    return seconds


def _send(sock: socket.socket, data: bytes, deadline: float) -> None:
    sock.settimeout(_left(deadline))
    sock.sendall(data)


def _received(sock: socket.socket, answer: AnswerReader, deadline: float) -> bytes:
    """More of the answer's body; `answer` is done if there was no more to come."""
    sock.settimeout(_left(deadline))
    data = sock.recv(_PIECE)
    if data:
        return answer.feed(data)
    if not answer.end():
        raise ConnectError("unexpected EOF" if answer.status else "EOF")
    return b""


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


def _reason(error: Exception, answer: AnswerReader) -> str:
    """Go's messages for the commonest failures; Python's for the rest."""
    match error:
        case TimeoutError() if answer.status:
            return (
                "context deadline exceeded (Client.Timeout or context cancellation while "
                "reading body)"
            )
        case TimeoutError():
            return "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
        case ssl.SSLCertVerificationError() if error.verify_code in _UNKNOWN_AUTHORITY:
            return (
                "tls: failed to verify certificate: x509: certificate signed by unknown authority"
            )
        case ssl.SSLError():
            return f"tls: {error.reason or error}"
        case socket.gaierror():
            return f"dial tcp: lookup failed: {error.strerror}"
        case OSError() if error.strerror:
            return error.strerror.lower()
        case _:
            return str(error) or type(error).__name__
