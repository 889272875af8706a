"""Lists of a live cluster: every node and pod once, in order, page by page, and quickly."""

import time

import pytest

from moorage.config import DEFAULT_FEATURE_GATES, default_config
from moorage.engine.clock import VirtualClock
from moorage.engine.scheduler import Scheduler
from moorage.explain.listing import NodeLine, PodLine
from moorage.kube.listings import PLACED, node_page, pod_page
from moorage.kube.live import build_scheduler
from moorage.model.pod import Pod
from moorage.plugins.defaults import in_tree_registry
from moorage.testing import cluster, make_node, make_pod


def scheduler() -> Scheduler:
    return build_scheduler(
        default_config(), in_tree_registry(), DEFAULT_FEATURE_GATES, VirtualClock(1e9)
    )


def test_a_node_is_told_with_zone_taints_pods_and_what_is_taken_of_each_resource_it_has() -> None:
    state = cluster(
        [
            make_node("quay", zone="north", cpu="4", memory="8Gi", taints=["a=b:NoSchedule"]),
            make_node("berth", cpu="2", allocatable={"example.com/gpu": "4"}, unschedulable=True),
        ],
        [
            make_pod("one", node_name="quay", cpu="1", memory="2Gi"),
            make_pod("two", node_name="berth", requests={"example.com/gpu": "3"}),
            make_pod("three", node_name="berth", cpu="2"),
        ],
    )
    page, last = node_page(state, 10)
    assert last == ""
    assert page.total == 2
    assert page.resources == ("cpu", "memory", "example.com/gpu")
    assert page.items == [
        NodeLine(
            *("berth", "", [], True, 2, 110),
            {"cpu": 1.0, "memory": 0.0, "example.com/gpu": 0.75},
        ),
        NodeLine("quay", "north", ["a=b:NoSchedule"], False, 1, 110, {"cpu": 0.25, "memory": 0.25}),
    ]


@pytest.mark.parametrize("count", [0, 1, 12])
@pytest.mark.parametrize("limit", [1, 5, 6, 12, 13])
def test_pages_of_nodes_and_pods_put_together_are_the_whole_list(count: int, limit: int) -> None:
    names = [f"n{index}" for index in range(count)]
    made = scheduler()
    for name in names:
        made.handlers.add_node(make_node(name))
        made.handlers.add_pod(make_pod(name, namespace=f"ns{len(name)}"))
    nodes: list[str] = []
    pods: list[str] = []
    after, more = "", True
    while more:
        page, after = node_page(made.state, limit, after)
        assert page.total == count
        assert len(page.items) <= limit
        nodes += [line.node for line in page.items]
        more = bool(after)
    more = True
    while more:
        listed, after = pod_page(made, pending=True, leading=True, limit=limit, after=after)
        assert listed.total == count
        pods += [line.pod for line in listed.items]
        more = bool(after)
    assert nodes == sorted(names)
    assert pods == sorted(f"ns{len(name)}/{name}" for name in names)


def test_pending_pods_are_those_that_this_scheduler_has_to_place() -> None:
    made = scheduler()
    created = {"creationTimestamp": "2026-11-16T05:00:00Z"}
    refused = {
        "conditions": [
            {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}
        ]
    }
    made.handlers.add_pod(make_pod("there", node_name="n1", priority=7, metadata=created))
    made.handlers.add_pod(make_pod("here", priority=3, status=refused, metadata=created))
    made.handlers.add_pod(make_pod("other", spec={"schedulerName": "somebody"}))
    pending, _ = pod_page(made, pending=True, leading=True, limit=10)
    assert [line.pod for line in pending.items] == ["default/here"]
    everything, _ = pod_page(made, pending=False, leading=True, limit=10)
    assert [line.pod for line in everything.items] == [
        *("default/here", "default/other", "default/there")
    ]
    here, other, there = everything.items
    assert here == PodLine(
        *("default/here", "default/here", "active", 3, 0, 1e9, 1e9),
        "0/1 nodes are available",
        created=1794805200.0,
    )
    assert (other.state, other.message) == ("absent", "not in the queue of this scheduler")
    standing_by, _ = pod_page(made, pending=True, leading=False, limit=10)
    assert standing_by.items[0].state == "absent"
    assert (there.state, there.node, there.priority) == (PLACED, "n1", 7)
    assert there.added == there.created == pytest.approx(1794805200.0)


def test_a_refused_and_a_gated_pod_tell_who_is_against_them() -> None:
    made = scheduler()
    made.handlers.add_node(make_node("n1", cpu="1"))
    made.handlers.add_pod(make_pod("large", cpu="2"))
    made.handlers.add_pod(make_pod("gated", spec={"schedulingGates": [{"name": "later"}]}))
    while made.schedule_one():
        pass
    page, _ = pod_page(made, pending=True, leading=True, limit=10)
    gated, large = page.items
    assert (gated.state, gated.plugins, gated.next_retry) == ("gated", ("SchedulingGates",), None)
    assert (large.state, large.plugins) == ("unschedulable", ("NodeResourcesFit",))
    assert large.attempts == 1
    assert large.next_retry is not None
    assert large.next_retry >= 1e9 + 300


def test_thousands_of_nodes_and_tens_of_thousands_of_pods_are_listed_in_a_moment() -> None:
    made = scheduler()
    for index in range(5000):
        made.handlers.add_node(make_node(f"n{index}", zone=f"z{index % 3}"))
    pod = make_pod("p", node_name="n1", cpu="1m")
    lister = made.state.listers.of(Pod)
    for index in range(50_000):
        copy = make_pod(f"p{index}", node_name=f"n{index % 5000}") if index < 100 else pod
        lister.put(copy)
    started = time.perf_counter()
    page, _ = node_page(made.state, 10_000)
    assert len(page.items) == 5000
    pod_page(made, pending=True, leading=True, limit=100)
    # A tenth of it is usual.
    assert time.perf_counter() - started < 1.0
