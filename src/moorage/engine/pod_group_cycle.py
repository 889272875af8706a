"""The cycle of a pod group: its pods are tried together, and go to their nodes together or not.

Owns the algorithm over a group: pod by pod, each seeing the others in place; once per placement if
the group has a choice. Everything that was assumed on the way is taken back before anything is
done, so a failed try leaves no trace. Deciding about a single pod is `engine.cycle`'s work, what a
pod is told `engine.pod_groups`', and assuming, binding and requeueing are the scheduler's.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from moorage.cluster.columns import Bools
from moorage.cluster.pod_groups import GroupKey
from moorage.cluster.view import NodeView
from moorage.engine.actions import EVERYWHERE, Eviction
from moorage.engine.decisions import (
    Bind,
    Refusal,
    Unschedulable,
    error_status,
    refused_decision,
)
from moorage.engine.pod_groups import (
    GROUP_UNSCHEDULABLE,
    WAITING_FOR_PREEMPTION,
    FoundMember,
    GroupResult,
    broken,
    condition_update,
    failure_of,
    gather,
)
from moorage.engine.queue.queued_pod import QueuedPodInfo
from moorage.engine.recording import EndedAttempt
from moorage.errors import CorruptStateError
from moorage.framework.group_preemption import GroupVictims, Rehearsal, group_victims
from moorage.framework.guard import FAULTS
from moorage.framework.placements import (
    Assignments,
    Placement,
    generate_placements,
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

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _GroupAttempt:
    """The pods of a group that are tried together."""

    key: GroupKey
    profile: Profile
    infos: Sequence[QueuedPodInfo]
    times: AttemptTimes
    result: GroupResult = field(default_factory=lambda: GroupResult(None))


class PodGroupCycle:
    """Tries whole groups on behalf of a scheduler."""

    def __init__(self, scheduler: "Scheduler", handle: Handle) -> None:
        self._scheduler = scheduler
        self._handle = handle
        self._groups = handle.groups
        self._pod_groups = handle.listers.of(PodGroup)
        self._by_placement = handle.gates.enabled("TopologyAwareWorkloadScheduling")
        self._tried: _GroupAttempt | None = None
        """The group whose pods have not been sent on their way yet."""
        self._infos: list[QueuedPodInfo] = []
        """The pods that were last taken from the queue together."""
        handle.members.activate = self._activate

    def run(self, first: QueuedPodInfo, key: GroupKey) -> None:
        """Try the group of a popped pod."""
        self._infos = [first]
        with self._retried_after_faults():
            self._try_group(first, key)

    def _try_group(self, first: QueuedPodInfo, key: GroupKey) -> None:
        scheduler = self._scheduler
        state = self._groups.get(key)
        if state is None:
            # Upstream loses the error on the way, so nobody is told; the pod is tried again.
            log.error("pod %s: pod group state not found for pod group %s", first.pod.key, key)
            scheduler.requeue(first, Unschedulable(first.pod, "", code=Code.ERROR))
            return
        gather(self._infos, state, scheduler.queue)
        profile = self._common_profile(self._infos)
        if profile is None:
            return
        infos = [info for info in self._infos if not scheduler.skip(info, profile)]
        if not infos:
            return
        self._handle.members.trying = frozenset(info.pod.uid for info in infos)
        times = scheduler.observer.attempt_begins(profile.name)
        group = _GroupAttempt(key, profile, infos, times)
        group.result = self._decide(group)
        scheduler.observer.group_algorithm_finished(times.seconds())
        self._make_room(group)
        self._tried = group
        extenders = scheduler.cycle.extenders
        if not any(one.is_interested(info.pod) for one in extenders for info in infos):
            self.finish()

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
        with self._retried_after_faults():
            self._act(tried)

    @contextmanager
    def _retried_after_faults(self) -> Iterator[None]:
        """After a fault outside of plugins the pods that have no answer yet are tried again."""
        try:
            yield
        except CorruptStateError:
            raise
        except FAULTS as error:
            scheduler = self._scheduler
            self._handle.members.trying = frozenset()
            message = error_status(self._infos[0].pod, error).message
            for info in self._infos:
                pod = info.pod
                profile = scheduler.profiles.get(pod.spec.scheduler_name)
                if profile is None:
                    scheduler.queue.done(pod.uid)
                elif scheduler.queue.is_in_flight(pod) and not scheduler.state.is_assumed(pod):
                    scheduler.give_up(info, profile, broken(pod, message))

    def _act(self, group: _GroupAttempt) -> None:
        scheduler, result = self._scheduler, group.result
        try:
            self._submit(group)
        finally:
            self._handle.members.trying = frozenset()
        seconds = group.times.seconds()
        scheduler.observer.group_attempt_finished(result.outcome, group.profile.name, seconds)
        update = condition_update(
            self._pod_groups.get(group.key.name, group.key.namespace), result.status
        )
        if update is not None:
            scheduler.outbox.append(update)

    # What plugins do to other pods of a group.

    def _activate(self, pods: Iterable[Pod]) -> None:
        # Pods of the group being tried come back by themselves and always after a back-off, so
        # telling the queue of them would only pile up events, a square of the group's size.
        trying = self._handle.members.trying
        self._scheduler.queue.activate(pod for pod in pods if pod.uid not in trying)

    # Which profile.

    def _common_profile(self, infos: Sequence[QueuedPodInfo]) -> Profile | None:
        """The profile of all the pods; if they differ, all of them fail."""
        scheduler = self._scheduler
        name = infos[0].pod.spec.scheduler_name
        other = next((n for n in (i.pod.spec.scheduler_name for i in infos) if n != name), None)
        if other is None and name in scheduler.profiles:
            return scheduler.profiles[name]
        message = f'profile not found for scheduler name "{name}"'
        if other is not None:
            message = (
                "all pods in a single pod group should have the same .spec.schedulerName set, "
                f'got: "{other}" and "{name}"'
            )
        for info in infos:
            profile = scheduler.profiles.get(info.pod.spec.scheduler_name)
            if profile is None:
                log.error("pod %s: %s", info.pod.key, message)
                scheduler.queue.done(info.pod.uid)
            else:
                failure = broken(info.pod, message)
                ended = EndedAttempt(info.pod, profile, info.attempts, failure=failure)
                scheduler.recorder.attempt_ended(ended)
                scheduler.fail(info, profile, failure)
        return None

    # The algorithm.

    def _decide(self, group: _GroupAttempt) -> GroupResult:
        try:
            return self._try_placements(group) if self._by_placement else self._try(group, None)
        except FAULTS as error:
            return GroupResult(error_status(group.infos[0].pod, error))

    def _make_room(self, group: _GroupAttempt) -> None:
        """Have less important pods evicted, anywhere, if the whole group fits without them."""
        result, key, profile = group.result, group.key, group.profile
        status, pod_group = result.status, self._pod_groups.get(key.name, key.namespace)
        if status is None or status.code is not Code.UNSCHEDULABLE:
            return
        if pod_group is None:
            text = f'podgroup.scheduling.k8s.io "{key.name}" not found'
            result.status = Status(Code.ERROR, (f"failed to get pod group object: {text}",))
            return
        scheduler, pods = self._scheduler, tuple(info.pod for info in group.infos)
        rehearsed = replace(group, profile=profile.without_post_filter())
        try:
            found = group_victims(
                profile,
                pod_group,
                pods,
                Rehearsal(
                    scheduler.state, scheduler.clock.now(), lambda: self._decide(rehearsed).status
                ),
            )
        except FAULTS as error:
            found = GroupVictims(error_status(pods[0], error))
        if found.status is None:
            result.preempting = True
            scheduler.evict(
                Eviction(pods[0], profile.name, EVERYWHERE, found.victims, pod_group, pods)
            )
        elif found.status.code.rejected:
            reasons = (*status.reasons, found.status.message)
            result.status = Status(status.code, reasons, status.plugin)
        else:
            result.status = found.status

    def _try_placements(self, group: _GroupAttempt) -> GroupResult:
        """Try every placement; of those that will do, take the one that scores best."""
        profile, key, state = group.profile, group.key, self._scheduler.state
        placements = generate_placements(profile, key, NodeView(state))
        if isinstance(placements, Status):
            return GroupResult(placements)
        first: GroupResult | None = None
        fitting: list[tuple[Placement, GroupResult]] = []
        for placement in placements:
            result = self._try(group, self._mask(placement))
            if result.status is not None and not result.status.code.rejected:
                return result
            first = first or result
            if result.status is None or result.preempting:
                fitting.append((placement, result))
        assert first is not None, "placements are never an empty list"
        if not fitting:
            # Which placement's findings the pods are told is arbitrary upstream too.
            text = (
                f"0/{len(placements)} placements are available, "
                f"first placement status: {GROUP_UNSCHEDULABLE}"
            )
            first.status = Status(Code.UNSCHEDULABLE, (text,))
            return first
        if len(fitting) == 1:
            return fitting[0][1]
        candidates = [
            Assignments(placement, tuple(f.info.pod for f in result.found if f.node_name))
            for placement, result in fitting
        ]
        # The tries changed the state that the old view showed.
        totals = score_placements(profile, key, candidates, NodeView(state))
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
        profile = group.profile
        result = GroupResult(Status(Code.UNSCHEDULABLE, (GROUP_UNSCHEDULABLE,)))
        needs_preemption = False
        with ExitStack() as held:
            for info in group.infos:
                found = self._find(profile, info, within)
                if found.node_name:
                    held.callback(self._release, profile, found)
                found.seconds = found.times.seconds()
                result.found.append(found)
                failure = found.ended.failure
                if failure is not None and not found.node_name:
                    if failure.code.rejected:
                        continue  # the group may do without this pod
                    text = f"failed to schedule other pod from a pod group: {failure.message}"
                    result.status = Status(Code.ERROR, (text,))
                    result.preempting = False
                    break
                needs_preemption |= failure is not None
                if found.held_by is None:
                    # One pod that may pass is enough: Permit knows how many the group needs.
                    result.preempting = needs_preemption
                    result.status = None
                    if needs_preemption:
                        reasons = (GROUP_UNSCHEDULABLE, WAITING_FOR_PREEMPTION)
                        result.status = Status(Code.UNSCHEDULABLE, reasons)
        return result

    def _find(self, profile: Profile, info: QueuedPodInfo, within: Bools | None) -> FoundMember:
        pod, scheduler = info.pod, self._scheduler
        times = scheduler.observer.attempt_begins(profile.name)
        ended = scheduler.decide(info, profile, times, within)
        found = FoundMember(info, ended, times)
        if ended.placed is not None:
            node_name = ended.placed.node_name
        else:
            node_name = (ended.failure and ended.failure.nominated_node) or ""
        if node_name:
            answer = scheduler.hold(profile, pod, node_name, times)
            if isinstance(answer, Refusal):
                # Nobody is on record as who refused it: this was a try.
                ended.failure = msgspec.structs.replace(refused_decision(pod, answer), refusal=None)
            else:
                found.node_name = node_name
                found.held_by = None if answer is None else answer.message
        return found

    def _release(self, profile: Profile, found: FoundMember) -> None:
        scheduler, pod = self._scheduler, found.info.pod
        scheduler.undo(profile, pod, found.node_name, found.times)
        if pod.status.nominated_node_name:
            scheduler.cycle.nominated.add(pod, pod.status.nominated_node_name)

    # What it means for the pods.

    def _submit(self, group: _GroupAttempt) -> None:
        scheduler, profile, result = self._scheduler, group.profile, group.result
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
                scheduler.fail(info, profile, ended.failure, times)
