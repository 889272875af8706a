"""Filter: which nodes can satisfy a pod's claims, allocated ones and those still to allocate."""

from collections.abc import Generator, Iterator, Sequence
from functools import cached_property

import numpy as np

from moorage.cluster.columns import Bools, Rows
from moorage.cluster.view import NodeView
from moorage.framework.status import Code, Reason, Verdicts
from moorage.model.devices import AllocationResult, ResourceClaim
from moorage.model.node import Node
from moorage.plugins.dynamic_resources.claim_tracker import ClaimTracker
from moorage.plugins.dynamic_resources.claims import (
    is_ready,
    named_claims,
    reserved_for,
    timed_out,
)
from moorage.plugins.dynamic_resources.demands import (
    ENOUGH,
    SHORT,
    UNKNOWN,
    ChosenDevices,
    ChosenPlaces,
    Codes,
    Demand,
)
from moorage.plugins.dynamic_resources.extended_resources import NodeClaim
from moorage.plugins.dynamic_resources.node_allocatable import (
    AllocatedDevice,
    claim_statuses,
    is_mapped,
    not_shareable,
    rejections,
)
from moorage.plugins.dynamic_resources.pod_state import PodState
from moorage.plugins.dynamic_resources.slices import OPTIONAL_OPERATIONS
from moorage.plugins.errors import (
    AllocationError,
    DeviceFailedError,
    NodeAllocatableError,
    NodeAllocationError,
    SearchInterruptedError,
    SearchTimedOutError,
)

NOT_AVAILABLE = Reason("resourceclaim not available on the node", Code.UNRESOLVABLE)
NOT_ENOUGH = Reason("cannot allocate all claims", Code.UNRESOLVABLE)
NO_RESOURCE = Reason("cannot fit resource", Code.UNRESOLVABLE)
LEFT_OVER = Reason("cannot schedule extended resource claim", Code.UNRESOLVABLE)
GAVE_WAY = "the search for devices was ended because other pods wait; it goes on after the back-off"
_COMMON = (NOT_AVAILABLE, NOT_ENOUGH, NO_RESOURCE, LEFT_OVER)
# Errors name nodes and pools, and verdicts can tell only so many reasons apart. One error ends the
# attempt, so the nodes after these many different ones share the last.
_MOST_REASONS = 60


