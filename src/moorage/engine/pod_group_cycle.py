"""The cycle of a pod group: its pods are tried together, and go to their nodes together or not.

Owns what follows from an attempt: room is made for a group that does not fit, and its pods are sent
on their way or back. Where they would go is `engine.pod_group_algorithm`'s work, what a pod is told
`engine.group_attempt`'s, and assuming, binding and requeueing are the scheduler's.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import zip_longest
from typing import TYPE_CHECKING

import msgspec

from moorage import log_lines
from moorage.engine.actions import EVERYWHERE, Eviction
from moorage.engine.decisions import Bind, error_status
from moorage.engine.group_attempt import (
    GROUP_UNSCHEDULABLE,
    GroupAttempt,
    broken,
    condition_update,
    failure_of,
    mismatch,
)
from moorage.engine.pod_group_algorithm import PodGroupAlgorithm
from moorage.engine.queue.entities import QueuedPodGroupInfo
from moorage.engine.recording import EndedAttempt
from moorage.errors import CorruptStateError
from moorage.framework.group_preemption import Rehearsal, pod_group_post_filter
from moorage.framework.guard import FAULTS
from moorage.framework.plugin import Handle
from moorage.framework.status import Code, Status
from moorage.framework.timing import UNTIMED

if TYPE_CHECKING:  # the scheduler makes its group cycle, which acts through the scheduler
    from moorage.engine.scheduler import Scheduler


_NOBODY_GOES = Status(Code.UNSCHEDULABLE, (GROUP_UNSCHEDULABLE,))


class PodGroupCycle:
    """Tries whole groups on behalf of a scheduler."""

    def __init__(self, scheduler: "Scheduler", handle: Handle) -> None:
        self._scheduler = scheduler
        self._handle = handle
        self._groups = handle.groups
        self._algorithm = PodGroupAlgorithm(scheduler, handle)
        self._group_decides = handle.gates.enabled("PodGroupPreemptionPolicy")
        self._tried: GroupAttempt | None = None
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
        group = GroupAttempt(entity, profile, scheduler.observer.attempt_begins(profile.name))
        group.result = self._algorithm.decide(group)
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

    def _act(self, group: GroupAttempt) -> None:
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

    # Room for a group that does not fit.

    def _make_room(self, group: GroupAttempt) -> None:
        """Ask plugins what could be done for the group; they may have others evicted."""
        scheduler, result, pods = self._scheduler, group.result, group.pods
        assert result.status is not None, "it does not fit"
        result.untried = result.status
        rehearsal = Rehearsal(
            scheduler.state,
            scheduler.clock.now(),
            lambda: self._algorithm.assignments(group),
            lambda assignments: self._algorithm.still_fits(group, assignments),
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

    # What it means for the pods.

    def _submit(self, group: GroupAttempt) -> int:
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


def _log_result(group: GroupAttempt, failed: int) -> None:
    status = group.result.status
    if status is None:
        log_lines.GROUP_SCHEDULED(group.group, len(group.infos) - failed, failed)
    elif not status.code.rejected:
        log_lines.GROUP_FAILED(status.message, group.group, len(group.infos))
    elif group.result.nominations is not None:
        log_lines.GROUP_WAITS(group.group, failed, status.message)
    else:
        log_lines.GROUP_UNSCHEDULABLE(group.group, failed, status.message)
