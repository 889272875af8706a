"""The cycle of a pod group: its pods are tried together, and go to their nodes together or not.

Owns the algorithm over a group: pod by pod, each seeing the others in place; once per placement if
the group has a choice. Everything that was assumed on the way is taken back before anything is
done, so a failed try leaves no trace. Deciding about a single pod is `engine.cycle`'s work, what a
pod is told `engine.group_attempt`'s, and assuming, binding and requeueing are the scheduler's.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from moorage import log_lines
from moorage.cluster.columns import Bools
from moorage.cluster.pod_groups import GroupKey
from moorage.cluster.view import NodeView
from moorage.engine.actions import EVERYWHERE, Eviction
from moorage.engine.decisions import Bind, error_status, refused_decision
from moorage.engine.group_attempt import (
    GROUP_UNSCHEDULABLE,
    FoundMember,
    GroupResult,
    broken,
    condition_update,
    failure_of,
    mismatch,
)
from moorage.engine.observer import FEASIBLE, INFEASIBLE
from moorage.engine.queue.entities import QueuedPodGroupInfo, QueuedPodInfo
from moorage.engine.recording import EndedAttempt
from moorage.errors import CorruptStateError
from moorage.framework.group_preemption import Assignment, Rehearsal, pod_group_post_filter
from moorage.framework.guard import FAULTS
from moorage.framework.placements import (
    Assignments,
    Placement,
    generate_placements,
    placement_feasible,
    score_placements,
)
from moorage.framework.plugin import Handle
from moorage.framework.profile import Profile
from moorage.framework.status import Code, Status
from moorage.framework.timing import UNTIMED, AttemptTimes
from moorage.model.pod import Pod
from moorage.model.pod_group import PodGroup

if TYPE_CHECKING:  # the scheduler makes its group cycle, which acts through the scheduler
    from moorage.engine.scheduler import Scheduler


_NOBODY_GOES = Status(Code.UNSCHEDULABLE, (GROUP_UNSCHEDULABLE,))


@dataclass(slots=True)
class _GroupAttempt:
    """The pods of a group that are tried together."""

    entity: QueuedPodGroupInfo
    profile: Profile
    times: AttemptTimes
    result: GroupResult = field(default_factory=GroupResult)
    root_status: Status | None = None
    """What came out before PodGroupPostFilter; None: success."""

    @property
    def group(self) -> PodGroup:
        return self.entity.group

    @property
    def key(self) -> GroupKey:
        return self.entity.group_key

    @property
    def infos(self) -> Sequence[QueuedPodInfo]:
        return self.entity.infos

    @property
    def pods(self) -> tuple[Pod, ...]:
        return tuple(info.pod for info in self.infos)


class PodGroupCycle:
    """Tries whole groups on behalf of a scheduler."""

    def __init__(self, scheduler: "Scheduler", handle: Handle) -> None:
        self._scheduler = scheduler
        self._handle = handle
        self._groups = handle.groups
        gates = handle.gates
        self._by_placement = gates.enabled("TopologyAwareWorkloadScheduling")
        self._group_decides = gates.enabled("PodGroupPreemptionPolicy")
        self._tried: _GroupAttempt | None = None
        """The group whose pods have not been sent on their way yet."""

    def run(self, entity: QueuedPodGroupInfo) -> None:
        """Try a popped group."""
        with self._retried_after_faults(entity):
            self._try_group(entity)

    def _try_group(self, entity: QueuedPodGroupInfo) -> None:
        scheduler = self._scheduler
        problem = self._problem(entity)
        if problem is not None:
            self._refuse(entity, problem)
            return
        profile = scheduler.profiles[entity.infos[0].pod.spec.scheduler_name]
        entity.infos = [info for info in entity.infos if not scheduler.skip(info, profile)]
        if not entity.infos:
            scheduler.queue.group_attempted(entity, None)
            return
        log_lines.ATTEMPTING_GROUP(entity.kind, entity.group)
        self._handle.members.trying = frozenset(info.pod.uid for info in entity.infos)
        group = _GroupAttempt(entity, profile, scheduler.observer.attempt_begins(profile.name))
        group.result = self._decide(group)
        group.root_status = status = group.result.status
        scheduler.observer.group_algorithm_finished(group.times.seconds())
        if status is not None and status.code is Code.UNSCHEDULABLE:
            self._make_room(group)
        self._tried = group
        extenders = scheduler.cycle.extenders
        if not any(one.is_interested(pod) for one in extenders for pod in group.pods):
            self.finish()

    def _problem(self, entity: QueuedPodGroupInfo) -> str | None:
        """Why the group cannot be tried at all, if so."""
        state = self._groups.get(entity.group_key)
        if state is None:
            return f"pod group state not found for pod group {entity.group_key}"
        waiting = [info.pod for info in entity.infos]
        scheduled = (pod for pod, _ in state.scheduled)
        found = mismatch(entity.group, waiting, scheduled, by_group=self._group_decides)
        name = waiting[0].spec.scheduler_name
        if found is None and name not in self._scheduler.profiles:
            return f'profile not found for scheduler name "{name}"'
        return found

    def _refuse(self, entity: QueuedPodGroupInfo, problem: str) -> None:
        """The group is not tried; its pods and whoever looks at it are told why."""
        scheduler = self._scheduler
        for info in entity.infos:
            profile = scheduler.profiles.get(info.pod.spec.scheduler_name)
            if profile is None:
                log_lines.ATTEMPT_BROKEN(problem, info.pod)
                scheduler.queue.done(info.pod.uid)
            else:
                failure = broken(info.pod, problem)
                ended = EndedAttempt(info.pod, profile, info.attempts, failure=failure)
                scheduler.recorder.attempt_ended(ended)
                scheduler.fail(info, profile, failure)
        status = Status(Code.ERROR, (problem,))
        self._ended(entity, status, status)

    def _ended(
        self, entity: QueuedPodGroupInfo, told: Status | None, outcome: Status | None
    ) -> None:
        """Write what became of the group, and let what is left of it wait for the next attempt."""
        entity.placed = entity.placed or told is None
        # Once it is placed it stays so, whatever becomes of further pods.
        failed = entity.placed and told is not None
        update = None if failed else condition_update(entity.group, told)
        if update is not None:
            self._scheduler.outbox.append(update)
        self._scheduler.queue.group_attempted(entity, outcome)

    @property
    def unfinished(self) -> bool:
        """Was a group tried whose pods have not been sent on their way yet?

        Extenders may take their time, and what happened meanwhile counts: as upstream does, Permit
        looks at the group as it is by then. Pods that miss another one now wait for it.
        """
        return self._tried is not None

    def finish(self) -> None:
        """Act on what was found for the group that was tried."""
        tried, self._tried = self._tried, None
        assert tried is not None, "asked for only if there is something unfinished"
        with self._retried_after_faults(tried.entity):
            self._act(tried)

    @contextmanager
    def _retried_after_faults(self, entity: QueuedPodGroupInfo) -> Iterator[None]:
        """After a fault outside of plugins the pods that have no answer yet are tried again."""
        tried = list(entity.infos)
        try:
            yield
        except CorruptStateError:
            raise
        except FAULTS as error:
            scheduler = self._scheduler
            self._handle.members.trying = frozenset()
            status = error_status(tried[0].pod, error)
            for info in tried:
                pod = info.pod
                profile = scheduler.profiles.get(pod.spec.scheduler_name)
                if profile is None:
                    scheduler.queue.done(pod.uid)
                elif scheduler.queue.is_in_flight(pod) and not scheduler.state.is_assumed(pod):
                    scheduler.give_up(info, profile, broken(pod, status.message))
            scheduler.queue.group_attempted(entity, status)

    def _act(self, group: _GroupAttempt) -> None:
        scheduler, result = self._scheduler, group.result
        try:
            placed = self._submit(group)
        finally:
            self._handle.members.trying = frozenset()
        seconds = group.times.seconds()
        scheduler.observer.group_attempt_finished(result.outcome, group.profile.name, seconds)
        # If Permit let none of them go, trying again at once would go on without end.
        outcome = group.root_status if placed or result.status is not None else _NOBODY_GOES
        self._ended(group.entity, result.status, outcome)

    # The algorithm.

    def _decide(self, group: _GroupAttempt) -> GroupResult:
        try:
            result = self._try_placements(group) if self._by_placement else self._try(group, None)
        except FAULTS as error:
            return GroupResult(error_status(group.infos[0].pod, error))
        if result.status is None and not result.placed:
            result.status = Status(Code.UNSCHEDULABLE, (GROUP_UNSCHEDULABLE,))
        return result

    def _try_placements(self, group: _GroupAttempt) -> GroupResult:
        """Try every placement; of those that will do, take the one that scores best."""
        profile, key, state = group.profile, group.key, self._scheduler.state
        observer = self._scheduler.observer
        placements = generate_placements(profile, key, NodeView(state), group.times)
        if isinstance(placements, Status):
            return GroupResult(placements)
        observer.placements_generated(profile.name, len(placements))
        first: GroupResult | None = None
        fitting: list[tuple[Placement, GroupResult]] = []
        for placement in placements:
            began = observer.time()
            result = self._try(group, self._mask(placement))
            status = result.status
            if status is not None and not status.code.rejected:
                return result
            outcome = FEASIBLE if status is None else INFEASIBLE
            observer.placement_evaluated(outcome, profile.name, observer.time() - began)
            first = first or result
            if status is None:
                fitting.append((placement, result))
        assert first is not None, "placements are never an empty list"
        if not fitting:
            # Which placement's findings the pods are told is arbitrary upstream too.
            assert first.status is not None, "it does not fit"
            untold = first.status.reasons[0] == GROUP_UNSCHEDULABLE
            why = GROUP_UNSCHEDULABLE if untold else first.status.message
            text = f"0/{len(placements)} placements are available, first placement status: {why}"
            first.status = Status(Code.UNSCHEDULABLE, (GROUP_UNSCHEDULABLE, text))
            return first
        if len(fitting) == 1:
            return fitting[0][1]
        candidates = [
            Assignments(placement, tuple(found.info.pod for found in result.placed))
            for placement, result in fitting
        ]
        # The tries changed the state that the old view showed.
        totals = score_placements(profile, key, candidates, NodeView(state), group.times)
        if isinstance(totals, Status):
            return GroupResult(totals)
        # Upstream draws lots among the best; the first is one of its answers, and repeatable.
        return fitting[int(np.argmax(totals))][1]

    def _mask(self, placement: Placement) -> Bools | None:
        nodes = len(self._scheduler.state)
        if len(placement.rows) == nodes:
            return None
        mask = np.zeros(nodes, np.bool_)
        mask[placement.rows] = True
        return mask

    def _try(self, group: _GroupAttempt, within: Bools | None) -> GroupResult:
        """Place pod after pod, each seeing the earlier ones; then take everything back."""
        state = self._groups.get(group.key)
        scheduled = 0 if state is None else state.scheduled_count
        remaining = len(group.infos)
        result = GroupResult(self._feasible(group, scheduled, remaining))
        if result.status is not None and result.status.code is Code.UNSCHEDULABLE:
            result.status = _unschedulable(result.status)
            return result
        with ExitStack() as held:
            for info in group.infos:
                if result.status is not None and result.status.code is not Code.WAIT:
                    break
                log_lines.ATTEMPTING_MEMBER(group.group, info.pod)
                found = self._find(group.profile, info, within)
                if found.node_name:
                    held.callback(self._release, group.profile, found)
                found.seconds = found.times.seconds()
                result.found.append(found)
                failure = found.ended.failure
                if failure is not None and not failure.code.rejected:
                    text = f"failed to schedule other pod from a pod group: {failure.message}"
                    result.status = Status(Code.ERROR, (text,))
                    break
                remaining -= 1
                scheduled += bool(found.node_name)
                result.status = self._feasible(group, scheduled, remaining)
        if result.status is not None and result.status.code is Code.WAIT:
            result.status = _unschedulable(result.status)
        return result

    def _feasible(self, group: _GroupAttempt, scheduled: int, remaining: int) -> Status | None:
        """Can the group still have what it needs? WAIT: if more pods find a place."""
        status = placement_feasible(group.profile, group.group, scheduled, remaining, group.times)
        if status is not None and status.code is Code.ERROR:
            text = f"failed to evaluate placement feasibility: {status.message}"
            return Status(Code.ERROR, (text,), status.plugin)
        return status

    def _find(self, profile: Profile, info: QueuedPodInfo, within: Bools | None) -> FoundMember:
        pod, scheduler = info.pod, self._scheduler
        times = scheduler.observer.attempt_begins(profile.name)
        ended = scheduler.decide(info, profile, times, within, in_group=True)
        found = FoundMember(info, ended, times)
        if ended.placed is not None:
            node_name = ended.placed.node_name
            refusal = scheduler.reserve(profile, pod, node_name, times)
            if refusal is None:
                found.node_name = node_name
            else:
                # Nobody is on record as who refused it: this was a try.
                failure = refused_decision(pod, refusal)
                ended.failure = msgspec.structs.replace(failure, refusal=None)
        return found

    def _release(self, profile: Profile, found: FoundMember) -> None:
        self._take_back(profile, found.info.pod, found.node_name, found.times)

    def _take_back(
        self, profile: Profile, pod: Pod, node_name: str, times: AttemptTimes = UNTIMED
    ) -> None:
        scheduler = self._scheduler
        scheduler.undo(profile, pod, node_name, times)
        if pod.status.nominated_node_name:
            scheduler.cycle.nominated.add(pod, pod.status.nominated_node_name)

    # Room for a group that does not fit.

    def _make_room(self, group: _GroupAttempt) -> None:
        """Ask plugins what could be done for the group; they may have others evicted."""
        scheduler, result, pods = self._scheduler, group.result, group.pods
        assert result.status is not None, "it does not fit"
        result.untried = result.status
        rehearsal = Rehearsal(
            scheduler.state,
            scheduler.clock.now(),
            lambda: self._assignments(group),
            lambda assignments: self._still_fits(group, assignments),
        )
        try:
            found = pod_group_post_filter(group.profile, group.group, pods, rehearsal, group.times)
        except FAULTS as error:
            result.status = error_status(pods[0], error)
            return
        if found.victims:
            scheduler.evict(
                Eviction(
                    pods[0],
                    group.profile.name,
                    EVERYWHERE,
                    found.victims,
                    group.group,
                    pods,
                    pdb_violations=found.pdb_violations,
                    disrupted_groups=found.disrupted_groups,
                )
            )
        if found.status.code is Code.SUCCESS:
            result.nominations = dict(found.nominations)
        if found.status.code is Code.ERROR:
            result.status = found.status
        else:
            reasons = (*result.status.reasons, found.status.message)
            result.status = msgspec.structs.replace(result.status, reasons=reasons)

    def _assignments(self, group: _GroupAttempt) -> Sequence[Assignment] | Status:
        """Where the pods of the group would go as things are, or why it does not fit."""
        result = self._decide(group)
        if result.status is not None:
            return result.status
        return [Assignment(found.info.pod, found.node_name) for found in result.placed]

    def _still_fits(self, group: _GroupAttempt, assignments: Sequence[Assignment]) -> bool:
        """Would the pods, one after the other, still be let onto their nodes?"""
        scheduler, profile = self._scheduler, group.profile
        with ExitStack() as held:
            for pod, node_name in assignments:
                row = scheduler.state.nodes.row_of[node_name]
                here = np.zeros(len(scheduler.state), np.bool_)
                here[row] = True
                outcome = scheduler.cycle.filter(profile, pod, here).outcome
                if outcome is None or not len(outcome.feasible):
                    return False
                if scheduler.reserve(profile, pod, node_name) is None:
                    held.callback(self._take_back, profile, pod, node_name)
        return True

    # What it means for the pods.

    def _submit(self, group: _GroupAttempt) -> int:
        """Send the pods on their way, or back; how many go on?"""
        scheduler, profile, result = self._scheduler, group.profile, group.result
        failed = 0
        for info, found in zip_longest(group.infos, result.found):
            if found is None:
                times, ended = UNTIMED, EndedAttempt(info.pod, profile, info.attempts)
            else:
                times, ended = found.times, found.ended
                times.resume(found.seconds)
            if result.status is None and found is not None and ended.failure is None:
                placed = ended.placed or Bind(info.pod, found.node_name)
                ended.failure = scheduler.place(info, profile, placed, times)
            else:
                ended.failure = failure_of(info.pod, found, result)
            scheduler.recorder.attempt_ended(ended)
            if ended.failure is not None:
                failed += 1
                scheduler.fail(info, profile, ended.failure, times)
        _log_result(group, failed)
        return len(group.infos) - failed


def _unschedulable(status: Status) -> Status:
    """What the group is told if nothing but more pods or places would help."""
    return Status(Code.UNSCHEDULABLE, (GROUP_UNSCHEDULABLE, *status.reasons), status.plugin)


def _log_result(group: _GroupAttempt, failed: int) -> None:
    status = group.result.status
    if status is None:
        log_lines.GROUP_SCHEDULED(group.group, len(group.infos) - failed, failed)
    elif not status.code.rejected:
        log_lines.GROUP_FAILED(status.message, group.group, len(group.infos))
    elif group.result.nominations is not None:
        log_lines.GROUP_WAITS(group.group, failed, status.message)
    else:
        log_lines.GROUP_UNSCHEDULABLE(group.group, failed, status.message)
