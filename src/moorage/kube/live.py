"""A scheduler at work on a live cluster: informers in, decisions out, in one event loop.

Owns the order of things: follow the API, wait until everything is known, then decide pod after pod
and carry the decisions out, until `stop`. `engine.scheduler` decides. Where it has to wait
for an extender, or searches for devices, the event loop goes on (`engine_thread`), but the cluster
state does not change until the pod is decided: informers hold events back, and everybody else who
would change something or must not see a half-made decision waits (`between_attempts`).
"""

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping
from functools import partial
from random import Random
from typing import Any

from moorage import log_lines
from moorage.config import KubeSchedulerConfiguration
from moorage.config.feature_gates import FeatureGates
from moorage.config.pod_level import pod_level_adjustment
from moorage.connections.memory import collect_rarely
from moorage.engine.assembly import assemble_scheduler
from moorage.engine.clock import Clock
from moorage.engine.handlers import EventHandlers
from moorage.engine.observer import SchedulerObserver
from moorage.engine.scheduler import Scheduler
from moorage.errors import AbandonedError, ConfigError
from moorage.framework.faults import is_ours
from moorage.framework.pacing import Pacing
from moorage.framework.profile import Profile, build_profiles, named_kinds
from moorage.framework.registry import Registry
from moorage.kube.call_watch import CallWatch
from moorage.kube.client import KubeClient
from moorage.kube.engine_thread import EngineThread
from moorage.kube.event_recorder import EventRecorder
from moorage.kube.executor import Executor
from moorage.kube.http_extender import http_extenders, needs_source, source_needs
from moorage.kube.informers import Informers
from moorage.kube.plugin_client import PluginClient
from moorage.kube.recent_events import RecentEvents
from moorage.kube.resources import RESOURCES
from moorage.kube.shadow import Shadow, ShadowExecutor, ShadowPodHandler
from moorage.kube.store import FunctionHandler, Handler
from moorage.kube.timing import WallTimer

log = logging.getLogger(__name__)

# How long to decide before the loop gets a turn, so that events and bindings do not starve.
_SLICE_SECONDS = 0.01
_NEWS_SECONDS = 0.02
# How long an attempt may compute before the loop gets a turn, how long that is, and after which
# time the attempt gives way to other pods.
_COMPUTING_SECONDS = 0.02
_TURN_SECONDS = 0.002
# After how long an attempt ends if others wait. Doubled with every attempt: a pod that needs more
# time gets it, but many such pods do not keep the others waiting for long.
_FIRST_GIVE_WAY, _LAST_GIVE_WAY = 0.25, 1.0
_DRAIN_SECONDS = 10.0
_LAST_EVENTS_SECONDS = 5.0


def build_scheduler(
    config: KubeSchedulerConfiguration,
    registry: Registry,
    gates: FeatureGates,
    clock: Clock,
    *,
    max_in_unschedulable_seconds: float = 300,
    observer: SchedulerObserver | None = None,
) -> Scheduler:
    """A scheduler that knows no cluster yet, with the extenders of its configuration."""
    return assemble_scheduler(
        config,
        registry,
        gates,
        clock,
        random=Random(),
        pacing=Pacing(time.monotonic),
        extenders=http_extenders(config),
        max_in_unschedulable_seconds=max_in_unschedulable_seconds,
        observer=observer,
    )


def watched_kinds(profiles: Mapping[str, Profile], *, groups: bool = False) -> tuple[str, ...]:
    """Pods, nodes, what the enabled plugins look up, and the custom resources they wait for.

    `groups`: pod groups too, whose outcomes are written even if no plugin looks at them.
    """
    kinds: set[str] = {"PodGroup"} if groups else set()
    for profile in profiles.values():
        for plugin in profile.plugins.values():
            kinds.update(k if isinstance(k, str) else k.__name__ for k in named_kinds(plugin))
    return ("Node", "Pod", *sorted(kinds - {"Node", "Pod"}))


