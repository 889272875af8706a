"""The structured allocator: devices for all claims of a pod on one node, or none.

An exhaustive search, claim by claim, request by request, device by device, in a fixed order; the
first full solution is taken. Owns that order, because it decides which devices a claim gets. It
writes nothing: the result is a proposal.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import islice
from typing import NamedTuple

from moorage.framework.pacing import Pacing
from moorage.model.node import Node
from moorage.plugins.dynamic_resources.capacity import Amount, Consumed
from moorage.plugins.dynamic_resources.claim_plans import (
    ClaimPlan,
    Constraint,
    RequestPlan,
)
from moorage.plugins.dynamic_resources.pools import CounterKey, NodePools, Pool, RemainingCounters
from moorage.plugins.dynamic_resources.slices import (
    OPTIONAL_OPERATIONS,
    DeviceId,
    DeviceRecord,
    Features,
    PoolId,
)
from moorage.plugins.dynamic_resources.usage import DeviceUsage
from moorage.plugins.errors import (
    AllocationError,
    CapacityError,
    NodeAllocationError,
    SearchInterruptedError,
    SearchTimedOutError,
)

MAX_RESULTS = 32
"""As many devices as a claim can list."""
_ROUNDS_BETWEEN_LOOKS_AT_THE_CLOCK = 64


class _TooManyDevicesError(Exception):
    """More devices than a claim can list would be needed; fewer might do elsewhere."""


class ChosenDevice(NamedTuple):
    """A device for a request."""

    request: RequestPlan
    device: DeviceRecord
    consumed: dict[str, Amount]


class DeviceSearch:
    """The search on one node."""

    def __init__(
        self,
        node: Node,
        pools: NodePools,
        claims: Sequence[ClaimPlan],
        features: Features,
        usage: DeviceUsage,
        counters: RemainingCounters,
        checkpoint: Callable[[], None],
    ) -> None:
        self._node = node
        self._may_skip = OPTIONAL_OPERATIONS in node.status.declared_features
        self._pools = pools
        self._claims = claims
        self._features = features
        self._usage = usage
        self._counters = counters
        self._checkpoint = checkpoint
        self._rounds = 0
        self._constraints: list[list[Constraint]] = []
        self._all: dict[RequestPlan, list[tuple[DeviceRecord, Pool]]] = {}
        self._result: list[list[ChosenDevice]] = [[] for _ in claims]
        self._taken: dict[DeviceId, set[int]] = {}
        """Devices chosen so far, and for which claims."""
        self._shares: dict[DeviceId, Consumed] = {}
        """Shared devices chosen so far; the entry alone says that a share exists."""
        self._drawn: dict[PoolId, dict[CounterKey, int]] = {}

    def run(self) -> list[list[ChosenDevice]] | None:
        """The devices of each claim; None if there are not enough."""
        self._prepare()
        try:
            found = self._claim(0)
        except _TooManyDevicesError:
            # Upstream lets this surface as an error of the attempt when nothing catches it.
            raise AllocationError("allocation max size exceeded") from None
        if found:
            return self._result
        if self._pools.any_invalid:
            raise NodeAllocationError("invalid resource pools were encountered")
        return None

    # What can be said before the search

    def _prepare(self) -> None:
        for plan in self._claims:
            known = 0
            for alternatives in plan.requests:
                fewest = min([self._number(request) for request in alternatives])
                if fewest > MAX_RESULTS - known:
                    raise AllocationError(
                        f"claim {plan.claim.key}, request {alternatives[0].base_name}: adding "
                        f"{fewest} devices exceeds the claim limit of {MAX_RESULTS}, with {known} "
                        "already accounted for"
                    )
                known += fewest
            constraints = []
            for number, constraint in enumerate(plan.constraints):
                try:
                    constraints.append(Constraint(constraint, self._features))
                except ValueError as error:
                    raise AllocationError(
                        f"claim {plan.claim.key}, constraint #{number}: {error}"
                    ) from None
            self._constraints.append(constraints)

    def _number(self, request: RequestPlan) -> int:
        """How many devices a request needs; for "all of them" they are found here."""
        if not request.take_all:
            return request.count
        found = []
        for pool in self._pools.pools:
            where = f"claim {request.claim}, request {request.name}: asks for all devices"
            if pool.incomplete:
                raise AllocationError(
                    f"{where}, but resource pool {pool.name} is currently being updated"
                )
            if pool.invalid:
                raise AllocationError(
                    f"{where}, but resource pool {pool.name} is currently invalid"
                )
            found += [
                (device, pool)
                for device in pool.devices
                if self._selectable(request, device) and self._is_large_enough(request, device)
            ]
        self._all[request] = found
        return len(found)

    # The search: each step returns True once everything after it is settled as well

    def _claim(self, claim: int) -> bool:
        if claim >= len(self._claims):
            return True
        return self._request(claim, 0)

    def _request(self, claim: int, number: int) -> bool:
        requests = self._claims[claim].requests
        if number >= len(requests):
            try:
                return self._claim(claim + 1)
            except _TooManyDevicesError:
                # Another choice for this claim may leave room for a smaller alternative.
                return False
        alternatives = requests[number]
        if not alternatives[0].parent:
            return self._devices(claim, number, alternatives[0], 0, 0)
        exceeded = True
        for alternative in alternatives:
            try:
                if self._devices(claim, number, alternative, 0, 0):
                    return True
                exceeded = False
            except _TooManyDevicesError:
                continue
        if exceeded:
            raise _TooManyDevicesError
        return False

    def _devices(
        self, claim: int, number: int, request: RequestPlan, done: int, start: int
    ) -> bool:
        """Choose the remaining devices of a request, from place `start` on, then go on."""
        self._watch_the_clock()
        wanted = len(self._all[request]) if request.take_all else request.count
        if request.take_all and wanted == 0:
            return False
        if done >= wanted:
            return self._request(claim, number + 1)
        if len(self._result[claim]) + wanted - done > MAX_RESULTS:
            raise _TooManyDevicesError
        if request.take_all:
            device, pool = self._all[request][done]
            if not self._choose(claim, request, device, pool, must=True):
                return False
            return self._continue(claim, number, request, done, 0, device)
        devices, places = self._pools.devices, self._pools.candidates(request.expressions)
        for place in islice(places, bisect_left(places, start), None):
            device, pool = devices[place]
            if (
                self._available(claim, request, device)
                and self._selectable(request, device)
                and self._has_capacity(request, device, "checking")
                and self._choose(claim, request, device, pool, must=False)
                and self._continue(claim, number, request, done, place + 1, device)
            ):
                return True
        return False

    def _continue(
        self,
        claim: int,
        number: int,
        request: RequestPlan,
        done: int,
        start: int,
        device: DeviceRecord,
    ) -> bool:
        """Go on after a choice, and take the choice back if that leads nowhere."""
        try:
            if self._devices(claim, number, request, done + 1, start):
                return True
        except _TooManyDevicesError:
            self._give_back(claim, request, device)
            raise
        self._give_back(claim, request, device)
        return False

    def _watch_the_clock(self) -> None:
        self._rounds += 1
        if self._rounds % _ROUNDS_BETWEEN_LOOKS_AT_THE_CLOCK == 0:
            self._checkpoint()

    # One device

    def _available(self, claim: int, request: RequestPlan, device: DeviceRecord) -> bool:
        """Cheap, and so asked before selectors: is the device free for the request?"""
        taken = self._taken.get(device.id)
        if request.admin_access:
            return not taken or claim not in taken
        return not taken and device.id not in self._usage.dedicated

    def _selectable(self, request: RequestPlan, device: DeviceRecord) -> bool:
        if not self._features.binding_conditions and device.device.binding_conditions:
            return False
        if not request.selects(device):
            return False
        return device.nodes is None or device.nodes.matches(self._node)

    def _is_large_enough(self, request: RequestPlan, device: DeviceRecord) -> bool:
        """Would the device do if nobody used it? Of all devices, those that are in use count."""
        if not self._features.consumable_capacity:
            return True
        try:
            return device.capacity.allows(request.amounts)
        except CapacityError as error:
            raise _capacity_complaint(request, "checking", device.id[2], error) from None

    def _has_capacity(self, request: RequestPlan, device: DeviceRecord, doing: str) -> bool:
        if not self._features.consumable_capacity:
            return True
        used = self._usage.capacity.get(device.id)
        chosen = self._shares.get(device.id)
        if used is None and chosen is None and device.capacity.plain and not request.amounts:
            return True
        try:
            return device.capacity.allows(request.amounts, used or {}, chosen or {})
        except CapacityError as error:
            raise _capacity_complaint(request, doing, "/".join(device.id), error) from None

    def _choose(
        self, claim: int, request: RequestPlan, device: DeviceRecord, pool: Pool, *, must: bool
    ) -> bool:
        """Take a device unless something speaks against it; then nothing is changed."""
        if not self._is_usable(claim, request, device):
            return False
        draws = bool(device.counters) and not self._already_shared(device)
        if draws and not self._draw(device, pool):
            return False
        if self._features.device_taints and device.taints and not request.tolerates(device):
            self._undraw(device, draws=draws)
            return False
        if not self._constrain(claim, request, device):
            self._undraw(device, draws=draws)
            if must:
                raise AllocationError(
                    f"claim {request.claim}, request {request.name}: cannot add device "
                    f"{'/'.join(device.id)} because a claim constraint would not be satisfied"
                )
            return False
        consumed: dict[str, Amount] = {}
        if not self._has_capacity(request, device, "rechecking"):
            self._unconstrain(claim, request, len(self._constraints[claim]))
            self._undraw(device, draws=draws)
            return False
        if device.shareable:
            consumed = device.capacity.taken_by(request.amounts)
            shares = self._shares.setdefault(device.id, {})
            for name, amount in consumed.items():
                shares[name] = shares.get(name, 0) + amount.nano
        else:
            self._taken.setdefault(device.id, set()).add(claim)
        self._result[claim].append(ChosenDevice(request, device, consumed))
        return True

    def _is_usable(self, claim: int, request: RequestPlan, device: DeviceRecord) -> bool:
        """May the request have the device, whatever the constraints say?"""
        taken = self._taken.get(device.id)
        if request.admin_access:
            if not device.shareable and taken and claim in taken:
                return False
        elif device.id in self._usage.dedicated or taken:
            return False
        if device.skipped_operations and not self._may_skip:
            return False
        return not device.counters or self._features.partitionable_devices

    def _give_back(self, claim: int, request: RequestPlan, device: DeviceRecord) -> None:
        """Undo the latest choice, which was this one."""
        chosen = self._result[claim].pop()
        draws = bool(device.counters)
        if device.shareable:
            others = any(other.device is device for results in self._result for other in results)
            shares = self._shares[device.id]
            for name, amount in chosen.consumed.items():
                shares[name] -= amount.nano
            if not others:
                del self._shares[device.id]
            draws = draws and not self._already_shared(device)
        else:
            self._taken[device.id].discard(claim)
        self._unconstrain(claim, request, len(self._constraints[claim]))
        self._undraw(device, draws=draws)

    def _already_shared(self, device: DeviceRecord) -> bool:
        """Does a share exist that pays for the device's counters already?"""
        return device.shareable and (
            device.id in self._usage.capacity
            or device.id in self._usage.shares
            or device.id in self._shares
        )

    def _constrain(self, claim: int, request: RequestPlan, device: DeviceRecord) -> bool:
        for number, constraint in enumerate(self._constraints[claim]):
            if not constraint.add(request, device):
                self._unconstrain(claim, request, number)
                return False
        return True

    def _unconstrain(self, claim: int, request: RequestPlan, count: int) -> None:
        for constraint in reversed(self._constraints[claim][:count]):
            constraint.remove(request)

    def _draw(self, device: DeviceRecord, pool: Pool) -> bool:
        """Take the device's part of the shared counters; no counter of the pool may be short."""
        if self._features.compatibility_groups and not self._is_compatible(device, pool):
            return False
        drawn = self._drawn.setdefault(pool.id, {})
        for key, value in device.counters:
            drawn[key] = drawn.get(key, 0) + value
        left = self._counters.left(pool)
        if all(drawn.get(key, 0) <= value for key, value in left.items()):
            return True
        self._undraw(device, draws=True)
        return False

    def _is_compatible(self, device: DeviceRecord, pool: Pool) -> bool:
        """Do all devices in use that draw on a counter set of this one share a group with it?

        Devices without groups go together with such devices only.
        """
        chosen = {one.device.id for results in self._result for one in results}
        used = [
            consumption
            for other in pool.all_devices
            if other.id in chosen or self._usage.in_use(other.id)
            for consumption in other.device.consumes_counters
        ]
        for wanted in device.device.consumes_counters:
            groups = [
                set(consumption.compatibility_groups)
                for consumption in used
                if consumption.counter_set == wanted.counter_set
            ]
            own = set(wanted.compatibility_groups)
            if not (own.intersection(*groups) if own else not any(groups)):
                return False
        return True

    def _undraw(self, device: DeviceRecord, *, draws: bool) -> None:
        if draws:
            drawn = self._drawn[device.pool]
            for key, value in device.counters:
                drawn[key] -= value


def _capacity_complaint(
    request: RequestPlan, doing: str, device: str, error: CapacityError
) -> AllocationError:
    return AllocationError(
        f"claim {request.claim}, request {request.name}: {doing} capacity for device {device}: "
        f"{error}"
    )


class SearchClock:
    """One per scheduler; `start` and `stop` enclose the search on a node."""

    def __init__(self, pacing: Pacing) -> None:
        self._pacing = pacing
        self._searching = False
        self._deadline: float | None = None

    def start(self, limit: float) -> None:
        """The search on a node begins; a limit of 0 is none."""
        self._searching = True
        self._deadline = self._pacing.timer() + limit if limit else None

    def stop(self) -> None:
        """It is over."""
        self._searching = False
        self._deadline = None

    def checkpoint(self) -> None:
        """Raises `SearchTimedOutError` or `SearchInterruptedError` if the search must end.

        Outside of a search, expressions of selectors are evaluated to their end.
        """
        if self._pacing.checkpoint() and self._searching:
            raise SearchInterruptedError
        if self._deadline is not None and self._pacing.timer() > self._deadline:
            raise SearchTimedOutError
