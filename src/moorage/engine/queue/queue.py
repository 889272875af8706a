"""The scheduling queue: which entity is tried next, and when one that failed is tried again.

An entity is a pod, or a pod group with those of its pods that wait. Owns every pending pod from
the moment it is known until it is bound or deleted. An entity is ready (active), ready soon
(back-off), waiting for an event (unschedulable, gated ones included), or popped (in flight). It
moves for three kinds of reasons: the scheduler's own steps, events of the cluster, and time.
Nothing here blocks, and time passes only when the caller says so: `run_timers` does what is due,
`next_wakeup` tells when to call it again.

Must not talk to the API, nor decide where a pod goes.
"""

import math
from collections.abc import Iterable, Mapping
from copy import copy
from typing import Any

from moorage import log_lines
from moorage.cluster.pod_groups import GroupKey
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
from moorage.engine.queue.entities import (
    ACTIVE,
    BACKOFF,
    GATED,
    INCOMPLETE,
    PENDING,
    POD,
    UNSCHEDULABLE,
    QueuedEntity,
    QueuedPodGroupInfo,
    QueuedPodInfo,
    entity_key,
)
from moorage.engine.queue.entity_heap import EntityHeap
from moorage.engine.queue.in_flight import InFlight
from moorage.engine.queue.nominated import NominatedPods
from moorage.engine.queue.places import NAMES, POD_ADDED, Places
from moorage.engine.queue.pod_groups import QueuedPodGroups
from moorage.engine.queue.view import QueueView
from moorage.engine.requeueing import PreCheck, SeenEvent, Strategy, WakeRules
from moorage.errors import StateError
from moorage.framework.cluster_events import ClusterEvent
from moorage.framework.guard import guard
from moorage.framework.profile import Profile
from moorage.framework.status import Status
from moorage.model.meta import ApiObject
from moorage.model.pod import Pod

BACKOFF_FLUSH_SECONDS = 1.0
UNSCHEDULABLE_FLUSH_SECONDS = 30.0

_ACTIVATED = label(FORCE_ACTIVATE)


