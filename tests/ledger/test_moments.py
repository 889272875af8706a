"""A cluster rebuilt before a decision is the one that was there, and decides the same again."""

from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.made import make_scheduler
from moorage.cluster.state import ClusterState
from moorage.config import default_config
from moorage.engine.actions import Binding, Eviction
from moorage.engine.clock import VirtualClock
from moorage.engine.cycle import Cycle
from moorage.engine.decisions import Bind
from moorage.engine.scheduler import Scheduler
from moorage.framework.status import Code, Status
from moorage.ledger import Ledger, Reader, open_ledger
from moorage.ledger.moment import finish
from moorage.model.meta import ApiObject
from moorage.model.node import Node
from moorage.model.pod import Pod
from properties import strategies
from properties.harness import effort
from properties.strategies import NODE_NAMES, named

Copy = dict[str, Any]


def copied(state: ClusterState, cycle: Cycle) -> Copy:
    """Everything that a decision depends on, by names: objects never change, so this is deep."""
    nodes = state.nodes
    requested = {name: column.copy() for name, column in nodes.requested.items()}
    return {
        "nodes": {node.name: node for node in nodes.nodes[: len(state)]},
        "order": state.order.names(),
        "placed": {pod.uid: (pod, node) for pod, node in state.placed_pods()},
        "assumed": {pod.uid for pod, _ in state.assumed_pods()},
        "listed": listed(state),
        "pods": {(pod.key, pod.uid): pod for pod in state.listers.of(Pod)},
        "requested": {
            name: {node: int(column[row]) for node, row in nodes.row_of.items() if column[row]}
            for name, column in requested.items()
            if any(column[row] for row in nodes.row_of.values())
        },
        "nominated": sorted((pod.uid, node) for pod, node in cycle.nominated),
        "start": cycle.search.start,
    }


def listed(state: ClusterState) -> dict[tuple[str, str], list[ApiObject]]:
    """The objects of each kind in each namespace, in their order."""
    found: dict[tuple[str, str], list[ApiObject]] = {}
    for obj in state.listers:
        if not isinstance(obj, Pod):
            found.setdefault((type(obj).__name__, obj.namespace), []).append(obj)
    return found


class Story:
    """A scheduler to which things happen, with a copy of its cluster before each decision."""

    def __init__(self, ledger: Ledger, draw: Any, percentage: int | None) -> None:
        config = default_config()
        if percentage is not None:
            config = msgspec.structs.replace(config, percentage_of_nodes_to_score=percentage)
        self.ledger, self.draw = ledger, draw
        self.scheduler: Scheduler = make_scheduler(config)
        self.scheduler.record(ledger.recorder)
        self.copies: list[Copy] = []
        self.bindings: list[Binding] = []
        self.serial = 0
        for name in NODE_NAMES[:4]:
            self.put_node(name)

    @property
    def pods(self) -> list[Pod]:
        return list(self.scheduler.state.listers.of(Pod))

    def happen(self) -> None:
        """Something happens."""
        happening = self.draw(st.sampled_from(HAPPENINGS))
        happening(self)

    def put_node(self, name: str = "") -> None:
        name = name or self.draw(st.sampled_from(NODE_NAMES))
        node: Node = self.draw(strategies.nodes(name))
        row = self.scheduler.state.nodes.row_of.get(name)
        if row is None:
            self.scheduler.handlers.add_node(node)
        else:
            self.scheduler.handlers.update_node(self.scheduler.state.nodes.nodes[row], node)

    def delete_node(self) -> None:
        state = self.scheduler.state
        if len(state):
            name = self.draw(st.sampled_from(sorted(state.nodes.row_of)))
            self.scheduler.handlers.delete_node(state.nodes.nodes[state.nodes.row_of[name]])

    def put_object(self) -> None:
        obj = self.draw(strategies.other_objects)
        lister = self.scheduler.state.listers.of(type(obj))
        old = lister.get(obj.name, obj.namespace)
        if old is None:
            self.scheduler.handlers.add_object(obj)
        else:
            self.scheduler.handlers.update_object(old, obj)

    def delete_object(self) -> None:
        others = [obj for obj in self.scheduler.state.listers if not isinstance(obj, Pod)]
        if others:
            self.scheduler.handlers.delete_object(self.draw(st.sampled_from(others)))

    def pod_comes(self) -> None:
        self.serial += 1
        kinds = st.one_of(strategies.incoming_pods, strategies.social_pods)
        body = self.draw(st.one_of(kinds, strategies.demanding_pods))
        where = self.draw(st.sampled_from(["", "", "", *NODE_NAMES[:3], "nowhere"]))
        nominated = self.draw(st.sampled_from(["", "", "", NODE_NAMES[0]]))
        self.scheduler.handlers.add_pod(named(body, self.serial, where, nominated=nominated))

    def pods_come(self) -> None:
        for _ in range(3):
            self.pod_comes()

    def pod_changes(self) -> None:
        if self.pods:
            pod: Pod = self.draw(st.sampled_from(self.pods))
            labels = {**pod.labels, "app": self.draw(st.sampled_from(["web", "db"]))}
            self._update(pod, msgspec.structs.replace(pod.metadata, labels=labels))

    def pod_terminates(self) -> None:
        if self.pods:
            pod: Pod = self.draw(st.sampled_from(self.pods))
            time = "2027-01-15T08:00:00Z"
            self._update(pod, msgspec.structs.replace(pod.metadata, deletion_timestamp=time))

    def _update(self, pod: Pod, meta: Any) -> None:
        version = str(int(meta.resource_version or 0) + 1)
        meta = msgspec.structs.replace(meta, resource_version=version)
        self.scheduler.handlers.update_pod(pod, msgspec.structs.replace(pod, metadata=meta))

    def pod_goes(self) -> None:
        if self.pods:
            self.scheduler.handlers.delete_pod(self.draw(st.sampled_from(self.pods)))

    def decide(self) -> None:
        scheduler = self.scheduler
        for _ in range(self.draw(st.integers(1, 4))):
            before = copied(scheduler.state, scheduler.cycle)
            scheduler.schedule_one()
            if len(self.ledger) > len(self.copies):
                self.copies.append(before)
            for action in scheduler.outbox:
                if isinstance(action, Binding):
                    self.bindings.append(action)
                elif isinstance(action, Eviction):
                    scheduler.preemption_done(action.cause)
            scheduler.outbox.clear()

    def time_passes(self) -> None:
        clock = self.scheduler.clock
        assert isinstance(clock, VirtualClock)
        clock.advance(400)
        self.scheduler.run_timers()

    def pod_is_bound(self) -> None:
        if self.bindings:
            binding = self.bindings.pop(0)
            pod = self.scheduler.state.listers.of(Pod).get(binding.pod.name, binding.pod.namespace)
            self.scheduler.permitted(binding)
            if pod is not None and not pod.spec.node_name:
                self.scheduler.bound(binding)
                self.scheduler.handlers.update_pod(pod, pod.on_node(binding.node_name))

    def binding_fails(self) -> None:
        if self.bindings:
            before = copied(self.scheduler.state, self.scheduler.cycle)
            status = Status(Code.ERROR, ("timed out",))
            self.scheduler.binding_failed(self.bindings.pop(), status)
            self.copies.append(before)

    def idle(self) -> None:
        if self.draw(st.booleans()):
            self.ledger.rest()
        else:
            self.ledger.flush()


