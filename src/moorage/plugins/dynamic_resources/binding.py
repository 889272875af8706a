"""PreBind: the allocation and the reservation of each claim written to the API, conditions awaited.

Owns the order of the writes, what is tried again after a conflict, and upstream's wording of what
went wrong. Runs outside the scheduling cycle, so it reads no cluster state but the claims' tracker.
"""

from collections.abc import Awaitable
from datetime import UTC, datetime

import msgspec

from moorage.errors import ApiError
from moorage.framework.observer import FrameworkObserver
from moorage.framework.plugin import ApiPort
from moorage.model.devices import DELETE_PROTECTION, ResourceClaim, ResourceClaimStatus
from moorage.plugins.dynamic_resources.claim_tracker import ClaimTracker
from moorage.plugins.dynamic_resources.claim_writes import CONFLICT_TRIES, CONFLICT_WAIT
from moorage.plugins.dynamic_resources.claims import (
    BINDING_FAILED,
    BINDING_TIMEOUT,
    has_conditions,
    is_ready,
    reserved_for,
    timed_out,
)
from moorage.plugins.dynamic_resources.extended_resources import IN_MEMORY_NAME
from moorage.plugins.dynamic_resources.pod_state import PodState
from moorage.plugins.errors import ClaimBindingError, DeviceFailedError

POLL_SECONDS = 5.0
_ASSUME_TRIES = 120
# How a wait ended, in the words of the metrics, by the beginning of the error's text.
_OUTCOMES = {BINDING_TIMEOUT: "timeout", BINDING_FAILED: "failure"}


