"""DynamicResources: devices claimed through the resource.k8s.io API.

Ties the parts together at the extension points. Synchronous points write nothing: what they want
written is left in `work`, and `flush` does it for whoever talks to the API.
"""

from collections import deque
from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np

from moorage.cluster.columns import Ints
from moorage.cluster.pod_groups import GroupKey
from moorage.cluster.view import NodeView
from moorage.errors import ApiError
from moorage.framework.attempt import AttemptResult
from moorage.framework.cluster_events import EventRegistration
from moorage.framework.group_preemption import (
    PodGroupPostFilterPlugin,
    PodGroupPostFilterResult,
    Rehearsal,
)
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
from moorage.log_fields import KObj, Line, V
from moorage.model.devices import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from moorage.model.meta import ApiObject
from moorage.model.pod import Pod
from moorage.model.pod_group import PodGroup
from moorage.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY
from moorage.plugins.dynamic_resources.binding import ClaimBinder
from moorage.plugins.dynamic_resources.claim_tracker import ClaimTracker
from moorage.plugins.dynamic_resources.claim_writes import Delete, Release, write
from moorage.plugins.dynamic_resources.claims import (
    check_requests,
    claims_of,
    preference_score,
    users_of_claims,
)
from moorage.plugins.dynamic_resources.extended_resources import ExtendedResources, extended_claim
from moorage.plugins.dynamic_resources.filtering import NodeFilter
from moorage.plugins.dynamic_resources.hints import registrations
from moorage.plugins.dynamic_resources.node_allocatable import with_statuses
from moorage.plugins.dynamic_resources.pod_state import PodNotes, PodState
from moorage.plugins.dynamic_resources.reservations import (
    Reservations,
    deallocation,
    group_deallocation,
    unschedulable,
)
from moorage.plugins.errors import ClaimBindingError, ClaimError

_CLAIMS = Line(
    V(5), "pod resource claims", "pod", "resourceclaims", logger="PreFilter.DynamicResources"
)
_NO_NEW_CLAIMS = Line(
    V(5), "No new claims to deallocate", "pod", logger="PostFilter.DynamicResources"
)
_PLUGIN_DISABLED = Line(
    V(5),
    "Nothing to do in PostFilter, plugin disabled",
    "pod",
    logger="PostFilter.DynamicResources",
)
_NO_STATE = "not found"
_CLAIM_DEALLOCATED = "deallocation of ResourceClaim completed"
_CLAIM_DELETED = "deletion of ResourceClaim completed"
_GROUP_DEALLOCATED = Status(
    Code.UNSCHEDULABLE, ("deallocation of PodGroup ResourceClaim completed",)
)
_RELEASED = Status(Code.UNRESOLVABLE, ("ResourceClaim unreserved for PodGroup",))
_NOTHING_LEFT = Status(
    Code.UNSCHEDULABLE, ("deallocation and deletion of ResourceClaims completed",)
)
_NO_DEVICES = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE})


