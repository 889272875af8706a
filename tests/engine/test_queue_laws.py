"""Laws of the queue that hold whatever happens in whatever order."""

import math
import os
from collections.abc import Iterable
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from engine.queueing import Bench, gate, judge, profile
from moorage.engine.events import ASSIGNED_POD_DELETE, FORCE_ACTIVATE, NODE_ADD, NODE_DELETE, label
from moorage.engine.events import pod_update_events as events_of_update
from moorage.engine.queue.entities import QueuedEntity, QueuedPodInfo
from moorage.framework.cluster_events import ActionType, EventResource, on
from moorage.model.meta import ApiObject
from moorage.model.pod import Pod
from moorage.testing.builders import make_node, make_pod

NAMES = [f"pod-{number}" for number in range(5)]
REJECTORS = st.sampled_from(
    [("",), ("Nodes",), ("Luck",), ("Stubborn",), ("Nodes", "Luck"), ("Luck", "Stubborn")]
)
TIMEOUT = "UnschedulableTimeout"


def _by_label(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> bool:
    return pod.labels.get("lucky") == "yes"


def _plugins() -> list[Any]:
    return [
        judge("Nodes", on(EventResource.NODE, ActionType.ADD)),
        judge(
            "Luck",
            on(EventResource.NODE, ActionType.ADD | ActionType.DELETE, _by_label),
            on(EventResource.POD, ActionType.UPDATE_POD_LABEL, _by_label),
        ),
        judge("Stubborn"),
    ]


def _pods(entities: Iterable[QueuedEntity]) -> list[QueuedPodInfo]:
    return [info for entity in entities for info in entity.infos]


class QueueLaws(RuleBasedStateMachine):
    """A scheduler and a cluster gone wild, beside plain books of what must be the case."""

    @initialize(early=st.booleans(), start=st.sampled_from([0.0, 1000.3]))
    def begin(self, early: bool, start: float) -> None:
        self.early = early
        self.closed: set[str] = set()
        keeps_out = gate("Gate", lambda pod: pod.name in self.closed, *_gate_events())
        self.bench = Bench(profile(*_plugins(), keeps_out), start=start, pop_from_backoff=early)
        self.queue = self.bench.queue
        self.waiting: dict[str, Pod] = {}
        self.flying: dict[str, QueuedPodInfo] = {}
        self.seen: dict[str, list[str]] = {}
        self.born = 0
        for name in NAMES[:3]:
            self.create(name, 0)

    # The cluster.

    @rule(name=st.sampled_from(NAMES), priority=st.integers(0, 2))
    def create(self, name: str, priority: int) -> None:
        if name in self.waiting or name in self.flying:
            return
        self.born += 1
        pod = make_pod(name, uid=f"uid-{self.born}", priority=priority)
        self.waiting[name] = pod
        self.queue.add(pod)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.waiting)))
        self.queue.delete(self.waiting.pop(name))

    @precondition(lambda self: self.waiting or self.flying)
    @rule(data=st.data(), priority=st.integers(0, 2), lucky=st.sampled_from(["yes", "no"]))
    def change(self, data: st.DataObject, priority: int, lucky: str) -> None:
        name = data.draw(st.sampled_from(sorted([*self.waiting, *self.flying])))
        old = self.waiting[name] if name in self.waiting else self.flying[name].pod
        new = make_pod(name, uid=old.uid, priority=priority, labels={"lucky": lucky})
        self.queue.update(old, new)
        if name in self.waiting:
            self.waiting[name] = new
        else:
            self._remember(*map(label, events_of_update(old, new, target=True)))
            self.flying[name].pod = new

    @rule(event=st.sampled_from([NODE_ADD, NODE_DELETE, ASSIGNED_POD_DELETE]))
    def happen(self, event: Any) -> None:
        before = self._infos()
        self.queue.move_all_to_active_or_backoff(event, None, make_node())
        if event is not ASSIGNED_POD_DELETE:  # nobody here registered it
            self._remember(label(event))
        for name, info in before.items():
            self._judge_move(info, self.bench.place(name), event is NODE_ADD)

    @rule(name=st.sampled_from(NAMES))
    def open_or_close_a_gate(self, name: str) -> None:
        self.closed.symmetric_difference_update([name])

    # The scheduler.

    @rule()
    def pop(self) -> None:
        pending = self.queue.view.pending_pods()
        expected = self._first(self.queue._active)
        if expected is None and self.early:
            rejected = [info for info in _pods(self.queue._backoff.entities) if info.rejectors]
            expected = self._first(rejected, self._end)
        info = self.queue.pop()
        if expected is None:
            assert info is None, f"popped {info} from {pending.summary}"
            return
        assert isinstance(info, QueuedPodInfo)
        assert self._order(info) == self._order(expected)
        name = info.pod.name
        assert info.pod is self.waiting.pop(name)
        self.flying[name] = info
        self.seen[name] = []

    @precondition(lambda self: self.flying)
    @rule(data=st.data(), rejectors=REJECTORS, pending=st.booleans())
    def fail(self, data: st.DataObject, rejectors: tuple[str, ...], pending: bool) -> None:
        self._fail(data.draw(st.sampled_from(sorted(self.flying))), rejectors, pending)

    @rule(rejectors=REJECTORS, pending=st.booleans())
    def try_in_vain(self, rejectors: tuple[str, ...], pending: bool) -> None:
        before = set(self.flying)
        self.pop()
        for name in set(self.flying) - before:
            self._fail(name, rejectors, pending)

    def _fail(self, name: str, rejectors: tuple[str, ...], pending: bool) -> None:
        """The last rejector is perhaps a pending one; an empty name stands for an error."""
        info = self.flying.pop(name)
        del self.seen[name]
        self.waiting[name] = info.pod
        broken = rejectors == ("",)
        if broken:
            self.bench.reject(info)
        elif pending:
            self.bench.reject(info, *rejectors[:-1], pending=rejectors[-1:])
        else:
            self.bench.reject(info, *rejectors)
        if broken:
            assert self.bench.place(name) in ("backoff", "gated")

    @precondition(lambda self: self.flying)
    @rule(data=st.data())
    def bind(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.flying)))
        self.queue.done(self.flying.pop(name).pod.uid)
        del self.seen[name]

    @precondition(lambda self: self.waiting or self.flying)
    @rule(data=st.data())
    def activate(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted([*self.waiting, *self.flying])))
        pod = self.waiting[name] if name in self.waiting else self.flying[name].pod
        self.queue.activate([pod])
        if name in self.flying:
            self._remember(label(FORCE_ACTIVATE))
        else:
            assert self.bench.place(name) in ("active", "gated")

    # Time.

    @rule(seconds=st.sampled_from([0.1, 0.9, 1.0, 1.0, 2.5, 31.0, 400.0]))
    def pass_time(self, seconds: float) -> None:
        backing_off = {
            info.pod.name: self._end(info) for info in _pods(self.queue._backoff.entities)
        }
        left_alone = {info.pod.name for info in _pods(self.queue._unschedulable)}
        self.bench.pass_time(seconds)
        for name, end in backing_off.items():
            if self.bench.place(name) == "backoff":
                # Late only by what is left of a tick.
                assert self._now() <= end + (0 if self.early else 1)
            else:
                assert self._now() > end
        if seconds == 400:
            still = {
                info.pod.name: info
                for info in _pods(self.queue._unschedulable)
                if info.pod.name in left_alone
            }
            assert all(info.gated for info in still.values())

    @rule()
    def sleep_until_something_is_due(self) -> None:
        wake_up = self.queue.next_wakeup()
        if wake_up is not None:
            self.pass_time(max(wake_up - self.bench.clock.now(), 0.0))

    # What must hold after every step.

    @invariant()
    def every_pod_is_in_exactly_one_place(self) -> None:
        pending = self.queue.view.pending_pods()
        names = [pod.name for pod in pending.pods]
        assert sorted(names) == sorted(self.waiting)
        assert sorted(pod.name for pod in pending.in_flight) == sorted(self.flying)
        assert {pod.name: pod for pod in pending.pods} == self.waiting

    @invariant()
    def the_gauges_tell_the_truth(self) -> None:
        pending = self.queue.view.pending_pods()
        told = self.bench.ledger.pending
        assert told["active"] == len(pending.active)
        assert told["backoff"] == len(pending.backoff)
        assert told["gated"] == len(pending.gated)
        assert told["unschedulable"] + told["gated"] == len(pending.unschedulable)

    @invariant()
    def no_event_is_lost_on_a_pod_in_flight(self) -> None:
        for name, labels in self.seen.items():
            kept = self.queue._in_flight.since_start(self.flying[name].pod.uid)
            assert kept is not None
            kept_labels = [label(one.event) for one in kept]
            assert [one for one in kept_labels if one != TIMEOUT] == labels
        if not self.flying:
            assert not self.queue._in_flight._events
            assert not +self.bench.ledger.in_flight

    @invariant()
    def somebody_is_told_when_to_come_back(self) -> None:
        pending = self.queue.view.pending_pods()
        wake_up = self.queue.next_wakeup()
        assert (wake_up is not None) == bool(pending.backoff or pending.unschedulable)

    def teardown(self) -> None:
        """Nothing is lost: left alone with open gates, every pod comes up in the end."""
        if not hasattr(self, "bench"):
            return
        self.closed.clear()
        for info in self.flying.values():
            self.queue.done(info.pod.uid)
        popped = set()
        for _ in range(30):
            self.bench.pass_time(30)
            while (found := self.queue.pop()) is not None:
                for info in found.infos:
                    popped.add(info.pod.name)
                    self.queue.done(info.pod.uid)
        assert popped == set(self.waiting)
        assert self.queue.next_wakeup() is None

    # The rules, told once more and plainly.

    def _order(self, info: QueuedPodInfo) -> tuple[int, float]:
        return (-info.pod.priority, info.timestamp)

    def _first(self, heap: Any, before: Any = lambda info: 0) -> QueuedPodInfo | None:
        ordered = self._order if self.early or heap is self.queue._active else before
        return min(heap, key=lambda info: (before(info), ordered(info)), default=None)

    def _end(self, info: QueuedPodInfo) -> float:
        failures = info.consecutive_errors_count or info.unschedulable_count
        end: float = info.timestamp + min(10.0, 2.0 ** (failures - 1))
        return math.floor(end) if self.early else end

    def _now(self) -> float:
        now = self.bench.clock.now()
        return math.floor(now) if self.early else now

    def _infos(self) -> dict[str, QueuedPodInfo]:
        return {info.pod.name: info for info in _pods(self.queue._unschedulable) if not info.gated}

    def _judge_move(self, info: QueuedPodInfo, place: str, node_added: bool) -> None:
        """Where a pod of the pool may be after an event."""
        immediately = node_added and "Nodes" in info.pending_plugins
        woken = node_added and "Nodes" in info.rejectors
        if immediately:
            assert place in ("active", "gated")
        elif woken:
            assert place != "unschedulable"
        if place == "active":
            assert info.pending_plugins or self._now() > self._end(info)
        elif place == "backoff":
            assert self._now() <= self._end(info)

    def _remember(self, *labels: str) -> None:
        for seen in self.seen.values():
            seen.extend(labels)


def _gate_events() -> list[Any]:
    return [on(EventResource.NODE, ActionType.ADD)]


TestQueueLaws = QueueLaws.TestCase
DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"
TestQueueLaws.settings = settings(
    max_examples=3000 if DEEP else 100,
    stateful_step_count=60,
    deadline=None,
    derandomize=not DEEP,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
