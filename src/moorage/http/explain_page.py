"""/explain/: the page that shows what a scheduler does, and its assets.

Owns which files the page is made of and the headers that keep it to itself: nothing is loaded from
another host, nothing inline is run. The files are in `page/`, the chart library in the package
plotly. They show nothing of a cluster, so anybody may have them; what they show comes from
/explain/v1, which is guarded.
"""

import asyncio
import gzip
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from aiohttp import web

from moorage.http.answers import NO_SNIFF, error_text
from moorage.http.endpoints import Route
from moorage.http.options import EXPLAIN_ASSETS, EXPLAIN_PAGE
from moorage.http.pages import accepts_gzip

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        # Plotly draws some of its marks as images that it makes itself.
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        # Text becomes markup or a script nowhere, whatever a mistake in the page would try.
        "require-trusted-types-for 'script'",
    )
)
_HEADERS = {
    **NO_SNIFF,
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
}
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_INDEX = "index.html"
_LIBRARY = "plotly.min.js"
NO_CHARTS = (
    "Charts are not drawn: the Python package plotly is not installed where the scheduler runs "
    "(pip install 'moorage[page]')."
)
_NO_LIBRARY = f'export const missing = "{NO_CHARTS}";\n'.encode()
"""In the place of the library: `charts.js` shows the sentence where a chart would be."""
_PLACE = b"<!-- plotly's styles -->"
_STYLED = re.compile(rb'getElementById\("([0-9a-f]{64})"\)')
"""An element with this id makes Plotly believe that it has added the style of its maps already."""
_LEVEL = 6
_PIECE = 1 << 16
PATIENCE_SECONDS = 30.0
"""How long a client may leave unread what was sent to it."""


def chart_library() -> Path | None:
    """The file of the chart library, if it is installed.

    The package is looked up but not imported, which would take a second.
    """
    spec = find_spec("plotly")
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        path = Path(place, "package_data", _LIBRARY)
        if path.is_file():
            return path
    return None


def page_routes() -> Sequence[Route]:
    """The page and its assets."""
    assets = _assets()

    async def index(request: web.Request) -> web.StreamResponse:
        return await _answer(request, assets[_INDEX])

    async def asset(request: web.Request) -> web.StreamResponse:
        found = assets.get(request.path.removeprefix(f"{EXPLAIN_ASSETS}/"))
        if found is None:
            return error_text("404 page not found", 404)
        return await _answer(request, found)

    return (
        Route(EXPLAIN_PAGE.rstrip("/"), _to_the_page, listed=False),
        Route(EXPLAIN_PAGE, index, listed=False),
        Route(EXPLAIN_ASSETS, asset, prefix=True, listed=False),
    )


async def _to_the_page(request: web.Request) -> web.StreamResponse:
    del request
    # Relative, since the browser may know this server by another name.
    return web.Response(status=308, headers={**_HEADERS, "Location": EXPLAIN_PAGE})


class _Asset:
    """One file, read when it is first asked for."""

    def __init__(self, name: str, read: Callable[[], bytes]) -> None:
        self.content_type = _TYPES[Path(name).suffix]
        self._read = read

    @cached_property
    def body(self) -> bytes:
        return self._read()

    @cached_property
    def packed(self) -> bytes:
        return gzip.compress(self.body, _LEVEL, mtime=0)

    @cached_property
    def tag(self) -> str:
        """An ETag: the same for the same content."""
        return f'"{hashlib.sha256(self.body).hexdigest()[:32]}"'


async def _answer(request: web.Request, asset: _Asset) -> web.StreamResponse:
    if request.method not in ("GET", "HEAD"):
        return error_text("405 method not allowed", 405)
    # Reading, hashing and packing the chart library takes a noticeable time, and the scheduler
    # shares this thread.
    tag = await asyncio.to_thread(lambda: asset.tag)
    headers = {**_HEADERS, "Vary": "Accept-Encoding", "ETag": tag, "Cache-Control": "no-cache"}
    if tag in request.headers.get("If-None-Match", ""):
        return web.Response(status=304, headers=headers)
    headers["Content-Type"] = asset.content_type
    if accepts_gzip(request.headers.get("Accept-Encoding", "")):
        headers["Content-Encoding"] = "gzip"
        body = await asyncio.to_thread(lambda: asset.packed)
    else:
        body = asset.body
    if request.method == "HEAD" or len(body) <= _PIECE:
        return web.Response(body=body, headers=headers)
    return await _in_pieces(request, body, headers)


async def _in_pieces(
    request: web.Request, body: bytes, headers: Mapping[str, str]
) -> web.StreamResponse:
    """Send a large file at the client's pace.

    Anybody may ask, so a client that does not read must cost neither the file's size nor a
    connection for ever.
    """
    answer = web.StreamResponse(headers=headers)
    answer.content_length = len(body)
    rest = memoryview(body)
    try:
        if request.transport is not None:  # the default is half a megabyte
            request.transport.set_write_buffer_limits(_PIECE)
        await answer.prepare(request)
        for start in range(0, len(body), _PIECE):
            async with asyncio.timeout(PATIENCE_SECONDS):
                await answer.write(rest[start : start + _PIECE])
        async with asyncio.timeout(PATIENCE_SECONDS):
            await answer.write_eof()
    except (ConnectionError, TimeoutError):
        if request.transport is not None:
            request.transport.abort()
    return answer


def _assets() -> Mapping[str, _Asset]:
    folder = files("moorage.http").joinpath("page")
    found = {
        file.name: _Asset(file.name, file.read_bytes)
        for file in folder.iterdir()
        if Path(file.name).suffix in _TYPES
    }
    index, path = folder.joinpath(_INDEX), chart_library()
    library: Callable[[], bytes] = path.read_bytes if path is not None else lambda: _NO_LIBRARY
    return found | {
        _LIBRARY: _Asset(_LIBRARY, library),
        _INDEX: _Asset(_INDEX, lambda: _index(index.read_bytes(), library())),
    }


def _index(page: bytes, library: bytes) -> bytes:
    """The page, with elements that keep Plotly from inline styles, which the policy forbids."""
    made = [b'<template id="%b"></template>' % found for found in set(_STYLED.findall(library))]
    return page.replace(_PLACE, b"".join(sorted(made)))
