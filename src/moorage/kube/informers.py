"""The reflectors of all kinds that somebody asked for, started, awaited and stopped together.

Owns which kinds are followed and with which selector, and when handlers are called: at once,
or, while events are held back, later. What they do is their own business.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Any

from moorage.config.pod_level import Adjust
from moorage.errors import ApiError
from moorage.kube.client import KubeClient
from moorage.kube.decoding import SkippedObjects
from moorage.kube.reflector import Reflector
from moorage.kube.resources import POD_FIELD_SELECTOR, resource_for
from moorage.kube.store import Backlog, Handler, Store
from moorage.kube.timing import Timer, WallTimer
from moorage.model.meta import ApiObject

log = logging.getLogger(__name__)

_AT_ONCE = 256
"""How many events that were held back are handled before other tasks run."""

FIELD_SELECTORS: Mapping[str, str] = {"Pod": POD_FIELD_SELECTOR}


class Informers:
    """One reflector per kind (`Pod`) or custom resource (`foos.v1.example.com`)."""

    def __init__(
        self,
        client: KubeClient,
        kinds: Iterable[str],
        *,
        timer: Timer | None = None,
        random: Random | None = None,
        streaming: bool = True,
        needs_source: Callable[[ApiObject], bool] | None = None,
        on_failure: Callable[[], None] | None = None,
        adjust: Adjust | None = None,
        selectors: Mapping[str, str] = FIELD_SELECTORS,
    ) -> None:
        self._client = client
        self._timer = timer or WallTimer()
        self._random = random or Random()
        self._streaming = streaming
        self._needs_source = needs_source
        self._on_failure = on_failure
        self._adjust = adjust
        self._selectors = selectors
        self.stores: dict[str, Store] = {}
        self._reflectors: dict[str, Reflector] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._trial: set[str] = set()
        self._backlog: Backlog = deque()
        self.held = False
        """Are events held back?"""
        self.add(kinds)
        self._trial.clear()

    def add(self, kinds: Iterable[str]) -> list[str]:
        """Follow more kinds, from the next `start` on; those that are new.

        They are on trial until `keep` or `drop`: nobody but who asked for them waits for them.
        """
        fresh = [kind for kind in dict.fromkeys(kinds) if kind not in self.stores]
        for kind in fresh:
            store = self.stores[kind] = Store(skipped=SkippedObjects(resource_for(kind).kind))
            if self.held:
                store.hold(self._backlog)
            self._reflectors[kind] = Reflector(
                self._client,
                resource_for(kind),
                store,
                timer=self._timer,
                random=self._random,
                field_selector=self._selectors.get(kind, ""),
                streaming=self._streaming,
                needs_source=self._needs_source,
                adjust=self._adjust,
            )
        self._trial.update(fresh)
        return fresh

    def keep(self, kinds: Iterable[str]) -> None:
        """These kinds are needed from now on."""
        self._trial.difference_update(kinds)

    async def drop(self, kinds: Iterable[str]) -> None:
        """Do not follow these kinds any more; handlers see all objects deleted."""
        tasks = []
        for kind in kinds:
            task = self._tasks.pop(kind, None)
            if task is not None:
                task.cancel()
                tasks.append(task)
        await asyncio.gather(*tasks, return_exceptions=True)
        for kind in kinds:
            store = self.stores.pop(kind)
            del self._reflectors[kind]
            self._trial.discard(kind)
            for key in list(store.objects):
                store.remove(key)

    @property
    def kinds(self) -> tuple[str, ...]:
        """What is followed."""
        return tuple(self.stores)

    def add_handler(self, kind: str, handler: Handler) -> None:
        """Have `handler` called for every change of a kind that is followed."""
        self.stores[kind].add_handler(handler)

    def hold(self) -> None:
        """Go on following, but hold events back from handlers until `catch_up`."""
        if not self.held:
            self.held = True
            for store in self.stores.values():
                store.hold(self._backlog)

    @property
    def has_news(self) -> bool:
        """Was anything held back?"""
        return bool(self._backlog)

    async def catch_up(self) -> None:
        """Handle the events that were held back, of all kinds in the order in which they came."""
        backlog = self._backlog
        while backlog:
            for _ in range(min(len(backlog), _AT_ONCE)):
                backlog.popleft()()
            if backlog:
                await asyncio.sleep(0)
        self.held = False
        for store in self.stores.values():
            store.release()

    def start(self) -> None:
        """Begin to follow; needs a running event loop."""
        for kind, reflector in self._reflectors.items():
            if kind not in self._tasks:
                task = asyncio.create_task(reflector.run(), name=f"reflector of {kind}")
                task.add_done_callback(self._ended)
                self._tasks[kind] = task

    @property
    def has_synced(self) -> bool:
        """Has every kind been listed, and has every handler got all of it?"""
        return all(store.synced for kind, store in self.stores.items() if kind not in self._trial)

    def followed(self) -> dict[tuple[str, str, str], str]:
        """By group, version and kind the resource version up to which it has been followed."""
        seen = {}
        for reflector in self._reflectors.values():
            of = reflector.resource
            seen[of.group, of.version, of.kind] = reflector.resource_version
        return seen

    def skipped_by_kind(self) -> dict[str, int]:
        """How many objects of each kind cannot be used at the moment."""
        return {kind: len(store.skipped) for kind, store in self.stores.items()}

    @property
    def waiting_for(self) -> dict[str, str]:
        """The kinds that are not synced, each with what went wrong last ("" for nothing yet)."""
        return {
            kind: str(reflector.last_error or "")
            for kind, reflector in self._reflectors.items()
            if not reflector.store.synced
        }

    async def wait_for_sync(
        self, timeout: float | None = None, kinds: Iterable[str] | None = None
    ) -> None:
        """Return when everything has synced; `ApiError` with the reasons when time runs out.

        `kinds`: wait for these only.
        """
        wanted = [kind for kind in self.stores if kind not in self._trial]
        wanted = wanted if kinds is None else list(kinds)
        synced = [asyncio.create_task(self._reflectors[kind].synced.wait()) for kind in wanted]
        everything = asyncio.gather(*synced)
        watched: set[asyncio.Future[Any]] = {everything}
        watched.update(self._tasks[kind] for kind in wanted if kind in self._tasks)
        try:
            await asyncio.wait(watched, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            self.raise_failure()
            if not everything.done():
                raise ApiError(0, "Timeout", self._complaint(timeout or 0.0))
        finally:
            everything.cancel()
            await asyncio.gather(everything, *synced, return_exceptions=True)

    def raise_failure(self) -> None:
        """Raise what stopped a reflector; only a failing handler can."""
        for task in self._tasks.values():
            if task.done() and not task.cancelled():
                error = task.exception()
                if error is not None:
                    raise error

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or task.exception() is None:
            return
        log.critical("the %s stopped", task.get_name(), exc_info=task.exception())
        if self._on_failure is not None:
            self._on_failure()

    async def stop(self) -> None:
        """Stop following; the stores keep what they have."""
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _complaint(self, timeout: float) -> str:
        waiting = self.waiting_for
        reasons = list(dict.fromkeys(reason for reason in waiting.values() if reason))
        kinds = ", ".join(sorted(waiting))
        why = f": {'; '.join(reasons)}" if reasons else ""
        return f"no full list of {kinds} within {timeout:g} s{why}"
