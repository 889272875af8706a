"""Sending TokenReview and SubjectAccessReview, and remembering the answers for a while.

Owns time limits, upstream's webhook retry policy and the cache: bounded in size, and each question
asked only once at a time. What the answers mean, what a key is, and how long an answer may be used
is decided by the caller.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from random import Random
from typing import Any, Generic, TypeVar

from moorage.errors import ApiError, UnreachableError
from moorage.http.endpoints import SILENT, PortObserver
from moorage.kube.client import KubeClient
from moorage.kube.requests import Request

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
TIMEOUT = 10.0
_STEPS = 5
_FIRST_WAIT = 0.5
_FACTOR = 1.5
_JITTER = 0.2

Json = dict[str, Any]


class AnswerCache(Generic[K, V]):
    """Least recently used answers go first; those who ask the same at once share one answer."""

    def __init__(
        self,
        size: int,
        keep_for: Callable[[V], float],
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._size = size
        self._keep_for = keep_for
        self._now = now
        self._remembered: OrderedDict[K, tuple[float, V]] = OrderedDict()
        self._asked: dict[K, asyncio.Task[V]] = {}

    def __len__(self) -> int:
        return len(self._remembered)

    def known(self, key: K) -> V | None:
        """The remembered answer, if it is still good."""
        found = self._remembered.get(key)
        if found is None:
            return None
        until, answer = found
        if until <= self._now():
            del self._remembered[key]
            return None
        self._remembered.move_to_end(key)
        return answer

    async def get(self, key: K, ask: Callable[[], Awaitable[V]]) -> V:
        """The remembered answer, or a new one from `ask`; an error is raised and not remembered."""
        answer = self.known(key)
        if answer is not None:
            return answer
        task = self._asked.get(key)
        if task is None:
            task = asyncio.create_task(self._fetch(key, ask))
            self._asked[key] = task
            task.add_done_callback(lambda done: self._finished(key, done))
        # Shielded: one who goes away must not take the answer from the others.
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Give up what is still asked for."""
        tasks = list(self._asked.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _fetch(self, key: K, ask: Callable[[], Awaitable[V]]) -> V:
        answer = await ask()
        seconds = self._keep_for(answer)
        if seconds > 0:
            self._remembered[key] = (self._now() + seconds, answer)
            self._remembered.move_to_end(key)
            while len(self._remembered) > self._size:
                self._remembered.popitem(last=False)
        return answer

    def _finished(self, key: K, task: "asyncio.Task[V]") -> None:
        self._asked.pop(key, None)
        if not task.cancelled():
            task.exception()  # whoever asked may be gone: then nobody else looks at it


class Reviewer:
    """Sends reviews with one client; up to five times where that may help."""

    def __init__(
        self,
        client: KubeClient,
        *,
        observer: PortObserver = SILENT,
    ) -> None:
        self._client = client
        self._observer = observer
        self._random = Random()
        self._sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def send(self, kind: str, request: Request, within: float | None = None) -> Json:
        """The answer's status; `ApiError` if there is none `within` so many seconds."""
        try:
            async with asyncio.timeout(within):
                return await self._persistent(kind, request)
        except TimeoutError:
            raise UnreachableError("context deadline exceeded", maybe_applied=True) from None

    async def _persistent(self, kind: str, request: Request) -> Json:
        wait = _FIRST_WAIT
        for step in range(1, _STEPS + 1):
            try:
                return await self._once(kind, request)
            except ApiError as error:
                if step == _STEPS or not _worth_repeating(error):
                    raise
            await self._sleep(wait * (1.0 + _JITTER * self._random.random()))
            wait *= _FACTOR
        raise AssertionError("the last attempt returns or raises")

    async def _once(self, kind: str, request: Request) -> Json:
        started = time.monotonic()
        code = "<error>"
        try:
            async with asyncio.timeout(TIMEOUT):
                answer = await self._client.json(request)
            code = "201"
        except TimeoutError:
            message = f"{request}: no answer within {TIMEOUT:g} s"
            raise UnreachableError(message, maybe_applied=True) from TimeoutError()
        except ApiError as error:
            if error.status:
                code = str(error.status)
            raise
        finally:
            self._observer.reviewed(kind, code, time.monotonic() - started)
        status = answer.get("status")
        return status if isinstance(status, dict) else {}


def _worth_repeating(error: ApiError) -> bool:
    """A connection that broke, a server in trouble, one that asks to be left alone for a while."""
    if isinstance(error, UnreachableError):
        return error.maybe_applied and not isinstance(error.__cause__, TimeoutError)
    return (
        error.retry_after is not None
        or error.status in (429, 504)
        or (error.status == 500 and error.reason == "InternalError")
    )
