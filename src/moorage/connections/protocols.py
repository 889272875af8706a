"""What stands between a transport and a server's protocol: nothing much, or TLS.

Both kinds report the beginning and the end of a connection. `ServerTls` owns the size of the
buffer, small enough for hundreds of idle connections, and that a closed connection is freed at
once. TLS itself is asyncio's.
"""

import asyncio
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable
from typing import cast

_SHUTDOWN_SECONDS = 5


class ServerPlain(asyncio.Protocol):
    """Put between a transport and a protocol."""

    def __init__(
        self,
        protocol: asyncio.Protocol,
        made: Callable[[asyncio.Transport], bool],
        lost: Callable[[], None],
    ) -> None:
        self._protocol = protocol
        self._made = made
        self._lost = lost
        self._begun = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, unless the connection was given up meanwhile."""
        self._begun = self._made(cast(asyncio.Transport, transport))
        if self._begun:
            self._protocol.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """The end."""
        if self._begun:
            self._protocol.connection_lost(exc)
        self._lost()

    def data_received(self, data: bytes) -> None:
        """Passed on, as all the rest."""
        self._protocol.data_received(data)

    def eof_received(self) -> bool | None:
        """The client sends no more."""
        return self._protocol.eof_received()

    def pause_writing(self) -> None:
        """The client reads slowly."""
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """It has caught up."""
        self._protocol.resume_writing()


class ServerTls(SSLProtocol):
    """Put between a plain transport and a protocol, on asyncio's loop and on uvloop's.

    `loop.create_server(ssl=...)` would make an `SSLProtocol` as well, but with a buffer of 256 KiB
    for each connection, and with a future that refers to itself once a handshake has failed: both
    stay until a garbage collection, which comes rarely here (`connections.garbage`). The size is a
    class attribute of `SSLProtocol`, so a subclass changes it for this side only: the client that
    reads whole clusters keeps the large buffer.
    """

    max_size = 16 * 1024
    """One TLS record."""

    def __init__(
        self,
        protocol: asyncio.Protocol,
        context: ssl.SSLContext,
        made: Callable[[asyncio.Transport], bool],
        lost: Callable[[], None],
        read: Callable[[], None],
    ) -> None:
        super().__init__(
            asyncio.get_running_loop(),
            protocol,
            context,
            None,  # type: ignore[arg-type]  # nobody waits for the handshake
            server_side=True,
            ssl_shutdown_timeout=_SHUTDOWN_SECONDS,
        )
        self._made = made
        self._lost = lost
        self._read = read

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake, unless the connection was given up meanwhile."""
        if self._made(cast(asyncio.Transport, transport)):
            super().connection_made(transport)

    def buffer_updated(self, nbytes: int) -> None:
        """Another part of the handshake, or of what comes after it."""
        self._read()
        super().buffer_updated(nbytes)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Free everything at once."""
        super().connection_lost(exc)
        if exc is not None:
            # The frames of a failed handshake refer to its exception and to this object.
            exc.__traceback__ = None
        self._lost()
