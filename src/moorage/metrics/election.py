"""Metrics of leader election, under client-go's names."""

from moorage.metrics.families import Counter, Gauge
from moorage.metrics.registry import MetricsRegistry


class ElectionMetrics:
    """Is told by the elector how its lease stands, by the lease's name."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._status = registry.register(
            Gauge(
                "leader_election_master_status",
                "Gauge of if the reporting system is master of the relevant lease, 0 indicates "
                "backup, 1 indicates master. 'name' is the string used to identify the lease. "
                "Please make sure to group by name.",
                ("name",),
            )
        )
        self._slow = registry.register(
            Counter(
                "leader_election_slowpath_total",
                "Total number of slow path exercised in renewing leader leases. 'name' is the "
                "string used to identify the lease. Please make sure to group by name.",
                ("name",),
            )
        )

    def on(self, name: str) -> None:
        """Leading now."""
        self._status.labels(name).set(1)

    def off(self, name: str) -> None:
        """Not leading, or not any more."""
        self._status.labels(name).set(0)

    def slowpath(self, name: str) -> None:
        """The lease had to be read before it could be renewed."""
        self._slow.labels(name).add()
