"""Which event wakes which pod.

Owns the table of events that the profiles' plugins registered, and the judgement whether an event
is worth another attempt for a pod. Must not move pods; the queue does, by the strategy it is told.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from moorage import log_lines
from moorage.engine.events import is_wildcard, label
from moorage.engine.hint_lines import HINTS, log_hint
from moorage.engine.observer import SchedulerObserver
from moorage.engine.queue.entities import QueuedEntity, QueuedPodInfo
from moorage.errors import MoorageError
from moorage.framework.cluster_events import (
    ActionType,
    ClusterEvent,
    EventRegistration,
    EventResource,
    QueueingHint,
    Subjects,
    on,
)
from moorage.framework.diagnosis import EXTENDER
from moorage.framework.guard import events_of, guard, wrong_answer
from moorage.framework.plugin import (
    FilterPlugin,
    PermitPlugin,
    Plugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    ReservePlugin,
)
from moorage.framework.profile import Profile
from moorage.model.meta import ApiObject
from moorage.model.pod import Pod

_MAY_REJECT = (PreEnqueuePlugin, PreFilterPlugin, FilterPlugin, ReservePlugin, PermitPlugin)

_ANY_EVENT = tuple(
    on(resource, ActionType.ALL)
    for resource in (
        EventResource.POD,
        EventResource.NODE,
        EventResource.PERSISTENT_VOLUME,
        EventResource.PERSISTENT_VOLUME_CLAIM,
        EventResource.CSI_NODE,
        EventResource.CSI_DRIVER,
        EventResource.CSI_STORAGE_CAPACITY,
        EventResource.STORAGE_CLASS,
        EventResource.RESOURCE_CLAIM,
        EventResource.DEVICE_CLASS,
    )
)
"""What stands in for a plugin that does not say; upstream leaves out attachments and slices."""
_POD_GROUPS = on(EventResource.POD_GROUP, ActionType.ALL)

_HINT_NAMES = {False: "QueueSkip", True: "Queue"}

PreCheck = Callable[[Pod], bool]
"""Which pods an event may concern at all."""


class Strategy(Enum):
    """What to do with a pod after an event; the numbers are in logs."""

    SKIP = 0
    AFTER_BACKOFF = 1
    IMMEDIATELY = 2


class SeenEvent(NamedTuple):
    """Something that happened, with the object before and after."""

    event: ClusterEvent
    old: ApiObject | None = None
    new: ApiObject | None = None


class _Registered(NamedTuple):
    """What one plugin (or, without one, all extenders) registered."""

    name: str
    plugin: Plugin | None
    event: ClusterEvent
    hint: QueueingHint | None
    subjects: Subjects | None


class Interest:
    """Who wants to hear of an event; worked out once per event, as watch events are many."""

    __slots__ = ("_plugins", "by_profile", "label", "rejectors", "wildcard")

    def __init__(
        self, event: ClusterEvent, registered: Mapping[str, Sequence[_Registered]]
    ) -> None:
        self.label = label(event)
        self.wildcard = is_wildcard(event)
        self.by_profile = {
            profile: tuple(one for one in theirs if one.event.matches(event))
            for profile, theirs in registered.items()
        }
        self.rejectors: dict[tuple[str, str], Subjects | None] = {}
        """(profile, plugin) whose rejected pods the event may wake, and how to tell which."""
        for profile, theirs in self.by_profile.items():
            for one in theirs:
                rejector = (profile, one.name)
                # Two registrations for one event may be about different pods.
                subjects = one.subjects if rejector not in self.rejectors else None
                self.rejectors[rejector] = subjects
        self._plugins = frozenset(plugin for _, plugin in self.rejectors)

    def __bool__(self) -> bool:
        return self.wildcard or bool(self.rejectors)

    def reaches_gate(self, plugin: str) -> bool:
        """May the event change the mind of the plugin that gates a pod?

        Registrations of all profiles count, as upstream keeps them by the plugin's name alone.
        """
        return self.wildcard or plugin in self._plugins


class WakeRules:
    """The events that plugins registered, per profile, and their hints."""

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        observer: SchedulerObserver,
        *,
        extenders: bool,
        generic_workload: bool,
    ) -> None:
        self._observer = observer
        any_event = _ANY_EVENT + ((_POD_GROUPS,) if generic_workload else ())
        self._registered = {
            name: _registered_by(profile, any_event, extenders)
            for name, profile in profiles.items()
        }
        self._interests: dict[ClusterEvent, Interest] = {}
        self._latest: tuple[ClusterEvent | None, Interest | None] = (None, None)

    def interest(self, event: ClusterEvent) -> Interest:
        """Who wants to hear of an event; false if nobody does."""
        # Thousands of pods are confirmed by the very same event, and to hash one is slow.
        latest, interest = self._latest
        if latest is event and interest is not None:
            return interest
        interest = self._interests.get(event)
        if interest is None:
            interest = self._interests[event] = Interest(event, self._registered)
        self._latest = (event, interest)
        return interest

    def registered_by(
        self, profile: str, plugins: Collection[str]
    ) -> list[tuple[str, ClusterEvent]]:
        """The plugins' names and what each of them wants to hear of."""
        registered = self._registered.get(profile, ())
        return [(one.name, one.event) for one in registered if one.name in plugins]

    def strategy(self, info: QueuedPodInfo, seen: SeenEvent, pods: int = 1) -> Strategy:
        """Is an event worth another attempt for the pod, which stands for so many?"""
        if info.failed_with_error:
            return Strategy.AFTER_BACKOFF
        interest, new = self.interest(seen.event), seen.new
        if interest.wildcard:
            # With an object such an event is meant for that pod only.
            meant = new is None or (isinstance(new, Pod) and new.uid == info.pod.uid)
            return Strategy.AFTER_BACKOFF if meant else Strategy.SKIP
        registered = interest.by_profile.get(info.pod.spec.scheduler_name)
        if registered is None:
            log_lines.NO_HINTS(info.pod.spec.scheduler_name, info.pod)
            return Strategy.AFTER_BACKOFF
        unschedulable, pending = info.unschedulable_plugins, info.pending_plugins
        strategy = Strategy.SKIP
        for one in registered:
            if one.name not in unschedulable and one.name not in pending:
                continue
            if not self._hint(one, info.pod, interest.label, seen, pods):
                continue
            if one.name in pending:
                return Strategy.IMMEDIATELY
            strategy = Strategy.AFTER_BACKOFF
            if not pending:
                break
        return strategy

    def best_strategy(self, entity: QueuedEntity, seen: SeenEvent) -> Strategy:
        """What an event means for an entity: what it means for the pod that it helps most."""
        best = Strategy.SKIP
        for info, pods in entity.spokesmen:
            strategy = self.strategy(info, seen, pods)
            if strategy.value > best.value:
                best = strategy
            if best is Strategy.IMMEDIATELY:
                break
        return best

    def after_attempt(self, info: QueuedPodInfo, seen: Sequence[SeenEvent] | None) -> Strategy:
        """What the events that came during an attempt make of its result; None: they are lost."""
        if info.failed_with_error:
            return Strategy.AFTER_BACKOFF
        if seen is None:
            # The attempt was declared over before a late failure.
            log_lines.NO_EVENTS("the pod is not in flight", info.pod)
            return Strategy.AFTER_BACKOFF
        best = Strategy.SKIP
        for one in seen:
            log_lines.CHECKING_EVENT(info.pod, label(one.event))
            strategy = self.strategy(info, one)
            if strategy is not Strategy.SKIP:
                best = strategy
                # Only a pending plugin can still better the strategy.
                if best is Strategy.IMMEDIATELY or not info.pending_plugins:
                    break
        return best

    def _hint(self, one: _Registered, pod: Pod, event: str, seen: SeenEvent, pods: int) -> bool:
        if one.hint is None or one.plugin is None:
            self._observer.hint_given(one.name, event, _HINT_NAMES[True], 0.0, pods)
            if HINTS:
                log_hint(one.name, pod, seen.old, seen.new, True, bool)
            return True
        start = self._observer.time()
        try:
            with guard(one.plugin, "QueueingHint"):
                hint = one.hint(pod, seen.old, seen.new)
                if not isinstance(hint, bool):
                    raise wrong_answer(one.plugin, "QueueingHint", hint, "True or False")
                result = _HINT_NAMES[hint]
        except MoorageError as error:
            # A pod tried once too often is cheaper than one that is stuck.
            log_lines.HINT_FAILED(error, event, one.name, pod, seen.old, seen.new, trace=error)
            hint, result = True, "Error"
        else:
            if HINTS:
                asked, (_, old, new) = one.hint, seen
                log_hint(one.name, pod, old, new, hint, lambda: asked(pod, None, new))
        self._observer.hint_given(one.name, event, result, self._observer.time() - start, pods)
        return hint


