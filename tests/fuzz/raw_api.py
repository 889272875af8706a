"""An API server that sends whatever bytes it is given: lists, watches and answers to writes.

Serves every collection that a scheduler follows. Checks nothing, so that objects arrive as no real
API server would let them through.
"""

import asyncio
import contextlib
import json
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

from moorage.kube.resources import RESOURCES

_STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
_END = (
    b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1",'
    b'"annotations":{"k8s.io/initial-events-end":"true"}}}}\n'
)
KIND_AT = {resource.collection(): kind for kind, resource in RESOURCES.items()}


def chunk(data: bytes) -> bytes:
    """A piece of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(sort: str, obj: bytes) -> bytes:
    """A line of a watch; the object stands in it as it is."""
    return b'{"type":"%s","object":%s}\n' % (sort.encode(), obj.replace(b"\n", b" "))


class RawApi:
    """Listens on loopback; `push` sends to all who watch a kind."""

    def __init__(self) -> None:
        self.initial: dict[str, list[bytes]] = {}
        """Objects that a watch begins with, by kind."""
        self.answers: list[bytes] = []
        """What the next connections are sent instead of an answer."""
        self.on_write: Callable[[str, str, bytes], None] = lambda *_: None
        """Told of every write: method, path, body."""
        self._watches: dict[str, list[asyncio.StreamWriter]] = {}
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.url = ""

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        """Close everything."""
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def push(self, kind: str, line: bytes) -> None:
        """Send a line to all who watch the kind."""
        for writer in self._watches.get(kind, []):
            writer.write(chunk(line))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while await self._one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        method, path, _ = head.split(b"\r\n", 1)[0].decode().split(" ", 2)
        lowered = head.lower()
        at = lowered.find(b"content-length:")
        size = int(lowered[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
        body = await reader.readexactly(size) if size else b""
        if self.answers:
            writer.write(self.answers.pop(0))
            await writer.drain()
            return False
        parts = urlsplit(path)
        kind = KIND_AT.get(parts.path, "")
        if method == "GET" and kind:
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            if query.get("watch") == "true":
                await self._watch(kind, "sendInitialEvents" in query, reader, writer)
                return False
            items = b",".join(self.initial.get(kind, []))
            text = b'{"metadata":{"resourceVersion":"1"},"items":[%s]}' % items
        else:
            text = b'{"kind":"Status","apiVersion":"v1","status":"Success"}'
            if method != "GET":
                self.on_write(method, parts.path, body)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))
        await writer.drain()
        return True

    async def _watch(
        self,
        kind: str,
        initial: bool,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        writer.write(_STREAM)
        if initial:
            for obj in self.initial.get(kind, []):
                writer.write(chunk(event("ADDED", obj)))
            writer.write(chunk(_END))
        watches = self._watches.setdefault(kind, [])
        watches.append(writer)
        try:
            await reader.read(1)  # until the client goes
        finally:
            watches.remove(writer)


def deleted(namespace: str, name: str) -> bytes:
    """A line that says that an object is gone."""
    metadata = {"name": name, "namespace": namespace, "resourceVersion": "1"}
    return event("DELETED", json.dumps({"metadata": metadata}).encode())
