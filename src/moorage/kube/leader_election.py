"""Leader election: of all instances that want a Lease, at most one leads at any time.

Owns the order of things: wait for the lease, lead, renew, hand over or give up, at the times that
client-go keeps. What a single try does is `lease_claim`'s part; what is led knows nothing of it.

Waits and deadlines are the event loop's own, whose clock is monotonic; the `Timer` says what time
of day goes into the record.
"""

import asyncio
import enum
import logging
import socket
import time
import uuid
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from moorage.config.types import LeaderElectionConfiguration
from moorage.errors import ConfigError
from moorage.kube.access import Access
from moorage.kube.client import ClientObserver, KubeClient, user_agent
from moorage.kube.lease import LEASE, LeaseApi, LeaseEvents, LeaseLock
from moorage.kube.lease_claim import NAME, ElectionObserver, LeaseClaim, LeaseOutcome, Unobserved
from moorage.kube.object_watch import follow_object
from moorage.kube.requests import Json
from moorage.kube.timing import Timer, WallTimer, meanwhile
from moorage.log_fields import V, fields

log = logging.getLogger(__name__)

JITTER_FACTOR = 1.2
STOP_GRACE = 0.5
"""How long what is led may take to end before the lease is given back regardless."""
RELEASE_AFTER_LOSS = 1.0
"""How long a leader that could not renew tries to give back what may still bear its name."""
MAX_TOLERABLE_EXPIRY = 20.0

_SECOND = 1_000_000_000


class Ended(enum.Enum):
    """How an election ended for this instance."""

    STOPPED = "stopped"
    """It was asked to stop; it has given the lease back if it held it."""
    LOST = "lost"
    """It led and could not stay leader."""


def default_identity() -> str:
    """`<host name>_<uuid>`: two processes of one host must not be taken for one another."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


def request_timeout(config: LeaderElectionConfiguration) -> float:
    """How long one request may take, so that a single hung one does not cost the leadership."""
    return max(1.0, config.renew_deadline.seconds / 2)


def election_client(
    access: Access,
    config: LeaderElectionConfiguration,
    *,
    qps: float = 50.0,
    burst: int = 100,
    observe: ClientObserver | None = None,
) -> KubeClient:
    """A client of its own: renewals must not queue behind the scheduler's requests."""
    agent, timeout = user_agent("leader-election"), request_timeout(config)
    return KubeClient(access, qps=qps, burst=burst, agent=agent, timeout=timeout, observe=observe)


def check_parameters(config: LeaderElectionConfiguration, identity: str) -> None:
    """Raise upstream's `ConfigError` if these times cannot work."""
    lease, deadline, retry = config.lease_duration, config.renew_deadline, config.retry_period
    wrong = {
        "leaseDuration must be greater than renewDeadline": lease <= deadline,
        "renewDeadline must be greater than retryPeriod*JitterFactor": (
            deadline.nanoseconds <= int(JITTER_FACTOR * retry.nanoseconds)
        ),
        "leaseDuration must be greater than zero": lease.nanoseconds < 1,
        "renewDeadline must be greater than zero": deadline.nanoseconds < 1,
        "retryPeriod must be greater than zero": retry.nanoseconds < 1,
        "Lock identity is empty": not identity,
    }
    for text, applies in wrong.items():
        if applies:
            raise ConfigError(text)