def _registered_by(
    profile: Profile, any_event: Sequence[EventRegistration], extenders: bool
) -> Sequence[_Registered]:
    wanted: list[tuple[str, Plugin | None, Sequence[EventRegistration] | None]] = []
    if extenders:
        wanted.append((EXTENDER, None, None))
    for name, plugin in profile.plugins.items():
        if isinstance(plugin, _MAY_REJECT):
            wanted.append((name, plugin, events_of(plugin)))
    return [
        _Registered(name, plugin, one.event, one.hint, _guarded_subjects(plugin, one.subjects))
        for name, plugin, events in wanted
        for one in (any_event if events is None else events)
    ]


def _guarded_subjects(plugin: Plugin | None, subjects: Subjects | None) -> Subjects | None:
    """The same, but where the plugin fails it is about all there is: its hint is asked then."""
    if plugin is None or subjects is None:
        return None

    def guarded(names: Callable[..., Collection[str] | None]) -> Any:
        def of(*about: Any) -> Collection[str] | None:
            try:
                with guard(plugin, "QueueingHint"):
                    return _names(names(*about))
            except MoorageError:
                return None

        return of

    return Subjects(guarded(subjects.of_pod), guarded(subjects.of_event))


def _names(found: Collection[str] | None) -> Collection[str] | None:
    """Names as they should be; one text is not a collection of them."""
    if isinstance(found, str):
        raise TypeError("names are expected, not a single text")
    return None if found is None else frozenset(found)
