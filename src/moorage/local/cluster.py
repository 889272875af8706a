"""A whole cluster in one process: API server, kubelets, controllers, scheduler, page, files."""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from moorage.apiserver.server import ApiServer
from moorage.config import FeatureGates, KubeSchedulerConfiguration
from moorage.config.encoding import shown_config
from moorage.controllers.kubelet import KubeletOptions
from moorage.engine.clock import WallClock
from moorage.errors import InputError
from moorage.framework.registry import Registry
from moorage.http.endpoints import Endpoints, HealthCheck, Route
from moorage.http.explain_api import explain_routes
from moorage.http.explain_page import page_routes
from moorage.http.local_console import LocalConsole
from moorage.http.pages import configz, health_routes, metric_routes
from moorage.kube.access import Access
from moorage.kube.client import KubeClient
from moorage.kube.event_recorder import EventRecorder
from moorage.kube.explainer import Explainer
from moorage.kube.live import LiveScheduler, build_scheduler
from moorage.kube.timing import WallTimer
from moorage.ledger import Ledger
from moorage.local.api_server import OtherApi
from moorage.local.controllers import Controllers
from moorage.local.creation import Document, define_kinds
from moorage.local.kubelets import kubelets
from moorage.metrics.exporter import AllMetrics
from moorage.metrics.pod_resources import render_pod_resources
from moorage.model.pod import Pod

# The client of one's own server need not be held back.
_QPS = 100_000.0
# Nobody waits for a node's lease to run out here.
_LEASE_SECONDS = 60.0
_LEDGER_BYTES = 2 * 2**20
_POLL_SECONDS = 0.05
# A preemptor comes back after its victims are gone; a quiet moment shorter than that is not peace.
_QUIET_SECONDS = 1.5
_PATIENCE = 4
"""So many errors in a row, and the next attempt will hardly end in another way."""