class LeaderElector:
    """One instance's part in the election; `run` it once.

    `clock` must be the event loop's own clock, which is `time.monotonic` unless a test runs on
    virtual time.
    """

    def __init__(
        self,
        client: LeaseApi,
        config: LeaderElectionConfiguration,
        identity: str,
        *,
        timer: Timer | None = None,
        clock: Callable[[], float] = time.monotonic,
        random: Random | None = None,
        observer: ElectionObserver | None = None,
        events: LeaseEvents | None = None,
        coordinated: bool = False,
    ) -> None:
        check_parameters(config, identity)
        timer = timer or WallTimer()
        namespace, name = config.resource_namespace, config.resource_name
        lock = LeaseLock(client, namespace, name, timeout=request_timeout(config))
        self._observer = observer or Unobserved()
        self._claim = LeaseClaim(
            lock,
            identity,
            duration_seconds=config.lease_duration.nanoseconds // _SECOND,
            timer=timer,
            clock=clock,
            observer=self._observer,
            coordinated=coordinated,
        )
        self._random = random or Random()
        self._client = client
        self._timer = timer
        self._lease_duration = config.lease_duration.seconds
        self._renew_deadline = config.renew_deadline.seconds
        self._retry_period = config.retry_period.seconds
        self._clock = clock
        self._events = events
        self._coordinated = coordinated
        self._free = asyncio.Event()
        self._leading = False
        self._reported = ""
        self._on_new_leader: Callable[[str], None] | None = None
        self._observer.off(NAME)

    # ---- what others ask ----

    @property
    def identity(self) -> str:
        """Who this instance is in the Lease."""
        return self._claim.identity

    @property
    def leader(self) -> str:
        """The identity of the holder that was last seen; "" if none was."""
        return self._claim.holder

    @property
    def is_leader(self) -> bool:
        """Does this instance lead, and is its lease good at this very moment?

        False as soon as another could have taken the lease, even while a stuck event loop keeps
        this instance from noticing: whoever writes may ask before each write.
        """
        return self._leading and self._clock() < self._claim.safe_until

    @property
    def holds_lease(self) -> bool:
        """Is the lease ours at this very moment? Still so while what was led comes to its end."""
        return self._claim.holds and self._clock() < self._claim.safe_until

    def check(self, max_tolerable_expiry: float = MAX_TOLERABLE_EXPIRY) -> str | None:
        """The health check `leaderElection`: what is wrong, or None.

        A leader that neither renews nor gives up is stuck, which only a restart cures.
        """
        if not self._claim.holds:
            return None
        unrenewed = self._clock() - self._claim.observed_at
        if unrenewed <= self._lease_duration + max_tolerable_expiry:
            return None
        return f"failed election to renew leadership on lease {NAME}"

    async def run(
        self,
        stop: asyncio.Event,
        *,
        on_started: Callable[[], Coroutine[Any, Any, None]],
        on_lost: Callable[[], None] | None = None,
        on_new_leader: Callable[[str], None] | None = None,
    ) -> Ended:
        """Wait for the lease, run `on_started` while it is held, and say how that ended.

        `on_started` must end by itself after `stop`; it is cancelled when the lease is lost, after
        `on_lost` was called. If it raises, the lease is given back and the exception goes on.
        """
        self._on_new_leader = on_new_leader
        if not await self._acquire(stop):
            return Ended.STOPPED
        return await self._lead(stop, on_started, on_lost)

    # ---- waiting for the lease ----

    async def _acquire(self, stop: asyncio.Event) -> bool:
        """Try until the lease is held (True) or `stop` is set."""
        lock = self._claim.lock
        log.info("Attempting to acquire leader lease...", extra=fields(lock=str(lock)))
        watching = follow_object(
            self._client,
            LEASE,
            lock.namespace,
            lock.name,
            self._noticed,
            timer=self._timer,
            random=self._random,
        )
        try:
            async with meanwhile(watching):
                while not stop.is_set():
                    self._free.clear()
                    outcome = await self._attempt(None, stop)
                    self._report()
                    if outcome is LeaseOutcome.HELD and self._clock() < self._claim.safe_until:
                        if not stop.is_set():
                            return True
                        await self._claim.release(self._renew_deadline)
                        break
                    log.log(V(4), "Failed to acquire lease", extra=fields(lock=str(lock)))
                    await _first(stop, self._free, seconds=self._standby_wait())
                return False
        finally:
            if self._claim.unsure:
                await self._claim.release(RELEASE_AFTER_LOSS)

    def _standby_wait(self) -> float:
        """Until the next try: the jittered period, or less if the holder's lease ends before."""
        wait = self._retry_period * (1.0 + JITTER_FACTOR * self._random.random())
        left = self._claim.observed_until - self._clock()
        if self._coordinated or not self.leader or left <= 0:
            return wait
        return min(wait, left)

    def _noticed(self, change: str, lease: Json) -> None:
        if self._claim.noticed(change, lease):
            self._free.set()

    # ---- leading ----

    async def _lead(
        self,
        stop: asyncio.Event,
        on_started: Callable[[], Coroutine[Any, Any, None]],
        on_lost: Callable[[], None] | None,
    ) -> Ended:
        self._leading = True
        self._record_event("became leader")
        self._observer.on(NAME)
        log.info("Successfully acquired lease", extra=fields(lock=str(self._claim.lock)))
        work = asyncio.create_task(on_started())
        failed = asyncio.Event()
        work.add_done_callback(lambda done: failed.set() if _failed(done) else None)
        ended = Ended.LOST
        try:
            ended = await self._stay(stop, failed)
        finally:
            # Also when cancelled: nothing may be begun any more in the name of a leader.
            self._leading = False
            if ended is Ended.LOST:
                if on_lost is not None:
                    on_lost()
                work.cancel()
            self._observer.off(NAME)
            await self._hand_over(work, ended)
        if ended is Ended.STOPPED:
            await asyncio.wait({work})
            if not work.cancelled():
                work.result()
        else:
            await asyncio.wait({work}, timeout=STOP_GRACE)
            if work.done() and _failed(work):
                log.error("what was led ended with an error", exc_info=work.exception())
        return ended

    async def _hand_over(self, work: asyncio.Task[None], ended: Ended) -> None:
        """Give the lease back once what was led has ended, or has had its grace."""
        stopped = ended is Ended.STOPPED
        try:
            if stopped:
                await asyncio.wait({work}, timeout=STOP_GRACE)
        finally:
            try:
                await self._claim.release(self._renew_deadline if stopped else RELEASE_AFTER_LOSS)
            finally:
                self._record_event("stopped leading")

    async def _stay(self, *ending: asyncio.Event) -> Ended:
        """Renew until one of the events, or until it cannot be done."""
        while True:
            outcome = await self._renew(*ending)
            self._report()
            if any(event.is_set() for event in ending):
                return Ended.STOPPED
            if outcome is not LeaseOutcome.HELD:
                self._log_loss(outcome)
                return Ended.LOST
            log.log(V(5), "Successfully renewed lease", extra=fields(lock=str(self._claim.lock)))
            left = self._claim.safe_until - self._clock()
            # Half of what is left is less only after a slow answer, or if the lease is very short.
            await _first(*ending, seconds=min(self._retry_period, left / 2))

    async def _renew(self, *ending: asyncio.Event) -> LeaseOutcome:
        """Try again and again for the renew deadline, but never past the end of the lease."""
        begun = self._clock()
        deadline = min(begun + self._renew_deadline, self._claim.safe_until)
        tries = 0
        while True:
            outcome = await self._attempt(deadline, *ending)
            tries += 1
            if outcome is not LeaseOutcome.NOT_HELD or any(event.is_set() for event in ending):
                return outcome
            now = self._clock()
            if now >= deadline or (self.leader and not self._claim.holds):
                return outcome
            next_try = max(now, begun + tries * self._retry_period)
            await _first(*ending, seconds=min(next_try, deadline) - now)

    def _log_loss(self, outcome: LeaseOutcome) -> None:
        if outcome is LeaseOutcome.END_OF_TERM:
            reason = "the lease is marked as 'end of term'"
        elif self.leader and not self._claim.holds:
            reason = f"the lease is held by {self.leader}"
        else:
            reason = "context deadline exceeded"
        log.info("Failed to renew lease", extra=fields(lock=str(self._claim.lock), err=reason))

    # ---- parts of both ----

    async def _attempt(self, deadline: float | None, *ending: asyncio.Event) -> LeaseOutcome:
        """One try, cut short by the deadline or by one of the events.

        A write that could make this instance the holder is waited for: it may arrive although
        nobody listens any more, and then nobody would release the lease. A leader's renewal may be
        cut off: with its old resource version it cannot undo the release that follows.
        """
        attempt = asyncio.create_task(self._claim.attempt())
        waits = [asyncio.create_task(event.wait()) for event in ending]
        try:
            left = None if deadline is None else max(0.0, deadline - self._clock())
            await asyncio.wait({attempt, *waits}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if not attempt.done() and self._claim.writing and not self._leading:
                await asyncio.wait({attempt})
            return attempt.result() if attempt.done() else LeaseOutcome.NOT_HELD
        finally:
            for task in (attempt, *waits):
                task.cancel()
            await asyncio.gather(attempt, *waits, return_exceptions=True)

    def _report(self) -> None:
        if self.leader != self._reported:
            self._reported = self.leader
            if self._on_new_leader is not None:
                self._on_new_leader(self.leader)

    def _record_event(self, text: str) -> None:
        lease = self._claim.lock.lease
        if self._events is not None and lease is not None:
            self._events.record(lease, f"{self.identity} {text}")


def _failed(done: asyncio.Task[None]) -> bool:
    return not done.cancelled() and done.exception() is not None


async def _first(*events: asyncio.Event, seconds: float) -> None:
    """Return when one of the events is set, or after so many seconds."""
    if seconds <= 0 or any(event.is_set() for event in events):
        return
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waits:
            task.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
