"""A TCP proxy between schedulers and API server that cuts, delays and refuses on demand.

Looks at no bytes, except that a refusing proxy answers each new connection's first request itself.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress

_CHUNK = 65536
_END_SECONDS = 5.0
_ANSWERS = {
    429: b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\n",
    500: b"HTTP/1.1 500 Internal Server Error\r\n",
    503: b"HTTP/1.1 503 Service Unavailable\r\n",
}


class Proxy:
    """Forwards a port of loopback to the API server's."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.delay = 0.0
        """Seconds that every piece of data waits."""
        self.refuse = 0
        """An HTTP status that new connections get instead of an answer."""
        self.port = 0

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close everything."""
        if self._server is not None:
            self._server.close()
        self.cut()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_END_SECONDS)

    def cut(self) -> int:
        """Break all connections without a farewell; answers how many sockets that were."""
        for writer in self._writers:
            writer.transport.abort()
        return len(self._writers)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "the stream server runs this as a task"
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._writers.add(writer)
        try:
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                if self.refuse:
                    await self._answer(reader, writer)
                else:
                    await self._forward(reader, writer)
        finally:
            self._drop([writer])

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = _ANSWERS[self.refuse]
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head + b"Content-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        self._writers.add(back)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._copy(reader, back))
                group.create_task(self._copy(there, writer))
        finally:
            self._drop([back])

    async def _copy(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(_CHUNK):
                if self.delay:
                    await asyncio.sleep(self.delay)
                target.write(data)
                await target.drain()
        except OSError:
            pass
        finally:
            target.close()

    def _drop(self, writers: Iterable[asyncio.StreamWriter]) -> None:
        for writer in writers:
            self._writers.discard(writer)
            writer.close()
