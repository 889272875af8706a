"""DynamicResources: devices claimed through the resource.k8s.io API.

Ties the parts together at the extension points. Synchronous points write nothing: what they want
written is left in `work`, and `flush` does it for whoever talks to the API.
"""

import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from moorage.cluster.columns import Ints
from moorage.cluster.pod_groups import group_of
from moorage.cluster.view import NodeView
from moorage.errors import ApiError
from moorage.framework.attempt import Attempt
from moorage.framework.cluster_events import EventRegistration
from moorage.framework.plugin import (
    MAX_NODE_SCORE,
    ApiPort,
    DeferringPlugin,
    FilterPlugin,
    Handle,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreFilterResult,
    ReservePlugin,
    ScorePlugin,
)
from moorage.framework.status import SKIP, Code, Reason, Skip, Status, Verdicts
from moorage.model.devices import (
    DELETE_PROTECTION,
    AllocationResult,
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
)
from moorage.model.meta import ApiObject
from moorage.model.pod import Pod
from moorage.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY
from moorage.plugins.dynamic_resources.allocator import OutOfTime
from moorage.plugins.dynamic_resources.binding import BindingError, ClaimBinder, carry_out
from moorage.plugins.dynamic_resources.books import DeviceBooks
from moorage.plugins.dynamic_resources.claim_work import (
    ClearStatus,
    Deallocate,
    Delete,
    Release,
)
from moorage.plugins.dynamic_resources.claims import (
    ClaimError,
    check_requests,
    claims_of,
    preference_score,
)
from moorage.plugins.dynamic_resources.extended import (
    IN_MEMORY_NAME,
    ExtendedResources,
    extended_claim,
)
from moorage.plugins.dynamic_resources.filtering import NodeFilter
from moorage.plugins.dynamic_resources.group_claims import (
    GroupClaimError,
    left_reserved,
    reserved_for,
    users_of_claims,
)
from moorage.plugins.dynamic_resources.hints import registrations
from moorage.plugins.dynamic_resources.node_allocatable import with_statuses
from moorage.plugins.dynamic_resources.results import allocation_result
from moorage.plugins.dynamic_resources.state import PodState

_NO_STATE = "not found"
# Bound pods are kept in mind for a while, in case binding fails after PreBind.
_MOST_RESERVED = 10_000

_NO_DEVICES = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE})


