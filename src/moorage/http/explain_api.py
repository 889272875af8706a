"""/explain/v1: pods, nodes and decisions of a scheduler as JSON, and decisions as they are made.

Owns paths, parameters, paging and which answer an error gets. The answers come from
`kube.explainer`; who may ask was decided before a request comes here. The stream of decisions is
made of server-sent events: a client that does not read is dropped, and all are when the process
ends. Nothing is stored for a client but its place in the feed (`kube.decision_feed`).
"""

import asyncio
import base64
import binascii
import gzip
import time
from collections.abc import Iterable, Sequence

import msgspec
from aiohttp import web

from moorage.config.field_errors import quoted
from moorage.errors import (
    BadParameterError,
    FollowerTooSlowError,
    InputError,
    NotReadyError,
    UnknownObjectError,
)
from moorage.explain.report import DecisionSummary
from moorage.http.answers import NO_SNIFF, failure
from moorage.http.endpoints import Route
from moorage.http.pages import accepts_gzip
from moorage.kube.decision_feed import Follower
from moorage.kube.explainer import Explainer

NOT_CONTINUED = "parameter continue is not what the page before gave"
_SWITCH = {"true": True, "1": True, "false": False, "0": False}
_ALWAYS = frozenset({"pretty"})
"""Of every request, as at an API server: the answer is to be indented."""
HEARTBEAT_SECONDS = 15.0
PATIENCE_SECONDS = 30.0
"""How long a client may leave unread what was sent to it."""
LONGEST_SECONDS = 1800.0
"""After that the client has to come back, and is asked again who it is."""
MOST_AT_ONCE = 256
_STREAM_HEADERS = {
    **NO_SNIFF,
    "Cache-Control": "no-store",
    "Content-Type": "text/event-stream",
    "X-Accel-Buffering": "no",
}
_BEGINNING = b"retry: 2000\n: decisions as they are made\n\n"
_HEARTBEAT = b": nothing new\n\n"
_TOO_SLOW = b": decisions were made faster than they were read; come back for the rest\n\n"
ROOT = "/explain/v1"
HEADERS = {**NO_SNIFF, "Cache-Control": "no-store"}
_JSON = {**HEADERS, "Content-Type": "application/json"}
_MOST_LINES = 10_000
_MOST_SCORES = 1000
_MOST_NAMED = 100
_MOST_POINTS = 1000
_MOST_DIGITS = 18
_MOST_NUMBER = 10**_MOST_DIGITS
_WORTH_A_THREAD = 1 << 16
_LEVEL = 3
_MATRIX = ("matrix", "offset", "limit")


class QueryParameters:
    """The parameters of one request."""

    def __init__(self, request: web.Request, *known: str) -> None:
        self._query = request.query
        for name in self._query:
            if name not in known and name not in _ALWAYS:
                expected = f"expected {_listed(known)}" if known else "there are none"
                raise BadParameterError(f"unknown parameter {quoted(name)}: {expected}")

    def text(self, name: str, default: str = "") -> str:
        values = self._query.getall(name, [])
        if len(values) > 1:
            raise BadParameterError(f"parameter {name} is given {len(values)} times")
        return values[0] if values else default

    def texts(self, name: str, most: int) -> Sequence[str]:
        """Texts, each given by a parameter of its own; none of them twice."""
        found = tuple(dict.fromkeys(self._query.getall(name, [])))
        if len(found) > most:
            raise BadParameterError(
                f"parameter {name} is given {len(found)} times, expected at most {most}"
            )
        return found

    def number(self, name: str, default: int, least: int, most: int) -> int:
        text = self.text(name)
        if not text:
            return default
        value = _number(text)
        if value is None or not least <= value <= most:
            raise BadParameterError(
                f"parameter {name} is {quoted(text)}, expected a number from {least} to {most}"
            )
        return value

    def switch(self, name: str, default: bool) -> bool:
        text = self.text(name)
        if not text:
            return default
        if text not in _SWITCH:
            raise BadParameterError(f"parameter {name} is {quoted(text)}, expected true or false")
        return _SWITCH[text]

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """One of some values, by default the first."""
        text = self.text(name, choices[0])
        if text not in choices:
            raise BadParameterError(
                f"parameter {name} is {quoted(text)}, expected {_listed(choices)}"
            )
        return text

    def continued(self, kind: str) -> str:
        """Where a page of this kind begins: what `token` was given; empty for the first page."""
        text = self.text("continue")
        if not text:
            return ""
        try:
            found = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
        except (binascii.Error, ValueError):
            found = ""
        name, colon, place = found.partition(":")
        if name != kind or not colon or not place:
            raise BadParameterError(NOT_CONTINUED)
        return place


def token(kind: str, place: str) -> str:
    """What continues a page of this kind after a place; empty for none."""
    if not place:
        return ""
    return base64.urlsafe_b64encode(f"{kind}:{place}".encode()).decode().rstrip("=")


def _listed(names: Sequence[str]) -> str:
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} or {names[-1]}"


