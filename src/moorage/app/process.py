"""The scheduler process: all its parts put together, started in upstream's order, and ended.

Owns that order and the exit codes. Making a `Process` does everything that can fail for a reason in
the flags, the files or the configuration; `run` then serves and schedules until a signal, or until
the lease is lost.
"""

import asyncio
import contextlib
import logging
import os
import platform
import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from moorage.app.config_sources import Source
from moorage.app.health import Health
from moorage.app.logs import Logs
from moorage.app.merged_config import Completed
from moorage.app.port import Port
from moorage.app.reload import Reloader, Subject, subject
from moorage.config import KubeSchedulerConfiguration, shown_config
from moorage.engine.clock import WallClock
from moorage.engine.scheduler import Scheduler
from moorage.errors import ConfigError
from moorage.framework.registry import Registry
from moorage.kube.access import Access
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
from moorage.kube.shadow import Comparison, Shadow
from moorage.log_fields import fields
from moorage.metrics.exporter import AllMetrics
from moorage.model.pod import Pod
from moorage.version import KUBERNETES_VERSION, __version__

if TYPE_CHECKING:  # loaded only where they are needed
    from moorage.http.endpoints import Endpoints
    from moorage.kube.explainer import Explainer
    from moorage.ledger import Ledger

log = logging.getLogger(__name__)

DONE = 0
FAILED = 1


def build(completed: Completed, registry: Registry, metrics: AllMetrics) -> Scheduler:
    """The scheduler of a configuration; what its plugins object to is the configuration's fault."""
    held = completed.options.pod_max_in_unschedulable_pods_duration.seconds
    try:
        return build_scheduler(
            completed.config,
            registry,
            completed.gates,
            WallClock(),
            max_in_unschedulable_seconds=held,
            observer=metrics.scheduler,
            queue_observer=metrics.queue,
        )
    except ConfigError as error:
        told = str(error).removeprefix("initializing profiles: ")
        raise ConfigError(f"initializing profiles: {told}") from error


