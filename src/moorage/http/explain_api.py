"""/explain/v1: what a scheduler can tell of its pods, nodes and decisions, as JSON.

Owns paths, parameters, paging and which answer an error gets. What is told comes from
`kube.explainer`; who may ask was decided before a request comes here.
"""

import asyncio
import gzip
from collections.abc import Sequence

import msgspec
from aiohttp import web

from moorage.config.field_errors import quoted
from moorage.errors import InputError
from moorage.http.answers import NO_SNIFF, failure
from moorage.http.decision_stream import decision_stream
from moorage.http.endpoints import Route
from moorage.http.metric_pages import accepts_gzip
from moorage.http.parameters import NOT_CONTINUED, BadParameterError, Parameters, token
from moorage.kube.explainer import Explainer, NotReadyError, UnknownError

ROOT = "/explain/v1"
HEADERS = {**NO_SNIFF, "Cache-Control": "no-store"}
_JSON = {**HEADERS, "Content-Type": "application/json"}
_MOST_LINES = 10_000
_MOST_SCORES = 1000
_MOST_NAMED = 100
_MOST_DIGITS = 18
_MOST_NUMBER = 10**_MOST_DIGITS
_WORTH_A_THREAD = 1 << 16
_LEVEL = 3
_MATRIX = ("matrix", "offset", "limit")


def explain_routes(explainer: Explainer) -> Sequence[Route]:
    """The whole API, to be mounted where those who may ask come from."""
    return (Route(ROOT, _Api(explainer).handle, prefix=True, listed=False),)


class _Api:
    """Leads a request to what it asks for."""

    def __init__(self, explainer: Explainer) -> None:
        self._explainer = explainer

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer whatever is asked below the root."""
        if request.method != "GET":
            return _refusal(request, 405, "MethodNotAllowed", "only GET is served here")
        try:
            return await self._answer(request)
        except BadParameterError as error:
            return _refusal(request, 400, "BadRequest", str(error))
        except (UnknownError, InputError) as error:
            return _refusal(request, 404, "NotFound", str(error))
        except NotReadyError as error:
            return _refusal(request, 503, "ServiceUnavailable", str(error))

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        path = request.path.removeprefix(ROOT).strip("/")
        match path.split("/"):
            case ["pods"]:
                return await self._pods(request)
            case ["pods", namespace, name]:
                return await self._pod(request, namespace, name)
            case ["nodes"]:
                return await self._nodes(request)
            case ["nodes", name]:
                Parameters(request)
                return await _json(request, await self._explainer.node(name))
            case ["decisions"]:
                return await self._decisions(request)
            case ["decisions", "stream"]:
                Parameters(request)
                return await decision_stream(request, self._explainer)
            case ["decisions", number]:
                return await self._decision(request, number)
            case ["stats"]:
                Parameters(request)
                return await _json(request, self._explainer.stats())
            case ["config"]:
                Parameters(request)
                return await _json(request, self._explainer.settings())
        raise UnknownError(f"there is nothing at {quoted(request.path)}")

    async def _pods(self, request: web.Request) -> web.StreamResponse:
        asked = Parameters(request, "state", "limit", "continue")
        page, last = await self._explainer.pods(
            pending=asked.choice("state", ("pending", "all")) == "pending",
            limit=asked.number("limit", 100, 1, _MOST_LINES),
            after=asked.continued("pods"),
        )
        return await _json(request, msgspec.structs.replace(page, continue_=token("pods", last)))

    async def _pod(self, request: web.Request, namespace: str, name: str) -> web.StreamResponse:
        asked = Parameters(request, "node", "top", "fixes", *_MATRIX)
        matrix = _matrix(asked)
        found = await self._explainer.pod(
            namespace,
            name,
            nodes=asked.texts("node", _MOST_NAMED),
            top=asked.number("top", 10, 0, _MOST_SCORES),
            # Whoever turns the pages of a matrix has seen the fixes.
            fixes=asked.switch("fixes", matrix is None or not matrix[0]),
            matrix=matrix,
        )
        return await _json(request, found)

    async def _nodes(self, request: web.Request) -> web.StreamResponse:
        asked = Parameters(request, "limit", "continue")
        page, last = await self._explainer.nodes(
            limit=asked.number("limit", _MOST_LINES, 1, _MOST_LINES),
            after=asked.continued("nodes"),
        )
        return await _json(request, msgspec.structs.replace(page, continue_=token("nodes", last)))

    async def _decisions(self, request: web.Request) -> web.StreamResponse:
        asked = Parameters(request, "limit", "before", "pod", "continue")
        before = asked.number("before", 0, 0, _MOST_NUMBER) or None
        if place := asked.continued("decisions"):
            before = _number(place)
            if before is None:
                raise BadParameterError(NOT_CONTINUED)
        pod = asked.text("pod")
        if pod and (pod.count("/") != 1 or not all(pod.split("/"))):
            raise BadParameterError(f"parameter pod is {quoted(pod)}, expected namespace/name")
        page, last = await self._explainer.decisions(
            before=before, limit=asked.number("limit", 100, 1, _MOST_LINES), pod=pod or None
        )
        more = token("decisions", "" if last is None else str(last))
        return await _json(request, msgspec.structs.replace(page, continue_=more))

    async def _decision(self, request: web.Request, number: str) -> web.StreamResponse:
        asked = Parameters(request, "top", *_MATRIX)
        which = _number(number)
        if which is None:
            raise UnknownError(f"there is no decision {quoted(number)}: decisions have numbers")
        found = await self._explainer.decision(
            which, top=asked.number("top", 10, 0, _MOST_SCORES), matrix=_matrix(asked)
        )
        return await _json(request, found)


def _number(text: str) -> int | None:
    """The number of a decision; None if it cannot be one."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None


def _matrix(asked: Parameters) -> tuple[int, int] | None:
    offset = asked.number("offset", 0, 0, _MOST_NUMBER)
    limit = asked.number("limit", 100, 1, _MOST_LINES)
    return (offset, limit) if asked.switch("matrix", False) else None


async def _json(request: web.Request, told: msgspec.Struct) -> web.Response:
    body = msgspec.json.encode(told)
    if request.query.get("pretty") in ("true", "1"):
        body = msgspec.json.format(body, indent=2) + b"\n"
    headers = dict(_JSON)
    if len(body) > _WORTH_A_THREAD and accepts_gzip(request.headers.get("Accept-Encoding", "")):
        # The scheduling loop shares the event loop: a large page must not hold it up.
        body = await asyncio.to_thread(gzip.compress, body, _LEVEL)
        headers["Content-Encoding"] = "gzip"
    return web.Response(body=body, headers=headers)


def _refusal(request: web.Request, code: int, reason: str, message: str) -> web.Response:
    headers = {**HEADERS, "Allow": "GET"} if code == 405 else HEADERS
    return failure(request, code, reason, message, headers=headers)
