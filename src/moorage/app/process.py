"""The scheduler process: all its parts built in one place, started in upstream's order, and ended.

`run_scheduler` is the composition root: it builds every part and hands it to those that need it.
Everything that can fail for a reason in the flags, the files or the configuration comes first, so
that nothing has been started when it fails. `Process` owns the order of start and end, and the exit
codes.
"""

import asyncio
import contextlib
import logging
import os
import platform
import signal
import time
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from moorage import log_lines
from moorage.app.config_sources import ConfigSource, source_of
from moorage.app.logs import Logs
from moorage.app.merged_config import complete, log_or_write_config
from moorage.app.options import Options
from moorage.app.pages import Health, Pages
from moorage.app.plugin_faults import report_faults
from moorage.app.plugin_reload import PluginFiles
from moorage.app.reload import EventSubject, Reloader, subject
from moorage.config import KubeSchedulerConfiguration
from moorage.config.types import LeaderElectionConfiguration
from moorage.connections.memory import collect_after_start, give_back_freed_memory
from moorage.engine.clock import WallClock
from moorage.engine.scheduler import Scheduler
from moorage.errors import ConfigError
from moorage.framework.plugin import Plugin
from moorage.framework.registry import Registry
from moorage.http.options import EXPLAIN_PUBLIC_PATHS
from moorage.http.secure_port import SecurePort
from moorage.kube.access import Access
from moorage.kube.access_discovery import scheduler_access
from moorage.kube.client import KubeClient, user_agent
from moorage.kube.debugger import dump
from moorage.kube.event_recorder import EventRecorder
from moorage.kube.leader_election import (
    Ended,
    LeaderElector,
    check_parameters,
    default_identity,
    election_client,
)
from moorage.kube.lease import LeaseEvents
from moorage.kube.lease_candidate import LeaseCandidate
from moorage.kube.live import LiveScheduler, build_scheduler
from moorage.kube.shadow import Shadow, tell_often
from moorage.kube.timing import WallTimer
from moorage.log_fields import fields
from moorage.metrics.exporter import AllMetrics
from moorage.version import KUBERNETES_VERSION, __version__

if TYPE_CHECKING:  # loaded only where they are needed
    from moorage.ledger import Ledger

log = logging.getLogger(__name__)

DONE = 0
FAILED = 1


async def run_scheduler(options: Options, logs: Logs, plugins: Iterable[type[Plugin]] = ()) -> int:
    """Build the process part by part, and run it; returns the exit code.

    `plugins` are known beside the in-tree ones and those of installed packages.
    """
    started = time.time()
    config, source = await _configuration(options)
    metrics = AllMetrics(options.gates, options.metrics)
    port = open_port(options, metrics)
    try:
        access = scheduler_access(config.client_connection.kubeconfig, options.master)
        plugin_files = PluginFiles(options.moorage.plugin, plugins)
        scheduler = _scheduler(options, config, plugin_files.registry(), metrics)
        shown = log_or_write_config(config, options.write_config_to)
        if options.write_config_to:
            return DONE
        ledger = _ledger(options)
        shadow = _shadow(options, scheduler, metrics)
        # Without a lease of its own a shadow can run beside the scheduler that leads.
        elects = config.leader_election.leader_elect and shadow is None
        identity = _identity(config.leader_election) if elects else ""
    except BaseException:
        if port is not None:
            port.abandon()
        raise

    async with contextlib.AsyncExitStack() as stack:
        if ledger is not None:
            scheduler.record(ledger.recorder)
            stack.callback(ledger.close)
        elector, candidate = None, None
        if elects:
            elector, candidate = _election(
                stack, options, config, access, identity, scheduler, metrics
            )
        # Asked before each write: a process that stood still does not know yet that it lost.
        may_write = None if elector is None else lambda: elector.holds_lease
        make_client = partial(
            KubeClient,
            access,
            qps=config.client_connection.qps,
            burst=config.client_connection.burst,
            observe=metrics.client,
            read_only=shadow is not None,
        )
        client = make_client(agent=user_agent("scheduler"), may_write=may_write)
        events_client = make_client()
        recorder = EventRecorder(events_client)
        stack.push_async_callback(client.close)
        stack.push_async_callback(events_client.close)
        live = LiveScheduler(scheduler, client, recorder, shadow=shadow)
        regarding = _regarding(source, config.leader_election)
        report_faults(
            scheduler.handle,
            regarding,
            row=options.moorage.plugin_faults_in_a_row,
            count=metrics.operations.plugin_failed,
        )
        metrics.operations.count_skipped(live.informers.skipped_by_kind)
        metrics.client.tell_followed(live.informers.followed)
        if options.moorage.explain_annotations:
            # A client of its own, so that binding need not wait.
            annotator = make_client(agent=user_agent("explain"), may_write=may_write)
            stack.push_async_callback(annotator.close)
            _annotate(stack, live, ledger, annotator)
        reloader = Reloader(
            live,
            source,
            shown,
            plugin_files,
            client=client,
            recorder=recorder,
            metrics=metrics.operations,
            regarding=regarding,
            read=config,
            watch=options.moorage.watch_config,
        )
        health = Health(live, elector, candidate)
        pages = Pages(options, config, health, metrics, live, reloader, logs, ledger, started)
        process = SchedulerProcess(config, live, elector, candidate, reloader, health, port)
        return await process.run(stack, pages)


