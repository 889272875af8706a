"""Watches: one task per client that reads history from its own position.

The object of a change is encoded once, when it is stored; a watch only joins bytes. A client that
reads slowly delays nobody: its task waits in its own write and falls out of history at worst.
Upstream: apiserver pkg/endpoints/handlers/watch.go, pkg/storage/cacher.
"""

import asyncio
from collections.abc import Iterable

from aiohttp import web

from moorage.apiserver.errors import ApiStatusError, Cause, invalid
from moorage.apiserver.history import ADDED, DELETED, MODIFIED, Stored, StoredChange
from moorage.apiserver.requests import JSON, Target, flag, number
from moorage.apiserver.responses import Renderer
from moorage.apiserver.selection import Selection
from moorage.apiserver.storage import Storage, encode

BOOKMARK_SECONDS = 60.0
_DEFAULT_TIMEOUT = 1800
_BATCH = 1000
_INITIAL_BATCH = 500
_TAIL = b"}\n"
_HEADS = {kind: b'{"type":"%s","object":' % kind.encode() for kind in (ADDED, MODIFIED, DELETED)}
_BOOKMARK = b'{"type":"BOOKMARK","object":'
_ERROR = b'{"type":"ERROR","object":'


class WatchOptions:
    """What a client asks of a watch."""

    def __init__(self, query: dict[str, str]) -> None:
        self.version = query.get("resourceVersion", "")
        self.bookmarks = flag(query, "allowWatchBookmarks")
        self.timeout = number(query, "timeoutSeconds") or _DEFAULT_TIMEOUT
        asked = query.get("sendInitialEvents")
        self.initial = None if asked is None else flag(query, "sendInitialEvents")
        self.start = number(query, "resourceVersion") or 0
        match = query.get("resourceVersionMatch", "")
        text = ""
        if self.initial is not None and match != "NotOlderThan":
            text = (
                "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            )
        elif self.initial is None and match:
            text = "Forbidden: resourceVersionMatch is forbidden for watch unless "
            text += "sendInitialEvents is provided"
        if text:
            cause = Cause("resourceVersionMatch", text, "FieldValueForbidden")
            raise invalid("ListOptions", "meta.k8s.io", "", [cause])

    @property
    def begins_with_state(self) -> bool:
        """Are existing objects sent first?"""
        if self.initial is not None:
            return self.initial
        return self.version in ("", "0")


class Watches:
    """Every open watch, so that they can be ended together."""

    def __init__(self, store: Storage, bookmark_seconds: float) -> None:
        self._store = store
        self._bookmark_seconds = bookmark_seconds
        self._open: dict[int, asyncio.Transport] = {}
        self._served = 0
        self._stopping = False

    @property
    def count(self) -> int:
        """How many watches are open."""
        return len(self._open)

    def cut(self) -> int:
        """Break all connections at once, without a farewell."""
        transports = list(self._open.values())
        for transport in transports:
            transport.abort()
        return len(transports)

    def stop(self) -> None:
        """End all watches in good order."""
        self._stopping = True
        for collection in self._store.collections.values():
            collection.history.wake_all()

    async def serve(
        self,
        request: web.BaseRequest,
        target: Target,
        query: dict[str, str],
        selection: Selection,
        renderer: Renderer,
    ) -> web.StreamResponse:
        """Stream changes until the time is up, the client goes or the server stops."""
        options = WatchOptions(query)
        response = web.StreamResponse(headers={"Content-Type": JSON, "Cache-Control": "no-cache"})
        try:
            stream = WatchStream(self._store, target, selection, renderer, options)
        except ApiStatusError as error:
            if error.code != 410:
                raise
            # As upstream: the watch begins, and its only event says why it is over.
            return web.Response(body=_error_line(error), headers=response.headers)
        response.enable_chunked_encoding()
        await response.prepare(request)
        self._served += 1
        number = self._served
        if request.transport is not None:
            self._open[number] = request.transport
        try:
            await self._pump(stream, response)
            await response.write_eof()
        except ConnectionError:
            pass  # the client has gone; there is nobody left to tell
        finally:
            self._open.pop(number, None)
        return response

    async def _pump(self, stream: "WatchStream", response: web.StreamResponse) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + stream.options.timeout
        next_bookmark = min(loop.time() + self._bookmark_seconds, end)
        with stream.history.listening() as wake:
            for chunk in stream.opening():
                await response.write(chunk)
            while not self._stopping and loop.time() < end:
                # Cleared before reading: a change during the write below wakes the next round.
                wake.clear()
                chunk = stream.next_chunk()
                if chunk:
                    await response.write(chunk)
                if stream.finished:
                    return
                if stream.behind:
                    # A steady flow of changes must not keep the loop from its other work.
                    await asyncio.sleep(0)
                    continue
                if loop.time() >= next_bookmark:
                    await response.write(stream.bookmark())
                    next_bookmark = min(loop.time() + self._bookmark_seconds, end)
                timer = loop.call_at(next_bookmark, wake.set)
                try:
                    await wake.wait()
                finally:
                    timer.cancel()


def _error_line(error: ApiStatusError) -> bytes:
    return b"".join((_ERROR, encode(error.status()), _TAIL))


class WatchStream:
    """The bytes of one watch."""

    def __init__(
        self,
        store: Storage,
        target: Target,
        selection: Selection,
        renderer: Renderer,
        options: WatchOptions,
    ) -> None:
        self.options = options
        self.finished = False
        self._store = store
        self._namespace = target.namespace
        self._selection = selection
        self._renderer = renderer
        collection = store.collection(target.resource.storage)
        self.history = collection.history
        self._initial: list[Stored] = []
        store.check_reached(options.start)
        if options.begins_with_state:
            within = self._namespace
            self._initial = collection.within(within) if within else collection.all()
            self._position = self.history.end
        elif options.initial is False and not options.start:
            self._position = self.history.end
        else:
            self._position = self.history.position_after(options.start)
        self._version = store.version

    @property
    def behind(self) -> bool:
        """Are there changes this watch has not read yet?"""
        return self._position < self.history.end

    def opening(self) -> Iterable[bytes]:
        """Existing objects as additions, and the mark that ends them."""
        parts: list[bytes] = []
        for index, stored in enumerate(self._initial):
            if self._selection.matches(stored):
                parts += (_HEADS[ADDED], self._renderer.one(stored), _TAIL)
            if index % _INITIAL_BATCH == _INITIAL_BATCH - 1:
                yield b"".join(parts)
                parts.clear()
        if self.options.initial and self.options.bookmarks:
            mark = self._renderer.bookmark(self._version, initial_events_end=True)
            parts += (_BOOKMARK, mark, _TAIL)
        if parts:
            yield b"".join(parts)
        self._initial = []

    def next_chunk(self) -> bytes:
        """The changes since the last chunk that the client wants to see."""
        try:
            changes = self.history.read(self._position, _BATCH)
        except ApiStatusError as error:
            self.finished = True
            return _error_line(error)
        self._position += len(changes)
        parts: list[bytes] = []
        for change in changes:
            if not self._namespace or change.last.namespace == self._namespace:
                self._append(parts, change)
        return b"".join(parts)

    def _append(self, parts: list[bytes], change: StoredChange) -> None:
        if not self._selection.everything:
            seen = self._as_seen(change)
            if seen is None:
                return
            change = seen
        parts += (_HEADS[change.type], self._renderer.one(change.stored), _TAIL)

    def _as_seen(self, change: StoredChange) -> StoredChange | None:
        """The change as a client sees it whose view holds only some objects."""
        previous, after = change.previous, change.after
        had = previous is not None and self._selection.matches(previous)
        has = after is not None and self._selection.matches(after)
        if not had and not has:
            return None
        if change.type != MODIFIED or had == has:
            return change
        if has:
            return StoredChange(ADDED, change.version, after, None)
        # It left the view: for this client it is gone, in the state it last saw.
        return StoredChange(DELETED, change.version, None, previous)

    def bookmark(self) -> bytes:
        """A sign of life that carries the version reached; nothing if not asked for."""
        if not self.options.bookmarks or self.behind:
            return b""
        return b"".join((_BOOKMARK, self._renderer.bookmark(self._store.version), _TAIL))
