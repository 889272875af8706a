"""The scheduling queue: which pod is tried next, and when a failed one is tried again.

Owns every pending pod from the moment it is known until it is bound or deleted. A pod is ready
(active), ready soon (back-off), waiting for an event (unschedulable, gated pods included), or
popped (in flight). It moves for three kinds of reasons: the scheduler's own steps, events of the
cluster, and time. Nothing here blocks, and time passes only when the caller says so: `run_timers`
does what is due, `next_wakeup` tells when to call it again.

Must not talk to the API, nor decide where a pod goes.
"""

import math
from collections.abc import Iterable, Mapping
from copy import copy
from typing import Any

from moorage import log_lines
from moorage.engine.clock import Clock, Ticker
from moorage.engine.events import (
    BACKOFF_COMPLETE,
    FORCE_ACTIVATE,
    POP_FROM_BACKOFF,
    PROFILES_CHANGED,
    SCHEDULE_ATTEMPT_FAILURE,
    UNSCHEDULABLE_TIMEOUT,
    label,
    pod_update_events,
)
from moorage.engine.observer import SchedulerObserver
from moorage.engine.queue.backoff import BackoffQueue
from moorage.engine.queue.in_flight import InFlight
from moorage.engine.queue.nominated import NominatedPods
from moorage.engine.queue.places import NAMES, POD_ADDED, POD_UPDATED, Places
from moorage.engine.queue.pod_heap import PodHeap
from moorage.engine.queue.queued_pod import (
    ACTIVE,
    BACKOFF,
    GATED,
    UNSCHEDULABLE,
    PendingPods,
    QueuedPodInfo,
)
from moorage.engine.requeueing import PreCheck, SeenEvent, Strategy, WakeRules
from moorage.errors import StateError
from moorage.framework.cluster_events import ClusterEvent
from moorage.framework.guard import guard
from moorage.framework.profile import Profile
from moorage.model.meta import ApiObject
from moorage.model.pod import Pod

BACKOFF_FLUSH_SECONDS = 1.0
UNSCHEDULABLE_FLUSH_SECONDS = 30.0

_ACTIVATED = label(FORCE_ACTIVATE)


