"""Nominated pods (parity section 8)."""

from typing import Any

from engine.queueing import Bench, gate, judge, profile
from moorage.cluster.view import NodeView
from moorage.engine.queue.nominated import NominatedPods
from moorage.framework.cluster_events import ActionType, EventResource, on
from moorage.model.pod import Pod
from moorage.testing.builders import cluster, make_node, make_pod


def nominee(node_name: str = "quay", **fields: Any) -> Pod:
    return make_pod(status={"nominatedNodeName": node_name}, **fields)


def on_node(nominated: NominatedPods, node_name: str = "quay") -> list[str]:
    return [pod.name for pod in nominated.on_node(node_name)]


def test_a_new_promise_replaces_the_old_one__qc_073() -> None:
    nominated = NominatedPods()
    pod = make_pod()
    nominated.add(pod, "quay")
    nominated.add(pod, "pier")
    assert (on_node(nominated), on_node(nominated, "pier")) == ([], ["pod"])
    assert nominated.node_of(pod) == "pier"


def test_without_a_name_the_status_tells_the_node__qc_073() -> None:
    nominated = NominatedPods()
    nominated.add(nominee())
    assert on_node(nominated) == ["pod"]
    nominated.add(make_pod())
    assert on_node(nominated) == []


def test_an_empty_name_takes_the_promise_back__qc_075() -> None:
    nominated = NominatedPods()
    nominated.add(nominee())
    nominated.add(nominee(), "")
    assert on_node(nominated) == []
    assert nominated.node_of(make_pod()) is None


def test_pods_that_are_gone_or_placed_are_not_nominated__qc_074() -> None:
    known = {"placed": make_pod("placed", node_name="pier"), "waiting": make_pod("waiting")}
    nominated = NominatedPods(lambda pod: known.get(pod.name))
    for name in ("placed", "waiting", "gone"):
        nominated.add(make_pod(name), "quay")
    assert on_node(nominated) == ["waiting"]


def test_a_promise_the_api_has_not_heard_of_survives_an_update__qc_076() -> None:
    nominated = NominatedPods()
    nominated.add(make_pod(), "quay")
    new = make_pod(labels={"new": "yes"})
    nominated.update(make_pod(), new)
    assert nominated.on_node("quay") == (new,)


def test_an_update_that_adds_moves_or_removes_the_nomination_is_followed__qc_076() -> None:
    nominated = NominatedPods()
    nominated.update(make_pod(), nominee("quay"))
    assert on_node(nominated, "quay") == ["pod"]
    nominated.update(nominee("quay"), nominee("pier"))
    assert (on_node(nominated, "quay"), on_node(nominated, "pier")) == ([], ["pod"])
    nominated.update(nominee("pier"), make_pod())
    assert on_node(nominated, "pier") == []


def test_a_new_pod_is_nominated_as_its_status_says__qc_012() -> None:
    bench = Bench()
    bench.queue.add(nominee())
    assert on_node(bench.nominated) == ["pod"]


def test_an_unknown_updated_pod_is_nominated_as_its_status_says__qc_012() -> None:
    bench = Bench()
    bench.queue.update(make_pod(), nominee())
    assert on_node(bench.nominated) == ["pod"]


def test_updates_of_waiting_pods_reach_their_nominations__qc_012_qc_076() -> None:
    bench = Bench()
    bench.rejected(name="backoff")
    bench.rejected("Picky", name="pool")
    bench.pod("active")
    for name in ("active", "backoff", "pool"):
        bench.queue.update(make_pod(name), nominee(name=name))
    assert on_node(bench.nominated) == ["active", "backoff", "pool"]


def test_a_plain_update_that_wakes_the_pod_leaves_its_nomination_alone__qc_012() -> None:
    bench = Bench(profile(judge("Picky", on(EventResource.POD, ActionType.UPDATE))))
    info = bench.rejected("Picky")
    bench.nominated.add(info.pod, "quay")
    bench.clock.advance(5)
    bench.queue.update(info.pod, make_pod(metadata={"annotations": {"a": "b"}}))
    assert bench.place() == "active"
    assert on_node(bench.nominated) == ["pod"]


def test_a_gated_pod_is_nominated_too__qc_012() -> None:
    bench = Bench(profile(gate("Gate", lambda pod: True)))
    bench.queue.add(nominee())
    assert bench.place() == "gated"
    assert on_node(bench.nominated) == ["pod"]


def test_an_event_that_wakes_the_pod_leaves_its_nomination_alone__qc_012() -> None:
    bench = Bench()
    info = bench.rejected("Picky")
    bench.nominated.add(info.pod, "quay")
    bench.queue.activate([info.pod])
    assert on_node(bench.nominated) == ["pod"]


def test_a_deleted_pod_is_nominated_no_more__qc_077() -> None:
    bench = Bench()
    bench.queue.add(nominee())
    bench.queue.delete(nominee())
    assert on_node(bench.nominated) == []


def test_a_pod_makes_way_for_nominated_pods_of_its_priority_or_more__qc_078() -> None:
    nodes = NodeView(cluster([make_node("quay"), make_node("pier")]))
    nominated = NominatedPods()
    for name, priority in (("less", 1), ("equal", 2), ("more", 3)):
        nominated.add(make_pod(name, priority=priority), "quay")
    nominated.add(make_pod("elsewhere", priority=9), "gone")
    ahead = nominated.ahead_of(make_pod("me", priority=2), nodes)
    row = nodes.row_of("quay")
    assert row is not None
    assert {key: [pod.name for pod in pods] for key, pods in ahead.items()} == {
        row: ["equal", "more"]
    }
    assert nominated.ahead_of(make_pod("more", priority=3), nodes) == {}