class DynamicResources(
    PreEnqueuePlugin,
    PreFilterPlugin[PodState],
    FilterPlugin[PodState],
    PostFilterPlugin,
    PodGroupPostFilterPlugin,
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
        gates = handle.gates
        self._enabled = gates.enabled("DynamicResourceAllocation")
        if gates.enabled("DRADeviceTaintRules"):
            self.looks_up = (*self.looks_up, DeviceTaintRule)
        self.tracker = ClaimTracker.shared(handle)
        self.work = self.tracker.work
        self._filter_limit = _seconds(args.filter_timeout)
        if not gates.enabled("DRASchedulerFilterTimeout"):
            self._filter_limit = 0.0
        self._binding_limit = _seconds(args.binding_timeout) or 600.0
        self._scores = gates.enabled("DRAPrioritizedList")
        self._by_placement = gates.enabled("TopologyAwareWorkloadScheduling")
        self._reservations = Reservations(self.tracker, handle)

    def events_to_register(self) -> Sequence[EventRegistration]:
        """Nodes, claims, classes and slices; a claim made for the pod itself."""
        return registrations(self.tracker) if self._enabled else ()

    # Before nodes are looked at

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """A pod waits outside until all its claims exist and are usable."""
        if not self._enabled or not pod.spec.resource_claims:
            return None
        try:
            claims_of(pod, self.tracker)
        except ClaimError as error:
            return Status(Code.UNRESOLVABLE, (str(error),))
        return None

    @staticmethod
    def _asks_for_none(pod: Pod) -> bool:
        """Nothing to say about pods that ask for no devices, by claims or as resources."""
        return not pod.spec.resource_claims and pod.requests.incoming.keys() <= _NO_DEVICES

    def may_take_long(self, pod: Pod) -> bool:
        """A search for devices may, as may the expressions of their selectors."""
        if not self._enabled or self._asks_for_none(pod):
            return False
        return bool(pod.spec.resource_claims) or len(self.tracker.classes) > 0

    def pre_filter(self, pod: Pod, nodes: NodeView) -> PreFilterResult[PodState] | Skip | Status:
        """Look the claims up; what cannot work on any node is refused here."""
        if not self._enabled:
            return SKIP
        state = PodState(pod)
        if pod.spec.scheduling_group is not None:
            self._notes(pod).tried = state
        tracker = self.tracker
        try:
            claims = claims_of(pod, tracker)
            state.users = users_of_claims(pod, tracker)
        except ClaimError as error:
            return Status(Code.UNRESOLVABLE, (str(error),))
        if _CLAIMS:
            _CLAIMS(pod, [KObj(claim.namespace, claim.name) for claim in claims])
        made_up = extended_claim(pod, tracker) if len(tracker.classes) else None
        if made_up is not None:
            claims.append(made_up)
        if not claims:
            return SKIP
        tracker.refresh()
        for place, claim in enumerate(claims):
            if claim.status.allocation is None:
                pending = self._reservations.shared_allocation(claim)
                if pending is not None:
                    state.pending[place] = pending
                    continue
                problem = self._problem(claim, check=claim is not made_up)
                if problem is not None:
                    return problem
        state.claims = claims
        if made_up is not None:
            state.extended = ExtendedResources(pod, made_up, tracker)
            state.extended_uid = made_up.metadata.uid
        self._notes(pod).filtered = state
        return PreFilterResult(state)

    def _notes(self, pod: Pod) -> PodNotes:
        notes: PodNotes = self.cycle_state(pod).setdefault("claims", PodNotes())
        return notes

    def _problem(self, claim: ResourceClaim, *, check: bool) -> Status | None:
        if self.tracker.pending_allocation(claim.metadata.uid) is not None:
            text = f"resource claim {claim.key} is in the process of being allocated"
            return Status(Code.UNRESOLVABLE, (text,))
        if not check:
            return None
        try:
            problem = check_requests(claim, self.tracker)
        except ValueError as error:
            return Status(Code.ERROR, (str(error),))
        return None if problem is None else Status(Code.UNRESOLVABLE, (problem,))

    # Nodes

    def filter(self, pod: Pod, nodes: NodeView, state: PodState | None) -> Verdicts:
        """Nodes where allocated claims can be used and the others can be allocated."""
        if not self._enabled:
            return Verdicts(len(nodes))
        if state is None:
            everywhere = np.ones(len(nodes), np.bool_)
            return Verdicts(len(nodes)).reject(everywhere, Reason(_NO_STATE, Code.ERROR))
        node_filter = NodeFilter(
            state, self.tracker, self._filter_limit, self.handle.now(), self._binding_limit
        )
        return node_filter.verdicts(nodes)

    def post_filter(self, pod: Pod, attempt: AttemptResult) -> PostFilterResult:
        """Give back devices that only this pod holds and that keep it from every node."""
        if not self._enabled:
            _PLUGIN_DISABLED(pod)
            return unschedulable()
        if self.name not in attempt.before.ran:
            return PostFilterResult(Status(Code.ERROR, (_NO_STATE,)))
        state = attempt.before.states.get(self.name)
        if not isinstance(state, PodState):
            _NO_NEW_CLAIMS(pod)
            return unschedulable()
        work = deallocation(pod, state)
        if work is None:
            return unschedulable()
        self.work.append(work)
        deleted = isinstance(work, Delete)
        return unschedulable(_CLAIM_DELETED if deleted else _CLAIM_DEALLOCATED)

    def pod_group_post_filter(
        self, group: PodGroup, pods: Sequence[Pod], rehearsal: Rehearsal
    ) -> PodGroupPostFilterResult:
        """The same for the pods of a group; then for the claims that the group shares."""
        if not self._enabled or (self._by_placement and group.spec.scheduling_constraints):
            return PodGroupPostFilterResult(Status(Code.UNSCHEDULABLE))
        states = [(pod, self._notes(pod).tried) for pod in pods]
        known = [(pod, state) for pod, state in states if state is not None]
        found = [work for pod, state in known if (work := deallocation(pod, state)) is not None]
        self.work += found
        key = GroupKey(group.namespace, group.name)
        members = self.handle.groups.get(key)
        placed = members is not None and members.scheduled_count > 0
        if self.tracker.group_claims and len(found) < len(known) and not placed:
            try:
                shared = group_deallocation(
                    group, pods, (state for _, state in known), self.tracker
                )
            except ClaimError as error:
                return PodGroupPostFilterResult(Status(Code.ERROR, (str(error),)))
            if shared is not None:
                self.work.append(shared)
                released = isinstance(shared, Release)
                return PodGroupPostFilterResult(_RELEASED if released else _GROUP_DEALLOCATED)
        return PodGroupPostFilterResult(_NOTHING_LEFT)

    def score(self, pod: Pod, nodes: NodeView, state: None = None) -> Ints | Skip:
        """More for nodes where earlier alternatives of requests are met."""
        if self._asks_for_none(pod):
            return SKIP
        current = self._notes(pod).filtered
        if current is None or not self._scores or not current.nodes:
            return SKIP
        if not any(r.first_available for c in current.claims for r in c.spec.devices.requests):
            return SKIP
        scores: Ints = np.zeros(len(nodes), np.int64)
        for place, name in enumerate(nodes.names()):
            scores[place] = _score(current, name)
        return scores

    def normalize(self, scores: Ints, state: None = None) -> Ints:
        """The best node gets 100."""
        highest = int(scores.max()) if len(scores) else 0
        return scores * MAX_NODE_SCORE // highest if highest else scores

    # A node was chosen

    def assumed(self, pod: Pod, node_name: str) -> Pod:
        """Devices that count as the node's own resources count there with the pod."""
        if not self.tracker.node_allocatable or self._asks_for_none(pod):
            return pod
        state = self._notes(pod).meant_on(node_name)
        return pod if state is None else with_statuses(pod, state.node_statuses.get(node_name, ()))

    def reserve(self, pod: Pod, node_name: str) -> Status | None:
        """Promise the devices to the pod; they count as taken from now on."""
        if self._asks_for_none(pod):
            return None
        notes = self._notes(pod)
        state = notes.reserved = notes.meant_on(node_name)
        notes.filtered = None
        return None if state is None else self._reservations.reserve(state, node_name)

    def unreserve(self, pod: Pod, node_name: str) -> None:
        """Take the promise back, and the reservation if it was written already."""
        notes = self._notes(pod)
        state, notes.reserved = notes.reserved, None
        if state is not None:
            notes.released[node_name] = state
            self.work.extend(self._reservations.release(state))

    def has_pre_bind_work(self, pod: Pod, node_name: str) -> bool:
        """Only pods with devices."""
        return not self._asks_for_none(pod) and self._notes(pod).reserved is not None

    async def pre_bind(self, pod: Pod, node_name: str, api: ApiPort) -> Status | None:
        """Write allocations and reservations; wait for devices that have to be prepared."""
        state = self._notes(pod).reserved
        if state is None:
            return None
        binder = ClaimBinder(state, node_name, self.tracker, api, self.handle.observer)
        try:
            await binder.bind(self._binding_limit)
        except ClaimBindingError as error:
            return Status(Code.ERROR, (str(error),))
        return None

    def pre_bind_offline(self, pod: Pod) -> None:
        """The claims are allocated and reserved at once."""
        state = None if self._asks_for_none(pod) else self._notes(pod).reserved
        if state is not None:
            self._reservations.write_offline(state)
            self.cycle_state(pod).clear()

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
                await write(work, api)
            except ApiError as error:
                failures.append(f"{type(work).__name__} {work.claim.key}: {error}")
        return failures

    def trial_copy(self) -> "DynamicResources":
        """The same with work of its own, which nobody writes."""
        twin = copy(self)
        twin.work = deque()
        return twin


def _score(state: PodState, node_name: str) -> int:
    chosen = state.nodes.get(node_name)
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


def _seconds(duration: Any) -> float:
    return 0.0 if duration is None else float(duration.seconds)
