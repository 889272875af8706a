"""The scheduler: takes pods from the queue, decides, and says what is to be done.

It owns the queue, the cycle and the cluster state, and it acts on nothing outside: what has to
happen in the API goes to the outbox as values, and their outcomes come back through `bound` and
`binding_failed`. One caller drives it, from one thread.
"""

import logging
from collections import deque
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from moorage import log_lines
from moorage.cluster.columns import Bools
from moorage.engine.actions import Action, Binding, Eviction, Failure, SkippedDeletion
from moorage.engine.cycle import NO_NODES, Cycle
from moorage.engine.decisions import (
    Bind,
    Refusal,
    Unschedulable,
    error_decision,
    error_status,
    refused_decision,
)
from moorage.engine.events import ASSIGNED_POD_DELETE
from moorage.engine.group_attempt import GROUP_UNSCHEDULABLE
from moorage.engine.handlers import EventHandlers
from moorage.engine.observer import ERROR, UNSCHEDULABLE, SchedulerObserver
from moorage.engine.pod_group_cycle import PodGroupCycle
from moorage.engine.queue.entities import QueuedPodGroupInfo, QueuedPodInfo
from moorage.engine.queue.queue import SchedulingQueue
from moorage.engine.recording import NO_RECORD, DecisionRecorder, EndedAttempt
from moorage.errors import CorruptStateError, StateError
from moorage.framework.extenders import Extender
from moorage.framework.guard import FAULTS, has_work
from moorage.framework.plugin import DeferringPlugin, Handle
from moorage.framework.profile import Profile
from moorage.framework.reserving import assumed, permit, reserve, unreserve
from moorage.framework.status import Status
from moorage.framework.timing import UNTIMED, AttemptTimes
from moorage.framework.waiting_pods import WaitingPod
from moorage.model.pod import Pod
from moorage.model.pod_group import PodGroup

log = logging.getLogger(__name__)