async def decision_stream(request: web.Request, explainer: Explainer) -> web.StreamResponse:
    """Send decisions until the client goes or falls behind, or the process ends."""
    follower, missed = await explainer.follow(_last_seen(request))
    try:
        answer = web.StreamResponse(headers=_STREAM_HEADERS)
        answer.force_close()
        await answer.prepare(request)
        stream = _Stream(request, answer, follower)
        await stream.send(_BEGINNING + _events(missed))
        await stream.run()
    except (ConnectionError, TimeoutError):
        # It went, or does not read: nothing more can be sent to it.
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
                fresh = self._follower.take(MOST_AT_ONCE)
            except FollowerTooSlowError:
                await self.send(_TOO_SLOW)
                return
            if fresh:
                await self.send(_events(fresh))

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
    number = _number(text)
    if number is None:
        raise BadParameterError(
            f"header Last-Event-ID is {quoted(text)}, expected the number of a decision"
        )
    return number


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
            found = await self._answer(request)
            return await _json(request, found) if isinstance(found, msgspec.Struct) else found
        except BadParameterError as error:
            return _refusal(request, 400, "BadRequest", str(error))
        except (UnknownObjectError, InputError) as error:
            return _refusal(request, 404, "NotFound", str(error))
        except NotReadyError as error:
            return _refusal(request, 503, "ServiceUnavailable", str(error))

    async def _answer(self, request: web.Request) -> msgspec.Struct | web.StreamResponse:
        path = request.path.removeprefix(ROOT).strip("/")
        match path.split("/"):
            case ["pods"]:
                return await self._pods(request)
            case ["pods", namespace, name]:
                return await self._pod(request, namespace, name)
            case ["pods", namespace, name, "object"]:
                QueryParameters(request)
                return await self._explainer.known_pod(namespace, name)
            case ["nodes"]:
                return await self._nodes(request)
            case ["nodes", name]:
                QueryParameters(request)
                return await self._explainer.node(name)
            case ["nodes", name, "object"]:
                QueryParameters(request)
                return await self._explainer.known_node(name)
            case ["decisions"]:
                return await self._decisions(request)
            case ["decisions", "stream"]:
                QueryParameters(request)
                return await decision_stream(request, self._explainer)
            case ["decisions", number]:
                return await self._decision(request, number)
            case ["stats" | "throughput" | "config" as about]:
                return await self._scheduler(request, about)
        raise UnknownObjectError(f"there is nothing at {quoted(request.path)}")

    async def _scheduler(self, request: web.Request, about: str) -> msgspec.Struct:
        if about == "throughput":
            asked = QueryParameters(request, "points")
            return await self._explainer.throughput(asked.number("points", 120, 1, _MOST_POINTS))
        QueryParameters(request)
        return self._explainer.stats() if about == "stats" else self._explainer.settings()

    async def _pods(self, request: web.Request) -> msgspec.Struct:
        asked = QueryParameters(request, "state", "limit", "namespace", "continue")
        page, last = await self._explainer.pods(
            pending=asked.choice("state", ("pending", "all")) == "pending",
            limit=asked.number("limit", 100, 1, _MOST_LINES),
            after=asked.continued("pods"),
            namespace=asked.text("namespace"),
        )
        return msgspec.structs.replace(page, continue_=token("pods", last))

    async def _pod(self, request: web.Request, namespace: str, name: str) -> msgspec.Struct:
        asked = QueryParameters(request, "node", "top", "fixes", *_MATRIX)
        matrix = _matrix(asked)
        return await self._explainer.pod(
            namespace,
            name,
            nodes=asked.texts("node", _MOST_NAMED),
            top=asked.number("top", 10, 0, _MOST_SCORES),
            # Whoever turns the pages of a matrix has seen the fixes.
            fixes=asked.switch("fixes", matrix is None or not matrix[0]),
            matrix=matrix,
        )

    async def _nodes(self, request: web.Request) -> msgspec.Struct:
        asked = QueryParameters(request, "limit", "continue")
        page, last = await self._explainer.nodes(
            limit=asked.number("limit", _MOST_LINES, 1, _MOST_LINES), after=asked.continued("nodes")
        )
        return msgspec.structs.replace(page, continue_=token("nodes", last))

    async def _decisions(self, request: web.Request) -> msgspec.Struct:
        asked = QueryParameters(request, "limit", "before", "pod", "namespace", "continue")
        before = asked.number("before", 0, 0, _MOST_NUMBER) or None
        if place := asked.continued("decisions"):
            before = _number(place)
            if before is None:
                raise BadParameterError(NOT_CONTINUED)
        pod = asked.text("pod")
        if pod and (pod.count("/") != 1 or not all(pod.split("/"))):
            raise BadParameterError(f"parameter pod is {quoted(pod)}, expected namespace/name")
        page, last = await self._explainer.decisions(
            before=before,
            limit=asked.number("limit", 100, 1, _MOST_LINES),
            pod=pod or None,
            namespace=asked.text("namespace"),
        )
        more = token("decisions", "" if last is None else str(last))
        return msgspec.structs.replace(page, continue_=more)

    async def _decision(self, request: web.Request, number: str) -> msgspec.Struct:
        asked = QueryParameters(request, "top", *_MATRIX)
        which = _number(number)
        if which is None:
            raise UnknownObjectError(
                f"there is no decision {quoted(number)}: decisions have numbers"
            )
        return await self._explainer.decision(
            which, top=asked.number("top", 10, 0, _MOST_SCORES), matrix=_matrix(asked)
        )


def _number(text: str) -> int | None:
    """A whole number that is not too long; None if it is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None


def _matrix(asked: QueryParameters) -> tuple[int, int] | None:
    offset = asked.number("offset", 0, 0, _MOST_NUMBER)
    limit = asked.number("limit", 100, 1, _MOST_LINES)
    return (offset, limit) if asked.switch("matrix", False) else None


async def _json(request: web.Request, answer: msgspec.Struct) -> web.Response:
    body = msgspec.json.encode(answer)
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
