"""Reserve, Unreserve and PostFilter: devices promised to pods, taken back, and given up.

Owns which pods have allocations that are not written yet, what of these the pods of one group may
share, the form in which claims store an allocation, and which claim a pod that found no node gives
back, so that it may succeed next time, in upstream's words. Writes nothing to the API: what has to
be written is handed back as work.
"""

from collections.abc import Iterable, Iterator, Sequence
from random import Random
from uuid import UUID

import msgspec

from moorage.framework.plugin import Handle, PostFilterResult
from moorage.framework.status import Code, Status
from moorage.model.devices import (
    DELETE_PROTECTION,
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
)
from moorage.model.node_selector import (
    NAME_FIELD,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)
from moorage.model.pod import Pod
from moorage.model.pod_group import PodGroup
from moorage.plugins.dynamic_resources.claim_plans import RequestPlan
from moorage.plugins.dynamic_resources.claim_tracker import ClaimTracker
from moorage.plugins.dynamic_resources.claim_writes import (
    ClaimWrite,
    ClearStatus,
    Deallocate,
    Delete,
    Release,
)
from moorage.plugins.dynamic_resources.claims import left_reserved, reserved_for
from moorage.plugins.dynamic_resources.extended_resources import IN_MEMORY_NAME
from moorage.plugins.dynamic_resources.pod_state import PodState
from moorage.plugins.dynamic_resources.search import ChosenDevice


class Reservations:
    """Promises devices to pods, and takes promises back."""

    def __init__(self, tracker: ClaimTracker, handle: Handle) -> None:
        self._tracker = tracker
        self._claims = handle.listers.of(ResourceClaim)
        self._members = handle.members
        self._random = handle.random
        self._shared: tuple[frozenset[str], set[str]] = (frozenset(), set())
        """The group that was tried last, and the claims whose allocations its pods can share."""

    def shared_allocation(self, claim: ResourceClaim) -> AllocationResult | None:
        """What another pod of the group that is being tried was promised for the same claim."""
        trying, uids = self._shared
        if trying is not self._members.trying or claim.metadata.uid not in uids:
            return None
        return self._tracker.pending_allocation(claim.metadata.uid)

    def reserve(self, state: PodState, node_name: str) -> Status | None:
        """Promise the devices to the pod; they count as taken from now on."""
        problem = self._allocate(state, node_name) if state.to_allocate else None
        if problem is None:
            for place, allocation in state.pending.items():
                self._add_in_flight(state, place, state.claims[place], allocation)
        return problem

    def _allocate(self, state: PodState, node_name: str) -> Status | None:
        places = state.to_allocate
        chosen = state.nodes.get(node_name)
        if chosen is None:
            if state.extended is not None and places == [len(state.claims) - 1]:
                return None  # the node's device plugins provide everything
            return Status(Code.ERROR, ("claim allocation not found for node",))
        # The pod's state may be kept for long, and only this node's part is needed again.
        state.nodes.keep_only(node_name, chosen)
        state.reserved = state.node_claim_on(node_name)
        claims = state.claims_for(state.reserved)
        for index, claim, devices in zip(places, claims, chosen, strict=True):
            self._add_in_flight(
                state, index, claim, allocation_result(claim, devices, node_name, self._random)
            )
        return None

    def _add_in_flight(
        self, state: PodState, place: int, claim: ResourceClaim, allocation: AllocationResult
    ) -> None:
        state.allocations[place] = allocation
        finalizers = claim.metadata.finalizers
        if DELETE_PROTECTION not in finalizers:
            finalizers = (*finalizers, DELETE_PROTECTION)
        self._tracker.add_in_flight(
            msgspec.structs.replace(
                claim,
                metadata=msgspec.structs.replace(claim.metadata, finalizers=finalizers),
                status=msgspec.structs.replace(claim.status, allocation=allocation),
            )
        )
        trying = self._members.trying
        if state.pod.uid in trying:
            if self._shared[0] is not trying:
                self._shared = (trying, set())
            self._shared[1].add(claim.metadata.uid)

    def release(self, state: PodState) -> Iterator[ClaimWrite]:
        """Take the promise back; handed back is what undoes the part that was written already."""
        tracker, pod = self._tracker, state.pod
        for claim in state.own_claims:
            if tracker.remove_in_flight(claim.metadata.uid):
                tracker.restore(claim)
                self._shared[1].discard(claim.metadata.uid)
            if claim.status.allocation is not None and claim.reserved_by(pod.uid):
                yield Release(claim, pod.uid)
        if state.status_written:
            state.status_written = False
            yield ClearStatus(pod)
        if state.extended is not None:
            made_up = state.claims[-1]
            if tracker.remove_in_flight(state.extended_uid):
                tracker.restore(made_up)
            if made_up.name != IN_MEMORY_NAME:
                yield Delete(made_up)

    def write_offline(self, state: PodState) -> None:
        """What PreBind and the watch would bring about, where there is no API to write to."""
        pod = state.pod
        for index, claim in enumerate(state.claims):
            allocation = state.allocations.get(index, claim.status.allocation)
            if reserved_for(pod, claim, self._tracker) or allocation is None:
                continue
            users = (*claim.status.reserved_for, state.user(index))
            if claim.name == IN_MEMORY_NAME:
                metadata = msgspec.structs.replace(
                    claim.metadata, name=f"{claim.metadata.generate_name}{pod.uid}"
                )
                claim = msgspec.structs.replace(claim, metadata=metadata)
            status = msgspec.structs.replace(
                claim.status, allocation=allocation, reserved_for=users
            )
            self._claims.put(msgspec.structs.replace(claim, status=status))
            self._tracker.refresh()
            self._tracker.remove_in_flight(claim.metadata.uid)


