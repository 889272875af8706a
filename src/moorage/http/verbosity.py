"""/debug/flags: which flags can be changed while the process runs, and changing the one there is.

Owns the texts; setting the verbosity is the caller's business.
"""

import asyncio
from collections.abc import Callable

from aiohttp import web

from moorage.config.field_errors import quoted
from moorage.http.answers import text_answer
from moorage.http.endpoints import Handler

_BODY_SECONDS = 32.0
_LARGEST = 2**31 - 1
_INDEX = """<html>
<head>
<title>/debug/flags/</title>
</head>
<body>
/debug/flags/<br>
<br>
flags:<br>
<table>
<tr>v<br>
</table>
<br>
full flags configurable<br>
</body>
</html>
"""


async def index(_: web.Request) -> web.Response:
    """The list of flags."""
    return text_answer(_INDEX, content_type="text/html; charset=utf-8", sniff=True)


def set_verbosity(apply: Callable[[int], None]) -> Handler:
    """PUT with a number sets the log verbosity."""

    async def handle(request: web.Request) -> web.Response:
        if request.method != "PUT":
            return _said("unsupported http method", 406)
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                text = await request.text()
        except (TimeoutError, UnicodeDecodeError) as error:
            return _said(f"error reading request body: {error or 'timeout'}", 400)
        if not (text.isascii() and text.isdigit()):
            return _said(f"strconv.ParseUint: parsing {quoted(text)}: invalid syntax", 400)
        if int(text) > _LARGEST:
            return _said(f"strconv.ParseUint: parsing {quoted(text)}: value out of range", 400)
        apply(int(text))
        return _said(f"successfully set klog.logging.verbosity to {text}", 200)

    return handle


def _said(text: str, status: int) -> web.Response:
    return text_answer(text + "\n", status, content_type="text/plain")
