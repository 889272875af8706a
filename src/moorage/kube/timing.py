"""Time for code that waits: the clock, sleeping, back-off, and the API's forms of a time.

Everything in `kube` that waits takes a `Timer`, so that tests need not wait. Network time-outs
belong to the HTTP library instead.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine, Generator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import lru_cache
from random import Random
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

SLICE_SECONDS = 0.01
"""How long a long work may keep everything else waiting."""

FIRST = 0.8
LONGEST = 30.0
FACTOR = 2.0
JITTER = 1.0
QUIET = 120.0


class Timer(Protocol):
    """A clock that can wait."""

    def now(self) -> float:
        """Seconds since the epoch."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return when so many seconds have passed."""
        ...


class WallTimer:
    """The time of day, and waiting that really takes as long as it says."""

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """Return when so many seconds have passed."""
        await asyncio.sleep(seconds)


def parse_time(text: str) -> float:
    """An RFC 3339 time of the API as seconds since the epoch; ValueError if it is none."""
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def micro_time(seconds: float) -> str:
    """Seconds since the epoch as the API's MicroTime, such as `2026-11-15T10:00:00.123456Z`."""
    whole, micro = divmod(round(seconds * 1e6), 1_000_000)
    return f"{_second(whole)}.{micro:06d}Z"


@lru_cache(maxsize=8)
def _second(whole: int) -> str:
    """Many events are of the same second, and printing that costs more than all the rest."""
    return datetime.fromtimestamp(whole, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def rfc3339(seconds: float) -> str:
    """Seconds since the epoch as the API's Time, such as `2026-11-15T10:00:00Z`."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Backoff:
    """The waits of one repeated effort."""

    def __init__(self, timer: Timer, random: Random) -> None:
        self._timer = timer
        self._random = random
        self._next = FIRST
        self._asked_at = float("-inf")

    def next(self) -> float:
        """Seconds to wait now."""
        now = self._timer.now()
        if now - self._asked_at > QUIET:
            self._next = FIRST
        wait = self._next
        self._next = min(LONGEST, self._next * FACTOR)
        self._asked_at = now
        return wait * (1.0 + JITTER * self._random.random())

    def reset(self) -> None:
        """The effort succeeded: what fails next is a new failure, and waits as the first one did.

        client-go forgets failures only after two quiet minutes, so a watch that is cut every few
        seconds soon waits for a minute, and longer if the next attempt fails as well.
        """
        self._next = FIRST


@asynccontextmanager
async def meanwhile(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Do something beside while this lasts."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def in_slices(steps: Generator[None, None, T]) -> T:
    """Take all steps of a long work; whatever else there is to do has its turn in between."""
    until = time.monotonic() + SLICE_SECONDS
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            result: T = stop.value
            return result
        if time.monotonic() >= until:
            await asyncio.sleep(0)
            until = time.monotonic() + SLICE_SECONDS
