"""Connections over real sockets: how many there may be, and which ones are closed."""

import asyncio
import contextlib
import gc
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cache
from typing import Any, NamedTuple

import pytest
from aiohttp import web

from connections.load import client_context
from kube.fake_api import run
from moorage.connections.acceptor import LogThrottle, _origin
from moorage.connections.limits import ConnectionLimits
from moorage.connections.protocols import ServerTls
from moorage.connections.server import HttpServer
from moorage.http.certificates import new_pair
from moorage.http.options import ServingOptions
from moorage.http.secure_port import open_listener
from moorage.http.tls import Material, server_context, tls_settings

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
SECURITY = pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])


class Served(NamedTuple):
    """A server, and connections to it."""

    http: HttpServer
    port: int
    secure: bool

    async def connect(self, tls: bool | None = None) -> tuple[asyncio.StreamReader, Any]:
        secure = self.secure if tls is None else tls
        return await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=client_context() if secure else None
        )

    async def get(self) -> bytes:
        """The first line of an answer on a connection of its own."""
        reader, writer = await self.connect()
        writer.write(GET)
        line = await reader.readline()
        writer.transport.abort()
        return line

    async def until_there_are(self, count: int) -> None:
        while self.http.acceptor.count != count:
            await asyncio.sleep(0.01)


async def _hello(_: web.BaseRequest) -> web.StreamResponse:
    return web.Response(text="hello")


@cache
def _context() -> ssl.SSLContext:
    options = ServingOptions()
    pair = new_pair("127.0.0.1")
    return server_context(tls_settings(options), Material(pair, (), b""))


@asynccontextmanager
async def served(
    secure: bool = False, handler: Handler = _hello, **limits: Any
) -> AsyncIterator[Served]:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        with http.answering(request):
            return await handler(request)

    runner = web.ServerRunner(web.Server(answer, access_log=None, handler_cancellation=True))
    http = HttpServer(runner, ConnectionLimits(**limits))
    with open_listener(ServingOptions(bind_address="127.0.0.1", secure_port=0)) as listener:
        await http.start([listener], _context() if secure else None)
        async with asyncio.timeout(60):
            yield Served(http, listener.getsockname()[1], secure)
        await http.stop(0.0)
        assert http.acceptor.count == 0


@SECURITY
def test_a_newcomer_is_served_though_others_hold_all_connections(secure: bool) -> None:
    async def scenario() -> None:
        async with served(secure, total=4) as server:
            held = [await server.connect() for _ in range(6)]
            assert await server.get() == b"HTTP/1.1 200 OK\r\n"
            assert server.http.acceptor.count <= 4
            assert await held[0][0].read() == b""  # the first to come was the first to go
            for _, writer in held:
                writer.transport.abort()

    run(scenario())


def test_one_address_cannot_take_the_connections_of_others() -> None:
    async def scenario() -> None:
        async with served(per_address=2) as server:
            other, elsewhere = await asyncio.open_connection(
                "127.0.0.1", server.port, local_addr=("127.0.0.2", 0)
            )
            held = [await server.connect() for _ in range(6)]
            await server.until_there_are(3)
            elsewhere.write(GET)
            assert await other.readline() == b"HTTP/1.1 200 OK\r\n"
            for _, writer in [*held, (other, elsewhere)]:
                writer.transport.abort()

    run(scenario())


def test_a_newcomer_goes_where_every_connection_is_being_answered_on() -> None:
    over = asyncio.Event()

    async def slow(_: web.BaseRequest) -> web.StreamResponse:
        await over.wait()
        return web.Response(text="done")

    async def scenario() -> None:
        async with served(handler=slow, total=2) as server:
            held = [await server.connect() for _ in range(2)]
            for _, writer in held:
                writer.write(GET)
            while len(server.http.acceptor._busy) < 2:
                await asyncio.sleep(0.01)
            reader, writer = await server.connect()
            assert await reader.read() == b""
            writer.transport.abort()
            over.set()
            for reader, writer in held:
                assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
                writer.transport.abort()

    run(scenario())


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01" + bytes(300), GET])
def test_a_connection_without_a_handshake_leaves_nothing_behind(sent: bytes) -> None:
    """Garbage is collected rarely in a scheduler: nothing may wait for it."""

    async def scenario() -> None:
        async with served(secure=True) as server:
            gc.collect()
            gc.disable()
            try:
                for _ in range(30):
                    _, writer = await server.connect(tls=False)
                    writer.write(sent)
                    writer.close()
                    await writer.wait_closed()
                await server.until_there_are(0)
                await asyncio.sleep(0)  # the frame of the last one
                left = [found for found in gc.get_objects() if isinstance(found, ServerTls)]
                assert len(left) <= 1
            finally:
                gc.enable()

    run(scenario())


