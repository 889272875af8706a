"""The client's connections: kept, limited, replaced when the server drops them, never confused."""

import asyncio
import errno
import gc
import json
import socket
import ssl
from collections.abc import Awaitable, Callable
from types import MethodType
from typing import Self
from weakref import ref

import pytest
import trustme

from kube.fake_api import JumpingTimer, run
from moorage.errors import ConnectError, KubeconfigError, UnreachableError
from moorage.kube import connection, connection_pool
from moorage.kube.access import Access, Pem
from moorage.kube.client import KubeClient
from moorage.kube.connection import ServerRoute, connect
from moorage.kube.connection_pool import ConnectionPool
from moorage.kube.request_limits import AdaptiveLimit
from moorage.kube.requests import Request

GET, POST = Request("GET", "/x"), Request("POST", "/x", body={"a": 1})
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"

Script = Callable[["Caller"], Awaitable[None]]


class Caller:
    """A connection as the server sees it."""

    def __init__(
        self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.number = number
        self._reader = reader
        self._writer = writer
        self.resumed = False

    async def request(self) -> tuple[str, bytes]:
        """The next request's first line and body."""
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = 0
        for line in head.split(b"\r\n"):
            if line.lower().startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        return head.split(b"\r\n")[0].decode(), await self._reader.readexactly(length)

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def gone(self) -> None:
        """Return when the client has hung up."""
        while await self._reader.read(1 << 16):
            pass


class ScriptedServer:
    """Plays a script on every connection, then closes it."""

    def __init__(self, script: Script, context: ssl.SSLContext | None = None) -> None:
        self.callers: list[Caller] = []
        self.requests: list[str] = []
        self._script = script
        self._context = context
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", 0, ssl=self._context, limit=1 << 24
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()

    @property
    def port(self) -> int:
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    @property
    def access(self) -> Access:
        scheme = "https" if self._context else "http"
        return Access(server=f"{scheme}://localhost:{self.port}", insecure=True)

    def client(self, **more: int | float) -> KubeClient:
        return KubeClient(
            self.access,
            qps=0,
            timer=JumpingTimer(),
            env={},
            timeout=more.get("timeout", 10.0),
            max_connections=int(more.get("max_connections", 100)),
        )

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        caller = Caller(len(self.callers), reader, writer)
        secure = writer.get_extra_info("ssl_object")
        caller.resumed = bool(secure is not None and secure.session_reused)
        self.callers.append(caller)
        try:
            await self._script(caller)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


async def _answering(caller: Caller) -> None:
    while True:
        await caller.request()
        await caller.send(OK)


def test_one_connection_serves_one_request_after_another() -> None:
    async def scenario() -> None:
        async with ScriptedServer(_answering) as server, server.client() as client:
            for _ in range(5):
                assert await client.send(POST) == b"{}"
            assert len(server.callers) == 1

    run(scenario())


def test_a_server_that_closes_idle_connections_is_called_anew() -> None:
    async def scenario() -> None:
        async def once(caller: Caller) -> None:
            await caller.request()
            await caller.send(OK)

        async with ScriptedServer(once) as server:
            route = ServerRoute(("localhost", server.port), "localhost")
            pool = ConnectionPool(route, AdaptiveLimit(JumpingTimer(), 10))
            for number in range(1, 4):
                _, body = await pool.exchange(b"POST /x HTTP/1.1\r\n\r\n", None, 5.0)
                assert body == b"{}"
                while pool.idle:
                    await asyncio.sleep(0)
                assert len(server.callers) == number
            pool.close()

    run(scenario())


def test_a_connection_that_ends_just_when_it_is_used_is_replaced_for_reading_only() -> None:
    async def scenario() -> None:
        async def faithless(caller: Caller) -> None:
            await caller.request()
            await caller.send(OK)
            if caller.number % 2 == 0:
                await caller.request()  # and not a word

        async with ScriptedServer(faithless) as server, server.client() as client:
            await client.send(GET)
            assert await client.send(GET) == b"{}"
            assert len(server.callers) == 2
        async with ScriptedServer(faithless) as server, server.client() as client:
            await client.send(GET)
            with pytest.raises(UnreachableError, match="closed the connection without an answer"):
                await client.send(POST)
            assert len(server.callers) == 1

    run(scenario())


def test_a_server_may_end_the_connection_with_its_answer() -> None:
    async def scenario() -> None:
        async def closing(caller: Caller) -> None:
            await caller.request()
            await caller.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{}")

        async with ScriptedServer(closing) as server, server.client() as client:
            for _ in range(3):
                assert await client.send(POST) == b"{}"
            assert len(server.callers) == 3

    run(scenario())


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", "in the middle of an answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", "in the middle of an answer"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "its answer is not HTTP/1.1"),
        (b"", "closed the connection without an answer"),
    ],
)
def test_a_broken_answer_is_one_sentence_and_may_have_been_acted_on(
    answer: bytes, complaint: str
) -> None:
    async def scenario() -> None:
        async def broken(caller: Caller) -> None:
            await caller.request()
            await caller.send(answer)

        async with ScriptedServer(broken) as server, server.client() as client:
            with pytest.raises(UnreachableError) as caught:
                await client.send(POST)
            assert complaint in str(caught.value)
            assert str(caught.value).startswith(f"the API server {server.access.server} cannot be")
            assert caught.value.maybe_applied

    run(scenario())


