"""Answers of the API server, kept for a while: bounded in number, and each asked for only once.

Owns the bookkeeping. What a key is, and how long an answer may be kept, is the caller's business.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


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
        self._kept: OrderedDict[K, tuple[float, V]] = OrderedDict()
        self._asked: dict[K, asyncio.Task[V]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def known(self, key: K) -> V | None:
        """The kept answer, if it is still good."""
        found = self._kept.get(key)
        if found is None:
            return None
        until, answer = found
        if until <= self._now():
            del self._kept[key]
            return None
        self._kept.move_to_end(key)
        return answer

    async def get(self, key: K, ask: Callable[[], Awaitable[V]]) -> V:
        """The kept answer, or a new one from `ask`; what goes wrong is raised and not kept."""
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
            self._kept[key] = (self._now() + seconds, answer)
            self._kept.move_to_end(key)
            while len(self._kept) > self._size:
                self._kept.popitem(last=False)
        return answer

    def _finished(self, key: K, task: "asyncio.Task[V]") -> None:
        self._asked.pop(key, None)
        if not task.cancelled():
            task.exception()  # whoever asked may be gone: then nobody else looks at it
