"""Updates, deletions and activations of waiting pods (parity section 2)."""

import pytest

from engine.queueing import Bench, gate, judge, profile
from moorage.engine.events import NODE_ADD
from moorage.framework.cluster_events import ActionType, EventResource, on
from moorage.testing.builders import make_node, make_pod

NODE_ADDED = on(EventResource.NODE, ActionType.ADD)


def test_an_update_reaches_a_ready_pod_where_it_stands__qc_023() -> None:
    bench = Bench()
    bench.pod("a")
    old = bench.pod("b")
    bench.queue.update(old, make_pod("b", priority=3))
    assert [(pod.name, pod.priority) for pod in bench.queue.view.pending_pods().active] == [
        ("b", 3),
        ("a", 0),
    ]
    assert bench.ledger.pending["active"] == 2


def test_an_update_reorders_pods_in_back_off__qc_023() -> None:
    bench = Bench(profile(judge("Picky", NODE_ADDED)))
    for name in ("a", "b"):
        bench.rejected("Picky", name=name)
    bench.queue.move_all_to_active_or_backoff(NODE_ADD, None, make_node())
    assert bench.place("b") == "backoff"
    bench.queue.update(make_pod("b"), make_pod("b", priority=3))
    assert [bench.pop().pod.name for _ in range(2)] == ["b", "a"]


def test_an_update_reaches_a_pod_in_error_back_off__qc_023() -> None:
    bench = Bench()
    info = bench.rejected()
    bench.queue.update(info.pod, make_pod(labels={"new": "yes"}))
    assert bench.place() == "backoff"
    assert info.pod.labels == {"new": "yes"}


def test_an_update_may_wake_the_pod_itself__qc_023() -> None:
    seen = []

    def hint(pod: object, old: object, new: object) -> bool:
        seen.append((pod, old, new))
        return True

    bench = Bench(profile(judge("Picky", on(EventResource.POD, ActionType.UPDATE_POD_LABEL, hint))))
    info = bench.rejected("Picky")
    old, new = info.pod, make_pod(labels={"new": "yes"})
    bench.queue.update(old, new)
    assert bench.place() == "backoff"
    assert seen == [(new, old, new)]
    assert bench.ledger.came[-1] == ("backoff", "TargetPodUpdatePodLabel")


def test_an_update_that_helps_nobody_only_replaces_the_object__qc_023() -> None:
    bench = Bench(profile(judge("Picky", NODE_ADDED)))
    info = bench.rejected("Picky")
    new = make_pod(labels={"new": "yes"})
    incoming = len(bench.ledger.came)
    bench.queue.update(info.pod, new)
    assert bench.place() == "unschedulable"
    assert info.pod is new
    assert len(bench.ledger.came) == incoming


def test_the_first_change_that_helps_ends_the_search__qc_023() -> None:
    bench = Bench(
        profile(
            judge(
                "Picky",
                on(EventResource.POD, ActionType.UPDATE_POD_LABEL),
                on(EventResource.POD, ActionType.UPDATE_POD_TOLERATION),
            )
        )
    )
    info = bench.rejected("Picky")
    new = make_pod(labels={"a": "b"}, spec={"tolerations": [{"operator": "Exists"}]})
    bench.queue.update(info.pod, new)
    assert bench.place() == "backoff"
    assert bench.ledger.hints == [("Picky", "TargetPodUpdatePodLabel", "Queue")]


def test_an_update_in_flight_is_kept_for_when_the_pod_comes_back__qc_023() -> None:
    bench = Bench(profile(judge("Picky", on(EventResource.POD, ActionType.UPDATE_POD_LABEL))))
    old = bench.pod()
    info = bench.pop()
    new = make_pod(labels={"new": "yes"})
    bench.queue.update(old, new)
    assert bench.place() == "in flight"
    info.pod = new
    bench.reject(info, "Picky")
    assert bench.place() == "backoff"


def test_an_update_of_an_unknown_pod_adds_it__qc_023() -> None:
    bench = Bench()
    bench.queue.update(make_pod(), make_pod(labels={"new": "yes"}))
    assert bench.place() == "active"
    assert bench.ledger.came == [("active", "UnscheduledPodAdd")]


@pytest.mark.parametrize("place", ["active", "backoff", "unschedulable", "gated"])
def test_a_deleted_pod_is_gone_wherever_it_was__qc_025(place: str) -> None:
    bench = Bench(profile(judge("Picky"), gate("Gate", lambda pod: place == "gated")))
    if place in ("active", "gated"):
        bench.pod()
    else:
        bench.rejected(*(["Picky"] if place == "unschedulable" else []))
    assert bench.place() == place
    bench.queue.delete(make_pod())
    assert bench.place() == "nowhere"
    assert not +bench.ledger.pending
    assert not +bench.ledger.reasons
    assert bench.queue.pop() is None


def test_deleting_a_pod_in_flight_leaves_the_attempt_alone__qc_025() -> None:
    bench = Bench()
    pod = bench.pod()
    bench.pop()
    bench.queue.delete(pod)
    assert bench.place() == "in flight"


@pytest.mark.parametrize("plugins", [(), ("Picky",)])
def test_activating_makes_a_pod_ready_at_once__qc_026(plugins: tuple[str, ...]) -> None:
    bench = Bench()
    bench.rejected(*plugins)
    bench.queue.activate([make_pod()])
    assert bench.place() == "active"
    assert bench.ledger.came[-1] == ("active", "ForceActivate")


def test_activating_asks_the_gate_unless_the_pod_was_in_back_off__qc_026() -> None:
    closed = False
    guard = gate("Gate", lambda pod: closed)
    bench = Bench(profile(guard, judge("Picky")))
    bench.rejected("Picky", name="pool")
    bench.rejected(name="backoff")
    closed = True
    guard.asked.clear()
    bench.queue.activate([make_pod("pool"), make_pod("backoff"), make_pod("unknown")])
    assert guard.asked == ["pool"]
    assert (bench.place("pool"), bench.place("backoff")) == ("gated", "active")
    assert bench.place("unknown") == "nowhere"


def test_activating_a_pod_in_flight_brings_it_back_whoever_rejects_it__qc_026_qc_053() -> None:
    bench = Bench()
    for name in ("meant", "other"):
        bench.pod(name)
    meant, other = bench.pop(), bench.pop()
    bench.queue.activate([make_pod("meant")])
    assert bench.ledger.in_flight["ForceActivate"] == 1
    bench.reject(meant, "Picky")
    bench.reject(other, "Picky")
    assert (bench.place("meant"), bench.place("other")) == ("backoff", "unschedulable")
