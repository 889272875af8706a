"""Reserve and Unreserve: devices promised to the pods that a node was chosen for.

Owns which pods hold promises, until they are bound or come to nothing, and what of them the pods
of one group may share. Writes nothing to the API: what has to be written is handed back as work.
"""

from collections import OrderedDict
from collections.abc import Iterator

import msgspec

from moorage.cluster.pod_groups import group_of
from moorage.framework.plugin import Handle
from moorage.framework.status import Code, Status
from moorage.model.devices import DELETE_PROTECTION, AllocationResult, ResourceClaim
from moorage.model.pod import Pod
from moorage.plugins.dynamic_resources.books import DeviceBooks
from moorage.plugins.dynamic_resources.claim_work import ClaimWork, ClearStatus, Delete, Release
from moorage.plugins.dynamic_resources.extended import IN_MEMORY_NAME
from moorage.plugins.dynamic_resources.group_claims import reserved_for
from moorage.plugins.dynamic_resources.results import allocation_result
from moorage.plugins.dynamic_resources.state import PodState

# Bound pods are kept in mind for a while, in case binding fails after PreBind.
_MOST_RESERVED = 10_000


class Reservations:
    """The pods that devices are promised to."""

    def __init__(self, books: DeviceBooks, handle: Handle) -> None:
        self._books = books
        self._claims = handle.listers.of(ResourceClaim)
        self._members = handle.members
        self._shared: tuple[frozenset[str], set[str]] = (frozenset(), set())
        """The group that was tried last, and the claims whose allocations its pods can share."""
        self._reserved: OrderedDict[str, PodState] = OrderedDict()
        self._released: OrderedDict[str, dict[str, PodState]] = OrderedDict()
        """By the pod's uid and the node. Pods of groups are reserved, all of them are released,
        and those that go on are reserved again without another filter."""

    def __contains__(self, pod: Pod) -> bool:
        return pod.uid in self._reserved

    def get(self, pod: Pod) -> PodState | None:
        """What is known of a pod that has a promise."""
        return self._reserved.get(pod.uid)

    def shared_allocation(self, claim: ResourceClaim) -> AllocationResult | None:
        """What another pod of the group that is being tried was promised for the same claim."""
        trying, uids = self._shared
        if trying is not self._members.trying or claim.metadata.uid not in uids:
            return None
        return self._books.pending_allocation(claim.metadata.uid)

    def state_on(self, pod: Pod, node_name: str, latest: PodState | None) -> PodState | None:
        """What is meant by the pod on a node: the latest filter's state or the one released."""
        if latest is None or latest.tried:
            return self._released.get(pod.uid, {}).get(node_name, latest)
        return latest

    def reserve(self, state: PodState, node_name: str) -> Status | None:
        """Promise the devices to the pod; they count as taken from now on."""
        state.tried = True
        self._reserved[state.pod.uid] = state
        while len(self._reserved) > _MOST_RESERVED:
            self._reserved.popitem(last=False)
        problem = self._promise_choice(state, node_name) if state.to_allocate else None
        if problem is None:
            for place, allocation in state.pending.items():
                self._promise(state, place, state.claims[place], allocation)
        return problem

    def _promise_choice(self, state: PodState, node_name: str) -> Status | None:
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
            self._promise(state, index, claim, allocation_result(claim, devices, node_name))
        return None

    def _promise(
        self, state: PodState, place: int, claim: ResourceClaim, allocation: AllocationResult
    ) -> None:
        state.allocations[place] = allocation
        finalizers = claim.metadata.finalizers
        if DELETE_PROTECTION not in finalizers:
            finalizers = (*finalizers, DELETE_PROTECTION)
        self._books.promise(
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

    def release(self, pod: Pod, node_name: str) -> list[ClaimWork]:
        """Take the promise back; handed back is what undoes the part that was written already."""
        state = self._reserved.pop(pod.uid, None)
        if state is None:
            return []
        if group_of(pod) is not None:
            self._released.setdefault(pod.uid, {})[node_name] = state
            while len(self._released) > _MOST_RESERVED:
                self._released.popitem(last=False)
        return list(self._taken_back(pod, state))

    def _taken_back(self, pod: Pod, state: PodState) -> Iterator[ClaimWork]:
        books = self._books
        for claim in state.own_claims:
            if books.withdraw(claim.metadata.uid):
                books.restore(claim)
                self._shared[1].discard(claim.metadata.uid)
            if claim.status.allocation is not None and claim.reserved_by(pod.uid):
                yield Release(claim, pod.uid)
        if state.status_written:
            state.status_written = False
            yield ClearStatus(pod)
        if state.extended is not None:
            made_up = state.claims[-1]
            if books.withdraw(state.extended_uid):
                books.restore(made_up)
            if made_up.name != IN_MEMORY_NAME:
                yield Delete(made_up)

    def decided(self, pod: Pod) -> None:
        """The pod goes on to its node: no other node's released promise is wanted any more."""
        self._released.pop(pod.uid, None)

    def settle(self, pod: Pod) -> None:
        """What PreBind and the watch would bring about, where there is no API to write to."""
        state = self._reserved.pop(pod.uid, None)
        if state is None:
            return
        for index, claim in enumerate(state.claims):
            allocation = state.allocations.get(index, claim.status.allocation)
            if reserved_for(pod, claim, self._books) or allocation is None:
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
            self._books.refresh()
            self._books.withdraw(claim.metadata.uid)
