"""The named checks behind /healthz, /livez and /readyz.

Owns which checks there are and their order; how they are asked and answered is `http.health`'s.
"""

from collections.abc import Sequence

from moorage.http.endpoints import HealthCheck
from moorage.kube.leader_election import LeaderElector
from moorage.kube.lease_candidate import LeaseCandidate
from moorage.kube.live import LiveScheduler


class Health:
    """How a scheduler process is doing."""

    def __init__(
        self,
        live: LiveScheduler,
        elector: LeaderElector | None,
        candidate: LeaseCandidate | None,
    ) -> None:
        self._live = live
        self._elector = elector
        self._candidate = candidate
        self.shutting_down = False

    @property
    def healthz(self) -> Sequence[HealthCheck]:
        """Does the leader renew its lease?"""
        if self._elector is None:
            return ()
        return (HealthCheck("leaderElection", self._elector.check),)

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
