"""HTTP requests, and what comes before and after `verbs`: who may ask, bodies, faults, watches.

Every refusal becomes a Status. Routing is a look-up, because the hot requests (bindings, status
patches) must not pay for a general router.
"""

import logging

from aiohttp import web
from aiohttp.http_exceptions import BadHttpMessage

from moorage.apiserver.authentication import Authentication
from moorage.apiserver.browsers import is_cross_origin, is_from_browser, names_this_machine
from moorage.apiserver.discovery import answer_plain, is_public
from moorage.apiserver.errors import (
    ApiStatusError,
    bad_request,
    cross_origin,
    method_not_allowed,
    misdirected,
    too_many_bytes,
)
from moorage.apiserver.faults import Fault, Faults
from moorage.apiserver.requests import parse_target, split_path
from moorage.apiserver.responses import answer_error, answer_parts
from moorage.apiserver.storage import Storage
from moorage.apiserver.verbs import METHODS, ResourceCall, Verbs
from moorage.apiserver.watching import Watches

_log = logging.getLogger(__name__)


class Handlers:
    """Answers every request of the server."""

    def __init__(
        self,
        store: Storage,
        verbs: Verbs,
        watches: Watches,
        authentication: Authentication,
        faults: Faults,
    ) -> None:
        self._store = store
        self._verbs = verbs
        self._watches = watches
        self._authentication = authentication
        self._faults = faults
        self.is_local = False
        """Is this only for programs on this machine, whoever they are?"""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request; every refusal becomes a Status."""
        try:
            return await self._answer(request)
        except ApiStatusError as error:
            return answer_error(error)
        except web.HTTPRequestEntityTooLarge:
            return answer_error(too_many_bytes())
        except BadHttpMessage as error:
            text = f"the body of the request cannot be read: {error.message}"
            return answer_error(bad_request(text))
        except Exception as error:  # the outermost guard: one bad request must not end the server
            _log.exception("%s %s", request.method, request.raw_path)
            message = f"Internal error occurred: {type(error).__name__}: {error}"
            return answer_error(ApiStatusError(500, "InternalError", message))

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        method, headers = request.method, request.headers
        path, query = split_path(request.raw_path)
        if self.is_local and not names_this_machine(headers.get("Host", "")):
            raise misdirected()
        if is_cross_origin(method, headers):
            raise cross_origin()
        if is_public(path):
            return answer_plain(path, request, self._store.table)
        user = self._authentication.user(headers.get("Authorization"))
        target = parse_target(path, self._store.table.by_plural)
        if target is None:
            return answer_plain(path, request, self._store.table)
        if method not in METHODS:
            raise method_not_allowed()
        fault = self._faults.pick(method, target)
        if fault is not None and not fault.after:
            return _struck(fault, request)
        reads = method in ("GET", "HEAD")
        body = b"" if reads else await request.read()
        content_type = headers.get("Content-Type", "")
        if not content_type and not is_from_browser(headers):
            content_type = "application/json"  # programs may leave it out, as Python's client does
        accept, agent = headers.get("Accept", ""), headers.get("User-Agent", "")
        call = ResourceCall(method, target, query, body, content_type, accept, user, agent)
        response: web.StreamResponse
        if call.watches:
            renderer = self._verbs.renderer(call)
            response = await self._watches.serve(request, target, query, call.selection, renderer)
        else:
            reply = self._verbs.answer(call)
            if not reads:
                await self._store.durable()
            response = await answer_parts(request, reply.parts, reply.code, reply.warnings)
        return response if fault is None else _struck(fault, request)


def _struck(fault: Fault, request: web.BaseRequest) -> web.Response:
    if fault.error is None:
        if request.transport is not None:
            request.transport.abort()
        return web.Response(status=500)
    return answer_error(fault.error)