def event_handler(events: EventHandlers, kind: str) -> Handler:
    """What applies the changes of a kind to the cluster state and the queue."""
    match kind:
        case "Pod":
            return FunctionHandler(events.add_pod, events.update_pod, events.delete_pod)
        case "Node":
            return FunctionHandler(events.add_node, events.update_node, events.delete_node)
        case _:
            custom = "" if kind in RESOURCES else kind
            return FunctionHandler(
                partial(events.add_object, custom_resource=custom),
                partial(events.update_object, custom_resource=custom),
                partial(events.delete_object, custom_resource=custom),
            )


class LiveScheduler:
    """A scheduler, its informers, and the executor of its decisions."""

    def __init__(
        self,
        scheduler: Scheduler,
        client: KubeClient,
        recorder: EventRecorder,
        *,
        shadow: Shadow | None = None,
    ) -> None:
        self.scheduler = scheduler
        self.shadow = shadow
        kinds = watched_kinds(scheduler.profiles, groups=scheduler.groups.enabled)
        self.sources = source_needs(scheduler.cycle.extenders)
        """Of which objects extenders may be sent all there is; fixed when the process starts."""
        sources = needs_source(scheduler.cycle.extenders)
        adjust = pod_level_adjustment(scheduler.handle.gates)
        self._wake = asyncio.Event()
        self.informers = Informers(
            client, kinds, needs_source=sources, adjust=adjust, on_failure=self._wake.set
        )
        self._client = client
        self._recorder = recorder
        self._timer = WallTimer()
        self._executor: Executor | ShadowExecutor | None = None
        self._stop = asyncio.Event()
        self._engine = EngineThread(self._attempt_paused)
        self._between_attempts = asyncio.Event()
        self._between_attempts.set()
        self._calls = scheduler.handle.calls
        self._watch = CallWatch(self._calls, self._call_takes_long, self._stop.is_set)
        self._resuming: asyncio.Task[None] | None = None
        self._abandoned = False
        self._following = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._give_way_at = self._last_turn = 0.0
        scheduler.handle.pacing.checkpoint = self._checkpoint
        api = scheduler.handle.api
        api.client, api.rest_config = PluginClient(client), client.access
        if shadow is None:
            api.write_event = self._write_event
        self._add_handlers(self.informers.kinds)

    @property
    def recent_events(self) -> RecentEvents:
        """What events tell of whom."""
        return self._recorder.recent

    @property
    def busy(self) -> bool:
        """Is anything on its way to the API?"""
        return self._executor is None or self._executor.busy

    def stop(self) -> None:
        """Finish what is on its way and return from `run`."""
        self._stop.set()
        self._wake.set()
        # As upstream, which does not wait for extenders either when it ends.
        self._engine.abandon()

    @property
    def synced(self) -> bool:
        """Is everything known that there is to know?"""
        return self.informers.has_synced

    async def run(self, sync_timeout: float | None = None) -> None:
        """Follow the cluster and schedule until `stop`."""
        self.follow()
        try:
            await self.schedule(sync_timeout)
        finally:
            await self.close()

    def follow(self) -> None:
        """Begin to follow the cluster; harmless if repeated."""
        self._following = True
        self._loop = asyncio.get_running_loop()
        self._watch_calls()
        self.informers.start()

    async def known(self) -> None:
        """Return when everything is known that there is to know, or after `stop`."""
        await self._synced_or_stopped(None)

    async def schedule(self, sync_timeout: float | None = None) -> None:
        """Schedule until `stop`, once everything is known."""
        try:
            await self._synced_or_stopped(sync_timeout)
            if self._stop.is_set():
                return
            log_lines.HANDLERS_SYNCED()
            collect_rarely()
            log.info("scheduling for %s", ", ".join(self.scheduler.profiles))
            self._executor = self._make_executor()
            await self._schedule(self._executor)
        finally:
            self._between_attempts.set()
            self._engine.close()
            self.scheduler.queue.close()
            if self._executor is not None:
                await self._executor.drain(0.0 if self._abandoned else _DRAIN_SECONDS)

    async def reload(
        self, config: KubeSchedulerConfiguration, registry: Registry, sync_timeout: float = 60.0
    ) -> None:
        """Go over to a validated configuration; an error leaves everything as it was.

        The new profiles are made beside the old ones, what they look up is listed, and then they
        take over between two attempts. Cluster state and queue stay.

        `ConfigError`: a plugin refuses its arguments, or the change cannot be made at run time.
        `ApiError`: objects that only the new plugins need could not be fetched in time.
        """
        extenders = http_extenders(config)
        missing = source_needs(extenders) - self.sources
        if missing:
            raise ConfigError(
                "extenders: they need whole objects that were not kept so far "
                f"({', '.join(sorted(missing))}); restart to use them"
            )
        await self.between_attempts()
        profiles = build_profiles(config, registry, self.scheduler.handle)
        await self._follow_kinds(watched_kinds(profiles), sync_timeout)
        await self.between_attempts()
        self.scheduler.reload(
            profiles,
            extenders,
            initial_backoff_seconds=config.pod_initial_backoff_seconds,
            max_backoff_seconds=config.pod_max_backoff_seconds,
        )
        self._watch_calls()
        self.wake()

    def wake(self) -> None:
        """Look at the queue again."""
        self._wake.set()

    async def _follow_kinds(self, kinds: Iterable[str], timeout: float) -> None:
        """Follow kinds until they are synced; `ApiError` if that takes too long, and drop them."""
        fresh = self.informers.add(kinds)
        self._add_handlers(fresh)
        if self._following and not self._stop.is_set():
            self.informers.start()
            try:
                await self.informers.wait_for_sync(timeout, fresh)
            except BaseException:
                await self.informers.drop(fresh)
                raise
        self.informers.keep(fresh)

    async def between_attempts(self) -> None:
        """Return when no pod is being decided about; true until the caller awaits something else.

        Only an attempt that waits for extenders or searches for devices can be met in the middle.
        """
        while not self._between_attempts.is_set():
            await self._between_attempts.wait()

    def abandon(self) -> None:
        """Stop at once: nothing may be written from now on, not even what is on its way."""
        self._abandoned = True
        if self._executor is not None:
            self._executor.cancel()
        self.stop()

    async def close(self) -> None:
        """Stop following, and write the last events."""
        self._watch.stop()
        await self.informers.stop()
        await self._recorder.close(0.0 if self._abandoned else _LAST_EVENTS_SECONDS)

    async def _synced_or_stopped(self, timeout: float | None) -> None:
        synced = asyncio.create_task(self.informers.wait_for_sync(timeout))
        stopped = asyncio.create_task(self._stop.wait())
        await asyncio.wait({synced, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if self._stop.is_set():
            synced.cancel()
        await asyncio.gather(stopped, return_exceptions=True)
        if not self._stop.is_set():
            await synced

    def _make_executor(self) -> Executor | ShadowExecutor:
        if self.shadow is not None:
            return ShadowExecutor(self.scheduler, self.shadow, self.between_attempts)
        self._recorder.start()
        return Executor(
            self.scheduler,
            self._client,
            self._recorder,
            self._timer,
            self._wake.set,
            between_attempts=self.between_attempts,
        )

    async def _schedule(self, executor: Executor | ShadowExecutor) -> None:
        scheduler = self.scheduler
        while not self._stop.is_set():
            self.informers.raise_failure()
            await self.between_attempts()
            self._wake.clear()
            scheduler.run_timers()
            if scheduler.cycle.extenders or self._next_may_take_long():
                busy = await self._schedule_one_in_thread(executor)
            else:
                busy = self._schedule_some()
                executor.carry_out()
            if scheduler.awaits_news:
                # Several turns of the loop, in which the watches read what has arrived.
                await asyncio.sleep(_NEWS_SECONDS)
            elif busy:
                await asyncio.sleep(0)
            else:
                await self._idle()

    def _schedule_some(self) -> bool:
        """Decide for a while; False if there is nothing more to decide."""
        scheduler = self.scheduler
        until = time.monotonic() + _SLICE_SECONDS
        busy = True
        while busy and time.monotonic() < until:
            busy = scheduler.schedule_one()
            if scheduler.awaits_news or self._next_may_take_long():
                break
        return busy

    def _next_may_take_long(self) -> bool:
        """Is the next pod one whose attempt must not block the loop?"""
        scheduler = self.scheduler
        if scheduler.awaits_news:
            return True  # the rest of a group, whose pods are not looked at one by one
        entity = scheduler.queue.peek()
        if entity is None:
            return False
        profile = scheduler.profiles.get(entity.sorted_as.spec.scheduler_name)
        if profile is None:
            return False
        return any(profile.may_take_long(info.pod) for info in entity.infos)

    def _checkpoint(self) -> bool:
        """A long computation goes on: the loop gets a turn now and then.

        True if the attempt has taken its time and other pods wait. What is computed in the loop's
        own thread, as for an explanation, cannot be interrupted.
        """
        now = time.monotonic()
        if now - self._last_turn < _COMPUTING_SECONDS:
            return False
        with self._engine.pause() as paused:
            if paused:
                time.sleep(_TURN_SECONDS)
        self._last_turn = time.monotonic()
        if not paused or now < self._give_way_at:
            return False
        return self.scheduler.queue.has_ready_pods or self.informers.has_news

    async def _schedule_one_in_thread(self, executor: Executor | ShadowExecutor) -> bool:
        """Decide about one pod; the loop goes on at questions to extenders and checkpoints."""
        scheduler, engine = self.scheduler, self._engine
        for extender in scheduler.cycle.extenders:
            extender.pause = engine.pause
        entity = scheduler.queue.peek()
        attempts = 0 if entity is None else min(entity.attempts, 8)
        self._last_turn = time.monotonic()
        self._give_way_at = self._last_turn + min(_LAST_GIVE_WAY, _FIRST_GIVE_WAY * 2**attempts)
        try:
            busy = await engine.run(scheduler.schedule_one)
        except AbandonedError:
            return False
        executor.carry_out()
        if self.informers.held:
            await self.informers.catch_up()
            self._between_attempts.set()
        return busy

    def _attempt_paused(self) -> None:
        """An attempt waits or lets the loop have a turn: what it looks at must not change."""
        self._between_attempts.clear()
        self.informers.hold()

    def _watch_calls(self) -> None:
        """See to it that plugins which are not in-tree cannot keep the process waiting."""
        profiles = self.scheduler.profiles.values()
        if self._loop is not None and any(
            not is_ours(type(plugin)) for one in profiles for plugin in one.plugins.values()
        ):
            self._watch.start(asyncio.get_running_loop())

    def _call_takes_long(self) -> None:
        """The loop goes on while a plugin is at work: what it looks at must not change."""
        self._attempt_paused()
        if self._resuming is None:
            self._resuming = asyncio.create_task(self._resume(), name="after a long call")

    async def _resume(self) -> None:
        """Handle what was held back, once the plugin is through."""
        while self._calls.current is not None or self._engine.at_work:
            await asyncio.sleep(_TURN_SECONDS)
        self._resuming = None
        await self.informers.catch_up()
        self._between_attempts.set()
        self.wake()

    async def _idle(self) -> None:
        """Wait for an event or for the next timer; what is left to be recorded comes first."""
        rest = self.scheduler.recorder.rest()
        wakeup = self.scheduler.next_wakeup()
        seconds = None if wakeup is None else max(0.0, wakeup - self.scheduler.clock.now())
        if rest is not None:
            seconds = rest if seconds is None else min(rest, seconds)
        if self._wake.is_set():
            await asyncio.sleep(0)
            return
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return

    def _write_event(self, *args: Any, **fields: Any) -> None:
        """Write a plugin's event, whichever thread the plugin runs in."""
        write = partial(self._recorder.event, *args, **fields)
        if self._loop is None:
            write()  # nothing is sent yet
        else:
            self._loop.call_soon_threadsafe(write)

    def _look(self, *_: object) -> None:
        """Something changed: look at the queue again, unless no change can matter there.

        Each bound pod comes back as an event, most often when nothing waits any more.
        """
        if self.shadow is not None or not self.scheduler.at_rest:
            self._wake.set()

    def _add_handlers(self, kinds: Iterable[str]) -> None:
        add = self.informers.add_handler
        for kind in kinds:
            if kind == "Pod" and self.shadow is not None:
                add(kind, ShadowPodHandler(self.shadow))  # before the state changes
            add(kind, event_handler(self.scheduler.handlers, kind))
            add(kind, FunctionHandler(self._look, self._look, self._look, self._look))