# Before anything is started


async def _configuration(
    options: Options,
) -> tuple[KubeSchedulerConfiguration, ConfigSource | None]:
    """The configuration to begin with, and where it can be read again."""
    config = complete(options)
    source = source_of(options)
    if source is None or options.config_file:
        return config, source
    async with contextlib.AsyncExitStack() as stack:
        client: KubeClient | None = None
        if source.config_map is not None:
            kubeconfig = options.client_connection.get("kubeconfig", "")
            access = scheduler_access(kubeconfig, options.master)
            client = await stack.enter_async_context(KubeClient(access))
        return await source.load(client), source


def open_port(options: Options, metrics: AllMetrics) -> SecurePort | None:
    """The secure port of the flags, opened; None if it is switched off."""
    if options.serving.secure_port == 0:
        return None
    authorization = options.authorization
    if options.moorage.explain_page:
        # The page shows nothing by itself, and must be there to ask for a token.
        paths = (*authorization.always_allow_paths, *EXPLAIN_PUBLIC_PATHS)
        authorization = replace(authorization, always_allow_paths=paths)
    return SecurePort(
        options.serving, options.authentication, authorization, observer=metrics.serving
    )


def _scheduler(
    options: Options, config: KubeSchedulerConfiguration, registry: Registry, metrics: AllMetrics
) -> Scheduler:
    """The scheduler; what its plugins object to is the configuration's fault."""
    try:
        scheduler = build_scheduler(
            config,
            registry,
            options.gates,
            WallClock(),
            max_in_unschedulable_seconds=options.pod_max_in_unschedulable_pods_duration.seconds,
            observer=metrics.scheduler,
        )
        scheduler.handle.calls.seconds.update(options.moorage.plugin_call_seconds)
        return scheduler
    except ConfigError as error:
        reason = str(error).removeprefix("initializing profiles: ")
        raise ConfigError(f"initializing profiles: {reason}") from error


def _ledger(options: Options) -> "Ledger | None":
    """The ledger of the flags; an `InputError` if its directory cannot be used."""
    own = options.moorage
    is_read = own.ledger or own.explain_annotations or options.serving.secure_port
    if own.ledger_memory == 0 or not is_read:
        return None
    from moorage.ledger import Ledger

    return Ledger(own.ledger_memory, own.ledger or None)


def _shadow(options: Options, scheduler: Scheduler, metrics: AllMetrics) -> Shadow | None:
    if not options.moorage.shadow:
        return None
    count = metrics.operations.shadow_compared
    return Shadow(scheduler, lambda comparison: count(comparison.outcome))


def _identity(election: LeaderElectionConfiguration) -> str:
    identity = default_identity()
    try:
        check_parameters(election, identity)
    except ConfigError as error:
        raise ConfigError(f"couldn't create leader elector: {error}") from error
    return identity


# Parts with parts of their own


def _election(
    stack: contextlib.AsyncExitStack,
    options: Options,
    config: KubeSchedulerConfiguration,
    access: Access,
    identity: str,
    scheduler: Scheduler,
    metrics: AllMetrics,
) -> tuple[LeaderElector, LeaseCandidate | None]:
    election, connection = config.leader_election, config.client_connection
    client = election_client(
        access, election, qps=connection.qps, burst=connection.burst, observe=metrics.client
    )
    stack.push_async_callback(client.close)
    events = LeaseEvents(client, next(iter(scheduler.profiles)))
    stack.push_async_callback(events.close)
    coordinated = options.gates.enabled("CoordinatedLeaderElection")
    candidate = None
    if coordinated:
        candidate = LeaseCandidate(
            client,
            identity,
            binary_version=KUBERNETES_VERSION.removeprefix("v"),
            emulation_version=f"{options.gates.version.emulation}.0",
            lease_name=election.resource_name,
            namespace=election.resource_namespace,
        )
    elector = LeaderElector(
        client,
        election,
        identity,
        observer=metrics.election,
        events=events,
        coordinated=coordinated,
    )
    return elector, candidate


def _annotate(
    stack: contextlib.AsyncExitStack,
    live: LiveScheduler,
    ledger: "Ledger | None",
    client: KubeClient,
) -> None:
    """Have decisions written to pods."""
    from moorage.kube.annotations import AnnotationWriter

    assert ledger is not None, "the options have been checked"
    writer = AnnotationWriter(live.scheduler, ledger, client)
    stack.push_async_callback(writer.close)
    live.informers.add_handler("Pod", writer)


