"""One connection to an API server: a socket, TLS, and the answer that is under way on it.

The event loop watches the socket, and the rest happens on the socket itself: between a
request and its answer stand no streams, tasks or buffers. Which connection serves which request is
`connection_pool`'s business, what the bytes mean `http_wire`'s.
"""

import asyncio
import ipaddress
import os
import socket
import ssl
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from moorage.errors import BrokenError, ConnectError, WireError
from moorage.kube.http_wire import AnswerReader
from moorage.kube.proxy_tunnel import Address, Proxy, through

RECEIVE_BYTES = 1 << 16
STREAM_BUFFER = 1 << 20
"""Of a stream so much is read ahead; the server waits with the rest."""
ADDRESS_SECONDS = 3.0
"""How long one of several addresses of a host may take to answer."""
_READS_AT_ONCE = 8
_WAIT = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class ServerRoute(msgspec.Struct, frozen=True):
    """The way to a server: straight to it, or through a proxy."""

    address: Address
    server_name: str
    proxy: Proxy | None = None


class Connection:
    """A socket that carries one exchange after another; made by `connect`."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext | None) -> None:
        self.context = context
        self.uses = 0
        self.idle_since = 0.0
        self.deadline = 0.0
        self.closed = False
        self.when_lost: Callable[[Connection], None] | None = None
        """Called when an idle connection ends."""
        self._sock = sock
        # `recv` of a TLS socket is `read` behind two more calls.
        self._receive = sock.read if isinstance(sock, ssl.SSLSocket) else sock.recv
        self._fd = sock.fileno()
        self._loop = asyncio.get_running_loop()
        self._answer: AnswerReader | None = None
        self._future: asyncio.Future[bytes] | None = None
        self._body: list[bytes] = []
        self._stream: BodyStream | None = None
        self._unsent = b""
        self._paused = False
        self._heard = False
        self._loop.add_reader(self._fd, self._readable)

    @property
    def session(self) -> ssl.SSLSession | None:
        """What lets the next connection skip most of the handshake."""
        return self._sock.session if isinstance(self._sock, ssl.SSLSocket) else None

    def exchange(self, data: bytes, answer: AnswerReader) -> "asyncio.Future[bytes]":
        """Send a request; the future is the body of its answer."""
        self._begin(data, answer)
        self._future = future = self._loop.create_future()
        return future

    def stream(self, data: bytes, answer: AnswerReader) -> "BodyStream":
        """Send a request whose answer is read piece by piece."""
        self._begin(data, answer)
        self._stream = stream = BodyStream(self, answer)
        return stream

    def fail(self, reason: str) -> None:
        """End the exchange under way with an error, and the connection with it."""
        self._finish(BrokenError(reason))

    def close(self) -> None:
        """Close it; harmless if repeated."""
        if not self.closed:
            self.closed = True
            self._loop.remove_reader(self._fd)
            self._loop.remove_writer(self._fd)
            self._sock.close()

    def pause(self) -> None:
        """Leave what the server sends in the socket."""
        if not (self._paused or self.closed):
            self._paused = True
            self._loop.remove_reader(self._fd)

    def resume(self) -> None:
        """Read on."""
        if self._paused and not self.closed:
            self._paused = False
            self._loop.add_reader(self._fd, self._readable)

    # ---- inside ----

    def _begin(self, data: bytes, answer: AnswerReader) -> None:
        self.uses += 1
        self._answer = answer
        self._body = []
        self._heard = False
        self._send(data)

    def _send(self, data: bytes) -> None:
        try:
            sent = self._sock.send(data)
        except _WAIT:
            sent = 0
        except OSError:
            # The server closed meanwhile; what it sent last is still to be read.
            return
        # TLS takes all or nothing, and wants to be offered the same bytes again.
        self._unsent = data[sent:]
        if self._unsent:
            self._loop.add_writer(self._fd, self._writable)

    def _writable(self) -> None:
        self._loop.remove_writer(self._fd)
        self._send(self._unsent)

    def _readable(self) -> None:
        for _ in range(_READS_AT_ONCE):
            try:
                data = self._receive(RECEIVE_BYTES)
            except _WAIT:
                return
            except OSError as error:
                self._lost(_reason(error))
                return
            if not data:
                self._lost("")
                return
            self._take(data)
            # Small answers come in one piece: do not ask the system for a second one.
            if self.closed or self._paused or self._answer is None:
                return

    def _take(self, data: bytes) -> None:
        answer = self._answer
        if answer is None:
            self._lost("")  # nobody asked anything
            return
        self._heard = True
        try:
            body = answer.feed(data)
        except WireError as error:
            self._finish(BrokenError(str(error)))
            return
        if self._stream is not None:
            self._stream.push(body)
        elif body:
            self._body.append(body)
        if answer.done:
            self._finish(None)

    def _lost(self, reason: str) -> None:
        """The other side is gone."""
        answer = self._answer
        if answer is None:
            self.close()
            if self.when_lost is not None:
                self.when_lost(self)
        elif answer.end():
            self._finish(None)
        elif self._heard:
            self._finish(
                BrokenError(reason or "it closed the connection in the middle of an answer")
            )
        else:
            why = reason or "it closed the connection without an answer"
            self._finish(BrokenError(why, stale=self.uses > 1))

    def _finish(self, error: BrokenError | None) -> None:
        answer, future, stream = self._answer, self._future, self._stream
        self._answer = self._future = self._stream = None
        if error is not None or answer is None or not answer.reusable or self._unsent:
            self.close()
        if stream is not None:
            stream.finish(error)
        if future is None or future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            body = self._body
            future.set_result(body[0] if len(body) == 1 else b"".join(body))
            self._body = []


class BodyStream:
    """The body of a long answer, piece by piece."""

    def __init__(self, connection: Connection, answer: AnswerReader) -> None:
        self.answer = answer
        self._connection = connection
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._ended = False
        self._failure = ""
        """Why it ended too early. Not the error itself: once raised it would lead back here."""
        self._news: asyncio.Future[None] | None = None

    async def head(self) -> None:
        """Return when the answer's status is known."""
        while not (self.answer.status or self._ended):
            await self._wait()
        if self._failure and not self.answer.status:
            raise BrokenError(self._failure)

    async def read(self) -> bytes:
        """What has arrived since the last time; empty at the end."""
        while not (self._pieces or self._ended):
            await self._wait()
        if self._pieces:
            data = b"".join(self._pieces) if len(self._pieces) > 1 else self._pieces[0]
            self._pieces.clear()
            self._size = 0
            self._connection.resume()
            return data
        if self._failure:
            raise BrokenError(self._failure)
        return b""

    def close(self) -> None:
        """Hang up."""
        self._connection.close()

    def push(self, data: bytes) -> None:
        """More of the body has come, or, with nothing in it, of the head."""
        if data:
            self._pieces.append(data)
            self._size += len(data)
            if self._size > STREAM_BUFFER:
                self._connection.pause()
        self._wake()

    def finish(self, error: BrokenError | None) -> None:
        """Nothing more will come."""
        self._ended = True
        self._failure = "" if error is None else str(error)
        self._wake()

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    async def _wait(self) -> None:
        self._news = asyncio.get_running_loop().create_future()
        try:
            await self._news
        finally:
            self._news = None