def test_an_answer_that_stops_in_the_middle_runs_into_the_time_out() -> None:
    async def scenario() -> None:
        async def stopping(caller: Caller) -> None:
            await caller.request()
            await caller.send(OK[:-1])
            await caller.gone()

        async with ScriptedServer(stopping) as server, server.client(timeout=0.05) as client:
            with pytest.raises(UnreachableError, match="no answer in time") as caught:
                await client.send(POST)
            assert caught.value.maybe_applied

    run(scenario())


def test_whoever_waits_too_long_for_a_connection_has_sent_nothing() -> None:
    async def scenario() -> None:
        async def silent(caller: Caller) -> None:
            await caller.gone()

        async with (
            ScriptedServer(silent) as server,
            server.client(timeout=10.0, max_connections=1) as client,
        ):
            first = asyncio.create_task(client.send(POST))
            await asyncio.sleep(0)
            with pytest.raises(UnreachableError, match="no answer in time") as caught:
                await client.send(Request("POST", "/y", timeout=0.02))
            assert not caught.value.maybe_applied
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)

    run(scenario())


def test_a_cancelled_request_takes_its_connection_with_it() -> None:
    async def scenario() -> None:
        async def first_silent(caller: Caller) -> None:
            await caller.request()
            if caller.number == 0:
                await caller.gone()
            else:
                await caller.send(OK)

        async with (
            ScriptedServer(first_silent) as server,
            server.client(max_connections=1) as client,
        ):
            task = asyncio.create_task(client.send(POST))
            while not server.callers:
                await asyncio.sleep(0)
            waiting = asyncio.create_task(client.send(POST))
            await asyncio.sleep(0)
            task.cancel()
            assert await waiting == b"{}", "the answer of another request would be wrong"
            assert len(server.callers) == 2

    run(scenario())


def test_requests_wait_their_turn_when_connections_are_few() -> None:
    async def scenario() -> None:
        order: list[int] = []

        async def echoing(caller: Caller) -> None:
            while True:
                _, body = await caller.request()
                order.append(json.loads(body)["n"])
                await caller.send(
                    b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
                )

        async with ScriptedServer(echoing) as server, server.client(max_connections=1) as client:
            asked = [Request("POST", "/x", body={"n": number}) for number in range(40)]
            answers = await asyncio.gather(*map(client.json, asked))
            assert [answer["n"] for answer in answers] == list(range(40))
            assert len(server.callers) == 1
            assert order == list(range(40)), "the first to ask is the first to be served"

    run(scenario())


def test_an_unused_connection_is_closed_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        monkeypatch.setattr(connection_pool, "IDLE_SECONDS", 0.01)
        gone = asyncio.Event()

        async def watching(caller: Caller) -> None:
            await caller.request()
            await caller.send(OK)
            await caller.gone()
            gone.set()

        async with ScriptedServer(watching) as server, server.client() as client:
            await client.send(POST)
            await gone.wait()
            gone.clear()
            await client.send(POST)
            assert len(server.callers) == 2

    run(scenario())


def test_closing_the_client_ends_what_is_under_way() -> None:
    async def scenario() -> None:
        async def silent(caller: Caller) -> None:
            await caller.request()
            await caller.gone()

        async with ScriptedServer(silent) as server, server.client() as client:
            task = asyncio.create_task(client.send(POST))
            while not server.callers:
                await asyncio.sleep(0)
            await client.close()
            with pytest.raises(UnreachableError, match="the client was closed"):
                await task

    run(scenario())


def _server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("localhost").configure_cert(context)
    return context


@pytest.mark.parametrize("secure", [False, True])
def test_large_requests_and_answers_arrive_whole(secure: bool) -> None:
    async def scenario() -> None:
        content = bytes(range(256)) * 20_000

        async def mirroring(caller: Caller) -> None:
            while True:
                _, body = await caller.request()
                await caller.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body))
                await caller.send(body)

        context = _server_context() if secure else None
        async with ScriptedServer(mirroring, context) as server, server.client() as client:
            for _ in range(2):
                answer = await client.send(Request("POST", "/x", body=content))
                assert answer == content
            assert len(server.callers) == 1

    run(scenario())


def test_the_second_connection_resumes_the_tls_session_of_the_first() -> None:
    async def scenario() -> None:
        async def once(caller: Caller) -> None:
            await caller.request()
            await caller.send(OK)
            await caller.request()
            await caller.send(OK.replace(b"200 OK", b"200 OK\r\nConnection: close"))

        async with ScriptedServer(once, _server_context()) as server, server.client() as client:
            for _ in range(4):
                await client.send(POST)
            assert [caller.resumed for caller in server.callers] == [False, True]

    run(scenario())


