"""Pod groups in the queue: one entity with all its waiting pods, and the laws about it."""

import math
import os
from typing import Any

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from engine.queueing import Bench, gate, judge, profile
from moorage.engine.events import NODE_ADD
from moorage.engine.queue.entities import QueuedEntity, QueuedPodGroupInfo
from moorage.framework.cluster_events import ActionType, EventResource, on
from moorage.framework.status import Code, Status
from moorage.model.meta import ObjectMeta
from moorage.model.pod import Pod
from moorage.model.pod_group import PodGroup, PodGroupSpec
from moorage.testing.builders import make_node, make_pod

NODE_ADDED = on(EventResource.NODE, ActionType.ADD)
REJECTED = Status(Code.UNSCHEDULABLE, ("no room",))
BROKEN = Status(Code.ERROR, ("a fault",))


def crew(name: str = "crew", priority: int | None = None) -> PodGroup:
    metadata = ObjectMeta(name=name, namespace="default", uid=name)
    return PodGroup(metadata=metadata, spec=PodGroupSpec(priority=priority))


def hand(name: str, group: str = "crew", **fields: Any) -> Pod:
    spec = {"schedulingGroup": {"podGroupName": group}, **fields.pop("spec", {})}
    return make_pod(name, spec=spec, **fields)


def groups_bench(*plugins: Any, **options: Any) -> Bench:
    return Bench(profile(judge("Picky", NODE_ADDED), *plugins), generic_workload=True, **options)


def with_crew(*names: str, **options: Any) -> Bench:
    bench = groups_bench(**options)
    bench.queue.groups.group_added(crew())
    for name in names:
        bench.queue.add(hand(name))
    return bench


def pop_group(bench: Bench) -> QueuedPodGroupInfo:
    entity = bench.queue.pop()
    assert isinstance(entity, QueuedPodGroupInfo)
    return entity


def names(entity: QueuedEntity) -> list[str]:
    return [info.pod.name for info in entity.infos]


def end(bench: Bench, entity: QueuedPodGroupInfo, status: Status | None, *placed: str) -> None:
    """The attempt ends; pods that have no place are rejected."""
    for info in list(entity.infos):
        if info.pod.name in placed:
            bench.queue.done(info.pod.uid)
        else:
            bench.reject(info, "Picky")
    bench.queue.group_attempted(entity, status)


def test_pods_wait_for_their_group_and_come_up_with_it_as_one() -> None:
    bench = groups_bench()
    for name in ("a", "b"):
        bench.queue.add(hand(name))
    assert bench.place("a") == bench.place("b") == "incomplete"
    assert bench.queue.pop() is None
    bench.queue.groups.group_added(crew())
    entity = pop_group(bench)
    assert names(entity) == ["a", "b"]
    assert {info.attempts for info in entity.infos} == {1}
    assert bench.place("a") == bench.place("b") == "in flight"


def test_pods_of_a_deleted_group_wait_for_one_of_that_name() -> None:
    bench = with_crew("a", "b")
    bench.queue.groups.group_deleted(crew())
    assert bench.place("a") == bench.place("b") == "incomplete"
    assert bench.queue.view.sizes() == {
        **dict.fromkeys(("active", "backoff", "unschedulable", "gated", "pending"), 0),
        "incomplete": 2,
    }


def test_a_pod_that_comes_during_the_attempt_waits_for_its_end() -> None:
    bench = with_crew("a")
    entity = pop_group(bench)
    bench.queue.add(hand("late"))
    assert bench.place("late") == "pending"
    end(bench, entity, None, "a")
    assert bench.place("late") == "active"


def test_the_groups_priority_decides_and_then_its_age() -> None:
    bench = groups_bench()
    bench.queue.groups.group_added(crew("old", 5))
    bench.queue.groups.group_added(crew("new", 5))
    bench.queue.groups.group_added(crew("meek", 1))
    bench.queue.add(hand("m", "meek", priority=9))
    for name, group in (("o", "old"), ("n", "new")):
        bench.clock.advance(1)
        bench.queue.add(hand(name, group, priority=5))
    bench.queue.add(make_pod("alone", priority=7))
    popped = []
    while (entity := bench.queue.pop()) is not None:
        popped.append(names(entity))
        bench.queue.done(entity.infos[0].pod.uid)
    assert popped == [["alone"], ["o"], ["n"], ["m"]]


