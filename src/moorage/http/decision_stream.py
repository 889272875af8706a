"""/explain/v1/decisions/stream: decisions as they are made, as server-sent events.

Owns the form of the stream and its end: a client that does not read is let go, and all are when the
process ends. Nothing is kept for a client but its place in the feed (`kube.decision_feed`).
"""

import asyncio
import time
from collections.abc import Iterable

import msgspec
from aiohttp import web

from moorage.config.field_errors import quoted
from moorage.explain.report import DecisionSummary
from moorage.http.answers import NO_SNIFF
from moorage.http.parameters import BadParameterError
from moorage.kube.decision_feed import Follower, TooSlowError
from moorage.kube.explainer import Explainer

HEARTBEAT_SECONDS = 15.0
PATIENCE_SECONDS = 30.0
"""How long a client may leave unread what was sent to it."""
LONGEST_SECONDS = 1800.0
"""After that the client has to come back, and is asked again who it is."""
MOST_AT_ONCE = 256
_HEADERS = {
    **NO_SNIFF,
    "Cache-Control": "no-store",
    "Content-Type": "text/event-stream",
    "X-Accel-Buffering": "no",
}
_BEGINNING = b"retry: 2000\n: decisions as they are made\n\n"
_HEARTBEAT = b": nothing new\n\n"
_TOO_SLOW = b": decisions were made faster than they were read; come back for the rest\n\n"


async def decision_stream(request: web.Request, explainer: Explainer) -> web.StreamResponse:
    """Tell decisions until the client goes or falls behind, or the process ends."""
    follower, missed = await explainer.follow(_last_seen(request))
    try:
        answer = web.StreamResponse(headers=_HEADERS)
        answer.force_close()
        await answer.prepare(request)
        stream = _Stream(request, answer, follower)
        await stream.send(_BEGINNING + _events(missed))
        await stream.run()
    except (ConnectionError, TimeoutError):
        # It went, or does not read: nothing more can be said to it.
        if request.transport is not None:
            request.transport.abort()
    finally:
        follower.leave()
    return answer


class _Stream:
    """One client's stream."""

    def __init__(
        self, request: web.Request, answer: web.StreamResponse, follower: Follower
    ) -> None:
        self._request = request
        self._answer = answer
        self._follower = follower
        self._sending = False
        follower.when_closed(self._cut)

    async def run(self) -> None:
        """Send what comes, and a sign of life where nothing does."""
        until = time.monotonic() + LONGEST_SECONDS
        while not self._follower.closed and time.monotonic() < until:
            try:
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    await self._follower.news.wait()
            except TimeoutError:
                await self.send(_HEARTBEAT)
                continue
            try:
                news = self._follower.take(MOST_AT_ONCE)
            except TooSlowError:
                await self.send(_TOO_SLOW)
                return
            if news:
                await self.send(_events(news))

    async def send(self, data: bytes) -> None:
        """Send, and wait until the client has taken most of what was sent before."""
        self._sending = True
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self._answer.write(data)
        finally:
            self._sending = False

    def _cut(self) -> None:
        """The process ends: who does not read must not hold it up."""
        if self._sending and self._request.transport is not None:
            self._request.transport.abort()


def _events(summaries: Iterable[DecisionSummary]) -> bytes:
    return b"".join(
        b"id: %d\nevent: decision\ndata: %b\n\n" % (summary.number, msgspec.json.encode(summary))
        for summary in summaries
    )


def _last_seen(request: web.Request) -> int | None:
    text = request.headers.get("Last-Event-ID", "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise BadParameterError(
            f"header Last-Event-ID is {quoted(text)}, expected the number of a decision"
        )
    return int(text)
