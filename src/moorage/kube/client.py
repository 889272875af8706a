"""The API client: sends requests, keeps the rate, retries what may be retried.

Owns the driver's policy (rate limit, Retry-After, refused credentials, paging) and the reading of
error answers. What is asked is built in `requests`, how it travels is `transport`'s business.
"""

import asyncio
import os
import platform
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import urlsplit

import msgspec

from moorage.errors import ApiError, NotNeededError, UnreachableError
from moorage.kube import deep_json, requests
from moorage.kube.access import Access
from moorage.kube.credentials import PluginObserver
from moorage.kube.request_limits import TokenBucket
from moorage.kube.requests import Json, Request
from moorage.kube.resources import RESOURCES, Resource
from moorage.kube.timing import Timer, WallTimer
from moorage.kube.transport import Answer, AnswerStream, Transport
from moorage.version import KUBERNETES_VERSION, __version__

T = TypeVar("T")

MAX_RETRIES = 10
# How long to wait before something is written again; four tries in all.
_PAUSES = (0.01, 0.05, 0.25)
DEFAULT_TIMEOUT = 60.0
BROKEN_CONNECTION_WAIT = 1.0
MOST_RETRY_DIGITS = 5
"""Of a Retry-After: about a day."""
STREAM_PATIENCE = 60.0
"""How long the beginning of a stream may take; some proxies keep it until there is an event."""

Read = Callable[[], Awaitable[bytes]]
Needed = Callable[[], bool]
"""Asked right before a request is sent, after the wait for the client's own rate."""


def user_agent(suffix: str = "") -> str:
    """`moorage/0.37.0 (linux/amd64) kubernetes/v1.37.1/scheduler`."""
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    system = f"{platform.system().lower()}/{machine}"
    base = f"moorage/{__version__} ({system}) kubernetes/{KUBERNETES_VERSION}"
    return f"{base}/{suffix}" if suffix else base


class Listing(msgspec.Struct, Generic[T], frozen=True):
    """Everything that a collection held at one resource version."""

    items: list[T]
    resource_version: str


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str | None = msgspec.field(default=None, name="continue")


class Page(msgspec.Struct):
    """A page of a list; objects are left as JSON for whoever knows their type."""

    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[msgspec.Raw] | None = None


class _Cause(msgspec.Struct):
    reason: str = ""


class _Details(msgspec.Struct):
    causes: list[_Cause] | None = None


class ApiStatus(msgspec.Struct):
    """The API's Status object, as far as errors are concerned."""

    kind: str = ""
    code: int = 0
    reason: str = ""
    message: str = ""
    details: _Details | None = None


