"""What the secure port of a scheduler process shows.

Owns which health checks there are and their order, and the way from the parts of the process to
`http.endpoints`. The libraries behind the pages take a good part of a start, so they are imported
with the first client only.
"""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from moorage.app.logs import Logs
from moorage.app.options import Options
from moorage.app.reload import Reloader
from moorage.config import KubeSchedulerConfiguration, shown_config
from moorage.http.endpoints import Endpoints, HealthCheck, ProcessStatus, Route
from moorage.kube.leader_election import LeaderElector
from moorage.kube.lease_candidate import LeaseCandidate
from moorage.kube.live import LiveScheduler
from moorage.kube.shadow import Shadow
from moorage.metrics.exporter import AllMetrics
from moorage.metrics.pod_resources import render_pod_resources
from moorage.model.pod import Pod
from moorage.redaction import redacted
from moorage.version import KUBERNETES_VERSION

if TYPE_CHECKING:
    from moorage.kube.explainer import Explainer
    from moorage.ledger import Ledger


class Health:
    """How a scheduler process is doing: the checks behind /healthz, /livez and /readyz."""

    def __init__(
        self, live: LiveScheduler, elector: LeaderElector | None, candidate: LeaseCandidate | None
    ) -> None:
        self._live = live
        self.elector = elector
        self._candidate = candidate
        self.shutting_down = False

    @property
    def leads(self) -> bool:
        """Is this the instance that schedules?"""
        return self.elector is None or self.elector.is_leader

    @property
    def healthz(self) -> Sequence[HealthCheck]:
        """Does the leader renew its lease?"""
        return () if self.elector is None else (HealthCheck("leaderElection", self.elector.check),)

    @property
    def readyz(self) -> Sequence[HealthCheck]:
        """Could it schedule, now or when it becomes leader?"""
        checks = [
            *self.healthz,
            HealthCheck("shutdown", self._shutdown),
            HealthCheck("sched-handler-sync", self._synced),
        ]
        if self._candidate is not None:
            checks.append(HealthCheck("informer-sync", self._candidate_synced))
        return checks

    def _shutdown(self) -> str | None:
        return "process is shutting down" if self.shutting_down else None

    def _synced(self) -> str | None:
        return None if self._live.synced else "handlers are not fully synchronized"

    def _candidate_synced(self) -> str | None:
        assert self._candidate is not None, "only asked of candidates"
        synced = self._candidate.synced.is_set()
        return None if synced else "1 informers not started yet: [*v1beta1.LeaseCandidate]"


@dataclass(slots=True)
class Pages:
    """All pages of one process."""

    options: Options
    config: KubeSchedulerConfiguration
    health: Health
    metrics: AllMetrics
    live: LiveScheduler
    reloader: Reloader
    logs: Logs
    ledger: "Ledger | None"
    started: float
    """When the process was started, in seconds since the epoch."""
    _explainer: "Explainer | None" = None

    def endpoints(self) -> Endpoints:
        """The pages, once the port has a client."""
        from moorage.kube.explainer import Explainer

        self._explainer = Explainer(
            self.live,
            self.ledger,
            configuration=self._shown_config,
            leads=lambda: self.health.leads,
        )
        gates, metrics = self.options.gates, self.metrics
        return Endpoints(
            healthz=self.health.healthz,
            readyz=self.health.readyz,
            metrics=metrics.render,
            reset_metrics=metrics.reset,
            resources=self._resources,
            slis=metrics.slis.render,
            configz=lambda: {"componentconfig": self._shown_config()},
            flags=self._flags if gates.enabled("ComponentFlagz") else None,
            statusz=self._status() if gates.enabled("ComponentStatusz") else None,
            profiling=self.config.enable_profiling,
            set_verbosity=self.logs.set_verbosity,
            extra=self._extra(self._explainer),
            process_started=self.started,
        )

    def close(self) -> None:
        """End the streams of decisions, which do not end by themselves."""
        if self._explainer is not None:
            self._explainer.close()

    def _shown_config(self) -> Mapping[str, object]:
        return shown_config(self.reloader.config)

    def _resources(self) -> tuple[str, bytes] | None:
        if not self.health.leads:
            return None
        return render_pod_resources(self.live.scheduler.state.listers.of(Pod))

    def _flags(self) -> Mapping[str, str]:
        return {name: redacted(value) for name, value in self.options.flag_values.items()}

    def _status(self) -> ProcessStatus:
        return ProcessStatus(
            started=self.started,
            runtime_version=f"python{platform.python_version()}",
            binary_version=KUBERNETES_VERSION.removeprefix("v"),
            emulation_version=str(self.options.gates.version.emulation),
        )

    def _extra(self, explainer: "Explainer") -> Sequence[Route]:
        from moorage.http.explain_api import explain_routes
        from moorage.http.explain_page import page_routes

        pages = list(explain_routes(explainer))
        if self.options.moorage.explain_page:
            pages += page_routes()
        if self.live.shadow is not None:
            pages.append(shadow_route(self.live.shadow))
        return pages


def shadow_route(shadow: Shadow) -> Route:
    """/shadow: how often both schedulers agreed, and where not."""
    from aiohttp import web

    async def page(request: web.Request) -> web.StreamResponse:
        del request
        return web.json_response(body=shadow.report())

    return Route("/shadow", page)