class DynamicResources(
    PreEnqueuePlugin,
    PreFilterPlugin[PodState],
    FilterPlugin[PodState],
    PostFilterPlugin,
    ScorePlugin[None],
    ReservePlugin,
    PreBindPlugin,
    DeferringPlugin,
):
    """Finds devices for the claims of pods, keeps them, and writes them down."""

    name = "DynamicResources"
    looks_up: tuple[type[ApiObject], ...] = (DeviceClass, ResourceClaim, ResourceSlice)
    row_local = False
    by_node = True  # searching is dear: only nodes still in the running are asked about

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self.now = time.time
        self.timer = time.monotonic
        gates = handle.gates
        self._enabled = gates.enabled("DynamicResourceAllocation")
        if gates.enabled("DRADeviceTaintRules"):
            self.looks_up = (*self.looks_up, DeviceTaintRule)
        self.books = handle.listers.shared(DeviceBooks, lambda: DeviceBooks(handle.listers, gates))
        self.work = self.books.work
        self._filter_limit = _seconds(args.filter_timeout)
        if not gates.enabled("DRASchedulerFilterTimeout"):
            self._filter_limit = 0.0
        self._binding_limit = _seconds(args.binding_timeout) or 600.0
        self._scores = gates.enabled("DRAPrioritizedList")
        self._shared: tuple[frozenset[str], set[str]] = (frozenset(), set())
        """The group that was tried last, and the claims whose allocations its pods can share."""
        self._current: PodState | None = None
        self._reserved: OrderedDict[str, PodState] = OrderedDict()
        self._released: OrderedDict[str, dict[str, PodState]] = OrderedDict()
        """By the pod's uid and the node. Pods of groups are reserved, all of them are released,
        and those that go on are reserved again without another filter."""

    def events_to_register(self) -> Sequence[EventRegistration]:
        """Nodes, claims, classes and slices; a claim made for the pod itself."""
        return registrations(self.books) if self._enabled else ()

    # Before nodes are looked at

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """A pod waits outside until all its claims exist and are usable."""
        if not self._enabled or not pod.spec.resource_claims:
            return None
        try:
            claims_of(pod, self.books)
        except ClaimError as error:
            return Status(Code.UNRESOLVABLE, (str(error),))
        return None

    def idle_for(self, pod: Pod) -> bool:
        """Nothing to say about pods that ask for no devices, by claims or as resources."""
        return not pod.spec.resource_claims and pod.requests.incoming.keys() <= _NO_DEVICES

    def pre_filter(self, pod: Pod, nodes: NodeView) -> PreFilterResult[PodState] | Skip | Status:
        """Look the claims up; what cannot work on any node is refused here."""
        del nodes
        state = self._current = PodState(pod)
        if not self._enabled:
            return SKIP
        books = self.books
        try:
            claims = claims_of(pod, books)
            state.users = users_of_claims(pod, books)
        except (ClaimError, GroupClaimError) as error:
            return Status(Code.UNRESOLVABLE, (str(error),))
        own = len(claims)
        made_up = extended_claim(pod, books) if len(books.classes) else None
        if made_up is not None:
            claims.append(made_up)
        if not claims:
            return SKIP
        books.refresh()
        for place, claim in enumerate(claims):
            if claim.status.allocation is None:
                pending = self._shared_allocation(claim)
                if pending is not None:
                    state.pending[place] = pending
                    continue
                problem = self._problem(claim, check=claim is not made_up)
                if problem is not None:
                    return problem
        state.claims = claims
        if made_up is not None:
            state.extended = ExtendedResources(pod, made_up, books)
            state.extended_uid = made_up.metadata.uid
        assert len(state.own_claims) == own
        return PreFilterResult(state)

    def _shared_allocation(self, claim: ResourceClaim) -> AllocationResult | None:
        """What another pod of the group that is being tried was promised for the same claim."""
        trying, uids = self._shared
        if trying is not self.handle.members.trying or claim.metadata.uid not in uids:
            return None
        return self.books.pending_allocation(claim.metadata.uid)

    def _problem(self, claim: ResourceClaim, *, check: bool) -> Status | None:
        if self.books.pending_allocation(claim.metadata.uid) is not None:
            text = f"resource claim {claim.key} is in the process of being allocated"
            return Status(Code.UNRESOLVABLE, (text,))
        if not check:
            return None
        try:
            problem = check_requests(claim, self.books)
        except ValueError as error:
            return Status(Code.ERROR, (str(error),))
        return None if problem is None else Status(Code.UNRESOLVABLE, (problem,))

    # Nodes

    def filter(self, pod: Pod, nodes: NodeView, state: PodState | None) -> Verdicts:
        """Nodes where allocated claims can be used and the others can be allocated."""
        del pod
        if not self._enabled:
            return Verdicts(len(nodes))
        if state is None:
            everywhere = np.ones(len(nodes), np.bool_)
            return Verdicts(len(nodes)).reject(everywhere, Reason(_NO_STATE, Code.ERROR))
        node_filter = NodeFilter(
            state, self.books, self._start_clock, self.now(), self._binding_limit
        )
        return node_filter.verdicts(nodes)

    def _start_clock(self) -> OutOfTime:
        if not self._filter_limit:
            return lambda: False
        deadline = self.timer() + self._filter_limit
        return lambda: self.timer() > deadline

    def post_filter(self, pod: Pod, attempt: Attempt) -> PostFilterResult:
        """Give back devices that only this pod holds and that keep it from every node."""
        if not self._enabled:
            return _unschedulable("plugin disabled")
        if self.name not in attempt.before.ran:
            return PostFilterResult(Status(Code.ERROR, (_NO_STATE,)))
        state = attempt.before.states.get(self.name)
        if not isinstance(state, PodState):
            return _unschedulable("no new claims to deallocate")
        made_up = state.extended.claim if state.extended is not None else None
        for index in sorted(state.unavailable):
            claim = state.claims[index]
            if claim is made_up:
                continue
            users = claim.status.reserved_for
            if not users or (len(users) == 1 and users[0].uid == pod.uid):
                self.work.append(Deallocate(claim))
                return _unschedulable("deallocation of ResourceClaim completed")
        if made_up is not None and made_up.name != IN_MEMORY_NAME:
            self.work.append(Delete(made_up))
            return _unschedulable("deletion of ResourceClaim completed")
        return self._release_for_group(pod) or _unschedulable("still not schedulable")

    def _release_for_group(self, pod: Pod) -> PostFilterResult | None:
        """Take a claim back from a group that came to nothing, so that it can be given up."""
        key, handle = group_of(pod), self.handle
        known = None if key is None else handle.groups.get(key)
        scheduled = iter(()) if known is None else known.scheduled
        try:
            found = left_reserved(pod, self.books, handle.members.trying, scheduled)
        except GroupClaimError as error:
            return PostFilterResult(Status(Code.ERROR, (str(error),)))
        if found is None:
            return None
        self.work.append(Release(*found))
        text = "ResourceClaim unreserved for PodGroup"
        return PostFilterResult(Status(Code.UNRESOLVABLE, (text,)))

    def score(self, pod: Pod, nodes: NodeView, state: None = None) -> Ints:
        """More for nodes where earlier alternatives of requests are met."""
        del state
        scores: Ints = np.zeros(len(nodes), np.int64)
        current = self._state_of(pod)
        if current is None or not self._scores or not current.nodes:
            return scores
        if not any(r.first_available for c in current.claims for r in c.spec.devices.requests):
            return scores
        for place, name in enumerate(nodes.names()):
            scores[place] = _score(current, name)
        return scores

    def normalize(self, scores: Ints, state: None = None) -> Ints:
        """The best node gets 100."""
        del state
        highest = int(scores.max()) if len(scores) else 0
        return scores * MAX_NODE_SCORE // highest if highest else scores

    # A node was chosen

    def assumed(self, pod: Pod, node_name: str) -> Pod:
        """Devices that count as the node's own resources count there with the pod."""
        state = self._state_on(pod, node_name)
        if not self.books.node_allocatable or state is None:
            return pod
        return with_statuses(pod, state.node_statuses.get(node_name, ()))

    def _state_on(self, pod: Pod, node_name: str) -> PodState | None:
        state = self._state_of(pod)
        if state is None or state.tried:
            return self._released.get(pod.uid, {}).get(node_name, state)
        return state

    def reserve(self, pod: Pod, node_name: str) -> Status | None:
        """Promise the devices to the pod; they count as taken from now on."""
        state = self._state_on(pod, node_name)
        if not self._enabled or state is None or not state.claims:
            return None
        state.tried = True
        self._reserved[pod.uid] = state
        while len(self._reserved) > _MOST_RESERVED:
            self._reserved.popitem(last=False)
        problem = self._promise_choice(state, node_name) if state.to_allocate else None
        if problem is None:
            for place, allocation in state.pending.items():
                self._promise(state, place, state.claims[place], allocation)
        return problem

    def _promise_choice(self, state: PodState, node_name: str) -> Status | None:
        places = state.to_allocate
        chosen = state.choice_on(node_name)
        if chosen is None:
            if state.extended is not None and places == [len(state.claims) - 1]:
                return None  # the node's device plugins provide everything
            return Status(Code.ERROR, ("claim allocation not found for node",))
        # The pod's state may be kept for long, and only this node's part is needed again.
        state.nodes = {node_name: chosen}
        state.reserved = state.node_claims.get(node_name)
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
        self.books.promise(
            msgspec.structs.replace(
                claim,
                metadata=msgspec.structs.replace(claim.metadata, finalizers=finalizers),
                status=msgspec.structs.replace(claim.status, allocation=allocation),
            )
        )
        trying = self.handle.members.trying
        if state.pod.uid in trying:
            if self._shared[0] is not trying:
                self._shared = (trying, set())
            self._shared[1].add(claim.metadata.uid)

    def unreserve(self, pod: Pod, node_name: str) -> None:
        """Take the promise back, and the reservation if it was written already."""
        state = self._reserved.pop(pod.uid, None)
        if state is None:
            return
        if group_of(pod) is not None:
            self._released.setdefault(pod.uid, {})[node_name] = state
            while len(self._released) > _MOST_RESERVED:
                self._released.popitem(last=False)
        for claim in state.own_claims:
            if self.books.withdraw(claim.metadata.uid):
                self.books.restore(claim)
                self._shared[1].discard(claim.metadata.uid)
            if claim.status.allocation is not None and claim.reserved_by(pod.uid):
                self.work.append(Release(claim, pod.uid))
        if state.status_written:
            state.status_written = False
            self.work.append(ClearStatus(pod))
        if state.extended is not None:
            made_up = state.claims[-1]
            if self.books.withdraw(state.extended_uid):
                self.books.restore(made_up)
            if made_up.name != IN_MEMORY_NAME:
                self.work.append(Delete(made_up))

    def has_pre_bind_work(self, pod: Pod, node_name: str) -> bool:
        """Only pods with devices."""
        del node_name
        return pod.uid in self._reserved

    async def pre_bind(self, pod: Pod, node_name: str, api: ApiPort) -> Status | None:
        """Write allocations and reservations; wait for devices that have to be prepared."""
        self._released.pop(pod.uid, None)
        state = self._reserved.get(pod.uid)
        if state is None:
            return None
        binder = ClaimBinder(state, node_name, self.books, api, self.handle.observer)
        try:
            await binder.bind()
            await self._write_status(state, node_name, api)
            await binder.wait(self._binding_limit)
        except BindingError as error:
            return Status(Code.ERROR, (str(error),))
        return None

    async def _write_status(self, state: PodState, node_name: str, api: ApiPort) -> None:
        statuses = state.node_statuses.get(node_name, ())
        if not statuses:
            return
        try:
            await api.write_node_allocatable_claims(state.pod, statuses)
        except ApiError as error:
            raise BindingError(
                f"updating pod {state.pod.key} NodeAllocatableResourceClaimStatuses: {error}"
            ) from error
        state.status_written = True

    def settle(self, pod: Pod) -> None:
        """What PreBind and the watch would bring about, where there is no API to write to."""
        state = self._reserved.pop(pod.uid, None)
        if state is None:
            return
        claims = self.handle.listers.of(ResourceClaim)
        for index, claim in enumerate(state.claims):
            allocation = state.allocations.get(index, claim.status.allocation)
            if reserved_for(pod, claim, self.books) or allocation is None:
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
            claims.put(msgspec.structs.replace(claim, status=status))
            self.books.refresh()
            self.books.withdraw(claim.metadata.uid)

    @property
    def has_work(self) -> bool:
        """Did PostFilter or Unreserve leave anything to write?"""
        return bool(self.work)

    async def flush(self, api: ApiPort) -> list[str]:
        """Write what PostFilter and Unreserve left; failures are told, the next attempt retries."""
        failures = []
        while self.work:
            work = self.work.popleft()
            try:
                await carry_out(work, api)
            except ApiError as error:
                failures.append(f"{type(work).__name__} {work.claim.key}: {error}")
        return failures

    def _state_of(self, pod: Pod) -> PodState | None:
        current = self._current
        return current if current is not None and current.pod.uid == pod.uid else None


def _score(state: PodState, node_name: str) -> int:
    chosen = state.choice_on(node_name)
    if chosen is None:
        return 0
    total, place = 0, 0
    for index, claim in enumerate(state.claims):
        known = claim.status.allocation or state.pending.get(index)
        if known is not None:
            requests = {result.request for result in known.devices.results}
        else:
            requests = {choice.request.full_name for choice in chosen[place]}
            place += 1
        total += preference_score(claim, requests)
    return total


def _unschedulable(text: str) -> PostFilterResult:
    return PostFilterResult(Status(Code.UNSCHEDULABLE, (text,)))


def _seconds(duration: Any) -> float:
    return 0.0 if duration is None else float(duration.seconds)
