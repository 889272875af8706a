"""Connections to one server, reused and shared: who gets one, how many, for how long.

Owns the queue of those who wait, idle connections and deadlines. Knows no requests; how many may be
on their way at once is worked out in `request_limits`.
"""

import asyncio
import ssl
from collections import deque
from typing import NamedTuple

from moorage.errors import ConnectError
from moorage.kube.connection import BodyStream, Connection, ServerRoute, connect
from moorage.kube.http_wire import AnswerReader
from moorage.kube.request_limits import AdaptiveLimit

CONNECT_TIMEOUT = 30.0
IDLE_SECONDS = 15.0
"""An idle connection is closed after so long: before most servers and load balancers do."""
NO_ANSWER = "no answer in time"


class Waiter(NamedTuple):
    """Somebody who waits for a connection."""

    granted: asyncio.Future[None]
    deadline: float


class ConnectionPool:
    """As many connections for short exchanges as `limit` says; streams have one each besides."""

    def __init__(self, route: ServerRoute, limit: AdaptiveLimit) -> None:
        self._route = route
        self._limit = limit
        self._running = 0
        self._closed = False
        self._idle: list[Connection] = []
        self._busy: set[Connection] = set()
        self._streams: set[Connection] = set()
        self._waiting: deque[Waiter] = deque()
        self._session: tuple[ssl.SSLContext, ssl.SSLSession] | None = None
        self._sweeping: asyncio.TimerHandle | None = None
        self._sweep_at = float("inf")

    @property
    def idle(self) -> int:
        """How many connections wait for their next request."""
        return len(self._idle)

    async def exchange(
        self, data: bytes, context: ssl.SSLContext | None, seconds: float, *, learn: bool = False
    ) -> tuple[AnswerReader, bytes]:
        """Send a request; its answer and the body. `learn` how the server takes such requests.

        `ConnectError` if nothing can have been sent, otherwise `BrokenError`.
        """
        loop = asyncio.get_running_loop()
        started = loop.time()
        deadline = started + seconds
        connection = self._at_hand(context)
        if connection is None:
            connection = await self._acquire(context, deadline)
            started = loop.time()
        elif deadline < self._sweep_at:
            self._sweep_by(deadline)
        answer = AnswerReader()
        connection.deadline = deadline
        self._busy.add(connection)
        try:
            body = await connection.exchange(data, answer)
            connection.idle_since = loop.time()
            if learn:
                full = bool(self._waiting) or self._running >= self._limit.limit
                self._limit.ended(connection.idle_since - started, full=full)
        except BaseException:
            connection.close()
            raise
        finally:
            self._busy.discard(connection)
            self._release(connection)
        return answer, body

    async def stream(
        self, data: bytes, context: ssl.SSLContext | None, seconds: float
    ) -> BodyStream:
        """Send a request on a connection of its own; whoever reads the stream closes it."""
        deadline = asyncio.get_running_loop().time() + seconds
        connection = await self._connect(context, deadline)
        connection.deadline = deadline
        self._streams = {stream for stream in self._streams if not stream.closed}
        self._streams.add(connection)
        self._sweep_by(deadline)
        stream = connection.stream(data, AnswerReader())
        try:
            await stream.head()
            self._remember(connection)
        except BaseException:
            connection.close()
            raise
        return stream

    def close(self) -> None:
        """Close all connections, busy ones too."""
        self._closed = True
        for connection in (*self._idle, *self._streams):
            connection.close()
        for connection in list(self._busy):
            connection.fail("the client was closed")
        self._idle.clear()
        self._streams.clear()
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None

    def _at_hand(self, context: ssl.SSLContext | None) -> Connection | None:
        """An idle connection and a slot, if there is no need to wait for either."""
        idle = self._idle
        if not idle or self._waiting or self._running >= self._limit.limit:
            return None
        if idle[-1].context is not context:
            return None
        self._running += 1
        return idle.pop()

    async def _acquire(self, context: ssl.SSLContext | None, deadline: float) -> Connection:
        """A connection, once there is a slot for it; `_release` or `_free_slot` gives that back."""
        self._sweep_by(deadline)
        if self._waiting or self._running >= self._limit.limit:
            await self._slot(deadline)
        else:
            self._running += 1
        while self._idle:
            connection = self._idle.pop()
            if connection.context is context:
                return connection
            connection.close()
        try:
            return await self._connect(context, deadline)
        except BaseException:
            self._free_slot()
            raise

    async def _slot(self, deadline: float) -> None:
        """Wait for a slot; whoever frees one hands it to the first in the queue."""
        waiter = Waiter(asyncio.get_running_loop().create_future(), deadline)
        self._waiting.append(waiter)
        try:
            await waiter.granted
        except asyncio.CancelledError:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            elif not waiter.granted.cancelled():
                self._free_slot()  # it came too late
            raise

    def _free_slot(self) -> None:
        self._running -= 1
        while self._waiting and self._running < self._limit.limit:
            waiter = self._waiting.popleft()
            if not waiter.granted.done():
                self._running += 1
                waiter.granted.set_result(None)

    async def _connect(self, context: ssl.SSLContext | None, deadline: float) -> Connection:
        left = deadline - asyncio.get_running_loop().time()
        known = self._session
        session = known[1] if known is not None and known[0] is context else None
        seconds = min(left, CONNECT_TIMEOUT)
        made = await connect(self._route, context, seconds, session)
        made.when_lost = self._lost
        return made

    def _release(self, connection: Connection) -> None:
        if self._closed:
            connection.close()
        if not connection.closed:
            if self._session is None or self._session[0] is not connection.context:
                self._remember(connection)
            self._idle.append(connection)
            moment = connection.idle_since + IDLE_SECONDS
            if moment < self._sweep_at:
                self._sweep_by(moment)
        self._free_slot()

    def _remember(self, connection: Connection) -> None:
        """Keep the first TLS session of a context: asking for more of them is not cheap."""
        context = connection.context
        if context is None or (self._session is not None and self._session[0] is context):
            return
        session = connection.session
        if session is not None:
            self._session = (context, session)

    def _lost(self, connection: Connection) -> None:
        """The server closed an idle connection."""
        if connection in self._idle:
            self._idle.remove(connection)

    # ---- deadlines: one timer for all, since nearly none is ever reached ----

    def _sweep_by(self, moment: float) -> None:
        if moment < self._sweep_at:
            if self._sweeping is not None:
                self._sweeping.cancel()
            self._sweep_at = moment
            self._sweeping = asyncio.get_running_loop().call_at(moment, self._sweep)

    def _sweep(self) -> None:
        now = asyncio.get_running_loop().time()
        self._sweeping, self._sweep_at = None, float("inf")
        for connection in [c for c in (*self._busy, *self._streams) if c.deadline <= now]:
            self._streams.discard(connection)
            connection.fail(NO_ANSWER)
        for waiter in [waiter for waiter in self._waiting if waiter.deadline <= now]:
            self._waiting.remove(waiter)
            if not waiter.granted.done():
                waiter.granted.set_exception(ConnectError(NO_ANSWER))
        for connection in [c for c in self._idle if c.idle_since + IDLE_SECONDS <= now]:
            self._idle.remove(connection)
            connection.close()
        self._streams = {stream for stream in self._streams if not stream.closed}
        moments = [c.deadline for c in (*self._busy, *self._streams)]
        moments += [waiter.deadline for waiter in self._waiting]
        moments += [c.idle_since + IDLE_SECONDS for c in self._idle]
        if moments:
            self._sweep_by(min(moments))
