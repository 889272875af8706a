"""The named checks behind /healthz, /livez and /readyz.

Owns which checks there are and their order; how they are asked and answered is `http.health`'s.
"""

from collections.abc import Callable, Sequence

from moorage.kube.leader_election import LeaderElector
from moorage.kube.lease_candidate import LeaseCandidate
from moorage.kube.live import LiveScheduler

Check = tuple[str, Callable[[], str | None]]
"""A name, and a question: what is wrong? None for nothing."""


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
    def healthz(self) -> Sequence[Check]:
        """Does the leader renew its lease?"""
        if self._elector is None:
            return ()
        return (("leaderElection", self._elector.check),)

    @property
    def readyz(self) -> Sequence[Check]:
        """Could it schedule, now or when it becomes leader?"""
        checks = [
            *self.healthz,
            ("shutdown", self._shutdown),
            ("sched-handler-sync", self._synced),
        ]
        if self._candidate is not None:
            checks.append(("informer-sync", self._candidate_synced))
        return checks

    def _shutdown(self) -> str | None:
        return "process is shutting down" if self.shutting_down else None

    def _synced(self) -> str | None:
        return None if self._live.synced else "handlers are not fully synchronized"

    def _candidate_synced(self) -> str | None:
        assert self._candidate is not None, "only asked of candidates"
        synced = self._candidate.synced.is_set()
        return None if synced else "1 informers not started yet: [*v1beta1.LeaseCandidate]"