def test_pods_of_a_group_are_tried_by_priority_then_attempts_then_age_then_name() -> None:
    bench = with_crew("tried")
    end(bench, pop_group(bench), REJECTED)
    bench.clock.advance(1)
    for name, priority in (("z", 0), ("y", 0), ("first", 9)):
        bench.queue.add(hand(name, priority=priority))
    bench.clock.advance(1)
    bench.queue.add(hand("last"))
    bench.pass_time(5)
    assert names(pop_group(bench)) == ["first", "tried", "y", "z", "last"]


def test_a_group_is_gated_while_one_of_its_pods_is() -> None:
    closed = {"b"}
    guard = gate("Gate", lambda pod: pod.name in closed, NODE_ADDED)
    bench = groups_bench(guard)
    bench.queue.groups.group_added(crew())
    bench.queue.add(hand("a"))
    assert bench.place("a") == "active"
    bench.queue.add(hand("b"))
    assert bench.place("a") == bench.place("b") == "gated"
    assert sorted(guard.asked) == ["a", "a", "b"], "all its pods are asked about"
    closed.clear()
    bench.queue.move_all_to_active_or_backoff(NODE_ADD, None, make_node())
    assert bench.place("a") == bench.place("b") == "active"


def test_a_rejected_group_waits_out_its_back_off_and_is_never_taken_early() -> None:
    bench = with_crew("a", "b")
    end(bench, pop_group(bench), REJECTED)
    assert bench.place("a") == bench.place("b") == "backoff"
    bench.queue.move_all_to_active_or_backoff(NODE_ADD, None, make_node())
    assert bench.queue.pop() is None, "events do not wake it, and an idle scheduler waits"
    bench.pass_time(2)
    assert names(pop_group(bench)) == ["a", "b"]


def test_the_longest_back_off_grows_with_the_square_root_of_the_groups_size() -> None:
    bench = with_crew("a", "b", "c", "d", max_backoff_seconds=10)
    waited = []
    for _ in range(7):
        entity = pop_group(bench)
        end(bench, entity, REJECTED)
        assert entity.backoff_expiration is not None
        waited.append(entity.backoff_expiration - math.floor(bench.clock.now()))
        bench.pass_time(waited[-1] + 2)
    assert waited == [1, 2, 4, 8, 16, 20, 20]


def test_what_is_left_of_a_placed_group_comes_again_at_once_before_younger_pods() -> None:
    bench = with_crew("a", "b")
    entity = pop_group(bench)
    since = entity.timestamp
    bench.clock.advance(5)
    end(bench, entity, None, "a")
    assert bench.place("b") == "active"
    bench.pod("young")
    again = pop_group(bench)
    assert (names(again), again.timestamp, again.attempts) == (["b"], since, 2)
    assert again.unschedulable_count == again.consecutive_errors_count == 0


def test_pods_that_are_new_after_a_placed_group_take_their_turn() -> None:
    bench = with_crew("a")
    entity = pop_group(bench)
    bench.clock.advance(1)
    bench.pod("older")
    bench.queue.add(hand("late"))
    bench.clock.advance(1)
    end(bench, entity, None, "a")
    assert bench.pop().pod.name == "older"
    assert names(pop_group(bench)) == ["late"]


def test_errors_back_off_separately() -> None:
    bench = with_crew("a")
    entity = pop_group(bench)
    end(bench, entity, REJECTED)
    bench.pass_time(3)
    entity = pop_group(bench)
    end(bench, entity, BROKEN)
    assert (entity.unschedulable_count, entity.consecutive_errors_count) == (1, 1)
    bench.pass_time(3)
    end(bench, pop_group(bench), REJECTED)
    assert (entity.unschedulable_count, entity.consecutive_errors_count) == (2, 0)


def test_the_last_pod_takes_the_group_out_of_the_queue() -> None:
    bench = with_crew("a", "b")
    bench.queue.delete(hand("a"))
    assert (bench.place("a"), bench.place("b")) == ("nowhere", "active")
    bench.queue.delete(hand("b"))
    assert not bench.queue.view.has_pods


def test_a_pod_that_is_activated_brings_its_group() -> None:
    bench = with_crew("a", "b")
    end(bench, pop_group(bench), REJECTED)
    bench.queue.activate([hand("b")])
    assert bench.place("a") == bench.place("b") == "active"


