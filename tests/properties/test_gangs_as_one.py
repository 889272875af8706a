"""A gate that judges groups as one is asked less; all else is as if every pod were asked."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.queueing import Bench, Gate, gate, judge, profile
from engine.test_queue_groups import crew, hand
from moorage.cluster.pod_groups import group_of
from moorage.engine.events import (
    ASSIGNED_POD_DELETE,
    UNSCHEDULED_POD_ADD,
)
from moorage.engine.queue.entities import QueuedPodGroupInfo
from moorage.framework.cluster_events import ActionType, EventResource, on
from moorage.framework.status import Code, Status
from moorage.model.meta import ApiObject
from moorage.model.pod import DEFAULT_SCHEDULER, Pod

NAMES = [f"pod-{number}" for number in range(8)]
FULL = Status(Code.UNSCHEDULABLE, ("no room",))
POD_LEFT = (EventResource.ASSIGNED_POD, ActionType.DELETE)
POD_CAME = (EventResource.UNSCHEDULED_POD, ActionType.ADD)


def _of_the_group(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> bool:
    return isinstance(new, Pod) and group_of(new) == group_of(pod)


def _luck(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> bool:
    return pod.labels.get("lucky") == "yes"


class Twin:
    """A queue whose gates stay shut until enough pods of a group are there."""

    def __init__(self, judges_groups: bool, early: bool) -> None:
        self.there: dict[str, Pod] = {}
        self.needed = 7
        self.shut: set[str] = set()
        too_few: Callable[[Pod], bool] = lambda pod: len(self.there) < self.needed  # noqa: E731
        self.gang = gate("Gang", too_few, on(*POD_CAME, _of_the_group))
        type(self.gang).judges_groups = judges_groups
        own = gate("Own", lambda pod: pod.name in self.shut, on(*POD_CAME))
        gates: tuple[Gate, ...] = (own, self.gang)
        picky = judge("Picky", on(*POD_CAME, _luck), on(*POD_LEFT, _luck))
        both = [profile(picky, *gates), profile(*gates, name="other")]
        self.bench = Bench(*both, generic_workload=True, pop_from_backoff=early)
        self.queue = self.bench.queue
        self.queue.groups.group_added(crew())
        for name in NAMES[:3]:
            self.come_and_tell(name, DEFAULT_SCHEDULER, 0)

    def come(self, name: str, scheduler: str, priority: int) -> None:
        if name not in self.there:
            spec = {"schedulerName": scheduler}
            self.there[name] = hand(name, priority=priority, spec=spec)
            self.queue.add(self.there[name])

    def tell(self) -> None:
        self.queue.move_all_to_active_or_backoff(UNSCHEDULED_POD_ADD, None, hand("anybody"))

    def come_and_tell(self, *pod: Any) -> None:
        self.come(*pod)
        self.tell()

    def go(self, name: str) -> None:
        pod = self.there.pop(name, None)
        if pod is not None:
            self.queue.delete(pod)

    def relabel(self, name: str) -> None:
        if name in self.there:
            old = self.there[name]
            labels = {"lucky": "no" if _luck(old, None, None) else "yes"}
            spec = {"schedulerName": old.spec.scheduler_name}
            new = hand(name, priority=old.priority, labels=labels, uid=old.uid, spec=spec)
            self.there[name] = new
            self.queue.update(old, new)

    def need(self, pods: int) -> None:
        self.needed = pods

    def bolt(self, name: str) -> None:
        self.shut ^= {name}

    def activate(self) -> None:
        self.queue.activate([hand("anybody")])

    def attempt(self, rejectors: list[str], pending: list[str]) -> None:
        entity = self.queue.pop()
        if not isinstance(entity, QueuedPodGroupInfo):
            return
        for info in list(entity.infos):
            self.bench.reject(info, *rejectors, pending=pending)
        self.queue.group_attempted(entity, FULL)

    def regroup(self) -> None:
        self.queue.groups.group_deleted(crew())
        self.queue.groups.group_added(crew())

    def room(self) -> None:
        self.queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, hand("left"), None)

    def wait(self, seconds: int) -> None:
        self.bench.pass_time(seconds)

    @property
    def state(self) -> Any:
        """Everything that can be seen from outside, but who was asked."""
        ledger = self.bench.ledger
        entities = [
            (
                self.queue._places.place_of(entity),
                entity.gating_plugin,
                [(i.key, i.rejectors, i.gating_plugin, i.attempts) for i in entity.infos],
            )
            for entity in self.queue._places
        ]
        counts = Counter(ledger.came), Counter(ledger.hints), Counter(ledger.gates)
        return entities, *counts, ledger.moved, +ledger.reasons


NAME = st.sampled_from(NAMES)
SCHEDULER = st.sampled_from([*[DEFAULT_SCHEDULER] * 3, "other"])
REJECTORS = st.sampled_from([[], ["Picky"]])
STEPS = st.one_of(
    st.tuples(st.sampled_from(["come", "come_and_tell"]), NAME, SCHEDULER, st.integers(0, 1)),
    st.tuples(st.sampled_from(["go", "relabel", "bolt"]), NAME),
    st.tuples(st.just("need"), st.sampled_from([2, 7])),
    st.tuples(st.just("attempt"), REJECTORS, REJECTORS),
    st.tuples(st.sampled_from(["activate", "regroup", "room", "tell"])),
    st.tuples(st.just("wait"), st.sampled_from([5, 400])),
)


@given(early=st.booleans(), steps=st.lists(STEPS, max_size=25))
@example(True, [("come_and_tell", NAMES[3], "other", 0), ("tell",)])
@example(True, [("come", NAMES[3], DEFAULT_SCHEDULER, 0), ("go", NAMES[3]), ("tell",)])
@example(
    True,
    [
        *(("need", 2), ("tell",), ("need", 7), ("attempt", ["Picky"], [])),
        *(("wait", 5), ("relabel", NAMES[1]), ("tell",)),
    ],
)
def test_one_pod_speaks_for_its_group(early: bool, steps: list[tuple[Any, ...]]) -> None:
    as_one, plain = Twin(True, early), Twin(False, early)
    for name, *arguments in steps:
        for twin in (as_one, plain):
            getattr(twin, name)(*arguments)
        assert as_one.state == plain.state, (name, arguments)


@pytest.mark.parametrize("pods", [10, 100])
def test_a_gang_that_comes_pod_by_pod_has_its_gate_asked_a_few_times_per_pod(pods: int) -> None:
    twin = Twin(True, early=True)
    twin.need(pods)
    for number in range(3, pods):
        twin.come_and_tell(f"pod-{number}", DEFAULT_SCHEDULER, 0)
    assert twin.bench.place("pod-0") == "active"
    assert len(twin.gang.asked) <= 3 * pods
    refused = ("Gang", DEFAULT_SCHEDULER, Code.UNRESOLVABLE.value)
    answers = twin.bench.ledger.gates.count(refused)
    assert answers == (pods - 1) * pods // 2 + 1, "the first pod is asked twice, all are counted"
