"""One instance's claim to a Lease: a single try to take or renew it, and giving it back.

Owns what was observed of the Lease and since when, and from it what may be written. Judges another
holder's lease by client-go's rule: by a monotonic clock, from the moment at which this process saw
the record change, so that nobody's time of day matters. When to try again is `leader_election`'s
decision, the form of a Lease is `lease`'s.
"""

import asyncio
import enum
import logging
from collections.abc import Callable
from typing import Protocol

import msgspec

from moorage.errors import ApiError, DecodeError, KubeconfigError, UnreachableError
from moorage.kube.lease import LeaderElectionRecord, LeaseLock, read_record
from moorage.kube.requests import Json
from moorage.kube.timing import Timer, micro_time
from moorage.log_fields import V, fields

log = logging.getLogger(__name__)

NAME = "kube-scheduler"
"""What metrics and health checks call the election, whatever the Lease is called."""
MARGIN = 0.05
"""This share of its lease a leader leaves unused, for clocks of unequal speed and a busy loop."""

_FAILURES = (ApiError, KubeconfigError, DecodeError)


class ElectionObserver(Protocol):
    """Gets a call for what the metrics `leader_election_*` count."""

    def on(self, name: str) -> None:
        """Leads from now on."""
        return

    def off(self, name: str) -> None:
        """Does not lead (any more)."""
        return

    def slowpath(self, name: str) -> None:
        """Had to read the lease before renewing it."""
        return


class Unobserved(ElectionObserver):
    """Counts nothing."""


class LeaseOutcome(enum.Enum):
    """What became of one try."""

    HELD = enum.auto()
    NOT_HELD = enum.auto()
    """Held by another, or the API server did not let us."""
    END_OF_TERM = enum.auto()
    """Ours, but a coordinated election wants another holder."""


