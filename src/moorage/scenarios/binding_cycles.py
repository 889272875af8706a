"""What takes its time between a decision and a bound pod, in virtual time.

Coroutines run in an event loop of their own, one after the other, until they are done or sleep;
their sleeps end when virtual time says so. What they wait for outside, such as the answer of an
extender, takes no virtual time.
"""

import asyncio
import heapq
from collections.abc import Callable, Coroutine
from typing import Any

Work = Coroutine[Any, Any, None]
_Sleeper = tuple[float, int, "asyncio.Future[None]"]


class BindingCycles:
    """Runs coroutines; the event loop is made when it is first needed."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._runner = asyncio.Runner()
        self._asleep: list[_Sleeper] = []
        self._serial = 0
        self._awake = 0
        self._rested: asyncio.Future[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._surprise: BaseException | None = None

    def start(self, work: Work) -> "asyncio.Task[None]":
        """Begin a coroutine; it is done or asleep afterwards."""
        task = self._runner.get_loop().create_task(work)
        self._tasks.add(task)
        self._awake += 1
        task.add_done_callback(self._ended)
        self._run()
        return task

    async def sleep(self, seconds: float) -> None:
        """Let virtual time pass."""
        if seconds <= 0:
            return
        self._serial += 1
        woken = self._runner.get_loop().create_future()
        heapq.heappush(self._asleep, (self._now() + seconds, self._serial, woken))
        self._rest()
        await woken

    def cancel(self, task: "asyncio.Task[None]") -> None:
        """End one that is asleep."""
        self._awake += 1
        task.cancel()
        self._run()

    def next_wakeup(self) -> float | None:
        """When the next sleep ends."""
        while self._asleep and self._asleep[0][2].done():
            heapq.heappop(self._asleep)
        return self._asleep[0][0] if self._asleep else None

    def wake(self) -> bool:
        """Go on with those whose sleep is over; were there any?"""
        now, woken = self._now(), False
        while (due := self.next_wakeup()) is not None and due <= now:
            self._awake += 1
            heapq.heappop(self._asleep)[2].set_result(None)
            self._run()
            woken = True
        return woken

    def close(self) -> None:
        """End all of them, and the event loop."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            self._runner.run(_all(list(self._tasks)))
        self._runner.close()

    def _run(self) -> None:
        """Let the loop go on until everybody is done or asleep."""
        loop = self._runner.get_loop()
        self._rested = loop.create_future()
        loop.run_until_complete(self._rested)
        if self._surprise is not None:
            raise self._surprise

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            self._surprise = task.exception()
        self._rest()

    def _rest(self) -> None:
        self._awake -= 1
        if not self._awake and self._rested is not None and not self._rested.done():
            self._rested.set_result(None)


async def _all(tasks: "list[asyncio.Task[None]]") -> None:
    await asyncio.gather(*tasks, return_exceptions=True)