class SchedulingQueue:
    """All pending pods of the profiles; the first profile's QueueSort plugin orders them.

    `nominated` is the book of nominations that the cycle reads; the queue keeps it in step with
    the pods. `extenders` says that extenders are configured, which may reject pods too, and
    `generic_workload` is the state of the gate of that name.
    """

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        clock: Clock,
        *,
        nominated: NominatedPods,
        initial_backoff_seconds: float = 1,
        max_backoff_seconds: float = 10,
        max_in_unschedulable_seconds: float = 300,
        pop_from_backoff: bool = True,
        extenders: bool = False,
        generic_workload: bool = False,
        observer: SchedulerObserver | None = None,
    ) -> None:
        observer = observer or SchedulerObserver()
        self._clock = clock
        self._observer = observer
        self._max_in_unschedulable = max_in_unschedulable_seconds
        self._pop_from_backoff = pop_from_backoff
        self._generic_workload = generic_workload
        self._queue_sort = next(iter(profiles.values())).queue_sort
        self._rules = self._wake_rules(profiles, extenders)
        self._backoff = BackoffQueue(
            clock,
            self._sort_key,
            observer,
            initial_seconds=initial_backoff_seconds,
            max_seconds=max_backoff_seconds,
            aligned=pop_from_backoff,
            groups=generic_workload,
        )
        self._places = Places(
            PodHeap(self._sort_key),
            self._backoff,
            profiles,
            nominated,
            clock,
            observer,
            gate_before_backoff=pop_from_backoff,
        )
        self._active = self._places.active
        self._unschedulable = self._places.unschedulable
        self._in_flight = InFlight(observer)
        self._popped = 0
        self._closed = False
        self.nominated = nominated
        start = clock.now()
        # Back-off ends count in whole seconds if pods may be popped early, and so do the flushes.
        first = math.floor(start) if pop_from_backoff else start
        self._backoff_ticker = Ticker(first + BACKOFF_FLUSH_SECONDS, BACKOFF_FLUSH_SECONDS)
        self._unschedulable_ticker = Ticker(start, UNSCHEDULABLE_FLUSH_SECONDS)

    # What the scheduler does with pods.

    def pop(self) -> QueuedPodInfo | None:
        """The next pod to try, from now on in flight; None if there is none at the moment."""
        while not self._closed:
            info = self._active.pop()
            if info is None and self._pop_from_backoff:
                info = self._backoff.rejected.pop()
                if info is not None:
                    self._observer.incoming_pods(ACTIVE, POP_FROM_BACKOFF)
            if info is None or self._start_attempt(info):
                return info
        return None

    def peek(self) -> QueuedPodInfo | None:
        """The pod that `pop` is likely to give next."""
        info = self._active.peek()
        if info is None and self._pop_from_backoff:
            info = self._backoff.rejected.peek()
        return info

    @property
    def has_ready_pods(self) -> bool:
        """Is there a pod to try at once?"""
        return self._active.peek() is not None

    def pop_specific(self, pod: Pod) -> QueuedPodInfo | None:
        """Pop a certain pod out of turn; None if it is not waiting or is kept out by a gate."""
        self._activate(pod)
        info = self._active.remove(pod.key)
        return info if info is not None and self._start_attempt(info) else None

    def done(self, uid: str) -> None:
        """An attempt is over and the pod will not come back from it; harmless if repeated."""
        self._in_flight.done(uid)

    def add_unschedulable_if_not_present(self, info: QueuedPodInfo) -> None:
        """Take a popped pod back after a failed attempt.

        `info` names the plugins that rejected the pod; without any, the attempt counts as broken.
        Ends the attempt (`done`) in every case. A `StateError` says that the pod waits already.
        """
        try:
            self._refuse_duplicate(info)
            if info.failed_with_error:
                info.consecutive_errors_count += 1
            else:
                info.unschedulable_count += 1
                info.consecutive_errors_count = 0
            info.timestamp = self._clock.now()
            info.backoff_expiration = None
            info.flush_timestamp = None
            self._count_reasons(info, 1)
            rejectors, strategy = info.rejectors, self._after_attempt(info)
            self._places.requeue(info, strategy, SCHEDULE_ATTEMPT_FAILURE)
            if log_lines.MOVED_BACK:
                moved = (SCHEDULE_ATTEMPT_FAILURE, self._place_name(info), self._popped)
                log_lines.MOVED_BACK(info.pod, *moved, strategy.value, rejectors)
        finally:
            self.done(info.pod.uid)

    def activate(self, pods: Iterable[Pod]) -> None:
        """Make pods ready at once, whoever rejected them; one in flight when it comes back."""
        for pod in pods:
            if not self._activate(pod) and pod.uid in self._in_flight:
                self._in_flight.record(SeenEvent(FORCE_ACTIVATE, new=pod))

    def close(self) -> None:
        """Give out no more pods."""
        self._closed = True
        log_lines.QUEUE_CLOSED()
        for pod in self._in_flight.pods:
            self.done(pod.uid)

    def reload(
        self,
        profiles: Mapping[str, Profile],
        *,
        initial_backoff_seconds: float,
        max_backoff_seconds: float,
        extenders: bool,
    ) -> None:
        """Serve other profiles from now on.

        Every waiting pod is looked at again: other plugins may admit, order and wake it. A ready
        pod stays ready; any other is tried again after its back-off, because what refused it may
        not be there any more. Pods without a profile leave.
        """
        queue_sort = next(iter(profiles.values())).queue_sort
        for info in self._places:
            with guard(queue_sort, "QueueSort"):  # before anything is moved
                queue_sort.sort_key(info.pod, info.timestamp)
        ready, waiting = self._places.take_all()
        self._queue_sort = queue_sort
        self._rules = self._wake_rules(profiles, extenders)
        self._places.set_profiles(profiles)
        self._backoff.initial_seconds = initial_backoff_seconds
        self._backoff.max_seconds = max_backoff_seconds
        for infos, strategy in (
            (ready, Strategy.IMMEDIATELY),
            (waiting, Strategy.AFTER_BACKOFF),
        ):
            for info in infos:
                if info.pod.spec.scheduler_name in profiles:
                    self._places.requeue(info, strategy, label(PROFILES_CHANGED))
                else:
                    self.nominated.remove(info.pod)
                    self._count_reasons(info, -1)
        self._in_flight.record(SeenEvent(PROFILES_CHANGED))

    # What happens in the cluster.

    def add(self, pod: Pod) -> None:
        """A new pod is to be scheduled."""
        self._places.to_active(QueuedPodInfo(pod, self._clock.now()), POD_ADDED)

    def update(self, old: Pod, new: Pod) -> None:
        """A pending pod changed, which may be just what it waited for."""
        events = [SeenEvent(event, old, new) for event in pod_update_events(old, new)]
        if new.uid in self._in_flight:
            for seen in events:
                self._in_flight.record(seen)
            return
        key = new.key
        info = self._places.get(key)
        if info is None:
            self._places.to_active(QueuedPodInfo(new, self._clock.now()), POD_UPDATED)
            return
        info.pod = new
        self.nominated.update(old, new)
        if key in self._active:
            self._active.put(info)
        elif key in self._backoff:
            self._backoff.reorder(info)
        else:
            self._wake_updated(info, events)

    def delete(self, pod: Pod) -> None:
        """A pod need not be scheduled any more."""
        self.nominated.remove(pod)
        key = pod.key
        if self._active.remove(key) is None and self._backoff.remove(key) is None:
            info = self._unschedulable.remove(key)
            if info is not None:
                # Upstream takes the reasons back only here and on pop, so its gauge stays too high
                # when a pod is deleted from the other two places.
                self._count_reasons(info, -1)

    def move_all_to_active_or_backoff(
        self,
        event: ClusterEvent,
        old: ApiObject | None,
        new: ApiObject | None,
        pre_check: PreCheck | None = None,
    ) -> None:
        """Something happened: wake the pods it may help; `pre_check` says which to look at."""
        if not self._unschedulable and not self._in_flight:
            return  # the usual case, and there are as many events as pods
        interest = self._rules.interest(event)
        if not interest:
            return
        seen = SeenEvent(event, old, new)
        pods = self._unschedulable.concerned(interest, seen)
        if log_lines.NOT_HELPED:
            pods = list(self._unschedulable)  # those that cannot be concerned are told of as well
        if pre_check is not None:
            pods = [info for info in pods if pre_check(info.pod)]
        self._wake(pods, seen)

    # What time does.

    def run_timers(self, now: float | None = None) -> None:
        """Do what is due; `now` is the clock's time, for callers that have just read it."""
        now = self._clock.now() if now is None else now
        if self._backoff_ticker.due(now):
            self.flush_backoff_completed()
        if self._unschedulable_ticker.due(now):
            self.flush_unschedulable_leftover()

    def next_wakeup(self) -> float | None:
        """When `run_timers` may next have something to do; None if only events can change that.

        Never late, but sometimes early: then nothing moves, and the next answer is a later one.
        """
        times = []
        end = self._backoff.earliest_end()
        if end is not None:
            times.append(self._backoff_ticker.after(end))
        if len(self._unschedulable):
            times.append(self._unschedulable_ticker.next)
        return min(times, default=None)

    def flush_backoff_completed(self) -> None:
        """Make ready the pods whose back-off has ended."""
        for info in self._backoff.pop_completed():
            self._places.to_active(info, BACKOFF_COMPLETE, from_backoff=True)

    def flush_unschedulable_leftover(self) -> None:
        """Give pods another try that nothing has woken for too long: a hint may be wrong."""
        now = self._clock.now()
        left_over = []
        for info in self._unschedulable:
            since = max(info.timestamp, info.flush_timestamp or -math.inf)
            if now - since > self._max_in_unschedulable:
                info.flush_timestamp = now
                left_over.append(info)
        if left_over:
            self._wake(left_over, SeenEvent(UNSCHEDULABLE_TIMEOUT))

    # What can be seen from outside.

    @property
    def has_pods(self) -> bool:
        """Does any pod wait, ready or not?"""
        return bool(self._active or self._backoff or self._unschedulable)

    def sizes(self) -> Mapping[str, int]:
        """How many pods wait in each place; gated ones do not count as unschedulable here."""
        gated = sum(info.gated for info in self._unschedulable)
        return {
            ACTIVE: len(self._active),
            BACKOFF: len(self._backoff),
            UNSCHEDULABLE: len(self._unschedulable) - gated,
            GATED: gated,
        }

    def get(self, key: str) -> QueuedPodInfo | None:
        """A waiting pod by `namespace/name`."""
        return self._places.get(key)

    def place_of(self, info: QueuedPodInfo) -> str:
        """Where a waiting pod is: ACTIVE, BACKOFF, UNSCHEDULABLE or GATED."""
        if info.key in self._active:
            return ACTIVE
        if info.key in self._backoff:
            return BACKOFF
        return GATED if info.gated else UNSCHEDULABLE

    def next_try(self, info: QueuedPodInfo) -> float | None:
        """When a waiting pod becomes ready even if nothing happens; None if it never does."""
        place = self.place_of(info)
        if place == ACTIVE:
            return self._clock.now()
        if place == BACKOFF:
            # A copy, as working the end out writes it down.
            return self._backoff_ticker.after(self._backoff.expiration(copy(info)))
        if place == GATED:
            return None
        since = max(info.timestamp, info.flush_timestamp or -math.inf)
        return self._unschedulable_ticker.after(since + self._max_in_unschedulable)

    def woken_by(self, info: QueuedPodInfo) -> list[tuple[str, ClusterEvent]]:
        """The plugins that turned a pod away, and the events that each of them waits for."""
        return self._rules.registered_by(info.pod.spec.scheduler_name, info.rejectors)

    def is_in_flight(self, pod: Pod) -> bool:
        """Is a pod being tried, or on its way to a node?"""
        return pod.uid in self._in_flight

    def pending_pods(self) -> PendingPods:
        """What waits where."""
        return PendingPods(
            active=tuple(info.pod for info in self._active),
            backoff=tuple(info.pod for info in self._backoff.pods),
            unschedulable=tuple(info.pod for info in self._unschedulable),
            gated=tuple(info.pod for info in self._unschedulable if info.gated),
            in_flight=tuple(self._in_flight.pods),
        )

    # How it is done.

    def _wake_rules(self, profiles: Mapping[str, Profile], extenders: bool) -> WakeRules:
        return WakeRules(
            profiles,
            self._observer,
            extenders=extenders,
            generic_workload=self._generic_workload,
        )

    def _place_name(self, info: QueuedPodInfo) -> str:
        return NAMES.get(self.place_of(info), NAMES[UNSCHEDULABLE])

    def _sort_key(self, info: QueuedPodInfo) -> Any:
        with guard(self._queue_sort, "QueueSort"):
            return self._queue_sort.sort_key(info.pod, info.timestamp)

    def _start_attempt(self, info: QueuedPodInfo) -> bool:
        info.attempts += 1
        if info.pod.uid in self._in_flight:
            log_lines.POD_DISCARDED(
                f"the same pod is tracked in multiple places in the scheduler: {info.key}"
            )
            return False
        self._in_flight.start(info.pod)
        self._popped += 1
        self._count_reasons(info, -1)
        return True

    def _refuse_duplicate(self, info: QueuedPodInfo) -> None:
        for place, name in (
            (self._unschedulable, "unschedulable queue"),
            (self._active, "the active queue"),
            (self._backoff, "the backoff queue"),
        ):
            if info.key in place:
                raise StateError(f"Pod {info.key} is already present in {name}")

    def _after_attempt(self, info: QueuedPodInfo) -> Strategy:
        """What the events that came during the attempt make of its result."""
        if info.failed_with_error:
            return Strategy.AFTER_BACKOFF
        if self._generic_workload and info.pod.spec.scheduling_group is not None:
            return Strategy.AFTER_BACKOFF  # upstream has no events for whole groups yet
        seen = self._in_flight.since_start(info.pod.uid)
        if seen is None:
            # `done` was called before a late failure: what happened since is lost.
            log_lines.NO_EVENTS("the pod is not in flight", info.pod)
            return Strategy.AFTER_BACKOFF
        if log_lines.CHECKING_EVENTS:
            sizes = (self._in_flight.entries, len(self._in_flight))
            log_lines.CHECKING_EVENTS(info.pod, info.unschedulable_plugins, *sizes)
        best = Strategy.SKIP
        for one in seen:
            log_lines.CHECKING_EVENT(info.pod, label(one.event))
            strategy = self._rules.strategy(info, one)
            if strategy is not Strategy.SKIP:
                best = strategy
                # Only a pending plugin can still better the strategy.
                if best is Strategy.IMMEDIATELY or not info.pending_plugins:
                    break
        return best

    def _wake(self, pods: Iterable[QueuedPodInfo], seen: SeenEvent) -> None:
        interest = self._rules.interest(seen.event)
        for info in pods:
            if info.gated and not interest.reaches_gate(info.gating_plugin):
                continue
            strategy = self._rules.strategy(info, seen)
            if strategy is Strategy.SKIP:
                log_lines.NOT_HELPED(info.pod, interest.label)
                continue
            self._unschedulable.remove(info.key)
            self._places.requeue(info, strategy, interest.label)
        self._in_flight.record(seen)
        if self._in_flight:
            log_lines.EVENT_IN_FLIGHT(interest.label)

    def _wake_updated(self, info: QueuedPodInfo, events: Iterable[SeenEvent]) -> None:
        for seen in events:
            event = label(seen.event)
            if self._places.requeue(info, self._rules.strategy(info, seen), event):
                log_lines.MOVED_UPDATED(info.pod, event, self._place_name(info))
                return

    def _activate(self, pod: Pod) -> bool:
        info = self._unschedulable.get(pod.key)
        if info is not None:
            return self._places.to_active(info, _ACTIVATED)
        info = self._backoff.remove(pod.key)
        return info is not None and self._places.to_active(info, _ACTIVATED, from_backoff=True)

    def _count_reasons(self, info: QueuedPodInfo, change: int) -> None:
        for plugin in info.rejectors:
            self._observer.unschedulable_reason(plugin, info.pod.spec.scheduler_name, change)
