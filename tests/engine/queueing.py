"""A queue with stub plugins, a clock that stands still and an observer that remembers."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from moorage.cluster.view import NodeView
from moorage.config.plugins import EffectivePlugins
from moorage.config.types import ExtensionPoint
from moorage.engine.clock import VirtualClock
from moorage.engine.observer import SchedulerObserver
from moorage.engine.queue.entities import QueuedPodInfo
from moorage.engine.queue.nominated import NominatedPods
from moorage.engine.queue.queue import SchedulingQueue
from moorage.framework.cluster_events import EventRegistration
from moorage.framework.plugin import FilterPlugin, Plugin, PreEnqueuePlugin, QueueSortPlugin
from moorage.framework.profile import Profile
from moorage.framework.status import Code, Status, Verdicts
from moorage.model.pod import DEFAULT_SCHEDULER, Pod
from moorage.plugins.priority_sort import PrioritySort
from moorage.testing.builders import make_pod

Registrations = Sequence[EventRegistration] | None


class Judge(FilterPlugin[None]):
    """A plugin that can reject pods and registers what it is told to."""

    def __init__(self, registrations: Registrations) -> None:
        self._registrations = registrations

    def filter(self, pod: Pod, nodes: NodeView, state: None) -> Verdicts:
        raise NotImplementedError

    def events_to_register(self) -> Registrations:
        return self._registrations


class Gate(PreEnqueuePlugin):
    """A plugin that keeps pods out while a test says so."""

    def __init__(self, keeps_out: Callable[[Pod], bool], registrations: Registrations) -> None:
        self._keeps_out = keeps_out
        self._registrations = registrations
        self.asked: list[str] = []

    def pre_enqueue(self, pod: Pod) -> Status | None:
        self.asked.append(pod.name)
        return Status(Code.UNRESOLVABLE, ("closed",)) if self._keeps_out(pod) else None

    def events_to_register(self) -> Registrations:
        return self._registrations


class Bystander(QueueSortPlugin):
    """A plugin of a point at which nothing is rejected."""

    name = "Bystander"

    def __init__(self) -> None:
        pass

    def sort_key(self, pod: Pod, timestamp: float) -> Any:
        raise NotImplementedError


class ByName(QueueSortPlugin):
    """An order of its own."""

    name = "ByName"

    def __init__(self) -> None:
        pass

    def sort_key(self, pod: Pod, timestamp: float) -> Any:
        return pod.name


def judge(name: str, *registrations: EventRegistration, silent: bool = False) -> Judge:
    """A rejecting plugin; `silent` ones do not say which events concern them."""
    made = type(name, (Judge,), {"name": name})(None if silent else registrations)
    assert isinstance(made, Judge)
    return made


def gate(name: str, keeps_out: Callable[[Pod], bool], *registrations: EventRegistration) -> Gate:
    """A gating plugin."""
    made = type(name, (Gate,), {"name": name})(keeps_out, registrations)
    assert isinstance(made, Gate)
    return made


def profile(
    *plugins: Plugin, name: str = DEFAULT_SCHEDULER, queue_sort: QueueSortPlugin | None = None
) -> Profile:
    """A profile of these plugins, ordered by priority unless told otherwise."""
    order = queue_sort or PrioritySort.__new__(PrioritySort)
    instances = {order.name: order, **{plugin.name: plugin for plugin in plugins}}
    points: dict[ExtensionPoint, tuple[str, ...]] = dict.fromkeys(ExtensionPoint, ())
    points[ExtensionPoint.QUEUE_SORT] = (order.name,)
    points[ExtensionPoint.PRE_ENQUEUE] = tuple(
        plugin.name for plugin in plugins if isinstance(plugin, PreEnqueuePlugin)
    )
    return Profile(name, EffectivePlugins(points, {}, {}), instances, None)


class Ledger(SchedulerObserver):
    """Remembers everything it was told."""

    queue: SchedulingQueue

    @property
    def pending(self) -> Counter[str]:
        """How many pods wait where, for places that have any."""
        return +Counter(self.queue.view.sizes())

    def __init__(self) -> None:
        self.came: list[tuple[str, str]] = []
        self.moved: Counter[tuple[str, str, str]] = Counter()
        self.reasons: Counter[tuple[str, str]] = Counter()
        self.in_flight: Counter[str] = Counter()
        self.hints: list[tuple[str, str, str]] = []
        self.gates: list[tuple[str, str, str]] = []

    def incoming_pods(self, queue: str, event: str, pods: int) -> None:
        self.came += [(queue, event)] * pods

    def incoming_entity(self, queue: str, event: str, kind: str) -> None:
        self.moved[queue, event, kind] += 1

    def unschedulable_reason(self, plugin: str, profile: str, change: int) -> None:
        self.reasons[plugin, profile] += change

    def in_flight_events(self, event: str, change: int) -> None:
        self.in_flight[event] += change

    def hint_given(self, plugin: str, event: str, hint: str, seconds: float, pods: int) -> None:
        self.hints += [(plugin, event, hint)] * pods

    def pre_enqueue_answered(
        self, plugin: str, profile: str, code: Code, seconds: float, pods: int
    ) -> None:
        self.gates += [(plugin, profile, code.value)] * pods


class Bench:
    """A queue under test, with shorthands for what a scheduler does to it."""

    def __init__(
        self, *profiles: Profile, start: float = 100.0, live: Any = None, **options: Any
    ) -> None:
        self.clock = VirtualClock(start)
        self.ledger = Ledger()
        self.nominated = NominatedPods(live)
        chosen = profiles or (profile(judge("Picky")),)
        self.queue = SchedulingQueue(
            {one.name: one for one in chosen},
            self.clock,
            nominated=self.nominated,
            observer=self.ledger,
            **options,
        )
        self.ledger.queue = self.queue

    def pod(self, name: str = "pod", **fields: Any) -> Pod:
        """A new pod that has been added."""
        pod = make_pod(name, **fields)
        self.queue.add(pod)
        return pod

    def pop(self) -> QueuedPodInfo:
        """The next pod, which must exist."""
        info = self.queue.pop()
        assert isinstance(info, QueuedPodInfo), self.queue.view.pending_pods().summary
        return info

    def pop_specific(self, name: str = "pod") -> QueuedPodInfo:
        """A certain waiting pod, popped before its turn."""
        taken = self.queue._places.take(f"default/{name}")
        assert taken is not None
        info, _ = taken
        assert isinstance(info, QueuedPodInfo)
        assert self.queue._start_attempt(info)
        return info

    def reject(
        self, info: QueuedPodInfo, *plugins: str, pending: Sequence[str] = ()
    ) -> QueuedPodInfo:
        """An attempt ends with a rejection; without plugins it broke."""
        info.clear_rejectors()
        info.unschedulable_plugins.update(plugins)
        info.pending_plugins.update(pending)
        self.queue.add_unschedulable_if_not_present(info)
        return info

    def rejected(self, *plugins: str, name: str = "pod", **fields: Any) -> QueuedPodInfo:
        """A new pod that was tried once and rejected; everything else is left alone."""
        self.pod(name, **fields)
        return self.reject(self.pop_specific(name), *plugins)

    def pass_time(self, seconds: float) -> None:
        """Let time pass in one go, then do what is due."""
        self.clock.advance(seconds)
        self.queue.run_timers(self.clock.now())

    def place(self, name: str = "pod") -> str:
        """Where a pod is, by the word the queue's metrics use for it."""
        pending = self.queue.view.pending_pods()
        places = {
            "active": pending.active,
            "backoff": pending.backoff,
            "gated": pending.gated,
            "unschedulable": [pod for pod in pending.unschedulable if pod not in pending.gated],
            "in flight": pending.in_flight,
            "incomplete": pending.incomplete,
            "pending": pending.pending,
        }
        found = [place for place, pods in places.items() if any(p.name == name for p in pods)]
        assert len(found) <= 1, f"{name} is in several places: {found}"
        return found[0] if found else "nowhere"
