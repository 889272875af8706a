"""All metrics of a scheduler in one place: who records what, and the texts that are served.

Owns the assembly, and what the options do: `--disabled-metrics`, `--allow-metric-labels` and its
manifest, and `--show-hidden-metrics-for-version`.
"""

import logging
import time
from collections.abc import Callable, Mapping
from random import Random

from moorage.config.feature_gates import FeatureGates
from moorage.errors import ConfigError
from moorage.metrics.client import ClientMetrics, ElectionMetrics
from moorage.metrics.options import MetricsOptions, read_allow_lists
from moorage.metrics.process import OperationMetrics, ProcessMetrics, set_constants
from moorage.metrics.registry import MetricsRegistry
from moorage.metrics.scheduler import SchedulerMetrics
from moorage.metrics.serving import ServingMetrics

log = logging.getLogger(__name__)


class AllMetrics:
    """Everything that /metrics and /metrics/slis show.

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
        self.registry = MetricsRegistry("metrics.yaml", gates.enabled)
        self.slis = MetricsRegistry("slis.yaml")
        options = options or MetricsOptions()
        if not options.show_hidden_metrics_for_version:
            self.registry.hide_deprecated()
        self.registry.count_families()
        self._apply(options)
        self.scheduler = SchedulerMetrics(self.registry, now=now, random=random)
        self.client = ClientMetrics(self.registry, clock)
        self.election = ElectionMetrics(self.registry)
        self.operations = OperationMetrics(self.registry, clock)
        self.serving = ServingMetrics(self.registry, self.slis)
        set_constants(self.registry, gates)
        ProcessMetrics(self.registry)
        self.slis.set("process_start_time_seconds", clock())

    def _apply(self, options: MetricsOptions) -> None:
        if "" in options.disabled_metrics:
            log.warning("Attempted to disable an empty metric name, ignoring.")
        disabled = set(options.disabled_metrics) - {""}
        self.registry.disable(disabled)
        for name in disabled:
            self.slis.hide(name)
        allowed = _allow_lists(options)
        for registry in (self.registry, self.slis):
            registry.limit(allowed, self.registry.count_unexpected)

    def render(self) -> tuple[str, bytes]:
        """Content type and text of /metrics."""
        return self.registry.render()

    def reset(self) -> None:
        """DELETE /metrics: begin to count again; gauges keep saying how things stand."""
        self.scheduler.forget()
        self.registry.reset()


def _allow_lists(options: MetricsOptions) -> Mapping[str, str]:
    """From the flag, or from the file; as upstream, a bad file is told of and left out."""
    path = options.allow_metric_labels_manifest
    if options.allow_metric_labels or not path:
        return options.allow_metric_labels
    try:
        return read_allow_lists(path)
    except ConfigError as error:
        log.error("%s", error)
        return {}