class NodeFilter:
    """One pod's filter over some nodes."""

    def __init__(
        self,
        state: PodState,
        tracker: ClaimTracker,
        search_limit: float,
        now: float,
        binding_limit: float,
    ) -> None:
        self._state = state
        self._tracker = tracker
        self._search_limit = search_limit
        self._now = now
        self._binding_limit = binding_limit
        self._allocating = bool(state.to_allocate)
        self._ended = False
        self._demands: dict[int, tuple[Demand, list[ResourceClaim]]] = {}

    def verdicts(self, nodes: NodeView) -> Verdicts:
        """One verdict per node; what feasible nodes would give goes into the pod's state."""
        verdicts = Verdicts(len(nodes), _COMMON)
        unavailable = self._unavailable(nodes)
        for place in self._unknown(nodes, verdicts, unavailable):
            for reason in self._reasons(nodes, place, unavailable):
                if reason not in verdicts.reasons and len(verdicts.reasons) >= _MOST_REASONS:
                    reason = verdicts.reasons[-1]
                verdicts.reject(place, reason)
            if self._ended:
                # The first such error ends the attempt; the other nodes are not searched.
                rest = np.arange(len(nodes)) > place
                verdicts.reject(rest, verdicts.reasons[-1])
                break
        return verdicts

    def _unknown(
        self, nodes: NodeView, verdicts: Verdicts, unavailable: dict[int, Bools]
    ) -> Iterator[int]:
        """The nodes that must be looked at; the others' answers are known from pods alike.

        One after the other: what is found on a node may be the answer for those that follow.
        """
        state = self._state
        node_claim: NodeClaim | None = None
        plain = self._tracker.node_allocatable
        if state.extended is not None and not plain:
            own = len(state.claims) > 1
            node_claim = state.extended.on_all(nodes, other_claims=own)
            plain = node_claim is None or state.extended.left_over
        if plain:
            yield from range(len(nodes))
            return
        standing = np.full(len(nodes), ENOUGH, np.int8)
        if self._allocating:
            try:
                demand = self._demand(node_claim)[0]
            except AllocationError:
                yield from range(len(nodes))
                return
            standing = yield from self._standing(demand, nodes, node_claim)
            verdicts.reject(standing == SHORT, NOT_ENOUGH)
        for index, where in unavailable.items():
            here = where & (standing == ENOUGH)
            if here.any():
                state.unavailable.add(index)
                verdicts.reject(here, NOT_AVAILABLE)

    def _standing(
        self, demand: Demand, nodes: NodeView, node_claim: NodeClaim | None
    ) -> Generator[int, None, Codes]:
        """What the nodes say to a demand; those that must be looked at are handed out.

        Their answers, and nobody else's, are left to whoever looks at them.
        """
        if not demand.repeated:
            return (yield from self._asked(demand, nodes, node_claim, np.arange(len(nodes))))
        standing = demand.status.of(nodes)
        unknown = np.flatnonzero(standing == UNKNOWN)
        # Of all nodes it is all that is kept, which need not be gathered node by node.
        whole = nodes.whole is nodes
        if not whole:
            for place in np.flatnonzero(standing == ENOUGH).tolist():
                node = nodes.node(place)
                outcome = demand.outcomes[node.name][1]
                assert isinstance(outcome, tuple), "the codes say what the outcomes are"
                self._put(node, outcome, node_claim)
        standing[unknown] = yield from self._asked(demand, nodes, node_claim, unknown)
        demand.status.settle(nodes, unknown, standing[unknown])
        if whole:
            self._state.nodes.adopt(demand.outcomes)
            self._state.common_claim = node_claim
        return standing

    def _asked(
        self, demand: Demand, nodes: NodeView, node_claim: NodeClaim | None, places: Rows
    ) -> Generator[int, None, Codes]:
        """The same for nodes that are asked one by one."""
        standing = np.full(len(places), UNKNOWN, np.int8)
        for number, place in enumerate(places.tolist()):
            node = nodes.node(place)
            outcome = demand.known(node)
            if outcome is None:
                standing[number] = SHORT
            elif isinstance(outcome, tuple):
                standing[number] = ENOUGH
                self._put(node, outcome, node_claim)
            else:
                yield place
        return standing

    def _put(
        self, node: Node, choice: ChosenDevices | ChosenPlaces, node_claim: NodeClaim | None
    ) -> None:
        self._state.nodes.put(node.name, choice)
        if node_claim is not None:
            self._state.node_claims[node.name] = node_claim

    def _unavailable(self, nodes: NodeView) -> dict[int, Bools]:
        """Where each allocated claim cannot be used; claims usable everywhere are left out."""
        found: dict[int, Bools] = {}
        for index, claim in enumerate(self._state.claims):
            allocation = claim.status.allocation or self._state.pending.get(index)
            if allocation is None:
                continue
            selector = allocation.available_nodes
            where = np.zeros(len(nodes), np.bool_)
            if selector is not None:
                where = ~nodes.matching(selector)
            if any(result.skip_node_operations for result in allocation.devices.results):
                where |= _without_feature(nodes, OPTIONAL_OPERATIONS)
            if self._tracker.features.binding_conditions and self._stuck(claim):
                where[:] = True
            if where.any():
                found[index] = where
        return found

    def _stuck(self, claim: ResourceClaim) -> bool:
        """Did preparing a device fail, or take too long?"""
        if not claim.allocated:
            return False
        try:
            return not is_ready(claim) and timed_out(claim, self._now, self._binding_limit)
        except DeviceFailedError:
            return True

    def _reasons(
        self, nodes: NodeView, place: int, unavailable: dict[int, Bools]
    ) -> Sequence[Reason]:
        node, state, draws = nodes.node(place), self._state, self._tracker.node_allocatable
        reason = self._shared if draws else None
        reason = reason or self._reason(node, place, unavailable)
        if reason is not None:
            return (reason,)
        if not draws:
            return ()
        try:
            statuses = claim_statuses(state.pod, self._given(node), self._claim_uids)
            reasons = rejections(state.pod, statuses, nodes, place) if statuses else ()
        except NodeAllocatableError as error:
            statuses, reasons = (), (Reason(str(error), Code.ERROR),)
        if reasons:
            state.nodes.drop(node.name)
        else:
            state.node_statuses[node.name] = statuses
        return reasons

    @cached_property
    def _shared(self) -> Reason | None:
        """Which allocated claim cannot be this pod's, if any: its devices are the node's own."""
        state = self._state
        for place, claim in enumerate(state.claims):
            allocation = claim.status.allocation or state.pending.get(place)
            if allocation is None or not is_mapped(d.device for d in self._drawn(allocation)):
                continue
            others = bool(claim.status.reserved_for) and not reserved_for(
                state.pod, claim, self._tracker
            )
            if others or place in state.pending:
                return not_shareable(claim)
        return None

    def _on_node(
        self, claim: ResourceClaim, allocation: AllocationResult, node: Node
    ) -> Sequence[AllocatedDevice]:
        """The devices of an allocation, if one of them counts on the node: then all must be there.

        Raises `NodeAllocatableError`.
        """
        found, missing = [], ""
        for result in allocation.devices.results:
            driver, pool, name = result.driver, result.pool, result.device
            device = self._tracker.inventory.device(driver, pool, name)
            if device is None or not device.slice.relevant_to(node):
                problem = f"device {name} not found in pool {pool} for driver {driver}"
            elif device.nodes is not None and not device.nodes.matches(node):
                problem = f"device {name} does not match node"
            else:
                found.append(AllocatedDevice(device.device, result.consumed_capacity))
                continue
            missing = missing or f"device {name}, driver {driver}: {problem}"
        if not any(drawn.device.node_allocatable_resources for drawn in found):
            return ()
        if missing:
            raise NodeAllocatableError(f"claim {claim.key}, {missing}")
        return found

    def _drawn(self, allocation: AllocationResult) -> Iterator[AllocatedDevice]:
        """The devices of an allocation that are there."""
        for result in allocation.devices.results:
            device = self._tracker.inventory.device(result.driver, result.pool, result.device)
            if device is not None:
                yield AllocatedDevice(device.device, result.consumed_capacity)

    @cached_property
    def _claim_uids(self) -> dict[str, str]:
        named = named_claims(self._state.pod, self._tracker)
        return {name: claim.metadata.uid for name, claim in named}

    def _given(self, node: Node) -> Iterator[tuple[ResourceClaim, Sequence[AllocatedDevice]]]:
        """The pod's claims, and what they have or get on a node."""
        state = self._state
        chosen = state.nodes.get(node.name) or ()
        claims = state.claims_for(state.node_claim_on(node.name))
        for claim, picks in zip(claims, chosen, strict=False):
            yield (
                claim,
                [
                    AllocatedDevice(
                        pick.device.device, {n: a.text for n, a in pick.consumed.items()}
                    )
                    for pick in picks
                ],
            )
        for place, claim in enumerate(state.claims):
            allocation = claim.status.allocation or state.pending.get(place)
            if allocation is not None:
                yield claim, self._on_node(claim, allocation, node)

    def _reason(self, node: Node, place: int, unavailable: dict[int, Bools]) -> Reason | None:
        state = self._state
        node_claim: NodeClaim | None = None
        if state.extended is not None:
            if state.extended.left_over:
                return LEFT_OVER
            if state.extended.missing_on(node) is not None:
                return NO_RESOURCE
            own = len(state.claims) > 1
            node_claim = state.extended.on_node(node, other_claims=own)
            if node_claim is None:
                return None
        chosen: ChosenDevices | ChosenPlaces | None = None
        if self._allocating:
            answer = self._allocate(node, node_claim)
            if isinstance(answer, Reason):
                return answer
            chosen = answer
        here = [index for index, where in unavailable.items() if where[place]]
        if here:
            state.unavailable.update(here)
            return NOT_AVAILABLE
        if chosen is not None:
            self._put(node, chosen, node_claim)
        return None

    def _allocate(
        self, node: Node, node_claim: NodeClaim | None
    ) -> ChosenDevices | ChosenPlaces | Reason:
        try:
            demand, claims = self._demand(node_claim)
            self._tracker.clock.start(self._search_limit)
            outcome = self._tracker.allocator.allocate(demand, claims, node)
        except SearchTimedOutError:
            self._ended = True
            return Reason(f"node {node.name}: timed out trying to allocate devices", Code.ERROR)
        except SearchInterruptedError:
            self._ended = True
            return Reason(GAVE_WAY, Code.ERROR)
        except AllocationError as error:
            return Reason(str(error), Code.ERROR)
        finally:
            self._tracker.clock.stop()
        if isinstance(outcome, NodeAllocationError):
            return Reason(str(outcome), Code.UNRESOLVABLE)
        return NOT_ENOUGH if outcome is None else outcome

    def _demand(self, node_claim: NodeClaim | None) -> tuple[Demand, list[ResourceClaim]]:
        """The demand on a node; nodes differ only in the claim for extended resources."""
        key = id(node_claim)
        found = self._demands.get(key)
        if found is None:
            claims = self._state.claims_for(node_claim)
            found = self._demands[key] = (self._tracker.allocator.demand(claims), claims)
        return found


def _without_feature(nodes: NodeView, feature: str) -> Bools:
    declaring = (feature in nodes.node(i).status.declared_features for i in range(len(nodes)))
    return ~np.fromiter(declaring, np.bool_, len(nodes))