def test_an_update_reaches_the_pod_wherever_it_is() -> None:
    bench = groups_bench()
    bench.queue.add(hand("a"))
    bench.queue.update(hand("a"), hand("a", labels={"seen": "incomplete"}))
    bench.queue.groups.group_added(crew())
    found = bench.queue.view.find(hand("a"))
    assert found is not None
    assert found.pod.labels == {"seen": "incomplete"}
    entity = pop_group(bench)
    bench.queue.add(hand("late"))
    bench.queue.update(hand("late"), hand("late", labels={"seen": "pending"}))
    end(bench, entity, REJECTED)
    found = bench.queue.view.find(hand("late"))
    assert found is not None
    assert found.pod.labels == {"seen": "pending"}
    bench.queue.update(hand("lost"), hand("lost", labels={"new": "yes"}))
    assert bench.place("lost") == "backoff", "a pod that its entity lost comes back to it"


def test_entities_and_pods_are_counted_apart() -> None:
    bench = with_crew("a", "b")
    bench.pod("alone")
    assert bench.queue.view.sizes()["active"] == 3
    kinds = {key: count for key, count in bench.queue.view.entities().items() if count}
    assert kinds == {("active", "podgroup"): 1, ("active", "pod"): 1}
    added = ("active", "UnscheduledPodAdd")
    assert bench.ledger.came == [added, added, added, added], "the first two, then one more"
    moved = {key[2]: count for key, count in bench.ledger.moved.items()}
    assert moved == {"podgroup": 1, "pod": 1}


PODS = {"a0": "a", "a1": "a", "a2": "a", "b0": "b", "b1": "b", "s0": "", "s1": ""}