async def connect(
    route: ServerRoute,
    context: ssl.SSLContext | None,
    seconds: float,
    session: ssl.SSLSession | None = None,
) -> Connection:
    """A new connection, or `ConnectError`."""
    try:
        async with asyncio.timeout(seconds):
            proxy = route.proxy
            sock = await _connected(route.address if proxy is None else proxy.address)
            if proxy is not None:
                sock = await through(sock, proxy, None if context is None else route.address)
            if context is not None:
                sock = await _encrypted(sock, context, route.server_name, session)
    except TimeoutError:
        raise ConnectError("no answer in time") from None
    except WireError as error:
        raise ConnectError(f"of its proxy: {error}") from None
    except OSError as error:
        # Also before the handshake: a server that is just starting may reset at any moment.
        raise ConnectError(_reason(error)) from None
    return Connection(sock, context)


async def _connected(address: Address) -> socket.socket:
    host, port = address
    failure: OSError | None = None
    addresses = await _addresses(host, port)
    for position, (family, _, _, _, target) in enumerate(addresses, 1):
        sock = _socket(family)
        try:
            # A silent address must not use up the time of those after it.
            async with asyncio.timeout(None if position == len(addresses) else ADDRESS_SECONDS):
                await asyncio.get_running_loop().sock_connect(sock, target)
        except OSError as error:  # TimeoutError is one
            sock.close()
            failure = error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    assert failure is not None, "a host that is known has an address"
    # asyncio replaces the system's word by "Connect call failed ('127.0.0.1', 6443)".
    number = failure.errno
    raise ConnectError((os.strerror(number) if number else str(failure)).lower()) from None


async def _addresses(host: str, port: int) -> list[tuple[Any, ...]]:
    try:
        version = ipaddress.ip_address(host).version
    except ValueError:
        pass
    else:
        family = socket.AF_INET if version == 4 else socket.AF_INET6
        return [(family, socket.SOCK_STREAM, 0, "", (host, port))]
    try:
        loop = asyncio.get_running_loop()
        return list(await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    except OSError:
        raise ConnectError(f"the host {host} is not known") from None


def _socket(family: int) -> socket.socket:
    """A socket that notices within about a minute that the other side is gone."""
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


async def _encrypted(
    sock: socket.socket, context: ssl.SSLContext, server_name: str, session: ssl.SSLSession | None
) -> ssl.SSLSocket:
    try:
        secure = context.wrap_socket(
            sock, server_hostname=server_name, do_handshake_on_connect=False, session=session
        )
    except BaseException:
        sock.close()
        raise
    loop = asyncio.get_running_loop()
    try:
        while True:
            try:
                secure.do_handshake()
            except ssl.SSLWantReadError:
                await _ready(secure, loop.add_reader, loop.remove_reader)
            except ssl.SSLWantWriteError:
                await _ready(secure, loop.add_writer, loop.remove_writer)
            else:
                return secure
    except BaseException as error:
        secure.close()
        match error:
            case ssl.SSLCertVerificationError():
                text = error.verify_message or str(error)
                raise ConnectError(f"its certificate is not trusted: {text}") from None
            case ssl.CertificateError():
                raise ConnectError(f"its certificate is not trusted: {error}") from None
            case ssl.SSLError():
                raise ConnectError(f"TLS failed: {error}") from None
            case OSError():
                raise ConnectError(_reason(error)) from None
        raise


async def _ready(
    sock: socket.socket,
    add: Callable[[int, Callable[[], None]], None],
    remove: Callable[[int], bool],
) -> None:
    """Wait until the socket can go on."""
    number = sock.fileno()
    ready = asyncio.Event()
    add(number, ready.set)
    try:
        await ready.wait()
    finally:
        remove(number)


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error}"
    return (os.strerror(error.errno) if error.errno else str(error) or type(error).__name__).lower()