def _regarding(source: ConfigSource | None, lease: LeaderElectionConfiguration) -> EventSubject:
    """What events about the configuration are written on."""
    key = None if source is None else source.config_map
    if key is not None:
        return subject("ConfigMap", "v1", key.namespace, key.name)
    namespace, name = os.environ.get("POD_NAMESPACE", ""), os.environ.get("POD_NAME", "")
    if namespace and name:
        return subject("Pod", "v1", namespace, name)
    return subject("Lease", "coordination.k8s.io/v1", lease.resource_namespace, lease.resource_name)


@dataclass(slots=True)
class SchedulerProcess:
    """The parts at work: port, informers, election, scheduling, in upstream's order."""

    config: KubeSchedulerConfiguration
    live: LiveScheduler
    elector: LeaderElector | None
    candidate: LeaseCandidate | None
    reloader: Reloader
    health: Health
    port: SecurePort | None
    stop: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, stack: contextlib.AsyncExitStack, pages: Pages) -> int:
        """Serve and schedule; returns the exit code."""
        log.info(
            "Starting Kubernetes Scheduler",
            extra=fields(version=KUBERNETES_VERSION, moorage=__version__),
        )
        log.info("Python settings", extra=fields(version=platform.python_version()))
        self._listen_to_signals()
        if self.port is not None:
            stack.push_async_callback(self.port.stop)
            # Before the port is closed: streams of decisions do not end by themselves.
            stack.callback(pages.close)
            await self.port.start(pages.endpoints, self._end)
        for work in (give_back_freed_memory(), collect_after_start()):
            stack.push_async_callback(_cancelled, _background(work, "tending memory"))
        reloading = _background(self.reloader.run(), "reloading")
        if self.elector is None:
            return await self._run_alone(stack, reloading)
        return await self._run_elected(self.elector, stack, reloading)

    async def _run_alone(
        self, stack: contextlib.AsyncExitStack, reloading: "asyncio.Task[None]"
    ) -> int:
        self.live.follow()
        shadow = self.live.shadow
        if shadow is not None:
            telling = _background(tell_often(shadow, WallTimer()), "telling of the shadow")
            stack.push_async_callback(_cancelled, telling)
        try:
            await self.live.schedule()
        finally:
            await self._close(reloading)
        self._check_port()
        if shadow is not None:
            log.info("shadow: %s", shadow.summary())
            return DONE
        raise ConfigError("finished without leader elect")

    async def _run_elected(
        self,
        elector: LeaderElector,
        stack: contextlib.AsyncExitStack,
        reloading: "asyncio.Task[None]",
    ) -> int:
        if self.candidate is not None:
            candidacy = _background(self.candidate.run(), "the lease candidate")
            stack.push_async_callback(_cancelled, candidacy)
        live = self.live
        stack.push_async_callback(self._close, reloading)
        if not self.config.delay_cache_until_active:
            live.follow()
            await live.known()

        async def lead() -> None:
            live.follow()
            if self.config.delay_cache_until_active:
                log_lines.STARTING_INFORMERS()
                await live.known()
                log_lines.SYNC_COMPLETED()
            await live.schedule()

        ended = await elector.run(
            self.stop,
            on_started=lead,
            on_lost=live.abandon,
            on_new_leader=lambda leader: log.info(
                "New leader elected", extra=fields(identity=leader)
            ),
        )
        self._check_port()
        if ended is Ended.LOST:
            log.error("Leaderelection lost")
            return FAILED
        log.info("Requested to terminate, exiting")
        return DONE

    def _check_port(self) -> None:
        """If it ended because the port could not be served, that is how it ends."""
        if self.port is not None and self.port.failure is not None:
            raise self.port.failure

    async def _close(self, reloading: "asyncio.Task[None]") -> None:
        """Reload no more, then follow the cluster no more."""
        await _cancelled(reloading)
        await self.live.close()

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop_signal)
        loop.add_signal_handler(signal.SIGHUP, self.reloader.ask)
        loop.add_signal_handler(signal.SIGUSR2, dump, self.live.scheduler, self.live.informers)

    def _stop_signal(self) -> None:
        """The first signal ends the process in good order, the second at once."""
        if self.stop.is_set():
            os._exit(FAILED)
        self._end()

    def _end(self) -> None:
        self.stop.set()
        self.health.shutting_down = True
        self.live.stop()


def _background(work: Coroutine[Any, Any, None], name: str) -> "asyncio.Task[None]":
    """A task that goes on by itself; the log says so if it ends although it should not."""
    task = asyncio.create_task(work, name=name)
    task.add_done_callback(_report)
    return task


def _report(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and task.exception() is not None:
        log.error("%s ended", task.get_name(), exc_info=task.exception())


async def _cancelled(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