class LocalCluster:
    """A cluster that lives and dies with this object, but for another API server it may be on."""

    def __init__(
        self,
        config: KubeSchedulerConfiguration,
        registry: Registry,
        gates: FeatureGates,
        *,
        data: Path | None = None,
        other: OtherApi | None = None,
    ) -> None:
        self._server = ApiServer(data=data) if other is None else None
        self._other = other
        self._config = config
        self.metrics = AllMetrics(gates)
        self._scheduler = build_scheduler(
            config, registry, gates, WallClock(), observer=self.metrics.scheduler
        )
        self._clients: list[KubeClient] = []
        self._timer = WallTimer()
        self._work: asyncio.Task[None] | None = None
        self._runners: list[Controllers] = []
        self._running: list[asyncio.Task[None]] = []
        self.live: LiveScheduler | None = None
        self.recorder: EventRecorder | None = None
        self.console: LocalConsole | None = None
        """Where the page is, if there is one."""
        self._explainer: Explainer | None = None

    async def start(
        self,
        port: int = 0,
        page_port: int | None = None,
        documents: Iterable[tuple[Document, str]] = (),
    ) -> None:
        """Serve, then schedule; with a port for it (0 picks one) there is a page to look at.

        Kinds that `documents` define are there before the scheduler looks for them.
        """
        if page_port is not None:
            self.console = _console(page_port)
        options = KubeletOptions(lease_seconds=_LEASE_SECONDS)
        if self._server is not None:
            await self._server.start(port=port)
        elif self._other is not None:
            await self._other.check()
            options = self._other.kubelets
        self._run(kubelets(self.client(), options), "kubelets")
        client, events = self.client(), self.client()
        await define_kinds(client, documents)
        self.recorder = EventRecorder(events)
        self.live = LiveScheduler(self._scheduler, client, self.recorder)
        if self.console is not None:
            await self._show(self.console, self.live)
        self._work = asyncio.create_task(self.live.run())

    def start_controllers(self) -> None:
        """Bring about what Deployments and the like ask for.

        Objects from files are there before, so that pods among them are not made twice.
        """
        assert self.recorder is not None, "start first"
        self._run(Controllers(self.client(), self.recorder), "controllers")

    def _run(self, runner: Controllers, name: str) -> None:
        self._runners.append(runner)
        self._running.append(asyncio.create_task(runner.run(), name=name))

    async def stop(self) -> None:
        """End everything in order."""
        async with contextlib.AsyncExitStack() as stack:
            if self._explainer is not None:
                self._explainer.close()
            if self.console is not None:
                await self.console.stop()
            if self._server is not None:
                stack.push_async_callback(self._server.stop)
            for client in self._clients:
                stack.push_async_callback(client.close)
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)
            if self.live is None or self._work is None or self._work.done():
                return  # a scheduler that ended earlier has told so to `run_forever`
            self.live.stop()
            await self._work

    @property
    def server(self) -> ApiServer:
        """The embedded API server, unless the cluster is on another one."""
        assert self._server is not None, "the cluster is on another server"
        return self._server

    @property
    def access(self) -> Access:
        """How to reach the API server."""
        if self._other is not None:
            return self._other.access
        return Access(server=self.server.url, source="the local cluster")

    def client(self) -> KubeClient:
        """A client of this cluster; it is closed with it."""
        client = KubeClient(self.access, qps=_QPS, burst=int(_QPS))
        self._clients.append(client)
        return client

    async def run_forever(self) -> None:
        """Return when the scheduler ends, which it does only when it is stopped or fails."""
        assert self._work is not None, "start first"
        await asyncio.shield(self._work)

    async def settled(self, seconds: float) -> bool:
        """Wait until every pod has found a place or been told why not; False if time runs out.

        Pods whose attempts end in errors again and again are not waited for.
        """
        deadline = self._timer.now() + seconds
        quiet_since: float | None = None
        while (now := self._timer.now()) < deadline:
            if self._busy():
                quiet_since = None
            elif quiet_since is None:
                quiet_since = now
            elif now - quiet_since >= _QUIET_SECONDS:
                return True
            await self._timer.sleep(_POLL_SECONDS)
        return False

    @property
    def failing(self) -> Sequence[Pod]:
        """The pods whose attempts end in errors again and again."""
        return [
            pod
            for pod in self._scheduler.queue.view.pending_pods().pods
            if self._keeps_failing(pod)
        ]

    async def _show(self, console: LocalConsole, live: LiveScheduler) -> None:
        """Record decisions, and serve the page that explains them, health and metrics."""
        ledger = Ledger(_LEDGER_BYTES)
        self._scheduler.record(ledger.recorder)
        configuration = shown_config(self._config)
        self._explainer = Explainer(live, ledger, configuration=lambda: configuration)
        pages = [*page_routes(), *explain_routes(self._explainer)]
        await console.start([*pages, *self._process_pages(live, configuration)])

    def _process_pages(
        self, live: LiveScheduler, configuration: Mapping[str, object]
    ) -> Sequence[Route]:
        """What kube-scheduler shows at its own port."""

        def synced() -> str | None:
            return None if live.synced else "handlers are not fully synchronized"

        metrics = self.metrics
        endpoints = Endpoints(
            metrics=metrics.render,
            reset_metrics=metrics.reset,
            resources=lambda: render_pod_resources(self._scheduler.state.listers.of(Pod)),
            slis=metrics.slis.render,
        )
        ready = [HealthCheck("sched-handler-sync", synced)]
        health = {"healthz": [], "livez": [], "readyz": ready}
        return [
            *(
                route
                for name, checks in health.items()
                for route in health_routes(name, checks, metrics.serving)
            ),
            *metric_routes(endpoints),
            Route("/configz", configz(lambda: {"componentconfig": configuration})),
        ]

    def _busy(self) -> bool:
        live = self.live
        if live is None or not live.informers.has_synced or live.busy:
            return True
        if any(runner.busy for runner in self._runners):
            return True
        pending = self._scheduler.queue.view.pending_pods()
        return any(
            not self._keeps_failing(pod)
            for pod in (*pending.active, *pending.backoff, *pending.in_flight)
        )

    def _keeps_failing(self, pod: Pod) -> bool:
        """Does every attempt end in an error, as where a plugin is broken?"""
        waiting = self._scheduler.queue.view.find(pod)
        return waiting is not None and waiting.consecutive_errors_count >= _PATIENCE


def _console(port: int) -> LocalConsole:
    try:
        return LocalConsole(port)
    except InputError as error:
        raise InputError(f"no page at port {port}: {error}") from None