class ClaimBinder:
    """Writes the claims of one pod."""

    def __init__(
        self,
        state: PodState,
        node_name: str,
        tracker: ClaimTracker,
        api: ApiPort,
        observer: FrameworkObserver | None = None,
    ) -> None:
        self._observer = observer or FrameworkObserver()
        self._state = state
        self._pod = state.pod
        self._node_name = node_name
        self._tracker = tracker
        self._api = api

    async def bind(self, binding_limit: float) -> None:
        """Write allocations and reservations, then wait for devices that have to be prepared.

        Raises `ClaimBindingError`.
        """
        claims = self._state.claims
        written = []
        for index, claim in enumerate(claims):
            if not reserved_for(self._pod, claim, self._tracker):
                claims[index] = await self._bind(index, claim)
                written.append((index, claim.metadata.uid))
        await self._write_status()
        if self._tracker.features.binding_conditions and any(map(has_conditions, claims)):
            await self._wait(binding_limit)
        # The claims themselves show the devices as taken now. What failed, Unreserve takes back.
        for index, promised in written:
            if index in self._state.allocations:
                self._tracker.remove_in_flight(promised, force=True)

    async def _write_status(self) -> None:
        """Tell what the claims take of the node's own resources, if anything."""
        statuses = self._state.node_statuses.get(self._node_name, ())
        if not statuses:
            return
        try:
            await self._api.write_node_allocatable_claims(self._pod, statuses)
        except ApiError as error:
            raise ClaimBindingError(
                f"updating pod {self._pod.key} NodeAllocatableResourceClaimStatuses: {error}"
            ) from error
        self._state.status_written = True

    # One claim

    async def _bind(self, index: int, claim: ResourceClaim) -> ResourceClaim:
        state = self._state
        allocation = state.allocations.get(index)
        extended = state.extended is not None and index == len(state.claims) - 1
        if extended and allocation is None and not claim.spec.devices.requests:
            return claim  # device plugins provide everything
        written: ResourceClaim | None = None
        try:
            if extended and claim.name == IN_MEMORY_NAME:
                # From here on Unreserve has something to delete.
                claim = state.claims[index] = written = await self._create()
            written = claim = await self._write(index, claim)
        finally:
            if written is not None and written.status.allocation is not None:
                await self._assume(written, patient=extended)
        if extended:
            await self._report_extended(claim)
        return claim

    async def _assume(self, claim: ResourceClaim, *, patient: bool) -> None:
        """A claim just created may not be known from the watch yet: then wait for it."""
        for _ in range(_ASSUME_TRIES if patient else 1):
            if self._tracker.assume(claim):
                return
            if patient:
                await self._api.sleep(1.0)

    async def _create(self) -> ResourceClaim:
        node_claim = self._state.reserved
        if node_claim is None:
            raise ClaimBindingError(f"extended resource claim not found for node {self._node_name}")
        claim = node_claim.claim
        metadata = msgspec.structs.replace(claim.metadata, name="", uid="")
        blank = msgspec.structs.replace(claim, metadata=metadata, status=ResourceClaimStatus())
        try:
            created = await self._api.create_claim(blank)
            self._observer.claim_created("success")
            return created
        except ApiError as error:
            self._observer.claim_created("failure")
            raise ClaimBindingError(
                f"create claim for extended resources {claim.namespace}/: {error}"
            ) from error

    async def _write(self, index: int, claim: ResourceClaim) -> ResourceClaim:
        current = claim
        for attempt in range(CONFLICT_TRIES):
            try:
                if attempt:
                    await self._api.sleep(CONFLICT_WAIT)
                    current = await _named(
                        f"get updated claim {claim.key} after conflict",
                        self._api.get_claim(claim.namespace, claim.name),
                    )
                return await self._write_once(index, current)
            except _NamedError as error:
                if not error.cause.is_conflict or attempt == CONFLICT_TRIES - 1:
                    raise ClaimBindingError(str(error)) from error
        raise AssertionError("the last attempt returns or raises")

    async def _write_once(self, index: int, claim: ResourceClaim) -> ResourceClaim:
        key = claim.key
        if claim.metadata.deletion_timestamp is not None:
            raise ClaimBindingError(f"claim {key} got deleted in the meantime")
        allocation = self._state.allocations.get(index)
        writes_allocation = allocation is not None
        if writes_allocation:
            if claim.status.allocation is not None:
                raise ClaimBindingError(f"claim {key} got allocated elsewhere in the meantime")
            if DELETE_PROTECTION not in claim.metadata.finalizers:
                finalizers = (*claim.metadata.finalizers, DELETE_PROTECTION)
                metadata = msgspec.structs.replace(claim.metadata, finalizers=finalizers)
                protected = msgspec.structs.replace(claim, metadata=metadata)
                claim = await _named(
                    f"add finalizer to claim {key}", self._api.update_claim_finalizers(protected)
                )
        else:
            allocation = claim.status.allocation
        if self._tracker.features.binding_conditions:
            if allocation is None:
                raise ClaimBindingError(f"claim {key} got deallocated elsewhere in the meantime")
            if allocation.allocation_timestamp is None:
                now = datetime.fromtimestamp(self._api.now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
                allocation = msgspec.structs.replace(allocation, allocation_timestamp=now)
        status = msgspec.structs.replace(
            claim.status,
            allocation=allocation,
            reserved_for=(*claim.status.reserved_for, self._state.user(index)),
        )
        what = "allocation and reservation" if writes_allocation else "reservation"
        return await _named(
            f"add {what} to claim {key}",
            self._api.update_claim_status(msgspec.structs.replace(claim, status=status)),
        )

    async def _report_extended(self, claim: ResourceClaim) -> None:
        node_claim = self._state.reserved
        if node_claim is None or not node_claim.mappings:
            raise ClaimBindingError(
                f"nil or empty request mappings, no update of pod {self._pod.key} "
                "ExtendedResourceClaimStatus"
            )
        try:
            await self._api.write_extended_claim(self._pod, claim.name, node_claim.mappings)
        except ApiError as error:
            raise ClaimBindingError(
                f"update pod {self._pod.key} ExtendedResourceClaimStatus: {error}"
            ) from error

    # Waiting for devices

    async def _wait(self, limit: float) -> None:
        self._api.report(
            self._pod,
            "BindingConditionsPending",
            f"waiting for binding conditions for device on node {self._node_name}",
        )
        started = self._observer.time()
        outcome = "error"
        try:
            await self._poll(limit)
            outcome = "success"
        except ClaimBindingError as error:
            outcome = _OUTCOMES.get(str(error).partition(":")[0], outcome)
            raise
        finally:
            self._count(outcome, self._observer.time() - started)

    async def _poll(self, limit: float) -> None:
        deadline = self._api.now() + limit
        while not self._ready(limit):
            if self._api.now() + POLL_SECONDS > deadline:
                raise ClaimBindingError(f"{BINDING_TIMEOUT}: context deadline exceeded")
            await self._api.sleep(POLL_SECONDS)

    def _count(self, outcome: str, seconds: float) -> None:
        """Tell how the wait ended: the time for every device, the number for those waited for."""
        profile = self._pod.spec.scheduler_name
        for claim in self._state.claims:
            allocation = claim.status.allocation
            for result in () if allocation is None else allocation.devices.results:
                self._observer.binding_conditions_waited(profile, result.driver, outcome, seconds)
                if result.binding_conditions:
                    self._observer.binding_conditions_allocated(profile, result.driver, outcome)

    def _ready(self, limit: float) -> bool:
        for index, known in enumerate(self._state.claims):
            if known.name == IN_MEMORY_NAME:
                continue
            claim = self._tracker.get(known.namespace, known.name)
            if claim is None:
                raise ClaimBindingError(f'could not find ResourceClaim "{known.key}"')
            self._state.claims[index] = claim
            try:
                if is_ready(claim):
                    continue
            except DeviceFailedError as error:
                raise ClaimBindingError(str(error)) from error
            if timed_out(claim, self._api.now(), limit):
                raise ClaimBindingError(f"{BINDING_TIMEOUT}: claim={claim.name}")
            return False
        return True


class _NamedError(Exception):
    """A refusal of the API, and what was being done."""

    def __init__(self, doing: str, cause: ApiError) -> None:
        super().__init__(f"{doing}: {cause}")
        self.cause = cause


async def _named(doing: str, request: Awaitable[ResourceClaim]) -> ResourceClaim:
    try:
        return await request
    except ApiError as error:
        raise _NamedError(doing, error) from error