class Process:
    """One scheduler process."""

    def __init__(
        self,
        completed: Completed,
        shown: KubeSchedulerConfiguration,
        source: Source | None,
        scheduler: Scheduler,
        registry: Registry,
        metrics: AllMetrics,
        access: Access,
        port: Port | None,
        logs: Logs,
        ledger: "Ledger | None" = None,
    ) -> None:
        self._completed = completed
        self._options = completed.options
        self._config = completed.config
        self._shown = shown
        self._source = source
        self._registry = registry
        self._metrics = metrics
        self._access = access
        self._port = port
        self._logs = logs
        self._ledger = ledger
        self._explainer: Explainer | None = None
        self._started = time.time()
        self._scheduler = scheduler
        self._stop = asyncio.Event()
        self._clients: list[KubeClient] = []
        self._shadow = Shadow(scheduler, self._compared) if self._options.moorage.shadow else None
        # Without a lease of its own a shadow can run beside the scheduler that leads.
        self._elects = self._config.leader_election.leader_elect and self._shadow is None
        self._identity = default_identity()
        if self._elects:
            try:
                check_parameters(self._config.leader_election, self._identity)
            except ConfigError as error:
                raise ConfigError(f"couldn't create leader elector: {error}") from error

    async def run(self) -> int:
        """Serve and schedule; returns the exit code."""
        async with contextlib.AsyncExitStack() as stack:
            if self._ledger is not None:
                stack.callback(self._ledger.close)
            self._assemble(stack)
            log.info(
                "Starting Kubernetes Scheduler",
                extra=fields(version=KUBERNETES_VERSION, moorage=__version__),
            )
            log.info("Python settings", extra=fields(version=platform.python_version()))
            self._listen_to_signals()
            await self._serve(stack)
            self._reloading = asyncio.create_task(self._reloader.run(), name="reloading")
            self._reloading.add_done_callback(_report)
            if self._elector is None:
                return await self._run_alone()
            return await self._run_elected(self._elector, stack)

    # Putting the parts together

    def _assemble(self, stack: contextlib.AsyncExitStack) -> None:
        # Asked before each write: a process that stood still does not know yet that it lost.
        client = self._client("scheduler", may_write=self._is_its_turn)
        recorder = EventRecorder(self._client())
        self._live = LiveScheduler(self._scheduler, client, recorder, shadow=self._shadow)
        self._metrics.operations.count_skipped(self._live.informers.skipped_by_kind)
        self._elector: LeaderElector | None = None
        self._candidate: LeaseCandidate | None = None
        self._events: LeaseEvents | None = None
        if self._elects:
            self._elector = self._make_elector()
        for one in self._clients:
            stack.push_async_callback(one.close)
        if self._events is not None:  # before the client that writes them
            stack.push_async_callback(self._events.close)
        if self._options.moorage.explain_annotations:
            self._annotate(stack)
        self._health = Health(self._live, self._elector, self._candidate)
        self._reloader = Reloader(
            self._live,
            self._source,
            self._shown,
            self._registry,
            client=client,
            recorder=recorder,
            metrics=self._metrics.operations,
            regarding=self._regarding(),
            read=self._config,
            watch=self._options.moorage.watch_config,
        )

    def _annotate(self, stack: contextlib.AsyncExitStack) -> None:
        """Have decisions written to pods, by a client of its own so that binding need not wait."""
        from moorage.kube.annotations import AnnotationWriter

        assert self._ledger is not None, "the options have been checked"
        client = self._client("explain", may_write=self._is_its_turn)
        stack.push_async_callback(client.close)
        writer = AnnotationWriter(self._scheduler, self._ledger, client)
        stack.push_async_callback(writer.close)
        self._live.informers.add_handler("Pod", writer)

    def _client(self, suffix: str = "", may_write: Callable[[], bool] | None = None) -> KubeClient:
        connection = self._config.client_connection
        client = KubeClient(
            self._access,
            qps=connection.qps,
            burst=connection.burst,
            agent=user_agent(suffix),
            observe=self._metrics.client,
            read_only=self._shadow is not None,
            may_write=may_write,
        )
        self._clients.append(client)
        return client

    def _is_its_turn(self) -> bool:
        return self._elector is None or self._elector.holds_lease

    def _make_elector(self) -> LeaderElector:
        election, connection = self._config.leader_election, self._config.client_connection
        client = election_client(
            self._access,
            election,
            qps=connection.qps,
            burst=connection.burst,
            observe=self._metrics.client,
        )
        self._clients.append(client)
        self._events = LeaseEvents(client, next(iter(self._scheduler.profiles)))
        coordinated = self._completed.gates.enabled("CoordinatedLeaderElection")
        if coordinated:
            version = self._completed.gates.version
            self._candidate = LeaseCandidate(
                client,
                self._identity,
                binary_version=KUBERNETES_VERSION.removeprefix("v"),
                emulation_version=f"{version.emulation}.0",
                lease_name=election.resource_name,
                namespace=election.resource_namespace,
            )
        return LeaderElector(
            client,
            election,
            self._identity,
            observer=self._metrics.election,
            events=self._events,
            coordinated=coordinated,
        )

    def _regarding(self) -> Subject:
        """What events about the configuration are written on."""
        key = None if self._source is None else self._source.config_map
        if key is not None:
            return subject("ConfigMap", "v1", key.namespace, key.name)
        namespace, name = os.environ.get("POD_NAMESPACE", ""), os.environ.get("POD_NAME", "")
        if namespace and name:
            return subject("Pod", "v1", namespace, name)
        lease = self._config.leader_election
        return subject(
            "Lease", "coordination.k8s.io/v1", lease.resource_namespace, lease.resource_name
        )

    # The port

    async def _serve(self, stack: contextlib.AsyncExitStack) -> None:
        if self._port is None:
            return
        stack.push_async_callback(self._port.stop)
        # Before the port is closed: who follows decisions would not go by themselves.
        stack.callback(self._dismiss)
        await self._port.start(self._pages, self._end)

    def _pages(self) -> "Endpoints":
        from moorage.app.pages import endpoints
        from moorage.kube.explainer import Explainer

        self._explainer = Explainer(
            self._live,
            self._ledger,
            configuration=lambda: shown_config(self._reloader.config),
            leads=self._leads,
        )
        return endpoints(
            self._completed,
            self._health,
            self._metrics,
            started=self._started,
            resources=self._resources,
            configz=lambda: shown_config(self._reloader.config),
            set_verbosity=self._logs.set_verbosity,
            shadow=self._shadow,
            explainer=self._explainer,
        )

    def _dismiss(self) -> None:
        if self._explainer is not None:
            self._explainer.close()

    def _leads(self) -> bool:
        return self._elector is None or self._elector.is_leader

    def _resources(self, accept: str) -> tuple[str, bytes] | None:
        del accept
        if not self._leads():
            return None
        return self._metrics.render_resources(self._scheduler.state.listers.of(Pod))

    def _compared(self, comparison: Comparison) -> None:
        self._metrics.operations.shadow_compared(comparison.outcome)

    # Running

    async def _run_alone(self) -> int:
        self._live.follow()
        try:
            await self._live.schedule()
        finally:
            await self._close()
        self._check_port()
        if self._shadow is not None:
            log.info("shadow: %s", self._shadow.summary())
            return DONE
        raise ConfigError("finished without leader elect")

    async def _run_elected(self, elector: LeaderElector, stack: contextlib.AsyncExitStack) -> int:
        if self._candidate is not None:
            task = asyncio.create_task(self._candidate.run(), name="the lease candidate")
            task.add_done_callback(_report)
            stack.push_async_callback(_cancelled, task)
        live = self._live
        stack.push_async_callback(self._close)
        if not self._config.delay_cache_until_active:
            live.follow()
            await live.known()

        async def lead() -> None:
            live.follow()
            await live.schedule()

        ended = await elector.run(
            self._stop,
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
        if self._port is not None and self._port.failure is not None:
            raise self._port.failure

    async def _close(self) -> None:
        """Reload no more, then follow the cluster no more."""
        await _cancelled(self._reloading)
        await self._live.close()

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._told_to_stop)
        loop.add_signal_handler(signal.SIGHUP, self._reloader.ask)
        loop.add_signal_handler(signal.SIGUSR2, dump, self._scheduler, self._live.informers)

    def _told_to_stop(self) -> None:
        """The first signal ends the process in good order, the second at once."""
        if self._stop.is_set():
            os._exit(FAILED)
        self._end()

    def _end(self) -> None:
        self._stop.set()
        self._health.shutting_down = True
        self._live.stop()


async def _cancelled(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _report(task: "asyncio.Task[None]") -> None:
    """Nothing else would tell of work that ended although it should go on."""
    if not task.cancelled() and task.exception() is not None:
        log.error("%s ended", task.get_name(), exc_info=task.exception())