FROM_CLASS = "FromClass"
FROM_CLAIM = "FromClaim"


def allocation_result(
    claim: ResourceClaim,
    chosen: Sequence[ChosenDevice],
    node_name: str,
    random: Random,
) -> AllocationResult:
    """The allocation of a claim whose devices were chosen for a node."""
    return AllocationResult(
        devices=DeviceAllocationResult(
            results=tuple(_result(choice, random) for choice in chosen),
            config=tuple(_configuration(claim, chosen)),
        ),
        node_selector=_node_selector(chosen, node_name),
    )


def _result(chosen: ChosenDevice, random: Random) -> DeviceRequestAllocationResult:
    request, record = chosen.request, chosen.device
    driver, pool, device = record.id
    return DeviceRequestAllocationResult(
        request=request.full_name,
        driver=driver,
        pool=pool,
        device=device,
        admin_access=True if request.admin_access else None,
        tolerations=request.tolerations,
        binding_conditions=record.device.binding_conditions,
        binding_failure_conditions=record.device.binding_failure_conditions,
        share_id=_share_id(random) if record.shareable else None,
        consumed_capacity={name: amount.text for name, amount in chosen.consumed.items()},
        skip_node_operations=record.skipped_operations,
    )


def _share_id(random: Random) -> str:
    """A name for one share of a device."""
    return str(UUID(int=random.getrandbits(128), version=4))


