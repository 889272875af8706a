"""Whoever asks why changes nothing: later decisions are those of a scheduler nobody asked."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from moorage.config import DEFAULT_FEATURE_GATES, KubeSchedulerConfiguration, default_config
from moorage.engine.clock import VirtualClock
from moorage.engine.observer import SchedulerObserver
from moorage.engine.scheduler import Action, Binding, Eviction, Failure
from moorage.explain.nodes import explain_node
from moorage.explain.pods import explain_pod
from moorage.explain.queue_state import queue_state
from moorage.kube.live import build_scheduler
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.plugins.defaults import in_tree_registry
from moorage.testing import make_node, make_pod
from properties import strategies as drawn
from properties.harness import effort
from properties.strategies import NODE_NAMES, named


class Counting(SchedulerObserver):
    """Counts what plugins tell."""

    preemptions = 0

    def preemption_attempted(self) -> None:
        self.preemptions += 1


class Cluster:
    """A scheduler whose decisions come true at once."""

    def __init__(self, config: KubeSchedulerConfiguration | None = None) -> None:
        self.clock = VirtualClock(1_000_000.0)
        self.observer = Counting()
        self.scheduler = build_scheduler(
            config or default_config(),
            in_tree_registry(),
            DEFAULT_FEATURE_GATES,
            self.clock,
            observer=self.observer,
        )
        self.scheduler.handle.random.seed(7)
        self.told: list[Any] = []

    def add(self, nodes: Sequence[Node], pods: Sequence[Pod]) -> None:
        for node in nodes:
            self.scheduler.handlers.add_node(node)
        for pod in pods:
            self.put(pod)

    def put(self, pod: Pod) -> None:
        lister = self.scheduler.state.listers.of(Pod)
        known = lister.get(pod.name, pod.namespace)
        lister.put(pod)
        if known is None:
            self.scheduler.handlers.add_pod(pod)
        else:
            self.scheduler.handlers.update_pod(known, pod)

    def step(self) -> None:
        """One decision and what follows from it, and some time."""
        self.scheduler.schedule_one()
        while self.scheduler.outbox:
            self._carry_out(self.scheduler.outbox.popleft())
        self.clock.advance(1.5)
        self.scheduler.run_timers()

    def _carry_out(self, action: Action) -> None:
        scheduler = self.scheduler
        match action:
            case Binding():
                self.told.append(("bind", action.pod.key, action.node_name))
                scheduler.permitted(action)
                self.put(action.pod.on_node(action.node_name))
                scheduler.bound(action)
            case Eviction():
                victims = [victim.key for victim in action.victims]
                self.told.append(("evict", action.preemptor.key, action.node_name, victims))
                for victim in action.victims:
                    scheduler.state.listers.of(Pod).remove(victim)
                    scheduler.handlers.delete_pod(victim)
                scheduler.preemption_done(action.preemptor)
            case Failure():
                self.told.append(("fail", action.pod.key, action.message, action.nominated_node))
            case _:
                self.told.append(action)

    def ask_about_everything(self, *, fixes: bool) -> None:
        scheduler = self.scheduler
        pods = list(scheduler.state.listers.of(Pod))
        for pod in pods:
            profile = scheduler.profiles[pod.spec.scheduler_name]
            told = explain_pod(
                scheduler.cycle,
                profile,
                pod,
                source="live",
                placed_on=pod.spec.node_name or None,
                nodes=list(scheduler.state.nodes.row_of)[:2],
                matrix=(0, 10),
                fixes=fixes,
                queue=queue_state(scheduler, pod),
            )
            msgspec.json.encode(told)
        waiting = [pod for pod in pods if not pod.spec.node_name]
        for name in list(scheduler.state.nodes.row_of)[:2]:
            explain_node(scheduler.cycle, scheduler.profiles, name, source="live", waiting=waiting)


def compare(make: Callable[[], Cluster], steps: int, *, fixes: bool = False) -> list[Any]:
    """Both tell the same, asked or not; what they tell."""
    plain, asked = make(), make()
    for _ in range(steps):
        plain.step()
        asked.ask_about_everything(fixes=fixes)
        asked.step()
        assert asked.told == plain.told
    assert asked.observer.preemptions == plain.observer.preemptions
    assert asked.scheduler.handle.random.getstate() == plain.scheduler.handle.random.getstate()
    if not fixes:  # to try a new node out, the state is given one for a moment
        assert asked.scheduler.state.stamps.generation == plain.scheduler.state.stamps.generation
    return plain.told


waiting_pods = st.one_of(drawn.incoming_pods, drawn.social_pods, drawn.demanding_pods)


@effort(20)
@given(
    st.lists(st.sampled_from(NODE_NAMES), min_size=1, max_size=4, unique=True).flatmap(
        lambda names: st.tuples(*[drawn.nodes(name) for name in names])
    ),
    st.lists(drawn.pods, max_size=6),
    st.lists(waiting_pods, min_size=1, max_size=4),
)
def test_decisions_are_the_same_whether_somebody_asks_in_between_or_not(
    nodes: tuple[Node, ...], placed: list[Pod], waiting: list[Pod]
) -> None:
    pods = [named(body, i, nodes[i % len(nodes)].name) for i, body in enumerate(placed)]
    pods += [named(body, 100 + i) for i, body in enumerate(waiting)]

    def make() -> Cluster:
        cluster = Cluster()
        cluster.add(nodes, pods)
        return cluster

    compare(make, steps=6)


def test_the_start_of_the_search_stays_where_it_is() -> None:
    """With a percentage, every search starts where the last one ended."""
    config = msgspec.structs.replace(default_config(), percentage_of_nodes_to_score=50)

    def make() -> Cluster:
        cluster = Cluster(config)
        nodes = [make_node(f"n{i:03}", zone=f"z{i % 3}") for i in range(250)]
        cluster.add(nodes, [make_pod(f"p{i}", cpu="1") for i in range(4)])
        return cluster

    told = compare(make, steps=4)
    assert [what for what, *_ in told] == ["bind"] * 4


def test_chance_is_left_to_those_who_decide() -> None:
    """Among so many nodes preemption begins with a random one."""

    def make() -> Cluster:
        cluster = Cluster()
        nodes = [make_node(f"n{i:03}", cpu="1") for i in range(130)]
        placed = [make_pod(f"low-{n.name}", cpu="1", node_name=n.name, priority=1) for n in nodes]
        waiting = [make_pod(f"high-{i}", cpu="1", priority=10) for i in range(3)]
        cluster.add(nodes, [*placed, *waiting])
        return cluster

    told = compare(make, steps=8)
    assert [what for what, *_ in told].count("evict") == 3
    assert Cluster().observer.preemptions == 0


def test_looking_for_fixes_changes_no_decision() -> None:
    def make() -> Cluster:
        cluster = Cluster()
        nodes = [make_node(f"n{i}", zone=f"z{i % 2}", taints=["a:NoSchedule"]) for i in range(4)]
        nodes += [make_node(f"m{i}", zone=f"z{i % 2}", cpu="2") for i in range(4)]
        placed = [make_pod(f"low-{n.name}", cpu="1", node_name=n.name, priority=1) for n in nodes]
        waiting = [make_pod(f"p{i}", cpu=str(1 + i), priority=i % 3) for i in range(4)]
        cluster.add(nodes, [*placed, *waiting])
        return cluster

    told = compare(make, steps=6, fixes=True)
    assert {what for what, *_ in told} == {"bind", "fail"}
