"""The candidacy for a coordinated election: keeps this instance's LeaseCandidate fresh.

The API server's controller chooses the holder of a Lease among its candidates; it asks who is
alive by setting a candidate's `pingTime`, which is answered by renewing it. Owns that object only;
the lease that a chosen candidate holds is `leader_election`'s business.
"""

import asyncio
import logging
from contextlib import suppress
from random import Random

from moorage.errors import ApiError, KubeconfigError
from moorage.kube.lease import LeaseApi
from moorage.kube.object_watch import follow_object
from moorage.kube.requests import Json
from moorage.kube.resources import Resource
from moorage.kube.timing import Backoff, WallTimer, meanwhile, micro_time, parse_time
from moorage.log_fields import V, fields

log = logging.getLogger(__name__)

LEASE_CANDIDATE = Resource(
    "LeaseCandidate", "coordination.k8s.io", "v1beta1", "leasecandidates", True
)
RENEW_EVERY = 300.0
OLDEST_EMULATION_VERSION = "OldestEmulationVersion"


class LeaseCandidate:
    """One candidate, renewed by `run` until that is cancelled."""

    def __init__(
        self,
        client: LeaseApi,
        identity: str,
        *,
        binary_version: str,
        emulation_version: str,
        lease_name: str = "kube-scheduler",
        namespace: str = "kube-system",
    ) -> None:
        self.synced = asyncio.Event()
        """Set once the API server knows the candidate."""
        self._client = client
        self._identity = identity
        self._namespace = namespace
        self._spec = {
            "leaseName": lease_name,
            "binaryVersion": binary_version,
            "emulationVersion": emulation_version,
            "strategy": OLDEST_EMULATION_VERSION,
        }
        self._timer = WallTimer()
        self._random = Random()
        self._backoff = Backoff(self._timer, self._random)
        self._pinged = asyncio.Event()

    async def run(self) -> None:
        """Be a candidate: make the object, answer pings, renew it now and then."""
        watching = follow_object(
            self._client,
            LEASE_CANDIDATE,
            self._namespace,
            self._identity,
            self._noticed,
            timer=self._timer,
            random=self._random,
        )
        async with meanwhile(watching):
            while True:
                self._pinged.clear()
                try:
                    await self._ensure()
                except (ApiError, KubeconfigError) as error:
                    log.error("Ensuring lease failed", extra=fields(candidate=str(self), err=error))
                    await self._timer.sleep(self._backoff.next())
                    continue
                self.synced.set()
                with suppress(TimeoutError):
                    async with asyncio.timeout(RENEW_EVERY):
                        await self._pinged.wait()

    async def _ensure(self) -> None:
        now = micro_time(self._timer.now())
        try:
            found = await self._client.get(LEASE_CANDIDATE, self._namespace, self._identity)
        except ApiError as error:
            if not error.is_not_found:
                raise
            await self._client.create(LEASE_CANDIDATE, self._namespace, self._new(now))
            log.log(V(2), "Created lease candidate", extra=fields(candidate=str(self)))
            return
        spec = found.get("spec") or {}
        # A ping counts as answered by a later renewal; the server's clock may be ahead of ours.
        renewed = spec["pingTime"] if _time(spec.get("pingTime")) > _time(now) else now
        found["spec"] = {**spec, "renewTime": renewed}
        await self._client.update(LEASE_CANDIDATE, self._namespace, self._identity, found)
        log.log(V(2), "Lease candidate exists. Renewed.", extra=fields(candidate=str(self)))

    def _new(self, now: str) -> Json:
        return {
            "apiVersion": LEASE_CANDIDATE.api_version,
            "kind": LEASE_CANDIDATE.kind,
            "metadata": {"name": self._identity, "namespace": self._namespace},
            "spec": {**self._spec, "renewTime": now},
        }

    def _noticed(self, change: str, candidate: Json) -> None:
        if change == "DELETED" or _unanswered(candidate):
            self._pinged.set()

    def __str__(self) -> str:
        return f"{self._namespace}/{self._identity}"


def _unanswered(candidate: Json) -> bool:
    """Has the controller asked since the candidate was last renewed?"""
    spec = candidate.get("spec") or {}
    return _time(spec.get("pingTime")) > _time(spec.get("renewTime"))


def _time(text: object) -> float:
    """A time of the API; one that is missing or means nothing is before all others."""
    try:
        return parse_time(str(text))
    except ValueError:
        return float("-inf")