class SchedulingQueue:
    """All pending pods of the profiles; the first profile's QueueSort plugin orders them.

    `nominated` is the book of nominations that the cycle reads; the queue keeps it in step with
    the pods. `extenders` says that extenders are configured, which may reject pods too, and
    `generic_workload` is the state of the gate of that name: without it there are no groups.
    `groups` is to be told of them; `view` says what waits where.
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
            initial_seconds=initial_backoff_seconds,
            max_seconds=max_backoff_seconds,
            aligned=pop_from_backoff,
        )
        self._places = Places(
            EntityHeap(self._sort_key),
            self._backoff,
            profiles,
            clock,
            observer,
            gate_before_backoff=pop_from_backoff,
        )
        self._active = self._places.active
        self._unschedulable = self._places.unschedulable
        self.groups = QueuedPodGroups(self._places, clock)
        self._in_flight = InFlight(observer)
        self.view = QueueView(
            self._places, self.groups, self._in_flight, generic_workload=generic_workload
        )
        self._group_of = self.view.group_of
        self._popped = 0
        self._closed = False
        self.nominated = nominated
        start = clock.now()
        # Back-off ends count in whole seconds if pods may be popped early, and so do the flushes.
        first = math.floor(start) if pop_from_backoff else start
        self._backoff_ticker = Ticker(first + BACKOFF_FLUSH_SECONDS, BACKOFF_FLUSH_SECONDS)
        self._unschedulable_ticker = Ticker(start, UNSCHEDULABLE_FLUSH_SECONDS)

    # What the scheduler does with entities.

    def pop(self) -> QueuedEntity | None:
        """The next entity to try, from now on in flight; None if there is none at the moment."""
        while not self._closed:
            entity = self._active.pop()
            if entity is None and self._pop_from_backoff:
                entity = self._backoff.rejected.pop()
                if entity is not None:
                    count = self._observer
                    count.incoming_pods(ACTIVE, POP_FROM_BACKOFF, len(entity.infos))
                    count.incoming_entity(ACTIVE, POP_FROM_BACKOFF, entity.kind)
            if entity is None or self._start_attempt(entity):
                return entity
        return None

    def peek(self) -> QueuedEntity | None:
        """The entity that `pop` is likely to give next."""
        entity = self._active.peek()
        if entity is None and self._pop_from_backoff:
            entity = self._backoff.rejected.peek()
        return entity

    @property
    def has_ready_pods(self) -> bool:
        """Is there a pod to try at once?"""
        return self._active.peek() is not None

    def done(self, uid: str) -> None:
        """An attempt is over and the pod will not come back from it; harmless if repeated."""
        self._in_flight.done(uid)

    def add_unschedulable_if_not_present(self, info: QueuedPodInfo) -> None:
        """Take a popped pod back after a failed attempt.

        `info` names the plugins that rejected the pod; without any, the attempt counts as broken.
        Ends the attempt (`done`) in every case. A `StateError` says that the pod waits already. A
        pod of a group waits for the end of the group's attempt, or with the others of the group.
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
            group = self._group_of(info.pod)
            if group is not None:
                self.groups.add(group, info)
                return
            rejectors, strategy = info.rejectors, self._after_attempt(info)
            self._places.requeue(info, strategy, SCHEDULE_ATTEMPT_FAILURE)
            if log_lines.MOVED_BACK:
                moved = (SCHEDULE_ATTEMPT_FAILURE, self._place_name(info), self._popped)
                log_lines.MOVED_BACK(info.pod, *moved, strategy.value, rejectors)
        finally:
            self.done(info.pod.uid)

    def activate(self, pods: Iterable[Pod]) -> None:
        """Make pods ready at once, whoever rejected them; one in flight when it comes back.

        With a pod of a group the whole group becomes ready. While it is tried there is nothing to
        note: what happened meanwhile is not asked when it comes back.
        """
        for pod in pods:
            group = self._group_of(pod)
            if group is not None:
                self.activate_group(group)
            elif not self._activate(pod.key) and pod.uid in self._in_flight:
                self._in_flight.record(SeenEvent(FORCE_ACTIVATE, new=pod))

    def activate_group(self, group: GroupKey) -> None:
        """Make what waits of a group ready at once."""
        self._activate(entity_key(group))

    def group_attempted(self, entity: QueuedPodGroupInfo, status: Status | None) -> None:
        """The attempt at a popped group ended; None: its pods, or some of them, have a place."""
        self.groups.attempted(entity, status, self._popped)

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
        for entity in self._places:
            with guard(queue_sort, "QueueSort"):  # before anything is moved
                queue_sort.sort_key(entity.sorted_as, entity.timestamp)
        ready, waiting = self._places.take_all()
        self._queue_sort = queue_sort
        self._rules = self._wake_rules(profiles, extenders)
        self._places.set_profiles(profiles)
        self._backoff.initial_seconds = initial_backoff_seconds
        self._backoff.max_seconds = max_backoff_seconds
        gone = self.groups.keep(lambda pod: pod.spec.scheduler_name in profiles)
        for entities, strategy in (
            (ready, Strategy.IMMEDIATELY),
            (waiting, Strategy.AFTER_BACKOFF),
        ):
            for entity in entities:
                kept = [i for i in entity.infos if i.pod.spec.scheduler_name in profiles]
                gone += (info for info in entity.infos if info not in kept)
                if isinstance(entity, QueuedPodGroupInfo):
                    entity.infos, entity.newcomers = kept, None
                if kept:
                    self._places.requeue(entity, strategy, label(PROFILES_CHANGED))
        for info in gone:
            self.nominated.remove(info.pod)
            self._count_reasons(info, -1)
        self._in_flight.record(SeenEvent(PROFILES_CHANGED))

    # What happens in the cluster.

    def add(self, pod: Pod) -> None:
        """A new pod is to be scheduled."""
        info = QueuedPodInfo(pod, timestamp=self._clock.now())
        self.nominated.add(pod)
        group = self._group_of(pod)
        if group is None:
            self._places.to_active(info, POD_ADDED)
        else:
            self.groups.add(group, info)

    def update(self, old: Pod, new: Pod) -> None:
        """A pending pod changed, which may be just what it waited for."""
        events = [SeenEvent(event, old, new) for event in pod_update_events(old, new, target=True)]
        if new.uid in self._in_flight:
            for seen in events:
                self._in_flight.record(seen)
            return
        info = self.view.find(new)
        if info is None:
            self.add(new)
            return
        info.pod = new
        self.nominated.update(old, new)
        entity = self.view.entity_of(new)
        if entity is None or entity.find(new.key) is None:
            return
        if entity.key in self._active:
            self._active.put(entity)
        elif entity.key in self._backoff:
            self._backoff.reorder(entity)
        else:
            self._wake_updated(entity, new, events)

    def delete(self, pod: Pod) -> None:
        """A pod need not be scheduled any more."""
        self.nominated.remove(pod)
        group = self._group_of(pod)
        if group is None:
            taken = self._places.take(pod.key)
            infos = () if taken is None else taken[0].infos
        else:
            info = self.groups.remove(group, pod.key)
            infos = () if info is None else (info,)
        for info in infos:
            self._count_reasons(info, -1)

    def move_all_to_active_or_backoff(
        self,
        event: ClusterEvent,
        old: ApiObject | None,
        new: ApiObject | None,
        pre_check: PreCheck | None = None,
    ) -> None:
        """Something happened: wake what it may help; `pre_check` says which pods to look at."""
        if not self._unschedulable and not self._in_flight:
            return  # the usual case, and there are as many events as pods
        interest = self._rules.interest(event)
        if not interest:
            return
        seen = SeenEvent(event, old, new)
        entities = self._unschedulable.concerned(interest, seen)
        if log_lines.NOT_HELPED:
            entities = list(self._unschedulable)  # those it cannot concern are told of as well
        if pre_check is not None:
            entities = [
                entity for entity in entities if any(pre_check(i.pod) for i in entity.infos)
            ]
        self._wake(entities, seen)

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
        """Make ready what has waited out its back-off."""
        for entity in self._backoff.pop_completed():
            self._places.to_active(entity, BACKOFF_COMPLETE, from_backoff=True)

    def flush_unschedulable_leftover(self) -> None:
        """Give another try to what nothing has woken for too long: a hint may be wrong."""
        now = self._clock.now()
        left_over = []
        for entity in self._unschedulable:
            since = max(entity.timestamp, entity.flush_timestamp or -math.inf)
            if now - since > self._max_in_unschedulable:
                for one in (entity, *entity.infos):
                    one.flush_timestamp = now
                left_over.append(entity)
        if left_over:
            self._wake(left_over, SeenEvent(UNSCHEDULABLE_TIMEOUT))

    # What can be told of single pods.

    def next_try(self, info: QueuedPodInfo) -> float | None:
        """When a waiting pod becomes ready even if nothing happens; None if it never does."""
        entity, place = self.view.entity_of(info.pod), self.view.place_of(info)
        if entity is None or place in (GATED, INCOMPLETE, PENDING):
            return None
        if place == ACTIVE:
            return self._clock.now()
        if place == BACKOFF:
            # A copy, as working the end out writes it down.
            return self._backoff_ticker.after(self._backoff.expiration(copy(entity)))
        since = max(entity.timestamp, entity.flush_timestamp or -math.inf)
        return self._unschedulable_ticker.after(since + self._max_in_unschedulable)

    def woken_by(self, info: QueuedPodInfo) -> list[tuple[str, ClusterEvent]]:
        """The plugins that turned a pod away, and the events that each of them waits for."""
        return self._rules.registered_by(info.pod.spec.scheduler_name, info.rejectors)

    def is_in_flight(self, pod: Pod) -> bool:
        """Is a pod being tried, or on its way to a node?"""
        return pod.uid in self._in_flight

    # How it is done.

    def _wake_rules(self, profiles: Mapping[str, Profile], extenders: bool) -> WakeRules:
        return WakeRules(
            profiles,
            self._observer,
            extenders=extenders,
            generic_workload=self._generic_workload,
        )

    def _place_name(self, entity: QueuedEntity) -> str:
        return NAMES.get(self._places.place_of(entity), NAMES[UNSCHEDULABLE])

    def _sort_key(self, entity: QueuedEntity) -> Any:
        with guard(self._queue_sort, "QueueSort"):
            return self._queue_sort.sort_key(entity.sorted_as, entity.timestamp)

    def _start_attempt(self, entity: QueuedEntity) -> bool:
        """Note that the pods of an entity are being tried; false if all of them were already."""
        if isinstance(entity, QueuedPodGroupInfo):
            entity.attempts += 1
            self.groups.begin(entity)
        started = []
        for info in entity.infos:
            info.attempts += 1
            if info.pod.uid not in self._in_flight:
                self._in_flight.start(info.pod)
                self._count_reasons(info, -1)
                started.append(info)
            elif entity is not info:
                log_lines.MEMBER_DISCARDED(info.pod, entity.obj)
        if isinstance(entity, QueuedPodGroupInfo):
            entity.infos = started
        if not started:
            what = "the same pod is" if entity.kind == POD else "all pods from the pod group are"
            problem = f"{what} tracked in multiple places in the scheduler: {entity.obj.key}"
            log_lines.ENTITY_DISCARDED(problem, entity.kind, entity.obj)
            return False
        self._popped += 1
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
        seen = self._in_flight.since_start(info.pod.uid)
        if log_lines.CHECKING_EVENTS and seen is not None and not info.failed_with_error:
            sizes = (self._in_flight.entries, len(self._in_flight))
            log_lines.CHECKING_EVENTS(info.pod, info.unschedulable_plugins, *sizes)
        return self._rules.after_attempt(info, seen)

    def _wake(self, entities: Iterable[QueuedEntity], seen: SeenEvent) -> None:
        interest = self._rules.interest(seen.event)
        for entity in entities:
            if entity.gated and not interest.reaches_gate(entity.gating_plugin):
                continue
            strategy = self._rules.best_strategy(entity, seen)
            if strategy is Strategy.SKIP:
                log_lines.NOT_HELPED(entity.kind, entity.obj, interest.label)
                continue
            self._unschedulable.remove(entity.key)
            self._places.requeue(entity, strategy, interest.label)
        self._in_flight.record(seen)
        if self._in_flight:
            log_lines.EVENT_IN_FLIGHT(interest.label)

    def _wake_updated(self, entity: QueuedEntity, pod: Pod, events: Iterable[SeenEvent]) -> None:
        for seen in events:
            event = label(seen.event)
            if self._places.requeue(entity, self._rules.best_strategy(entity, seen), event):
                moved = (entity.kind, entity.obj, pod, event, self._place_name(entity))
                log_lines.MOVED_UPDATED(*moved)
                return

    def _activate(self, key: str) -> bool:
        entity = self._unschedulable.get(key)
        if entity is not None:
            return self._places.to_active(entity, _ACTIVATED)
        entity = self._backoff.remove(key)
        return entity is not None and self._places.to_active(entity, _ACTIVATED, from_backoff=True)

    def _count_reasons(self, info: QueuedPodInfo, change: int) -> None:
        for plugin in info.rejectors:
            self._observer.unschedulable_reason(plugin, info.pod.spec.scheduler_name, change)
