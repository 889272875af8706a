"""A connection without TLS: passes everything on, and reports its beginning and end."""

import asyncio
from collections.abc import Callable
from typing import cast


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
        self.data_received = protocol.data_received  # type: ignore[method-assign]
        self.eof_received = protocol.eof_received  # type: ignore[method-assign]
        self.pause_writing = protocol.pause_writing  # type: ignore[method-assign]
        self.resume_writing = protocol.resume_writing  # type: ignore[method-assign]

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