class _NumberedList(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[int] | None = None


_LISTS = msgspec.json.Decoder(Page)
_STATUSES = msgspec.json.Decoder(ApiStatus)


class ClientObserver(PluginObserver, Protocol):
    """Gets a call for every attempt to send a request; `host` is the server's, with its port."""

    def answered(self, host: str, method: str, status: int) -> None:
        """The headers of an answer came (status 0: none came)."""

    def finished(self, host: str, method: str, seconds: float, sent: int, received: int) -> None:
        """A request that is no stream is through, with so many bytes of body each way."""

    def throttled(self, host: str, method: str, seconds: float) -> None:
        """A request waited so long for the client's own rate limit."""

    def retried(self, host: str, method: str, status: int) -> None:
        """A request is sent again after such an answer."""


class KubeClient:
    """A client of one API server; use it inside one event loop and close it there."""

    def __init__(
        self,
        access: Access,
        *,
        qps: float = 50.0,
        burst: int = 100,
        agent: str = "",
        timeout: float = DEFAULT_TIMEOUT,
        max_connections: int = 100,
        timer: Timer | None = None,
        observe: ClientObserver | None = None,
        read_only: bool = False,
        reconnects: int = MAX_RETRIES,
        may_write: Callable[[], bool] | None = None,
        env: Mapping[str, str] = os.environ,
    ) -> None:
        self.access = access
        self._read_only = read_only
        self._may_write = may_write
        self._reconnects = min(reconnects, MAX_RETRIES)
        self._timer = timer or WallTimer()
        self._limiter = TokenBucket(qps, burst, self._timer)
        self._observe = observe
        self._host = urlsplit(access.server).netloc.rpartition("@")[2]
        self._transport = Transport(
            access,
            self._timer,
            user_agent=agent or user_agent(),
            timeout=timeout,
            max_connections=max_connections,
            env=env,
            plugins=observe,
        )
        self.limit = self._transport.limit
        """How many requests may be on their way at once; learnt from the answers."""

    async def __aenter__(self) -> "KubeClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        self._transport.close()

    # ---- the driver ----

    async def send(self, request: Request, needed: Needed | None = None) -> bytes:
        """The body of the answer, or `ApiError`; `NotNeededError` if it need not be sent."""
        if self._read_only and request.method != "GET":
            raise ApiError(0, "ReadOnly", f"{request} was not sent: this client only reads")
        retried_credentials = False
        for attempt in range(MAX_RETRIES + 1):
            try:
                return await self._once(request, needed)
            except UnreachableError as error:
                if attempt >= self._reconnects or not (request.repeatable and error.maybe_applied):
                    raise
                self._retry(request, 0)
                await self._timer.sleep(BROKEN_CONNECTION_WAIT)
            except ApiError as error:
                if attempt == MAX_RETRIES:
                    raise
                if error.status == 401 and not retried_credentials and self._refused():
                    retried_credentials = True
                elif error.retry_after is not None:
                    self._retry(request, error.status)
                    self.limit.overloaded()
                    await self._timer.sleep(error.retry_after)
                else:
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def persist(self, request: Request, needed: Needed | None = None) -> bytes:
        """`send` up to four times, while what goes wrong may pass."""
        for pause in _PAUSES:
            try:
                return await self.send(request, needed)
            except ApiError as error:
                if not _may_pass(error, request):
                    raise
            await self._timer.sleep(pause)
        return await self.send(request, needed)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Read]:
        """A long answer: what this yields gives its next piece, b"" at its end. Not retried."""
        wait = self._limiter.reserve()
        if wait > 0:
            await self._timer.sleep(wait)
        if self._observe is not None:
            self._observe.throttled(self._host, request.method, wait)
        stream: AnswerStream | None = None
        try:
            async with asyncio.timeout(STREAM_PATIENCE):
                stream = await self._transport.stream(request)
        except TimeoutError:
            message = f"the API server {self.access.address} does not answer {request}"
            raise UnreachableError(message, maybe_applied=True) from None
        finally:
            self._answered(request, stream.status if stream is not None else 0)
        try:
            if stream.status >= 300:
                body = b""
                while piece := await stream.read():
                    body += piece
                answer = Answer(stream.status, stream.reason, stream.retry_after, body)
                error = self._error(request, answer)
                if error.status == 401:
                    self._refused()
                raise error
            yield stream.read
        finally:
            stream.close()

    async def json(self, request: Request) -> Json:
        """The answer as a dictionary."""
        body = await self.send(request)
        try:
            answer = deep_json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ApiError(0, "Unreadable", f"{request}: the answer is not JSON: {error}") from None
        if not isinstance(answer, dict):
            raise ApiError(0, "Unreadable", f"{request}: the answer is not an object")
        return answer

    async def page(self, request: Request) -> Page:
        """One page of a list."""
        body = await self.send(request)
        try:
            return _page(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ApiError(0, "Unreadable", f"{request}: the answer is no list: {error}") from None

    # ---- what a scheduler asks ----

    async def list_all(
        self,
        resource: Resource,
        read: Callable[[msgspec.Raw], T],
        namespace: str = "",
        *,
        field_selector: str = "",
        label_selector: str = "",
        resource_version: str = "",
        limit: int = requests.PAGE_SIZE,
    ) -> Listing[T]:
        """All objects, each made by `read` from its JSON; the next page comes while one is read.

        A list that expires between two pages is begun again in one piece, as client-go does.
        """

        def ask(limit: int, token: str = "") -> asyncio.Task[Page]:
            request = requests.list_(
                resource,
                namespace,
                field_selector=field_selector,
                label_selector=label_selector,
                resource_version=resource_version,
                limit=limit,
                continue_=token,
            )
            return asyncio.create_task(self.page(request))

        made: list[T] = []
        token, coming = "", ask(limit)
        try:
            while True:
                try:
                    page = await coming
                except ApiError as error:
                    if not (token and error.is_expired):
                        raise
                    made, token, coming = [], "", ask(0)
                    continue
                token = page.metadata.continue_ or ""
                if token:
                    coming = ask(limit, token)
                    await asyncio.sleep(0)  # the request leaves before the reading begins
                made.extend(map(read, page.items or ()))
                if not token:
                    return Listing(made, page.metadata.resource_version)
        finally:
            coming.cancel()

    async def get(self, resource: Resource, namespace: str, name: str) -> Json:
        """One object."""
        return await self.json(Request("GET", resource.item(namespace, name)))

    async def create(self, resource: Resource, namespace: str, body: Any) -> Json:
        """Make an object."""
        return await self.json(requests.create(resource, namespace, body))

    async def update(
        self, resource: Resource, namespace: str, name: str, body: Any, subresource: str = ""
    ) -> Json:
        """Replace an object; the resource version in `body` guards against lost updates."""
        path = resource.item(namespace, name, subresource)
        return await self.json(Request("PUT", path, body=body))

    async def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        body: Any,
        *,
        content_type: str = requests.STRATEGIC,
        subresource: str = "",
    ) -> Json:
        """Change parts of an object."""
        asked = requests.patch(
            resource, namespace, name, body, content_type=content_type, subresource=subresource
        )
        return await self.json(asked)

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        grace_seconds: int | None = None,
        needed: Needed | None = None,
    ) -> None:
        """Delete an object."""
        asked = requests.delete(resource, namespace, name, uid=uid, grace_seconds=grace_seconds)
        await self.send(asked, needed)

    async def patch_pod_status(
        self,
        namespace: str,
        name: str,
        status: Json,
        *,
        uid: str = "",
        content_type: str = requests.STRATEGIC,
        needed: Needed | None = None,
    ) -> None:
        """Change parts of a pod's status; with `uid` only of that very pod."""
        body: Json = {"metadata": {"uid": uid}} if uid else {}
        body["status"] = status
        asked = requests.patch(
            RESOURCES["Pod"], namespace, name, body, content_type=content_type, subresource="status"
        )
        await self.persist(asked, needed)

    # ---- inside ----

    async def _once(self, request: Request, needed: Needed | None = None) -> bytes:
        # In one piece: every pod comes through here twice, and each call of a coroutine counts.
        method, host, observe = request.method, self._host, self._observe
        wait = self._limiter.reserve()
        if wait > 0:
            await self._timer.sleep(wait)
        if observe is not None:
            observe.throttled(host, method, wait)
        if self._may_write is not None and method != "GET" and not self._may_write():
            raise ApiError(0, "NotLeader", f"{request} was not sent: it is another's turn to write")
        if needed is not None and not needed():
            raise NotNeededError(f"{request} was not sent: it is not needed any more")
        if observe is None:
            answer = await self._transport.exchange(request)
        else:
            status, started = 0, self._timer.now()
            try:
                answer = await self._transport.exchange(request)
                status = answer.status
            finally:
                observe.answered(host, method, status)
            received = len(answer.body) if status < 300 else 0
            observe.finished(host, method, self._timer.now() - started, answer.sent, received)
        if answer.status >= 300:
            raise self._error(request, answer)
        return answer.body

    def _answered(self, request: Request, status: int) -> None:
        if self._observe is not None:
            self._observe.answered(self._host, request.method, status)

    def _retry(self, request: Request, status: int) -> None:
        if self._observe is not None:
            self._observe.retried(self._host, request.method, status)

    def _refused(self) -> bool:
        """Have the credentials renewed; False if they cannot change."""
        credentials = self._transport.credentials
        credentials.refused()
        return credentials.refreshable

    def _error(self, request: Request, answer: Answer) -> ApiError:
        retry_after = None
        if answer.status == 429 or answer.status >= 500:
            retry_after = _seconds(answer.retry_after)
        return status_error(
            answer.body,
            code=answer.status,
            otherwise=f"{request}: the API server answered {answer.status} {answer.reason}",
            retry_after=retry_after,
            refused=f"the API server {self.access.address} does not accept the credentials of"
            f" {self.access.source or 'this client'}",
        )


