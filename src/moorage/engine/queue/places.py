"""Where waiting entities are, and the moves between the places.

Owns the active heap, the back-off heaps and the unschedulable pool, and keeps every entity in at
most one of them: each move takes it out of where it was. A move towards an attempt asks the
PreEnqueue plugins about each of its pods, and ends in the pool if one is refused: then the entity
bears the plugin's name. Must not decide which move to make.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from moorage import log_lines
from moorage.engine.clock import Clock
from moorage.engine.events import SCHEDULE_ATTEMPT_FAILURE, UNSCHEDULED_POD_ADD, label
from moorage.engine.observer import SchedulerObserver
from moorage.engine.queue.backoff import BackoffQueue
from moorage.engine.queue.entities import (
    ACTIVE,
    BACKOFF,
    GATED,
    UNSCHEDULABLE,
    QueuedEntity,
    QueuedPodGroupInfo,
    QueuedPodInfo,
)
from moorage.engine.queue.entity_heap import EntityHeap
from moorage.engine.queue.unschedulable import UnschedulableEntities
from moorage.engine.requeueing import Strategy
from moorage.framework.plugin import PreEnqueuePlugin
from moorage.framework.profile import Profile
from moorage.framework.runner import gate
from moorage.framework.status import Code, Status

POD_ADDED = label(UNSCHEDULED_POD_ADD)

NAMES = {ACTIVE: "Active", BACKOFF: "Backoff", UNSCHEDULABLE: "Unschedulable"}
"""What the places are called in logs."""

_PLACE_OF = {
    Strategy.IMMEDIATELY: ACTIVE,
    Strategy.AFTER_BACKOFF: BACKOFF,
    Strategy.SKIP: UNSCHEDULABLE,
}

_SUCCESS = Code.SUCCESS  # bound once: reading a member off its enum is slow


class Places:
    """The places in which entities wait.

    `gate_before_backoff`: ask the gate on the way into back-off and not again on the way out,
    because entities may be popped from there.
    """

    def __init__(
        self,
        active: EntityHeap,
        backoff: BackoffQueue,
        profiles: Mapping[str, Profile],
        clock: Clock,
        observer: SchedulerObserver,
        *,
        gate_before_backoff: bool,
    ) -> None:
        self.active = active
        self.backoff = backoff
        self.unschedulable = UnschedulableEntities()
        self.set_profiles(profiles)
        self._clock = clock
        self._observer = observer
        self._gate_before_backoff = gate_before_backoff

    def get(self, key: str) -> QueuedEntity | None:
        """A waiting entity by its key."""
        return self.active.get(key) or self.backoff.get(key) or self.unschedulable.get(key)

    def __iter__(self) -> Iterator[QueuedEntity]:
        """Every entity, wherever it waits, in no order."""
        yield from self.active.values()
        yield from self.backoff.values()
        yield from self.unschedulable

    def place_of(self, entity: QueuedEntity) -> str:
        """Where an entity waits: ACTIVE, BACKOFF, UNSCHEDULABLE or GATED."""
        if entity.key in self.active:
            return ACTIVE
        if entity.key in self.backoff:
            return BACKOFF
        return GATED if entity.gated else UNSCHEDULABLE

    def take(self, key: str) -> tuple[QueuedEntity, Strategy] | None:
        """Take an entity out, with the strategy that would put it where it was."""
        for remove, strategy in (
            (self.active.remove, Strategy.IMMEDIATELY),
            (self.backoff.remove, Strategy.AFTER_BACKOFF),
            (self.unschedulable.remove, Strategy.SKIP),
        ):
            entity = remove(key)
            if entity is not None:
                return entity, strategy
        return None

    def take_all(self) -> tuple[list[QueuedEntity], list[QueuedEntity]]:
        """Take everything out: the ready ones in their order, and the others."""
        ready, waiting = self.active.take_all(), self.backoff.take_all()
        for entity in list(self.unschedulable):
            self.unschedulable.remove(entity.key)
            waiting.append(entity)
        return ready, waiting

    def set_profiles(self, profiles: Mapping[str, Profile]) -> None:
        """Ask the PreEnqueue plugins of these profiles from now on."""
        self._pre_enqueue = {name: profile.pre_enqueue for name, profile in profiles.items()}
        self._by_name = {
            name: {plugin.name: plugin for plugin in plugins}
            for name, plugins in self._pre_enqueue.items()
        }

    def requeue(self, entity: QueuedEntity, strategy: Strategy, event: str) -> bool:
        """Put an entity where a strategy wants it; false if there or gated it waits for events."""
        if strategy is Strategy.SKIP:
            self._to_unschedulable(entity, event, strategy)
            return False
        # While it waited for an event, its back-off may have ended.
        if strategy is Strategy.AFTER_BACKOFF and self.backoff.backing_off(entity):
            return self.to_backoff(entity, event, strategy)
        return self.to_active(entity, event, strategy)

    def to_active(
        self,
        entity: QueuedEntity,
        event: str,
        strategy: Strategy | None = None,
        *,
        from_backoff: bool = False,
    ) -> bool:
        """Make an entity ready; false if a gate keeps it out."""
        key = entity.key
        admitted = from_backoff and self._gate_before_backoff
        if not admitted and not self._admits(entity):
            if key not in self.active and key not in self.backoff:
                self._to_gated(entity, event, strategy)
            return False
        entity.became_ready(self._clock.now())
        self.unschedulable.remove(key)
        self.backoff.remove(key)
        self.active.put(entity)
        self._count(ACTIVE, event, entity, strategy)
        _log_move(entity, event, NAMES[ACTIVE])
        return True

    def to_backoff(
        self, entity: QueuedEntity, event: str, strategy: Strategy | None = None
    ) -> bool:
        """Have an entity wait out its back-off; false if a gate keeps it out."""
        if self._gate_before_backoff and not self._admits(entity):
            self._to_gated(entity, event, strategy)
            return False
        self.unschedulable.remove(entity.key)
        self.backoff.add(entity)
        self._count(BACKOFF, event, entity, strategy)
        _log_move(entity, event, NAMES[BACKOFF])
        return True

    def _admits(self, entity: QueuedEntity) -> bool:
        """May the entity enter? All its pods are asked about, and any may keep it out."""
        if isinstance(entity, QueuedPodInfo):
            return self._admits_pod(entity)
        refused = self._refused_still(entity)
        asked = entity.infos
        if refused is not None and entity.newcomers is not None:
            asked = [*entity.newcomers.values()]
        for info in asked:
            self._admits_pod(info)
        gates = (info.gating_plugin for info in reversed(entity.infos))
        entity.gating_plugin = next(filter(None, gates), "")
        # With the log as talkative as that, each pod has lines of its own.
        as_one = not log_lines.GATED and self._refused_as_one(refused or asked[0], asked)
        entity.newcomers = {} if as_one else None
        return not entity.gating_plugin

    def _refused_still(self, group: QueuedPodGroupInfo) -> QueuedPodInfo | None:
        """One of the pods that are refused as one group, if they still are."""
        if group.spokesman is None:
            return None
        (info, pods), observer = group.spokesman, self._observer
        profile, name = info.pod.spec.scheduler_name, info.gating_plugin
        started = observer.time()
        status = gate(self._by_name[profile][name], info.pod)
        if status is None or status.code is Code.ERROR:
            return None
        seconds = observer.time() - started
        observer.pre_enqueue_answered(name, profile, status.code, seconds, pods)
        observer.pre_enqueue_finished(profile, seconds, pods)
        return info

    def _refused_as_one(self, like: QueuedPodInfo, infos: Sequence[QueuedPodInfo]) -> bool:
        """Were all refused like this one, only by a plugin that judges groups as a whole?"""
        profile, plugin = like.pod.spec.scheduler_name, like.gating_plugin
        judge = self._by_name.get(profile, {}).get(plugin)
        return (
            judge is not None
            and judge.judges_groups
            and all(
                info.gating_plugin == plugin
                and info.rejectors == {plugin}
                and info.pod.spec.scheduler_name == profile
                for info in infos
            )
        )

    def _admits_pod(self, info: QueuedPodInfo) -> bool:
        """May the pod enter? If not, it bears the name of the first plugin that refused."""
        observer, profile = self._observer, info.pod.spec.scheduler_name
        # Each plugin's time begins where the one before it ended: every pod passes here, and
        # reading the clock is a good part of the cost.
        started = lap = observer.time()
        admitted = True
        for plugin in self._in_order(info):
            status = gate(plugin, info.pod)
            code = _SUCCESS if status is None else status.code
            now = observer.time()
            observer.pre_enqueue_answered(plugin.name, profile, code, now - lap, 1)
            lap = now
            if status is not None and code is not _SUCCESS:
                self._refused(plugin.name, info, status)
                admitted = False
                break
        else:
            info.gating_plugin = ""
        observer.pre_enqueue_finished(profile, lap - started, 1)
        return admitted

    def _in_order(self, info: QueuedPodInfo) -> Iterable[PreEnqueuePlugin]:
        plugins = self._pre_enqueue.get(info.pod.spec.scheduler_name, ())
        if not info.gating_plugin:
            return plugins
        # Whoever refused last time most likely does so again, and that spares the others.
        return sorted(plugins, key=lambda plugin: plugin.name != info.gating_plugin)

    def _refused(self, plugin: str, info: QueuedPodInfo, status: Status) -> None:
        if plugin not in info.rejectors:
            self._observer.unschedulable_reason(plugin, info.pod.spec.scheduler_name, 1)
        info.unschedulable_plugins.add(plugin)
        info.gating_plugin = plugin
        if status.code is Code.ERROR:
            log_lines.GATE_FAILED(status.message, info.pod, plugin)
        else:
            log_lines.GATED(info.pod, plugin, status.message)

    def _to_gated(self, entity: QueuedEntity, event: str, strategy: Strategy | None) -> None:
        if entity.key not in self.unschedulable:
            log_lines.MOVED_GATED(entity.kind, entity.obj, event, NAMES[UNSCHEDULABLE])
        self._to_unschedulable(entity, event, strategy)

    def _to_unschedulable(
        self, entity: QueuedEntity, event: str, strategy: Strategy | None
    ) -> None:
        if self.unschedulable.put(entity):
            self._count(UNSCHEDULABLE, event, entity, strategy)

    def _count(
        self, place: str, event: str, entity: QueuedEntity, strategy: Strategy | None
    ) -> None:
        self._observer.incoming_pods(place, event, len(entity.infos))
        # As upstream, one that goes where the strategy wants it does not count as moved.
        if strategy is None or _PLACE_OF[strategy] != place:
            self._observer.incoming_entity(place, event, entity.kind)


def _log_move(entity: QueuedEntity, event: str, place: str) -> None:
    if event == SCHEDULE_ATTEMPT_FAILURE and isinstance(entity, QueuedPodInfo):
        # Upstream's log is the attempt's then, which names the pod everywhere.
        log_lines.MOVED_AFTER_ATTEMPT(entity.pod, entity.kind, entity.obj, event, place)
    else:
        log_lines.MOVED(entity.kind, entity.obj, event, place)
