"""All metrics of a scheduler in one place: who records what, and the texts that are served.

Owns the assembly only; each part is a module of its own.
"""

import time
from collections.abc import Callable, Iterable
from random import Random

from moorage.config.feature_gates import FeatureGates
from moorage.metrics.client import ClientMetrics, ElectionMetrics
from moorage.metrics.families import Gauge
from moorage.metrics.options import MetricsOptions
from moorage.metrics.pod_resources import render_pod_resources
from moorage.metrics.process import OperationMetrics, ProcessMetrics, register_component
from moorage.metrics.registry import MetricsRegistry
from moorage.metrics.scheduler import SchedulerMetrics
from moorage.metrics.serving import HealthMetrics, ServingMetrics
from moorage.model.pod import Pod


class AllMetrics:
    """Everything that /metrics, /metrics/slis and /metrics/resources show.

    `now` is a stopwatch for durations, `clock` the time of day, `random` picks the attempts in
    which plugins are measured one by one.
    """

    def __init__(
        self,
        gates: FeatureGates,
        options: MetricsOptions | None = None,
        *,
        now: Callable[[], float] = time.perf_counter,
        clock: Callable[[], float] = time.time,
        random: Random | None = None,
    ) -> None:
        self.registry = MetricsRegistry(options, gates.enabled)
        self.registry.register_self()
        self.scheduler = SchedulerMetrics(self.registry, now=now, random=random)
        self.client = ClientMetrics(self.registry)
        self.election = ElectionMetrics(self.registry)
        self.operations = OperationMetrics(self.registry, clock)
        register_component(self.registry, gates)
        ProcessMetrics(self.registry)
        self.slis_registry = MetricsRegistry(options)
        self.slis = HealthMetrics(self.slis_registry)
        self.serving = ServingMetrics(self.registry, self.slis)
        # Here, other than on /metrics, upstream says how stable it is.
        text = "Start time of the process since unix epoch in seconds."
        started = self.slis_registry.register(Gauge("process_start_time_seconds", text))
        started.labels().set(clock())

    def render(self) -> tuple[str, bytes]:
        """Content type and text of /metrics."""
        return self.registry.render()

    def render_slis(self) -> tuple[str, bytes]:
        """Content type and text of /metrics/slis."""
        return self.slis_registry.render()

    def render_resources(self, pods: Iterable[Pod]) -> tuple[str, bytes]:
        """Content type and text of /metrics/resources for the pods there are now."""
        return render_pod_resources(pods)

    def reset(self) -> None:
        """DELETE /metrics: begin to count again; gauges keep saying how things stand."""
        self.scheduler.forget()
        self.registry.reset()
