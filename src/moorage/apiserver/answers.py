"""HTTP responses: bytes and status codes, large lists in pieces."""

from collections.abc import Iterable

from aiohttp import web

from moorage.apiserver.negotiation import JSON
from moorage.apiserver.statuses import ApiStatusError, Json
from moorage.apiserver.storage import encode

_HEADERS = {"Content-Type": JSON, "Cache-Control": "no-cache, private"}
_PIECE = 256 * 1024


def answer(data: bytes, code: int = 200) -> web.Response:
    """An object that is encoded already."""
    return web.Response(body=data, status=code, headers=_HEADERS)


def answer_json(value: Json, code: int = 200) -> web.Response:
    """An object that is not encoded yet."""
    return web.Response(body=encode(value), status=code, headers=_HEADERS)


def answer_text(text: str) -> web.Response:
    """Plain text, as the health endpoints answer."""
    return web.Response(text=text)


def answer_error(error: ApiStatusError) -> web.Response:
    """A refusal."""
    headers = dict(_HEADERS)
    if error.retry_after is not None:
        headers["Retry-After"] = str(error.retry_after)
    return web.Response(body=encode(error.status()), status=error.code, headers=headers)


async def answer_parts(request: web.BaseRequest, parts: Iterable[bytes]) -> web.StreamResponse:
    """A long answer; nothing larger than a piece is ever copied, and others run in between."""
    pieces = list(parts)
    size = sum(map(len, pieces))
    if size <= _PIECE:
        return answer(b"".join(pieces))
    response = web.StreamResponse(headers=_HEADERS)
    response.content_length = size
    await response.prepare(request)
    batch: list[bytes] = []
    pending = 0
    for piece in pieces:
        batch.append(piece)
        pending += len(piece)
        if pending >= _PIECE:
            await response.write(b"".join(batch))
            batch.clear()
            pending = 0
    if batch:
        await response.write(b"".join(batch))
    await response.write_eof()
    return response