def _may_pass(error: ApiError, request: Request) -> bool:
    """Is it worth sending again? A POST that may have been done is not, nor one that conflicts."""
    once = request.method == "POST"
    if isinstance(error, UnreachableError):
        return not (once and error.maybe_applied)
    return error.status in (500, 503) or (error.status == 409 and not once)


def _page(body: bytes) -> Page:
    """A list; a member that is nested too deeply, or is no JSON, spoils none of the others."""
    try:
        return _LISTS.decode(body)
    except (msgspec.DecodeError, RecursionError):
        text, items = deep_json.members(body, 2)
        numbered = msgspec.json.decode(text, type=_NumberedList)
        return Page(numbered.metadata, [items[number] for number in numbered.items or ()])


def status_error(
    body: bytes,
    *,
    code: int = 0,
    otherwise: str = "",
    retry_after: float | None = None,
    refused: str = "",
) -> ApiError:
    """The error in a Status object; `otherwise` is the message for what is no Status."""
    try:
        status = _STATUSES.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        status = ApiStatus()
    code = code or status.code
    message = status.message if status.kind == "Status" and status.message else otherwise
    if code == 401 and refused:
        message = f"{refused}: {message}"
    causes = status.details.causes if status.details is not None else None
    return ApiError(
        code,
        status.reason,
        message,
        causes=tuple(cause.reason for cause in causes or ()),
        retry_after=retry_after,
    )


def _seconds(text: str) -> float | None:
    """A Retry-After that counts seconds; one that would never end is as good as none."""
    if not (text.isascii() and text.isdigit()) or len(text) > MOST_RETRY_DIGITS:
        return None
    return float(text)
