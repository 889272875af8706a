"""Whoever asks why changes nothing: later decisions are those of a scheduler nobody asked."""

from typing import Any

import msgspec
from hypothesis import given

from explain.asked_clusters import Cluster, Make, clusters, side_by_side
from moorage.config import default_config
from moorage.explain.nodes import explain_node
from moorage.explain.pods import explain_pod
from moorage.explain.queue_state import queue_state
from moorage.model.pod import Pod
from moorage.testing import make_node, make_pod
from properties.harness import effort


def ask_about_everything(cluster: Cluster, *, fixes: bool) -> None:
    scheduler = cluster.scheduler
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


def compare(make: Make, steps: int, *, fixes: bool = False) -> list[Any]:
    """Both tell the same, asked or not; what they tell."""
    plain, asked = side_by_side(
        make, steps, lambda cluster: ask_about_everything(cluster, fixes=fixes)
    )
    if not fixes:  # to try a new node out, the state is given one for a moment
        assert asked.scheduler.state.stamps.generation == plain.scheduler.state.stamps.generation
    return plain.told


@effort(20)
@given(clusters())
def test_decisions_are_the_same_whether_somebody_asks_in_between_or_not(make: Make) -> None:
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
