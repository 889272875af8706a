"""Accepts connections up to a limit, and closes idle ones for new ones beyond it.

Owns every connection from accept() to its end: how many there are, which one is closed when there
are too many, and what is logged about it. A client that has sent nothing costs a socket and no
more. Of HTTP it knows only when a request is being answered.

The connection that has been idle longest is closed, so that a new one is served: the kubelet's
probe may come from the same address as a client with a thousand connections. Each connection first
gets a moment for its next step, or a flood would close all of them before their first request;
meanwhile new ones wait in the socket's queue. Only if requests are being answered on all
connections is the new one refused. Clients can cause such events at any rate, so they
are logged at most once a second.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from moorage.connections.descriptors import descriptor_limit
from moorage.connections.limits import ConnectionLimits
from moorage.connections.protocols import ServerPlain, ServerTls

log = logging.getLogger(__name__)

_LOG_SECONDS = 1.0
_ACCEPTED_AT_ONCE = 16
_STARTED_AT_ONCE = 4  # a handshake takes a millisecond or two, in which nothing else is done
_SWEEP_SECONDS = 1.0
_STEP_SECONDS = 0.25
_HANDSHAKE_READS = 4
_RETRY_SECONDS = 0.1
_IPV4_IN_IPV6 = bytes(10) + b"\xff\xff"

_ONE_ADDRESS = "from one address"
_ALL = "in all"
_DESCRIPTORS = "for the limit of open files"

Protocols = Callable[[], asyncio.Protocol]


class LogThrottle:
    """Logs the first of many events, and with the next line how many were left out."""

    def __init__(self, log: logging.Logger, level: int) -> None:
        self._log = log
        self._level = level
        self._next = 0.0
        self._left_out = 0

    def __call__(self, text: str, *args: object) -> None:
        """Log, unless it was done less than a second ago."""
        now = time.monotonic()
        if now < self._next:
            self._left_out += 1
            return
        self._next = now + _LOG_SECONDS
        if self._left_out:
            text += " (and %d times since the last such line)"
            args = (*args, self._left_out)
            self._left_out = 0
        self._log.log(self._level, text, *args)


def _now() -> float:
    return asyncio.get_running_loop().time()


@dataclass(slots=True, eq=False)
class _Connection:
    """One accepted connection: a socket at first, a transport once the client has sent a byte."""

    sock: socket.socket | None
    address: bytes
    transport: asyncio.Transport | None = None
    protocol: asyncio.Protocol | None = None
    group: "_Group | None" = None
    """Idle or busy; None once it is closed or about to be."""
    began: float = field(default_factory=_now)
    active: float = field(default_factory=_now)
    """When it took its last step."""
    asked: bool = False
    """Was there a request?"""
    reads: int = 0


_Group = dict[_Connection, None]
"""Connections, the one that has been inactive longest first."""


class Acceptor:
    """Accepts connections for one server."""

    def __init__(self, make_protocol: Protocols, limits: ConnectionLimits) -> None:
        self._make_protocol = make_protocol
        self._limits = limits
        self._descriptor_limit = descriptor_limit()
        self._listeners: Sequence[socket.socket] = ()
        self._context: ssl.SSLContext | None = None
        self._idle: _Group = {}
        self._busy: _Group = {}
        self._per_address: Counter[bytes] = Counter()
        self._by_protocol: dict[asyncio.Protocol, _Connection] = {}
        self._ready: deque[_Connection] = deque()
        self._starting: set[asyncio.Task[object]] = set()
        self._sweeping: asyncio.TimerHandle | None = None
        self._retrying: asyncio.TimerHandle | None = None
        self._waiting: tuple[socket.socket, bytes] | None = None
        self._failures = LogThrottle(log, logging.ERROR)
        self._pressure = LogThrottle(log, logging.WARNING)

    @property
    def count(self) -> int:
        """How many connections there are."""
        return len(self._idle) + len(self._busy)

    def start(
        self, listeners: Sequence[socket.socket], context: ssl.SSLContext | None = None
    ) -> None:
        """Accept on these sockets until `stop` closes them, with TLS if there is a context."""
        self._context = context
        self._listeners = listeners
        self._listen()

    def use(self, context: ssl.SSLContext) -> None:
        """Use another context for connections to come."""
        self._context = context

    def stop(self) -> None:
        """Close the listening sockets, and connections that have asked for nothing yet."""
        self._pause()
        for listener in self._listeners:
            listener.close()
        self._listeners = ()
        if self._retrying is not None:
            self._retrying.cancel()
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None
        if self._waiting is not None:
            self._waiting[0].close()
        for connection in list(self._idle):
            if not connection.asked:
                self._drop(connection)

    def close(self) -> None:
        """Close every connection at once."""
        for connection in [*self._idle, *self._busy]:
            self._drop(connection)

    @contextlib.contextmanager
    def answering(self, protocol: asyncio.Protocol) -> Iterator[Callable[[], None]]:
        """While a request on this protocol is answered; yields what closes its connection."""
        connection = self._by_protocol.get(protocol)
        if connection is None or connection.group is None:
            yield _nothing
            return
        connection.asked = True
        self._move(connection, self._busy)
        try:
            yield partial(self._drop, connection)
        finally:
            if connection.group is not None:
                self._move(connection, self._idle)

    # Accepting

    def _listen(self) -> None:
        self._retrying = None
        if self._waiting is not None:
            (sock, address), self._waiting = self._waiting, None
            self._admit(sock, address, has_waited=True)
        for listener in self._listeners:
            asyncio.get_running_loop().add_reader(listener, self._accept, listener)

    def _pause(self) -> None:
        for listener in self._listeners:
            asyncio.get_running_loop().remove_reader(listener)

    def _accept(self, listener: socket.socket) -> None:
        if self._retrying is not None:
            return  # another listener has just paused all
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                sock, peer = listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionError:
                continue  # closed by the client while it waited
            except OSError as error:
                self._accept_failed(error)
                return
            if not self._admit(sock, _origin(peer[0])):
                return

    def _accept_failed(self, error: OSError) -> None:
        """Make room, if that is what is missing, and try again a little later."""
        self._failures("accept failed: %s", error.strerror or error)
        victim = self._longest_idle(None)
        if victim is not None:
            self._drop(victim)
        self._retry_after(_RETRY_SECONDS)

    def _retry_after(self, seconds: float) -> None:
        self._pause()
        self._retrying = asyncio.get_running_loop().call_later(seconds, self._listen)

    def _admit(self, sock: socket.socket, address: bytes, *, has_waited: bool = False) -> bool:
        """Take a connection on; False if it must wait until another one may be closed."""
        excess = self._excess(sock.fileno(), address)
        if not excess:
            self._begin(sock, address)
            return True
        victim = self._longest_idle(address if excess == _ONE_ADDRESS else None)
        if victim is None:
            self._pressure("too many connections %s: a new one was refused", excess)
            sock.close()
            return True
        rest = victim.active + _STEP_SECONDS - _now()
        if rest > 0 and not has_waited:
            self._waiting = (sock, address)
            self._retry_after(rest)
            return False
        self._pressure("too many connections %s: the longest idle one was closed", excess)
        self._drop(victim)
        self._begin(sock, address)
        return True

    def _begin(self, sock: socket.socket, address: bytes) -> None:
        sock.setblocking(False)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            # The kernel closes the connection to a client that does not read.
            milliseconds = int(self._limits.unread_seconds * 1000)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
        connection = _Connection(sock, address)
        self._per_address[address] += 1
        self._move(connection, self._idle)
        loop = asyncio.get_running_loop()
        loop.add_reader(sock, self._first_byte, connection)
        if self._sweeping is None:
            self._sweeping = loop.call_later(_SWEEP_SECONDS, self._sweep)

    def _excess(self, descriptor: int, address: bytes) -> str:
        """Which limit one more connection would exceed; empty if none."""
        if self._per_address[address] >= self._limits.per_address:
            return _ONE_ADDRESS
        if self.count >= self._limits.total:
            return _ALL
        return _DESCRIPTORS if descriptor >= self._descriptor_limit else ""

    def _longest_idle(self, address: bytes | None) -> _Connection | None:
        for connection in self._idle:
            if address is None or connection.address == address:
                return connection
        return None

    # From the first byte to the first request

    def _first_byte(self, connection: _Connection) -> None:
        assert connection.sock is not None
        try:
            begun = connection.sock.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            begun = b""
        if not begun:
            self._drop(connection)
            return
        loop = asyncio.get_running_loop()
        loop.remove_reader(connection.sock)
        self._move(connection, self._idle)
        if not self._ready:
            loop.call_soon(self._start_some)
        self._ready.append(connection)

    def _start_some(self) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(min(_STARTED_AT_ONCE, len(self._ready))):
            connection = self._ready.popleft()
            if connection.group is not None:
                task = loop.create_task(self._serve(connection))
                self._starting.add(task)
                task.add_done_callback(self._starting.discard)
        if self._ready:
            loop.call_soon(self._start_some)

    async def _serve(self, connection: _Connection) -> None:
        if connection.group is None:
            return
        sock, connection.sock = connection.sock, None
        assert sock is not None
        protocol = self._make_protocol()
        self._by_protocol[protocol] = connection
        connection.protocol = protocol
        made, lost = partial(self._made, connection), partial(self._forget, connection)
        outer: asyncio.BaseProtocol
        if self._context is None:
            outer = ServerPlain(protocol, made, lost)
        else:
            read = partial(self._read, connection)
            outer = ServerTls(protocol, self._context, made, lost, read)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: outer, sock)
        except OSError:  # just closed by the client
            sock.close()
            self._forget(connection)

    def _made(self, connection: _Connection, transport: asyncio.Transport) -> bool:
        connection.transport = transport
        if connection.group is None:
            transport.abort()
            return False
        return True

    def _read(self, connection: _Connection) -> None:
        """A step of a handshake; only a few count, or a client could send byte by byte."""
        if connection.reads < _HANDSHAKE_READS and connection.group is self._idle:
            connection.reads += 1
            self._move(connection, self._idle)

    # The end

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        overdue = loop.time() - self._limits.first_request_seconds
        for connection in list(self._idle):
            if not connection.asked and connection.began <= overdue:
                self._drop(connection)
        self._sweeping = None
        if self._idle:
            self._sweeping = loop.call_later(_SWEEP_SECONDS, self._sweep)

    def _move(self, connection: _Connection, group: _Group) -> None:
        if connection.group is not None:
            del connection.group[connection]
        connection.group = group
        connection.active = _now()
        group[connection] = None

    def _drop(self, connection: _Connection) -> None:
        self._forget(connection)
        if connection.transport is not None:
            connection.transport.abort()
        elif connection.sock is not None:
            asyncio.get_running_loop().remove_reader(connection.sock)
            connection.sock.close()
        # Otherwise a transport is just being made: `_made` ends it.

    def _forget(self, connection: _Connection) -> None:
        if connection.group is None:
            return
        del connection.group[connection]
        connection.group = None
        self._per_address[connection.address] -= 1
        if not self._per_address[connection.address]:
            del self._per_address[connection.address]
        if connection.protocol is not None:
            self._by_protocol.pop(connection.protocol, None)
            connection.protocol = None


def _origin(host: str) -> bytes:
    """What counts as one address: of IPv6 the /64 network, as each client has a whole one."""
    if ":" not in host:
        return socket.inet_aton(host)
    packed = socket.inet_pton(socket.AF_INET6, host.partition("%")[0])
    return packed[12:] if packed.startswith(_IPV4_IN_IPV6) else packed[:8]


def _nothing() -> None:
    """The connection is closed already."""