class Scheduler:
    """One scheduler with all its profiles, whose plugins were made with `handle`.

    If the gate GenericWorkload is enabled, pods of groups take the way of
    `engine.pod_group_cycle`. `observer` is told what happens.
    """

    def __init__(
        self,
        cycle: Cycle,
        queue: SchedulingQueue,
        profiles: dict[str, Profile],
        handle: Handle,
        observer: SchedulerObserver,
    ) -> None:
        self.observer = observer
        self.state = state = cycle.state
        self.cycle = cycle
        self.queue = queue
        self.profiles = profiles
        self.clock = cycle.clock
        self.handle = handle
        self.deferring: dict[tuple[str, str], DeferringPlugin] = {}
        """By profile and name, the plugins that leave writing to others."""
        self._note_deferring()
        self.waiting = handle.waiting
        self.groups = handle.groups
        self.groups.enabled = handle.gates.enabled("GenericWorkload")
        self._group_cycle = PodGroupCycle(self, handle)
        handle.members.activate = queue.activate
        handle.members.activate_group = queue.activate_group
        self.handlers = EventHandlers(state, queue, profiles, handle, self.observer)
        self.outbox: deque[Action] = deque()
        self._pods = state.listers.of(Pod)
        self.observer.profiles_known(profiles)
        self.observer.sizes_known(state.sizes, queue.view.sizes, queue.view.entities)
        self.recorder: DecisionRecorder = NO_RECORD
        self.keeps_scores = False
        """Does whoever carries bindings out want to know how good the other nodes were?"""

    def record(self, recorder: DecisionRecorder) -> None:
        """From now on tell a ledger of all changes and attempts."""
        self.recorder = self.handlers.recorder = recorder
        recorder.follow(self.cycle, self.profiles)

    def schedule_one(self) -> bool:
        """Take the next pod or pod group, if any is ready, and decide about it."""
        if self._group_cycle.unfinished:
            self._group_cycle.finish()
            return True
        info = self.queue.pop()
        if info is None:
            return False
        self.handle.faults.attempt_begins(info.sorted_as.spec.scheduler_name)
        if isinstance(info, QueuedPodGroupInfo):
            self._group_cycle.run(info)
            return True
        pod = info.pod
        log_lines.ABOUT_TO_TRY(pod)
        profile = self.profiles.get(pod.spec.scheduler_name)
        if profile is None:
            name = pod.spec.scheduler_name
            log_lines.ATTEMPT_BROKEN(f'profile not found for scheduler name "{name}"', pod)
            self.queue.done(pod.uid)
            return True
        try:
            if not self.skip(info, profile):
                self._attempt(info, profile)
        except CorruptStateError:
            raise
        except FAULTS as error:
            self.give_up(info, profile, error_decision(pod, error))
        return True

    def give_up(self, info: QueuedPodInfo, profile: Profile, failure: Unschedulable) -> None:
        """An attempt failed outside of plugins: the pod is tried again, and the others go on."""
        try:
            self.fail(info, profile, failure)
        except FAULTS:
            log.exception("pod %s is not tried again", info.pod.key)
            self.queue.done(info.pod.uid)

    @property
    def awaits_news(self) -> bool:
        """Should events that have come in be told before `schedule_one` goes on?"""
        return self._group_cycle.unfinished

    @property
    def at_rest(self) -> bool:
        """Is there nothing to decide, to do or to wait for, until another pod comes?"""
        return not (
            self.outbox
            or self.queue.view.has_pods
            or self.waiting
            or self.awaits_news
            or self.handle.api.later
            or any(map(has_work, self.deferring.values()))
        )

    def skip(self, info: QueuedPodInfo, profile: Profile) -> bool:
        """Need a popped pod not be tried, because it is leaving or on its way to a node?"""
        pod = info.pod
        if pod.terminating:
            log_lines.SKIPPED_DELETION(pod)
            self.outbox.append(SkippedDeletion(pod, profile.name))
        elif not self.state.is_assumed(pod):
            return False
        self.queue.done(pod.uid)
        return True

    def reload(
        self,
        profiles: Mapping[str, Profile],
        extenders: Sequence[Extender],
        *,
        initial_backoff_seconds: float,
        max_backoff_seconds: float,
    ) -> None:
        """Go on with other profiles; to be called between two attempts.

        Books and queue stay. Pods that are past the decision finish with the plugins that decided
        about them, which is why the new ones must be made with the same handle.
        """
        before = frozenset(self.profiles)
        # The only step that may fail comes first: then nothing has changed.
        self.queue.reload(
            profiles,
            initial_backoff_seconds=initial_backoff_seconds,
            max_backoff_seconds=max_backoff_seconds,
            extenders=bool(extenders),
        )
        self.profiles.clear()
        self.profiles.update(profiles)
        self._note_deferring()
        self.observer.profiles_known(self.profiles)
        self.cycle.use_extenders(extenders)
        self.recorder.configured(self.profiles, extenders)
        for pod in list(self._pods):
            if pod.spec.scheduler_name in before or pod.spec.node_name:
                continue
            if not self.state.is_assumed(pod):
                self.handlers.add_pod(pod)

    def _note_deferring(self) -> None:
        """Know whom to ask for what is left to be written.

        A plugin that is not configured any more stays on the list: a pod that it let pass may fail
        on its way to the node.
        """
        for profile in self.profiles.values():
            for plugin in profile.plugins.values():
                if isinstance(plugin, DeferringPlugin):
                    self.deferring[profile.name, plugin.name] = plugin

    def run_timers(self) -> None:
        """Let time do its work: back-offs end, waits run out."""
        now = self.clock.now()
        self.queue.run_timers(now)
        self.waiting.expire(now)

    def next_wakeup(self) -> float | None:
        """When `run_timers` next has something to do."""
        times = (self.queue.next_wakeup(), self.waiting.next_deadline())
        return min((time for time in times if time is not None), default=None)

    def permitted(self, binding: Binding) -> None:
        """From here on nothing can make the pod unschedulable; its events need not be kept."""
        self.queue.done(binding.pod.uid)

    def preemption_done(self, preemptor: Pod | PodGroup) -> None:
        """The victims are gone or as good as gone; the preemptor may enter the queue."""
        self.handle.preempting.end(preemptor.metadata.uid)

    def eviction_failed(self, eviction: Eviction, staying: Iterable[Pod]) -> None:
        """Victims were not evicted: the pods that waited for them to leave are tried at once."""
        waiting = list(eviction.waiting)
        for victim in staying:
            waiting += self.handle.preempting.stays(victim)
            waiting += self.cycle.nominated.on_node(self.state.node_of(victim) or "")
        self.preemption_done(eviction.cause)  # activating asks the gate
        self.queue.activate({pod.uid: pod for pod in waiting}.values())

    def bound(self, binding: Binding) -> None:
        """The pod is on its node as far as the API is concerned."""
        info, observer = binding.info, self.observer
        log_lines.BOUND(
            info.pod, binding.node_name, binding.evaluated_nodes, binding.feasible_nodes
        )
        if info.flush_timestamp is not None:
            log_lines.BOUND_AFTER_FLUSH(info.pod, info.unschedulable_plugins, info.pending_plugins)
        self.handle.preempting.left(binding.pod)
        ready = info.initial_attempt_timestamp
        waited = None if ready is None else self.clock.now() - ready
        observer.pod_scheduled(binding.profile.name, binding.times.seconds(), info.attempts, waited)

    def binding_failed(self, binding: Binding, status: Status, point: str = "Bind") -> None:
        """The binding cycle came to nothing: undo it, and wake those the place is free for now.

        `point` is the extension point that ended it: Permit, PreBind or Bind.
        """
        pod, info, profile = binding.pod, binding.info, binding.profile
        self.undo(profile, pod, binding.node_name, binding.times)
        self.handle.preempting.left(pod)
        left = pod.on_node(binding.node_name)
        rejected = status.code.rejected
        if not rejected:
            self.queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, left, None)
        failure = refused_decision(pod, Refusal(status, point), waits=binding.waiting is not None)
        placed = Bind(pod, binding.node_name)
        self.recorder.attempt_ended(
            EndedAttempt(pod, profile, info.attempts, placed, failure, binding=True)
        )
        self.fail(info, profile, failure, binding.times)
        if rejected:
            self.queue.move_all_to_active_or_backoff(
                ASSIGNED_POD_DELETE, left, None, lambda other: other.uid != pod.uid
            )

    def _attempt(self, info: QueuedPodInfo, profile: Profile) -> None:
        log_lines.ATTEMPTING(info.pod)
        times = self.observer.attempt_begins(profile.name)
        ended = self.decide(info, profile, times)
        if ended.placed is not None:
            scores = ended.attempt.totals if ended.attempt and self.keeps_scores else None
            ended.failure = self.place(info, profile, ended.placed, times, scores)
        self.recorder.attempt_ended(ended)
        if ended.failure is not None:
            self.fail(info, profile, ended.failure, times)

    def decide(
        self,
        info: QueuedPodInfo,
        profile: Profile,
        times: AttemptTimes,
        within: Bools | None = None,
        *,
        in_group: bool = False,
    ) -> EndedAttempt:
        """Find a node for a pod, or have others evicted; `within` names the only rows that count.

        Nobody is evicted for a pod that is tried with its group (`in_group`). Not `Cycle.decide`:
        PreEnqueue is the queue's business, and a pod it let in is tried.
        """
        cycle, pod = self.cycle, info.pod
        ended = EndedAttempt(
            pod,
            profile,
            info.attempts,
            started=self.recorder.clock(),
            search_start=cycle.search.start,
        )
        try:
            decision, ended.attempt = cycle.attempt(profile, pod, within, times, in_group=in_group)
        except FAULTS as error:
            decision = error_decision(pod, error)
        self.observer.algorithm_finished(times, ended.attempt)
        if isinstance(decision, Bind):
            ended.placed = decision
        else:
            ended.failure = decision
            if decision.nominated_node:
                self.evict(
                    Eviction(
                        pod,
                        profile.name,
                        decision.nominated_node,
                        decision.victims,
                        pdb_violations=decision.pdb_violations,
                    )
                )
        return ended

    def evict(self, eviction: Eviction) -> None:
        """Have those victims evicted that are not leaving yet, for this preemptor or another."""
        chosen = self.handle.preempting.choose(eviction.victims, eviction.waiting)
        if log_lines.VICTIM_LEAVING:
            leaving = (victim for victim in eviction.victims if victim not in chosen)
            for victim in leaving:
                log_lines.VICTIM_LEAVING(eviction.cause, eviction.node_name, victim)
        if chosen:
            self.observer.victims_selected(
                eviction.what,
                len(eviction.victims),
                eviction.pdb_violations,
                eviction.disrupted_groups,
            )
            self.handle.preempting.begin(eviction.cause.metadata.uid)
            count = len(eviction.victims)
            self.outbox.append(msgspec.structs.replace(eviction, victims=chosen, chosen=count))

    def place(
        self,
        info: QueuedPodInfo,
        profile: Profile,
        placed: Bind,
        times: AttemptTimes = UNTIMED,
        scores: Mapping[str, int] | None = None,
    ) -> Unschedulable | None:
        """Send a pod on its way to a node; a failure if Reserve or Permit refuse it there."""
        answer = self.hold(profile, info.pod, placed.node_name, times)
        if isinstance(answer, Refusal):
            return refused_decision(info.pod, answer)
        if answer is not None:
            self.waiting.add(answer)
        self.outbox.append(
            Binding(
                info,
                placed.node_name,
                profile,
                answer,
                extenders=self.cycle.extenders,
                times=times,
                evaluated_nodes=placed.evaluated_nodes,
                feasible_nodes=placed.feasible_nodes,
                scores=scores,
            )
        )
        return None

    def hold(
        self, profile: Profile, pod: Pod, node_name: str, times: AttemptTimes = UNTIMED
    ) -> Refusal | WaitingPod | None:
        """Assume a pod on a node and ask Reserve and Permit; a refusal leaves nothing behind."""
        refusal = self.reserve(profile, pod, node_name, times)
        if refusal is not None:
            return refusal
        try:
            answer = permit(profile, pod, node_name, self.clock.now(), times)
        except FAULTS as error:
            answer = error_status(pod, error)
        if isinstance(answer, Status):
            self.undo(profile, pod, node_name, times)
            return Refusal(answer, "Permit")
        return answer

    def reserve(
        self, profile: Profile, pod: Pod, node_name: str, times: AttemptTimes = UNTIMED
    ) -> Refusal | None:
        """Assume a pod on a node and ask Reserve; a refusal leaves nothing behind."""
        try:
            self.state.assume(assumed(profile, pod, node_name), node_name)
        except FAULTS as error:
            return Refusal(error_status(pod, error), "Reserve")
        try:
            self.groups.assume(pod, node_name)
            self.cycle.nominated.remove(pod)
            answer = reserve(profile, pod, node_name, times)
        except FAULTS as error:
            answer = error_status(pod, error)
        if answer is None:
            return None
        self.undo(profile, pod, node_name, times)
        return Refusal(answer, "Reserve")

    def undo(
        self, profile: Profile, pod: Pod, node_name: str, times: AttemptTimes = UNTIMED
    ) -> None:
        """Take back what `hold` did."""
        unreserve(profile, pod, node_name, times)
        try:
            self.state.forget(pod)
        except StateError as error:
            log_lines.FORGET_FAILED(error, pod)
        self.groups.forget(pod)
        self.recorder.forgotten(pod)

    def fail(
        self,
        info: QueuedPodInfo,
        profile: Profile,
        failure: Unschedulable,
        times: AttemptTimes = UNTIMED,
    ) -> None:
        """Requeue the pod as the informer knows it now, and report the failure."""
        rejected = failure.code.rejected
        result = UNSCHEDULABLE if rejected else ERROR
        self.observer.attempt_failed(result, profile.name, times.seconds())
        _log_failure(failure)
        if self.requeue(info, failure):
            reason = "Unschedulable" if rejected else "SchedulerError"
            self.outbox.append(
                Failure(info.pod, profile.name, reason, failure.message, failure.nominated_node)
            )

    def requeue(self, info: QueuedPodInfo, failure: Unschedulable) -> bool:
        """End the attempt; false if the pod was recreated, so the failure is not about it."""
        pod = info.pod
        self.handle.cycle_states.end(pod)
        info.clear_rejectors()
        info.unschedulable_plugins = set(failure.unschedulable_plugins)
        info.pending_plugins = set(failure.pending_plugins)
        current = self._pods.get(pod.name, pod.namespace)
        ours = pod.spec.scheduler_name in self.profiles
        if not ours or current is None or current.spec.node_name:
            _log_not_requeued(pod, current)
            self.queue.done(pod.uid)
            return True
        if current.uid != pod.uid:
            log_lines.POD_RECREATED(pod, pod.uid, current.uid)
            self.queue.done(pod.uid)
            return False
        info.pod = current
        try:
            self.queue.add_unschedulable_if_not_present(info)
        except StateError as error:
            log_lines.ATTEMPT_BROKEN(error, pod)
        self.cycle.nominated.add(current, failure.nominated_node)
        return True


def _log_failure(failure: Unschedulable) -> None:
    pod, point = failure.pod, None if failure.refusal is None else failure.refusal.point
    if point == "":
        return  # a shadow takes back what nobody refused
    # Past Permit even a rejection counts as an error.
    if not failure.code.rejected or point in ("PreBind", "Bind"):
        log_lines.ATTEMPT_FAILED(failure.message, pod)
    elif failure.message == NO_NODES:
        log_lines.NO_NODES(pod)
    elif failure.message.startswith(GROUP_UNSCHEDULABLE):
        log_lines.NO_FIT_FOR_GROUP(pod, failure.message)
    else:
        log_lines.NO_FIT(pod, failure.message)


def _log_not_requeued(pod: Pod, current: Pod | None) -> None:
    if current is None:
        log_lines.POD_GONE(pod, f'pod "{pod.name}" not found')
        log_lines.NOMINATED_POD_GONE(pod)
    elif current.spec.node_name:
        log_lines.POD_PLACED(pod, current.spec.node_name)
        log_lines.NOMINATED_POD_PLACED(pod, current.spec.node_name)
