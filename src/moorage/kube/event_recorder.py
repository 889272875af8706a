"""Writes events (events.k8s.io/v1) without ever making the scheduler wait.

Owns the queue, the workers that empty it, retries and the counters of what was lost. As long as
events keep coming the cluster is busy with what they report, and a single worker writes them; the
others join when it is quiet, when too many wait, and at the end. `event_series` decides
which events are equal and what they say.
"""

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Awaitable, Callable
from random import Random

from moorage.errors import ApiError, KubeconfigError, UnreachableError
from moorage.kube.client import KubeClient
from moorage.kube.event_series import (
    FINISH_AFTER,
    REFRESH_EVERY,
    Event,
    EventKey,
    SeriesMemory,
    event_note,
    reference,
)
from moorage.kube.recent_events import RecentEvents
from moorage.kube.timing import Timer, WallTimer
from moorage.model.meta import ApiObject

log = logging.getLogger(__name__)

MOST_WAITING = 20_000
MANY_WAITING = 5_000
"""So many make all workers write, however busy the cluster is."""
QUIET_SECONDS = 0.1
"""Without an event for so long, nothing is held up by writing the last ones."""
BUSY_WORKERS = 1
MOST_TRIES = 12
RETRY_WAIT = 10.0
RETRY_JITTER = 0.25
WORKERS = 4


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
        self.recent = RecentEvents()
        self.waiting = 0
        """How many events are to be written, those that just are being written among them."""
        self._client = client
        self._timer = timer or WallTimer()
        self._random = random or Random()
        self._hostname = socket.gethostname() if hostname is None else hostname
        self._memory = SeriesMemory()
        self._most_workers = workers
        self._queue: deque[Event] = deque()
        # By name: an event's creation and its later counts must keep their order, so what follows
        # one that is being written is left to the worker that writes it.
        self._following: dict[str, list[Event]] = {}
        self._workers: set[asyncio.Task[None]] = set()
        self._backing_off = 0  # workers that wait before they try again
        self._last_event = float("-inf")
        self._tasks: list[asyncio.Task[None]] = []
        self._started = False
        self._closing = False

    def start(self) -> None:
        """Begin to write; needs a running event loop."""
        tend = [self._every(FINISH_AFTER, self._finish), self._every(REFRESH_EVERY, self._refresh)]
        self._tasks = [asyncio.create_task(task) for task in tend]
        self._started = True
        self._start_workers()

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
        apart: str = "",
    ) -> None:
        """Record an event; returns at once. Equal ones are counted, unless `apart` differs."""
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
            apart=apart,
        )
        now = self._last_event = self._timer.now()
        text = event_note(note)
        self.recent.note(key, text, now)
        event = self._memory.record(key, text, now)
        if event is not None:
            self.waiting += 1
            self._queue.append(event)
            self._start_workers()

    async def close(self, timeout: float = 5.0) -> None:
        """Write what is waiting, and the counts of running series, as far as time allows."""
        self._closing = True
        try:
            async with asyncio.timeout(timeout):
                self._start_workers()
                while self._workers:
                    await asyncio.wait(self._workers)
                for event in self._memory.unwritten():
                    await self._attempt(event)
        except TimeoutError:
            log.warning("%d events were not written in time", self.waiting)
        self._started = False
        tasks = [*self._tasks, *self._workers]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks = []

    # ---- workers ----

    def _allowed(self) -> int:
        """How many may write at once just now."""
        if self._closing or len(self._queue) >= MANY_WAITING:
            return self._most_workers
        quiet = self._timer.now() - self._last_event >= QUIET_SECONDS
        return self._most_workers if quiet else min(BUSY_WORKERS, self._most_workers)

    def _may_have_more(self) -> bool:
        at_work = len(self._workers) - self._backing_off
        return at_work < self._allowed() and len(self._workers) < self._most_workers

    def _start_workers(self) -> None:
        """Start as many workers as are allowed and have something to write."""
        while self._started and self._queue and self._may_have_more():
            event = self._next()
            if event is None:
                return
            worker = asyncio.create_task(self._work(event))
            self._workers.add(worker)
            worker.add_done_callback(self._worker_ended)

    def _worker_ended(self, worker: "asyncio.Task[None]") -> None:
        """A worker ended; an event may have come after it last looked."""
        self._workers.discard(worker)
        if not worker.cancelled() and worker.exception() is not None:
            log.error("writing events failed", exc_info=worker.exception())
        self._start_workers()

    def _next(self) -> Event | None:
        """The next event that nobody is about to write."""
        while self._queue:
            event = self._queue.popleft()
            following = self._following.get(event.name)
            if following is None:
                self._following[event.name] = []
                return event
            following.append(event)
        return None

    async def _work(self, first: Event) -> None:
        event: Event | None = first
        while event is not None:
            following = self._following[event.name]
            try:
                await self._write(event)
                self.waiting -= 1
                while following:
                    await self._write(following.pop(0))
                    self.waiting -= 1
            finally:
                del self._following[event.name]
            self._start_workers()
            crowded = len(self._workers) - self._backing_off > self._allowed()
            event = None if crowded else self._next()

    async def _write(self, event: Event) -> None:
        for attempt in range(1, MOST_TRIES + 1):
            if await self._attempt(event):
                return
            if attempt == MOST_TRIES or self._closing:
                break
            jitter = 1.0 + RETRY_JITTER * self._random.random()
            self._backing_off += 1
            self._start_workers()
            try:
                await self._timer.sleep(RETRY_WAIT * jitter)
            finally:
                self._backing_off -= 1
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