def _configuration(
    claim: ResourceClaim, chosen: Sequence[ChosenDevice]
) -> list[DeviceAllocationConfiguration]:
    """First the classes' configuration, each class once; then the claim's own."""
    picked = {choice.request.base_name: choice.request for choice in chosen}
    by_class: dict[str, list[str]] = {}
    for request in claim.spec.devices.requests:
        plan = picked.get(request.name)
        if plan is not None:
            by_class.setdefault(plan.class_name, []).append(plan.full_name)
    all_names = [
        _names(request.name, picked.get(request.name)) for request in claim.spec.devices.requests
    ]
    found = []
    for class_name, names in by_class.items():
        device_class = next(
            plan.device_class for plan in picked.values() if plan.class_name == class_name
        )
        found += [
            DeviceAllocationConfiguration(
                source=FROM_CLASS, requests=tuple(names), opaque=config.opaque
            )
            for config in device_class.spec.config
        ]
    for config in claim.spec.devices.config:
        own = DeviceAllocationConfiguration(
            source=FROM_CLAIM, requests=config.requests, opaque=config.opaque
        )
        if not config.requests or any(
            name in config.requests for names in all_names for name in names
        ):
            found.append(own)
    return [_for_all(config) if _concerns(config, all_names) else config for config in found]


def _names(request: str, plan: RequestPlan | None) -> tuple[str, ...]:
    """What configurations may call a request of which `plan` was chosen."""
    return (request,) if plan is None else (request, plan.full_name)


def _concerns(config: DeviceAllocationConfiguration, requests: Iterable[tuple[str, ...]]) -> bool:
    """Does it name every request?"""
    return all(any(name in config.requests for name in names) for names in requests)


def _for_all(config: DeviceAllocationConfiguration) -> DeviceAllocationConfiguration:
    return msgspec.structs.replace(config, requests=())


def _node_selector(chosen: Sequence[ChosenDevice], node_name: str) -> NodeSelector | None:
    """From which nodes the devices can be used; None means from all."""
    fields: list[NodeSelectorRequirement] = []
    expressions: list[NodeSelectorRequirement] = []
    for choice in chosen:
        record = choice.device
        source = record.device if record.slice.per_device else record.slice.slice.spec
        if source.node_name is not None or record.device.binds_to_node:
            only = NodeSelectorRequirement(key=NAME_FIELD, operator="In", values=(node_name,))
            return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(only,)),))
        selector = source.node_selector
        if selector is not None and selector.node_selector_terms:
            term = selector.node_selector_terms[0]
            _extend(fields, term.match_fields)
            _extend(expressions, term.match_expressions)
    if not fields and not expressions:
        return None
    term = NodeSelectorTerm(match_fields=tuple(fields), match_expressions=tuple(expressions))
    return NodeSelector(node_selector_terms=(term,))


def _extend(known: list[NodeSelectorRequirement], more: Sequence[NodeSelectorRequirement]) -> None:
    for requirement in more:
        same = (
            (other.key, other.operator) == (requirement.key, requirement.operator)
            and set(other.values) == set(requirement.values)
            for other in known
        )
        if not any(same):
            known.append(requirement)


def unschedulable(*texts: str) -> PostFilterResult:
    """Nothing was changed that the pod could use at once."""
    return PostFilterResult(Status(Code.UNSCHEDULABLE, texts))


def deallocation(pod: Pod, state: PodState) -> Deallocate | Delete | None:
    """A claim whose devices only this pod holds and that keep it from every node, if any."""
    made_up = state.extended.claim if state.extended is not None else None
    for index in sorted(state.unavailable):
        claim = state.claims[index]
        if claim is made_up:
            continue
        users = claim.status.reserved_for
        if not users or (len(users) == 1 and users[0].uid == pod.uid):
            return Deallocate(claim)
    if made_up is not None and made_up.name != IN_MEMORY_NAME:
        return Delete(made_up)
    return None


def group_deallocation(
    group: PodGroup, pods: Sequence[Pod], states: Iterable[PodState], tracker: ClaimTracker
) -> Deallocate | Release | None:
    """A claim that keeps the group from every node or that it holds for nothing, if any.

    None of the group's pods has a place.
    """
    uid = group.metadata.uid
    for state in states:
        for index in sorted(state.unavailable):
            users = state.claims[index].status.reserved_for
            if not users or (len(users) == 1 and users[0].uid == uid):
                return Deallocate(state.claims[index])
    found = left_reserved(pods[0], tracker)
    return None if found is None else Release(found, uid)