HAPPENINGS = [
    *(Story.put_node, Story.delete_node, Story.put_object, Story.delete_object),
    *(Story.pod_comes, Story.pods_come, Story.pods_come, Story.pod_changes, Story.pod_goes),
    *(Story.pod_terminates, Story.decide, Story.decide, Story.decide, Story.time_passes),
    *(Story.pod_is_bound, Story.pod_is_bound, Story.binding_fails, Story.idle),
]


def check(reader: Reader, number: int, copy: Copy) -> None:
    """Is the moment before a decision what it was, and is the same decided there?"""
    moment, decision = finish(reader.moment(number))
    if not decision.binding:
        found = copied(moment.state, moment.cycle)
        for cluster in (found, copy):
            # A pod that was sent to a node waits for none any more, and does not count for itself.
            cluster["nominated"] = [
                one for one in cluster["nominated"] if one[0] != decision.summary.uid
            ]
        for what, value in copy.items():
            assert found[what] == value, what
        again = moment.ask(decision)
        if decision.node:
            assert isinstance(again, Bind)
            asked = again.node_name, again.feasible_nodes, again.total_score
            assert asked == (decision.node, decision.summary.feasible, decision.summary.score)
        elif decision.summary.result == "unschedulable":
            assert again is None or not isinstance(again, Bind)
    told = reader.explain(number, matrix=(0, 100))
    assert told.note == ""


@effort(60)
@given(data=st.data(), percentage=st.sampled_from([None, None, 100]))
def test_a_moment_is_what_it_was_and_decides_the_same(data: Any, percentage: int | None) -> None:
    size = data.draw(st.sampled_from([2000, 2**20]))
    with TemporaryDirectory() as folder, closing(Ledger(2**22, folder, file_bytes=size)) as ledger:
        story = Story(ledger, data.draw, percentage)
        for _ in range(data.draw(st.integers(5, 40))):
            story.happen()
        numbers = data.draw(st.permutations(range(1, len(story.copies) + 1)))
        for number in numbers[:12]:
            check(ledger, number, story.copies[number - 1])
        ledger.close()
        if story.copies:
            reader = open_ledger(folder)
            held = {one.number for one in reader.summaries(limit=1000)}
            for number in numbers[:6]:
                if number in held:
                    check(reader, number, story.copies[number - 1])
            _cut_off(data, Path(folder), story.copies)


def _cut_off(data: Any, folder: Path, copies: list[Copy]) -> None:
    """What can be read of a file that was cut off is as exact as the whole."""
    path = sorted(folder.iterdir())[-1]
    whole = path.read_bytes()
    path.write_bytes(whole[: data.draw(st.integers(len(whole) // 2, len(whole)))])
    reader = open_ledger(path)
    for one in reader.summaries(limit=2):
        check(reader, one.number, copies[one.number - 1])


@settings(max_examples=25)
@given(data=st.data())
def test_a_ring_that_forgets_is_exact_about_what_it_keeps(data: Any) -> None:
    ledger = Ledger(30_000)
    story = Story(ledger, data.draw, None)
    for _ in range(30):
        story.happen()
    kept = [one.number for one in ledger.summaries(limit=1000)]
    for number in data.draw(st.permutations(kept))[:6]:
        check(ledger, number, story.copies[number - 1])
