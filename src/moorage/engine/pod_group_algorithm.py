"""Where the pods of a group would go: pod by pod, each seeing the others in place.

Owns the algorithm over a group, once per placement if the group has a choice. Everything that is
assumed on the way is taken back, so a try leaves no trace. Deciding about a single pod is
`engine.cycle`'s work; must not act on what was found, which is `engine.pod_group_cycle`'s.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from moorage import log_lines
from moorage.cluster.columns import Bools
from moorage.cluster.view import NodeView
from moorage.engine.decisions import error_status, refused_decision
from moorage.engine.group_attempt import (
    GROUP_UNSCHEDULABLE,
    FoundMember,
    GroupAttempt,
    GroupResult,
)
from moorage.engine.observer import FEASIBLE, INFEASIBLE
from moorage.engine.queue.entities import QueuedPodInfo
from moorage.framework.group_preemption import Assignment
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

if TYPE_CHECKING:  # the scheduler makes its group cycle, which tries pods through the scheduler
    from moorage.engine.scheduler import Scheduler


class PodGroupAlgorithm:
    """Finds places for whole groups."""

    def __init__(self, scheduler: "Scheduler", handle: Handle) -> None:
        self._scheduler = scheduler
        self._groups = handle.groups
        self._by_placement = handle.gates.enabled("TopologyAwareWorkloadScheduling")

    def decide(self, group: GroupAttempt) -> GroupResult:
        """Where would the pods go as things are?"""
        try:
            result = self._try_placements(group) if self._by_placement else self._try(group, None)
        except FAULTS as error:
            return GroupResult(error_status(group.infos[0].pod, error))
        if result.status is None and not result.placed:
            result.status = Status(Code.UNSCHEDULABLE, (GROUP_UNSCHEDULABLE,))
        return result

    def _try_placements(self, group: GroupAttempt) -> GroupResult:
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

    def _try(self, group: GroupAttempt, within: Bools | None) -> GroupResult:
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

    def _feasible(self, group: GroupAttempt, scheduled: int, remaining: int) -> Status | None:
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

    def assignments(self, group: GroupAttempt) -> Sequence[Assignment] | Status:
        """Where the pods of the group would go as things are, or why it does not fit."""
        result = self.decide(group)
        if result.status is not None:
            return result.status
        return [Assignment(found.info.pod, found.node_name) for found in result.placed]

    def still_fits(self, group: GroupAttempt, assignments: Sequence[Assignment]) -> bool:
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


def _unschedulable(status: Status) -> Status:
    """What the group is told if nothing but more pods or places would help."""
    return Status(Code.UNSCHEDULABLE, (GROUP_UNSCHEDULABLE, *status.reasons), status.plugin)
