"""Metrics of what Moorage does beyond kube-scheduler: reloads, shadowing, unusable objects.

Their names begin with `moorage_`, so that nothing of upstream's can ever collide with them.
"""

import time
from collections.abc import Callable, Mapping

from moorage.metrics.families import Counter, Gauge
from moorage.metrics.registry import MetricsRegistry

RELOADED = "success"
REFUSED = "error"


class OperationMetrics:
    """Reloads and shadow decisions; `now` tells the time of day."""

    def __init__(self, registry: MetricsRegistry, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._reloads = registry.register(
            Counter(
                "moorage_config_reloads_total",
                "Number of configuration reloads, by the result. 'error' means that the running "
                "configuration was kept.",
                ("result",),
                "",
            )
        )
        self._last_success = registry.register(
            Gauge(
                "moorage_config_last_reload_success_timestamp_seconds",
                "When the running configuration was read, in seconds since the epoch.",
                (),
                "",
            )
        )
        self._last_success.labels().set(now())
        self._shadowed = registry.register(
            Counter(
                "moorage_shadow_decisions_total",
                "Number of decisions compared with those of the scheduler that binds, by the "
                "result: 'agree', 'disagree', 'both_unschedulable', 'only_ours' (placed by this "
                "one only) or 'only_theirs' (placed by the other one only).",
                ("result",),
                "",
            )
        )

        self._skipped_by_kind: Callable[[], Mapping[str, int]] = dict
        self._skipped = registry.register(
            Gauge(
                "moorage_skipped_objects",
                "Number of objects that cannot be used at the moment, by kind; the log names them.",
                ("kind",),
                "",
            )
        )
        registry.before_render(self._refresh)

    def count_skipped(self, by_kind: Callable[[], Mapping[str, int]]) -> None:
        """Count skipped objects with `by_kind` whenever the metrics are read."""
        self._skipped_by_kind = by_kind

    def _refresh(self) -> None:
        for kind, count in self._skipped_by_kind().items():
            self._skipped.labels(kind).set(count)

    def reloaded(self) -> None:
        """A new configuration is in use."""
        self._reloads.labels(RELOADED).add()
        self._last_success.labels().set(self._now())

    def reload_refused(self) -> None:
        """A new configuration was wrong, and the old one stays."""
        self._reloads.labels(REFUSED).add()

    def shadow_compared(self, result: str) -> None:
        """A decision was compared with the real one."""
        self._shadowed.labels(result).add()