class GroupLaws(RuleBasedStateMachine):
    """A scheduler, pods and groups gone wild, beside plain books of what must be the case."""

    @initialize(early=st.booleans())
    def begin(self, early: bool) -> None:
        self.closed: set[str] = set()
        guard = gate("Gate", lambda pod: pod.name in self.closed, NODE_ADDED)
        self.bench = groups_bench(guard, pop_from_backoff=early)
        self.queue = self.bench.queue
        self.waiting: dict[str, Pod] = {}
        self.flying: QueuedEntity | None = None
        self.known: set[str] = set()
        self.born = 0

    @rule(name=st.sampled_from(sorted(PODS)), priority=st.integers(0, 1))
    def create(self, name: str, priority: int) -> None:
        if name in self.waiting or name in self.tried:
            return
        self.born += 1
        group, uid = PODS[name], f"uid-{self.born}"
        pod = hand(name, group, uid=uid, priority=priority) if group else None
        self.waiting[name] = pod or make_pod(name, uid=uid, priority=priority)
        self.queue.add(self.waiting[name])

    @precondition(lambda self: isinstance(self.flying, QueuedPodGroupInfo))
    @rule(priority=st.integers(0, 1), goes=st.booleans())
    def another_comes_during_the_attempt(self, priority: int, goes: bool) -> None:
        group = PODS[self.tried[0]]
        for name in PODS:
            if PODS[name] == group:
                self.create(name, priority)
        if goes and group in self.known:
            self.known.remove(group)
            self.queue.groups.group_deleted(crew(group))

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.waiting)))
        self.queue.delete(self.waiting.pop(name))

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def change(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.waiting)))
        old = self.waiting[name]
        labels = {**old.labels, "changed": str(len(old.labels))}
        new = msgspec.structs.replace(
            old, metadata=msgspec.structs.replace(old.metadata, labels=labels)
        )
        self.queue.update(old, new)
        self.waiting[name] = new

    @rule(name=st.sampled_from(["a", "b"]), priority=st.integers(0, 2))
    def group_comes_or_changes(self, name: str, priority: int) -> None:
        change = self.queue.groups.group_updated
        if name not in self.known:
            change = self.queue.groups.group_added
        self.known.add(name)
        change(crew(name, priority))

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def group_goes(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.known)))
        self.known.remove(name)
        self.queue.groups.group_deleted(crew(name))

    @rule(name=st.sampled_from(sorted(PODS)))
    def open_or_close_a_gate(self, name: str) -> None:
        self.closed.symmetric_difference_update([name])

    @rule()
    def node_comes(self) -> None:
        self.queue.move_all_to_active_or_backoff(NODE_ADD, None, make_node())

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def activate(self, data: st.DataObject) -> None:
        self.queue.activate([self.waiting[data.draw(st.sampled_from(sorted(self.waiting)))]])

    @rule(seconds=st.sampled_from([0.3, 1.0, 5.0, 400.0]))
    def pass_time(self, seconds: float) -> None:
        self.bench.pass_time(seconds)

    @precondition(lambda self: self.flying is None)
    @rule()
    def pop(self) -> None:
        self.flying = self.queue.pop()
        if self.flying is None:
            return
        popped = names(self.flying)
        group = PODS[popped[0]]
        if group:
            same = {name for name in self.waiting if PODS[name] == group}
            assert set(popped) == same, "a group comes up with all its pods"
        for name in popped:
            del self.waiting[name]

    @precondition(lambda self: self.flying is not None)
    @rule(data=st.data(), status=st.sampled_from([None, REJECTED, BROKEN]))
    def finish(self, data: st.DataObject, status: Status | None) -> None:
        entity, self.flying = self.flying, None
        assert entity is not None
        placed = set(names(entity)) if status is None else set()
        if isinstance(entity, QueuedPodGroupInfo) and status is None:
            some = st.lists(st.sampled_from(sorted(placed)), unique=True)
            placed -= set(data.draw(some))
        for info in list(entity.infos):
            if info.pod.name in placed:
                self.queue.done(info.pod.uid)
            else:
                self.waiting[info.pod.name] = info.pod
                self.bench.reject(info, *(["Picky"] if status is not BROKEN else []))
        if isinstance(entity, QueuedPodGroupInfo):
            self.queue.group_attempted(entity, status)

    @property
    def tried(self) -> list[str]:
        return [] if self.flying is None else names(self.flying)

    @invariant()
    def every_pod_is_where_it_belongs(self) -> None:
        if not hasattr(self, "bench"):
            return
        trying = {PODS[name] for name in self.tried}
        for name, pod in self.waiting.items():
            place, group = self.bench.place(name), PODS[name]
            found = self.queue.view.find(pod)
            assert found is not None
            assert found.pod is pod
            if group and group not in self.known:
                assert place == "incomplete"
            elif group and group in trying:
                assert place == "pending"
            else:
                assert place in ("active", "backoff", "unschedulable", "gated")
        assert {self.bench.place(name) for name in self.tried} <= {"in flight"}
        sizes = self.queue.view.sizes()
        assert sum(sizes.values()) == len(self.waiting)

    @invariant()
    def a_group_is_one_entity_and_gated_as_a_whole(self) -> None:
        if not hasattr(self, "bench"):
            return
        places: dict[str, set[str]] = {}
        for name in self.waiting:
            if PODS[name]:
                places.setdefault(PODS[name], set()).add(self.bench.place(name))
        assert all(len(found) == 1 for found in places.values())
        for entity in self.queue._places:
            if isinstance(entity, QueuedPodGroupInfo):
                assert entity.infos
                order = [(-i.pod.priority, -i.attempts, i.timestamp) for i in entity.infos]
                assert order == sorted(order)

    def teardown(self) -> None:
        """Whatever happened: with open gates and known groups everybody is tried again."""
        if not hasattr(self, "bench"):
            return
        if self.flying is not None:
            for info in self.flying.infos:
                self.queue.done(info.pod.uid)
            if isinstance(self.flying, QueuedPodGroupInfo):
                self.queue.group_attempted(self.flying, None)
        self.closed.clear()
        for name in {"a", "b"} - self.known:
            self.queue.groups.group_added(crew(name))
        popped = set()
        for _ in range(30):
            self.bench.pass_time(30)
            while (entity := self.queue.pop()) is not None:
                popped.update(names(entity))
                for info in entity.infos:
                    self.queue.done(info.pod.uid)
                if isinstance(entity, QueuedPodGroupInfo):
                    self.queue.group_attempted(entity, None)
        assert popped == set(self.waiting)
        assert +self.bench.ledger.reasons == {}, "what was counted was taken back"


TestGroupLaws = GroupLaws.TestCase
DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"
TestGroupLaws.settings = settings(
    max_examples=3000 if DEEP else 150,
    stateful_step_count=60,
    deadline=None,
    derandomize=not DEEP,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