def test_an_idle_tls_connection_is_cheap() -> None:
    async def scenario() -> None:
        async with served(secure=True) as server:
            _, writer = await server.connect()
            (tls,) = [found for found in gc.get_objects() if isinstance(found, ServerTls)]
            assert len(tls.get_buffer(-1)) == 16 * 1024
            writer.transport.abort()

    run(scenario())


@SECURITY
@pytest.mark.parametrize("sent", [b"", b"GET / HT", GET[:-2]])
def test_who_does_not_come_to_a_request_is_sent_away(secure: bool, sent: bytes) -> None:
    async def scenario() -> None:
        async with served(secure, first_request_seconds=0.1) as server:
            reader, writer = await server.connect()
            writer.write(sent)
            with _reset_is_an_end():
                assert await reader.read() == b""
            await server.until_there_are(0)
            writer.transport.abort()

    run(scenario())


def test_a_body_that_does_not_come_ends_its_connection() -> None:
    async def read_it(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=await request.read())

    async def scenario() -> None:
        async with served(handler=read_it, body_seconds=0.1) as server:
            reader, writer = await server.connect()
            writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc")
            with _reset_is_an_end():
                assert await reader.read() == b""
            await server.until_there_are(0)
            writer.transport.abort()

    run(scenario())


@SECURITY
def test_who_does_not_read_is_given_up_by_the_kernel(secure: bool) -> None:
    ended = asyncio.Event()

    async def endless(request: web.BaseRequest) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        try:
            while True:
                await answer.write(bytes(1 << 16))
        finally:
            ended.set()

    async def scenario() -> None:
        async with served(secure, handler=endless, unread_seconds=0.5) as server:
            reader, writer = await server.connect()
            writer.write(GET)
            writer.transport.pause_reading()
            await ended.wait()
            await server.until_there_are(0)
            writer.transport.abort()
            del reader

    run(scenario())


def test_requests_sent_ahead_are_not_taken_without_limit() -> None:
    over = asyncio.Event()

    async def slow(_: web.BaseRequest) -> web.StreamResponse:
        await over.wait()
        return web.Response(text="done")

    async def scenario() -> None:
        async with served(handler=slow) as server:
            _, writer = await server.connect()
            for _ in range(2000):
                writer.write(GET * 500)
                await asyncio.sleep(0)
            (protocol,) = server.http.acceptor._by_protocol
            assert len(protocol._messages) < 2000  # type: ignore[attr-defined]
            assert writer.transport.get_write_buffer_size() > 0
            writer.transport.abort()
            over.set()

    run(scenario())


def test_new_certificates_are_for_connections_to_come() -> None:
    async def scenario() -> None:
        async with served(secure=True) as server:
            reader, writer = await server.connect()
            server.http.use(_context.__wrapped__())
            writer.write(GET)
            assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
            assert await server.get() == b"HTTP/1.1 200 OK\r\n"
            writer.transport.abort()

    run(scenario())


def test_a_flood_is_one_log_line_a_second(caplog: pytest.LogCaptureFixture) -> None:
    throttle = LogThrottle(logging.getLogger("test"), logging.ERROR)
    for _ in range(1000):
        throttle("accept failed: %s", "Too many open files")
    assert len(caplog.messages) < 10
    throttle._next = 0.0
    throttle("accept failed: %s", "Too many open files")
    assert "times since the last such line" in caplog.messages[-1]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("10.0.0.1", "::ffff:10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("fd00:1:2:3::1", "fd00:1:2:3:ffff::9", True),
        ("fd00:1:2:3::1", "fd00:1:2:4::1", False),
        ("fe80::1%lo", "fe80::1", True),
    ],
)
def test_an_ipv6_network_counts_as_one_address(one: str, other: str, same: bool) -> None:
    assert (_origin(one) == _origin(other)) is same


def _reset_is_an_end() -> contextlib.AbstractContextManager[None]:
    return contextlib.suppress(ConnectionError)
