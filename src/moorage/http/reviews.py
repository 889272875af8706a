"""Sending TokenReview and SubjectAccessReview: time limits, and which failures are tried again.

Owns upstream's webhook retry policy. What the answers mean is decided by who asks.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from moorage.errors import ApiError, UnreachableError
from moorage.http.observers import SILENT, Observer
from moorage.kube.client import KubeClient
from moorage.kube.requests import Request

TIMEOUT = 10.0
_STEPS = 5
_FIRST_WAIT = 0.5
_FACTOR = 1.5
_JITTER = 0.2

Sleep = Callable[[float], Awaitable[None]]
Json = dict[str, Any]


class Reviewer:
    """Sends reviews with one client; up to five times where that may help."""

    def __init__(
        self,
        client: KubeClient,
        *,
        observer: Observer = SILENT,
        random: Random | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._client = client
        self._observer = observer
        self._random = random or Random()
        self._sleep = sleep

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
