"""Writes events (events.k8s.io/v1) without ever making the scheduler wait.

Owns the queue, the workers that empty it, retries and the counters of what was lost. Which events
are equal is `event_series`' business, what they say `event_notes`'.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from random import Random

from moorage.errors import ApiError, KubeconfigError, UnreachableError
from moorage.kube.client import KubeClient
from moorage.kube.event_notes import event_note
from moorage.kube.event_series import (
    FINISH_AFTER,
    REFRESH_EVERY,
    Event,
    EventKey,
    SeriesMemory,
    reference,
)
from moorage.kube.timing import Timer, WallTimer
from moorage.model.meta import ApiObject

log = logging.getLogger(__name__)

MOST_WAITING = 1000
MOST_TRIES = 12
RETRY_WAIT = 10.0
RETRY_JITTER = 0.25
WORKERS = 8


class EventRecorder:
    """Takes events at any rate; those that find the queue full are dropped and counted."""

    def __init__(
        self,
        client: KubeClient,
        *,
        timer: Timer | None = None,
        random: Random | None = None,
        hostname: str | None = None,
        workers: int = WORKERS,
    ) -> None:
        self.dropped = 0
        self.written = 0
        self.failed = 0
        self._client = client
        self._timer = timer or WallTimer()
        self._random = random or Random()
        self._hostname = socket.gethostname() if hostname is None else hostname
        self._memory = SeriesMemory()
        # An event's creation and its later counts go to one worker, so that they keep their order.
        self._queues: list[asyncio.Queue[Event]] = [asyncio.Queue() for _ in range(workers)]
        self._tasks: list[asyncio.Task[None]] = []
        self._closing = False

    def start(self) -> None:
        """Begin to write; needs a running event loop."""
        work = [self._write_queued(queue) for queue in self._queues]
        tend = [self._every(FINISH_AFTER, self._finish), self._every(REFRESH_EVERY, self._refresh)]
        self._tasks = [asyncio.create_task(task) for task in (*work, *tend)]

    def event(
        self,
        regarding: ApiObject,
        type_: str,
        reason: str,
        action: str,
        note: str,
        *,
        controller: str,
        related: ApiObject | None = None,
    ) -> None:
        """Record an event; returns at once."""
        if self._closing or self.waiting >= MOST_WAITING:
            self.dropped += 1
            return
        key = EventKey(
            type=type_,
            action=action,
            reason=reason,
            controller=controller,
            instance=f"{controller}-{self._hostname}",
            regarding=reference(regarding),
            related=reference(related) if related is not None else None,
        )
        event = self._memory.record(key, event_note(note), self._timer.now())
        if event is not None:
            self._queues[hash(event.name) % len(self._queues)].put_nowait(event)

    async def close(self, timeout: float = 5.0) -> None:
        """Write what is waiting, and the counts of running series, as far as time allows."""
        self._closing = True
        try:
            async with asyncio.timeout(timeout):
                if self._tasks:
                    await asyncio.gather(*(queue.join() for queue in self._queues))
                for event in self._memory.unwritten():
                    await self._attempt(event)
        except TimeoutError:
            log.warning("%d events were not written in time", self.waiting)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    @property
    def waiting(self) -> int:
        """How many events are in the queues."""
        return sum(queue.qsize() for queue in self._queues)

    async def _write_queued(self, queue: asyncio.Queue[Event]) -> None:
        while True:
            event = await queue.get()
            try:
                await self._write(event)
            finally:
                queue.task_done()

    async def _write(self, event: Event) -> None:
        for attempt in range(1, MOST_TRIES + 1):
            if await self._attempt(event):
                return
            if attempt == MOST_TRIES or self._closing:
                break
            jitter = 1.0 + RETRY_JITTER * self._random.random()
            await self._timer.sleep(RETRY_WAIT * jitter)
        self.failed += 1
        log.error("an event on %s could not be written", event.key.regarding.name)

    async def _attempt(self, event: Event) -> bool:
        """Try once; False if it is worth another try."""
        try:
            await self._patch_or_create(event)
        except UnreachableError as error:
            log.info("an event on %s waits: %s", event.key.regarding.name, error)
            return False
        except (ApiError, KubeconfigError) as error:
            if isinstance(error, ApiError) and error.reason == "AlreadyExists" and event.is_series:
                return False  # made by another worker between our patch and our create
            self.failed += 1
            log.error("an event on %s was refused: %s", event.key.regarding.name, error)
            return True
        self.written += 1
        return True

    async def _patch_or_create(self, event: Event) -> None:
        if event.is_series:
            try:
                await self._client.send(event.count_patch())
            except ApiError as error:
                if not error.is_not_found:
                    raise
            else:
                return
        await self._client.send(event.creation())

    async def _finish(self) -> None:
        for event in self._memory.finished(self._timer.now()):
            await self._attempt(event)

    async def _refresh(self) -> None:
        for event in self._memory.series():
            await self._attempt(event)

    async def _every(self, seconds: float, act: Callable[[], Awaitable[None]]) -> None:
        while True:
            await self._timer.sleep(seconds)
            await act()
