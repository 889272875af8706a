"""/metrics, /metrics/resources and /metrics/slis: pages made elsewhere, sent as scrapers want them.

Owns resetting by DELETE, compression and the header with the process's start. Knows no metric.
"""

import asyncio
import gzip
from collections.abc import Callable

from aiohttp import web

from moorage.http.answers import text_answer
from moorage.http.endpoints import Endpoints, Handler, Page

_WORTH_A_THREAD = 1 << 16
_LEVEL = 5


def metric_routes(endpoints: Endpoints) -> dict[str, Handler]:
    """Handlers by path."""
    pages: dict[str, tuple[Callable[[str], Page | None], Callable[[], None]]] = {
        "/metrics": (endpoints.metrics, endpoints.reset_metrics),
        "/metrics/resources": (endpoints.resources, endpoints.reset_resources),
        "/metrics/slis": (endpoints.slis, endpoints.reset_slis),
    }
    started = endpoints.process_started
    return {path: _page(*parts, started) for path, parts in pages.items()}


def _page(
    page: Callable[[str], Page | None], reset: Callable[[], None], started: float | None
) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        made = page(request.headers.get("Accept", ""))
        if made is None:  # another instance leads: nothing to show, and nothing to reset
            return text_answer("", sniff=True)
        if request.method == "DELETE":
            reset()
            return text_answer("metrics reset\n", sniff=True)
        content_type, body = made
        headers = {"Content-Type": content_type}
        if started is not None:
            headers["Process-Start-Time-Unix"] = str(int(started))
        if accepts_gzip(request.headers.get("Accept-Encoding", "")):
            headers["Content-Encoding"] = "gzip"
            body = await _compressed(body)
        return web.Response(body=body, headers=headers)

    return handle


def accepts_gzip(header: str) -> bool:
    """Does an Accept-Encoding header name gzip, and not only to refuse it?"""
    for text in header.split(","):
        name, *params = (part.strip().lower() for part in text.split(";"))
        if name in ("gzip", "x-gzip"):
            return not any(param.replace(" ", "").rstrip("0.") == "q=" for param in params)
    return False


async def _compressed(body: bytes) -> bytes:
    if len(body) < _WORTH_A_THREAD:
        return gzip.compress(body, _LEVEL)
    # The scheduling loop shares the event loop: a large page must not hold it up.
    return await asyncio.to_thread(gzip.compress, body, _LEVEL)