class LeaseClaim:
    """What one instance knows of the Lease and may do with it."""

    def __init__(
        self,
        lock: LeaseLock,
        identity: str,
        *,
        duration_seconds: int,
        timer: Timer,
        clock: Callable[[], float],
        observer: ElectionObserver,
        coordinated: bool = False,
    ) -> None:
        self.lock = lock
        self.identity = identity
        self.observed = LeaderElectionRecord()
        self.observed_at = float("-inf")
        self.writing = False
        self.unsure = False
        """A write has gone out whose answer never came."""
        self._duration_seconds = duration_seconds
        self._timer = timer
        self._clock = clock
        self._observer = observer
        self._coordinated = coordinated
        self._observed_version = 0
        self._sent_at = float("-inf")
        self._doing = ""

    @property
    def holder(self) -> str:
        """The identity that was last seen in the Lease; "" if none was."""
        return self.observed.holder_identity

    @property
    def holds(self) -> bool:
        """Was it last seen in our name?"""
        return self.holder == self.identity

    @property
    def observed_until(self) -> float:
        """When the lease that was last seen ends, if it is not renewed."""
        return self.observed_at + self.observed.lease_duration_seconds

    @property
    def safe_until(self) -> float:
        """Until when nobody else can have taken a lease that we held.

        Others count from when they see our record; we from when we sent it, which was before.
        """
        return self._sent_at + self._duration_seconds * (1.0 - MARGIN)

    def noticed(self, change: str, lease: Json) -> bool:
        """Learn from a watch event; True if the Lease is there for the taking.

        What was seen already teaches nothing: servers may lag behind one another.
        """
        version = _version(lease)
        if version and version <= self._observed_version:
            return False
        self._observed_version = version
        if change == "DELETED":
            return True
        try:
            record = read_record(lease)
        except DecodeError:
            return False  # the next try says it
        self._seen(record)
        return record.holder_identity == (self.identity if self._coordinated else "")

    async def attempt(self) -> LeaseOutcome:
        """Try once to take or renew the lease."""
        try:
            if self._coordinated:
                return await self._renew_assigned()
            return await self._acquire_or_renew()
        except _FAILURES as error:
            log.error(self._doing, extra=fields(lock=str(self.lock), err=error))
            return LeaseOutcome.NOT_HELD

    async def release(self, seconds: float) -> None:
        """Give the lease back if it is ours; goes through with it even while being cancelled."""
        releasing = asyncio.create_task(self._give_back(seconds))
        cancelled: asyncio.CancelledError | None = None
        while not releasing.done():
            try:
                await asyncio.shield(releasing)
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled

    # ---- one try ----

    async def _acquire_or_renew(self) -> LeaseOutcome:
        now = self._clock()
        if self.holds and self.observed_until > now:
            # Nobody else may have changed it, so it need not be read first.
            try:
                await self._write(self._mine(self.observed))
            except _FAILURES as error:
                text = "Failed to update lease optimistically, falling back to slow path"
                log.log(V(2), text, extra=fields(lock=str(self.lock), err=error))
            else:
                return LeaseOutcome.HELD
        found = await self._read()
        if found is None:
            self._doing = "Error initially creating lease lock"
            await self._write(self._mine(None), create=True)
            return LeaseOutcome.HELD
        if self.holder and not self.holds and self.observed_until > now:
            text = "Lease is held by and has not yet expired"
            log.log(V(4), text, extra=fields(lock=str(self.lock), holder=self.holder))
            return LeaseOutcome.NOT_HELD
        if self.holds:
            self._observer.slowpath(NAME)
            record = self._mine(found)
        else:
            transitions = found.leader_transitions + 1
            record = msgspec.structs.replace(self._mine(None), leader_transitions=transitions)
        self._doing = "Failed to update lease"
        await self._write(record)
        return LeaseOutcome.HELD

    async def _renew_assigned(self) -> LeaseOutcome:
        """Coordinated election: the API server's controller names the holder, who only renews."""
        now = self._clock()
        found = await self._read()
        if found is None:
            log.info("Lease lock not found", extra=fields(lock=str(self.lock)))
            return LeaseOutcome.NOT_HELD
        if self.observed_until < now:
            log.info("Lease has expired", extra=fields(lock=str(self.lock)))
            return LeaseOutcome.NOT_HELD
        if not self.holds:
            text = "Lease is held and has not yet expired"
            log.log(V(6), text, extra=fields(lock=str(self.lock), holder=self.holder))
            return LeaseOutcome.NOT_HELD
        if found.preferred_holder:
            log.log(V(4), "Lease is marked as 'end of term'", extra=fields(lock=str(self.lock)))
            return LeaseOutcome.END_OF_TERM
        self._observer.slowpath(NAME)
        self._doing = "Failed to update lock"
        await self._write(msgspec.structs.replace(self._mine(found), strategy=found.strategy))
        return LeaseOutcome.HELD

    def _mine(self, current: LeaderElectionRecord | None) -> LeaderElectionRecord:
        """The record to write: a renewal of `current`, or a new term."""
        now = micro_time(self._timer.now())
        duration = self._duration_seconds
        if current is None:
            return LeaderElectionRecord(self.identity, duration, now, now)
        acquired, transitions = current.acquire_time, current.leader_transitions
        return LeaderElectionRecord(self.identity, duration, acquired, now, transitions)

    # ---- giving it back ----

    async def _give_back(self, seconds: float) -> None:
        known = self.observed if self.holds and not self.unsure else None
        try:
            async with asyncio.timeout(seconds):
                while True:
                    found = known or await self._read()
                    if found is None:
                        log.info("lease lock not found", extra=fields(lock=str(self.lock)))
                        return
                    if found.holder_identity != self.identity or await self._emptied(found):
                        return
                    known = None
        except (*_FAILURES, TimeoutError) as error:
            reason = str(error) or "context deadline exceeded"
            log.error("Failed to release lease", extra=fields(lock=str(self.lock), err=reason))

    async def _emptied(self, found: LeaderElectionRecord) -> bool:
        """False if the Lease has changed meanwhile, so that it must be looked at again."""
        now = micro_time(self._timer.now())
        try:
            await self._write(LeaderElectionRecord("", 1, now, now, found.leader_transitions))
        except ApiError as error:
            if error.is_conflict:
                return False
            raise
        return True

    # ---- the API, and what is learnt from it ----

    async def _read(self) -> LeaderElectionRecord | None:
        """The record as it is now; None if there is no Lease."""
        self._doing = "Error retrieving lease lock"
        try:
            record = await self.lock.get()
        except ApiError as error:
            if not error.is_not_found:
                raise
            self.unsure = False
            return None
        self.unsure = False
        self._observed_version = _version(self.lock.lease or {})
        self._seen(record)
        return record

    async def _write(self, record: LeaderElectionRecord, *, create: bool = False) -> None:
        sent_at = self._clock()
        self.writing = True
        try:
            await (self.lock.create(record) if create else self.lock.update(record))
        except ApiError as error:
            self.unsure = self.unsure or _maybe_applied(error)
            raise
        except asyncio.CancelledError:
            self.unsure = True
            raise
        finally:
            self.writing = False
        self.unsure = False
        self._sent_at = sent_at
        self.observed = record
        self.observed_at = self._clock()

    def _seen(self, record: LeaderElectionRecord) -> None:
        if record != self.observed:
            self.observed = record
            self.observed_at = self._clock()


def _maybe_applied(error: ApiError) -> bool:
    if isinstance(error, UnreachableError):
        return error.maybe_applied
    return not 400 <= error.status < 500


def _version(lease: Json) -> int:
    """The resource version as a number, 0 if it is none."""
    metadata = lease.get("metadata")
    text = str(metadata.get("resourceVersion", "")) if isinstance(metadata, dict) else ""
    return int(text) if text.isdigit() else 0
