"""Where waiting pods are, and the moves between the places.

Owns the active heap, the back-off heaps and the unschedulable pool, and keeps every pod in at most
one of them: each move takes the pod out of where it was. A move towards an attempt asks the
PreEnqueue plugins, and ends in the pool if one refuses: then the pod bears the plugin's name. Must
not decide which move to make.
"""

from collections.abc import Iterable, Iterator, Mapping

from moorage import log_lines
from moorage.engine.clock import Clock
from moorage.engine.events import UNSCHEDULABLE_POD_ADD, UNSCHEDULABLE_POD_UPDATE, label
from moorage.engine.observer import SchedulerObserver
from moorage.engine.queue.backoff import BackoffQueue
from moorage.engine.queue.nominated import NominatedPods
from moorage.engine.queue.pod_heap import PodHeap
from moorage.engine.queue.queued_pod import ACTIVE, BACKOFF, UNSCHEDULABLE, QueuedPodInfo
from moorage.engine.queue.unschedulable import UnschedulablePods
from moorage.engine.requeueing import Strategy
from moorage.framework.plugin import PreEnqueuePlugin
from moorage.framework.profile import Profile
from moorage.framework.runner import gate
from moorage.framework.status import Code, Status
from moorage.log_fields import Line

POD_ADDED = label(UNSCHEDULABLE_POD_ADD)
POD_UPDATED = label(UNSCHEDULABLE_POD_UPDATE)

NAMES = {ACTIVE: "Active", BACKOFF: "Backoff", UNSCHEDULABLE: "Unschedulable"}
"""What the places are called in logs."""

_SUCCESS = Code.SUCCESS  # bound once: reading a member off its enum is slow


class Places:
    """The places in which pods wait.

    `gate_before_backoff`: ask the gate on the way into back-off and not again on the way out,
    because pods may be popped from there.
    """

    def __init__(
        self,
        active: PodHeap,
        backoff: BackoffQueue,
        profiles: Mapping[str, Profile],
        nominated: NominatedPods,
        clock: Clock,
        observer: SchedulerObserver,
        *,
        gate_before_backoff: bool,
    ) -> None:
        self.active = active
        self.backoff = backoff
        self.unschedulable = UnschedulablePods(observer)
        self.set_profiles(profiles)
        self._nominated = nominated
        self._clock = clock
        self._observer = observer
        self._gate_before_backoff = gate_before_backoff

    def get(self, key: str) -> QueuedPodInfo | None:
        """A waiting pod by `namespace/name`."""
        return self.active.get(key) or self.backoff.get(key) or self.unschedulable.get(key)

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        """Every pod, wherever it waits."""
        yield from self.active
        yield from self.backoff.pods
        yield from self.unschedulable

    def take_all(self) -> tuple[list[QueuedPodInfo], list[QueuedPodInfo]]:
        """Take every pod out: the ready ones in their order, and the others."""
        ready, waiting = self.active.take_all(), self.backoff.take_all()
        for info in list(self.unschedulable):
            self.unschedulable.remove(info.key)
            waiting.append(info)
        return ready, waiting

    def set_profiles(self, profiles: Mapping[str, Profile]) -> None:
        """Ask the PreEnqueue plugins of these profiles from now on."""
        self._pre_enqueue = {name: profile.pre_enqueue for name, profile in profiles.items()}

    def requeue(self, info: QueuedPodInfo, strategy: Strategy, event: str) -> bool:
        """Put a pod where a strategy wants it; false if there or at a gate it waits for events."""
        if strategy is Strategy.SKIP:
            self.unschedulable.put(info, event)
            return False
        # While it waited for an event, the pod's back-off may have ended.
        if strategy is Strategy.AFTER_BACKOFF and self.backoff.backing_off(info):
            return self._to_backoff(info, event)
        return self.to_active(info, event)

    def to_active(self, info: QueuedPodInfo, event: str, *, from_backoff: bool = False) -> bool:
        """Make a pod ready; false if a gate keeps it out."""
        key = info.key
        admitted = from_backoff and self._gate_before_backoff
        if not admitted and not self._admits(info):
            if key not in self.active and key not in self.backoff:
                self._to_gated(info, event, log_lines.MOVED_GATED)
            return False
        if info.initial_attempt_timestamp is None:
            info.initial_attempt_timestamp = self._clock.now()
        self.unschedulable.remove(key)
        self.backoff.remove(key)
        self.active.put(info)
        self._observer.incoming_pods(ACTIVE, event)
        log_lines.MOVED(info.pod, event, NAMES[ACTIVE])
        if event in (POD_ADDED, POD_UPDATED):
            self._nominated.add(info.pod)
        return True

    def _admits(self, info: QueuedPodInfo) -> bool:
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
            observer.pre_enqueue_answered(plugin.name, profile, code, now - lap)
            lap = now
            if status is not None and code is not _SUCCESS:
                self._refused(plugin.name, info, status)
                admitted = False
                break
        else:
            info.gating_plugin = ""
        observer.pre_enqueue_finished(profile, lap - started)
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

    def _to_backoff(self, info: QueuedPodInfo, event: str) -> bool:
        if self._gate_before_backoff and not self._admits(info):
            self._to_gated(info, event, log_lines.MOVED)
            return False
        self.unschedulable.remove(info.key)
        self.backoff.add(info, event)
        log_lines.MOVED(info.pod, event, NAMES[BACKOFF])
        return True

    def _to_gated(self, info: QueuedPodInfo, event: str, moved: Line) -> None:
        if info.key not in self.unschedulable:
            moved(info.pod, event, NAMES[UNSCHEDULABLE])
        self.unschedulable.put(info, event)
