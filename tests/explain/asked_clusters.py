"""Two clusters side by side, one of which is asked about, for tests that asking changes nothing.

Owns the cluster whose decisions come true at once, and the clusters to try it with.
"""

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from moorage.config import DEFAULT_FEATURE_GATES, KubeSchedulerConfiguration, default_config
from moorage.engine.actions import Action, Binding, Eviction, Failure
from moorage.engine.clock import VirtualClock
from moorage.engine.observer import SchedulerObserver
from moorage.kube.live import build_scheduler
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.plugins.defaults import in_tree_registry
from properties import strategies as drawn
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


Make = Callable[[], Cluster]


@st.composite
def clusters(draw: DrawFn) -> Make:
    """Makes a cluster of a few nodes, with pods on them and pods that wait."""
    names = draw(st.lists(st.sampled_from(NODE_NAMES), min_size=1, max_size=4, unique=True))
    nodes = [draw(drawn.nodes(name)) for name in names]
    waiting = st.one_of(drawn.incoming_pods, drawn.social_pods, drawn.demanding_pods)
    placed = draw(st.lists(drawn.pods, max_size=6))
    pods = [named(body, i, names[i % len(names)]) for i, body in enumerate(placed)]
    asking = draw(st.lists(waiting, min_size=1, max_size=4))
    pods += [named(body, 100 + i) for i, body in enumerate(asking)]

    def make() -> Cluster:
        cluster = Cluster()
        cluster.add(nodes, pods)
        return cluster

    return make


def side_by_side(make: Make, steps: int, ask: Callable[[Cluster], None]) -> tuple[Cluster, Cluster]:
    """Both tell the same, asked or not: the one that was not asked, and the one that was."""
    plain, asked = make(), make()
    for _ in range(steps):
        plain.step()
        ask(asked)
        asked.step()
        assert asked.told == plain.told
    assert asked.observer.preemptions == plain.observer.preemptions
    assert asked.scheduler.handle.random.getstate() == plain.scheduler.handle.random.getstate()
    return plain, asked