def test_a_stream_that_nobody_reads_makes_the_server_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        monkeypatch.setattr(connection, "STREAM_BUFFER", 1 << 16)
        chunk = b"%x\r\n" % (1 << 16) + b"x" * (1 << 16) + b"\r\n"
        sent = 0

        async def flooding(caller: Caller) -> None:
            nonlocal sent
            await caller.request()
            await caller.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            for _ in range(400):
                await caller.send(chunk)
                sent += 1
            await caller.send(b"0\r\n\r\n")

        async with (
            ScriptedServer(flooding) as server,
            server.client() as client,
            client.stream(GET) as read,
        ):
            before = -1
            while sent != before:  # until the server has filled every buffer on the way
                before = sent
                for _ in range(200):
                    await asyncio.sleep(0)
            assert sent < 400
            total = 0
            while piece := await read():
                total += len(piece)
            assert total == 400 << 16

    run(scenario())


def test_a_stream_that_is_left_hangs_up() -> None:
    async def scenario() -> None:
        gone = asyncio.Event()

        async def endless(caller: Caller) -> None:
            await caller.request()
            await caller.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
            await caller.gone()
            gone.set()

        async with ScriptedServer(endless) as server, server.client() as client:
            async with client.stream(GET) as read:
                assert await read() == b"a"
            await gone.wait()

    run(scenario())


def test_a_stream_ends_at_its_time_and_when_it_is_cut() -> None:
    async def scenario() -> None:
        async def cutting(caller: Caller) -> None:
            line, _ = await caller.request()
            await caller.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
            if "slow" in line:
                await caller.gone()

        async with ScriptedServer(cutting) as server, server.client() as client:
            for path, complaint in (("/cut", "in the middle of an answer"), ("/slow", "in time")):
                async with client.stream(Request("GET", path, timeout=0.1)) as read:
                    assert await read() == b"a"
                    with pytest.raises(UnreachableError, match=complaint):
                        await read()

    run(scenario())


def test_a_stream_that_is_cut_leaves_no_garbage() -> None:
    async def scenario() -> None:
        async def cutting(caller: Caller) -> None:
            await caller.request()
            await caller.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")

        async with ScriptedServer(cutting) as server, server.client() as client:
            async with client.stream(GET) as read:
                assert isinstance(read, MethodType)
                known = ref(read.__self__)
                assert await read() == b"a"
                with pytest.raises(UnreachableError):
                    await read()
            del read
            assert known() is None

    gc.disable()
    try:
        run(scenario())
    finally:
        gc.enable()


def test_a_token_with_a_line_break_is_refused_in_one_sentence() -> None:
    async def scenario() -> None:
        access = Access(server="http://localhost:1", token="a\r\nHost: evil")
        async with KubeClient(access, env={}) as client:
            with pytest.raises(KubeconfigError, match="'Authorization' holds what a header cannot"):
                await client.send(GET)

    run(scenario())


def test_a_server_that_speaks_no_tls_is_one_sentence() -> None:
    async def scenario() -> None:
        async def plain(caller: Caller) -> None:
            await caller.send(b"HTTP/1.0 400 Bad Request\r\n\r\n")

        async with ScriptedServer(plain) as server:
            url = server.access.server.replace("http:", "https:")
            access = Access(server=url, ca=Pem(), insecure=True)
            async with KubeClient(access, env={}, timer=JumpingTimer()) as client:
                with pytest.raises(
                    UnreachableError, match="cannot be reached: TLS failed"
                ) as caught:
                    await client.send(POST)
                assert not caught.value.maybe_applied

    run(scenario())


def test_an_address_that_does_not_answer_leaves_time_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        monkeypatch.setattr(connection, "ADDRESS_SECONDS", 0.01)
        loop = asyncio.get_running_loop()
        connecting = loop.sock_connect

        async def some_are_silent(sock: socket.socket, address: tuple[str, int]) -> None:
            if address[1] == 1:
                await asyncio.Event().wait()
            await connecting(sock, address)

        monkeypatch.setattr(loop, "sock_connect", some_are_silent)
        async with ScriptedServer(_answering) as server:
            silent, living = (
                (socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", port))
                for port in (1, server.port)
            )

            async def addresses(*_: object, **__: object) -> list[object]:
                return [silent, living]

            monkeypatch.setattr(loop, "getaddrinfo", addresses)
            async with server.client() as client:
                assert await client.send(POST) == b"{}"

    run(scenario())


def test_a_reset_while_the_socket_is_wrapped_is_told_as_such(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test() -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        context = ssl.create_default_context()

        def wrap_socket(*args: object, **options: object) -> ssl.SSLSocket:
            raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")

        monkeypatch.setattr(context, "wrap_socket", wrap_socket)
        try:
            with pytest.raises(ConnectError, match="connection reset by peer"):
                await connect(ServerRoute(listener.getsockname(), "localhost"), context, 5.0)
        finally:
            listener.close()

    asyncio.run(test())
