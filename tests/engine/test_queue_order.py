"""The active queue, popping, and what is in flight (parity sections 1 and 2)."""

import logging

import pytest

from engine.queueing import Bench, ByName, gate, judge, profile
from moorage.engine.events import ASSIGNED_POD_DELETE, NODE_ADD
from moorage.errors import StateError
from moorage.framework.cluster_events import ActionType, EventResource, on
from moorage.log_fields import V
from moorage.testing.builders import make_node, make_pod

NODE_ADDED = on(EventResource.NODE, ActionType.ADD)


def names(bench: Bench) -> list[str]:
    popped: list[str] = []
    while (info := bench.queue.pop()) is not None:
        popped += (one.pod.name for one in info.infos)
    return popped


def test_higher_priority_goes_first_then_the_longest_waiting__qc_001() -> None:
    bench = Bench()
    for name, priority in (("first", 0), ("second", 0), ("urgent", 5), ("low", -1)):
        bench.pod(name, priority=priority)
        bench.clock.advance(1)
    assert names(bench) == ["urgent", "first", "second", "low"]


def test_the_first_profile_orders_the_pods_of_all_profiles__qc_001() -> None:
    bench = Bench(profile(name="one", queue_sort=ByName()), profile(name="two"))
    for name, scheduler in (("c", "one"), ("a", "two"), ("b", "one")):
        bench.pod(name, spec={"schedulerName": scheduler})
    assert names(bench) == ["a", "b", "c"]


def test_pods_that_nothing_tells_apart_keep_their_order() -> None:
    bench = Bench()
    for number in range(200):
        bench.pod(f"pod-{number}")
    assert names(bench) == [f"pod-{number}" for number in range(200)]


def test_an_empty_queue_gives_nothing_and_does_not_block__qc_013() -> None:
    bench = Bench()
    assert bench.queue.pop() is None
    assert bench.queue.next_wakeup() is None


def test_a_closed_queue_gives_nothing_and_ends_all_attempts__qc_013_qc_017() -> None:
    bench = Bench()
    bench.pod("a")
    bench.pod("b")
    bench.pop()
    bench.queue.close()
    assert bench.queue.pop() is None
    assert bench.queue.view.pending_pods().in_flight == ()


def test_a_new_pod_is_ready_and_counted_as_added__qc_010_qc_011() -> None:
    bench = Bench()
    bench.pod()
    info = bench.pop()
    assert (info.timestamp, info.initial_attempt_timestamp, info.attempts) == (100.0, 100.0, 1)
    assert bench.ledger.came == [("active", "UnscheduledPodAdd")]


def test_time_behind_a_gate_does_not_count_as_waiting__qc_011() -> None:
    closed = {"pod"}
    bench = Bench(profile(gate("Gate", lambda pod: pod.name in closed, NODE_ADDED)))
    bench.pod()
    closed.clear()
    bench.clock.advance(7)
    bench.queue.move_all_to_active_or_backoff(NODE_ADD, None, make_node())
    info = bench.pop()
    assert (info.timestamp, info.initial_attempt_timestamp) == (100.0, 107.0)


def test_the_first_attempt_is_never_dated_again__qc_011() -> None:
    bench = Bench()
    bench.pod()
    bench.clock.advance(3)
    bench.reject(bench.pop(), "Picky")
    bench.clock.advance(3)
    bench.queue.activate([make_pod()])
    assert bench.pop().initial_attempt_timestamp == 100.0


def test_popping_starts_an_attempt__qc_015() -> None:
    bench = Bench()
    bench.rejected("Picky", "Other")
    assert bench.ledger.reasons == {
        ("Picky", "default-scheduler"): 1,
        ("Other", "default-scheduler"): 1,
    }
    bench.queue.activate([make_pod()])
    info = bench.pop()
    assert info.attempts == 2
    assert bench.place() == "in flight"
    assert not +bench.ledger.reasons
    assert bench.ledger.in_flight["PodPopped"] == 1


def test_a_pod_that_is_in_flight_already_is_discarded_and_the_next_one_popped__qc_015(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench()
    bench.pod("twin")
    bench.pop()
    bench.pod("twin", priority=9)
    bench.pod("next")
    with caplog.at_level(logging.ERROR):
        assert bench.pop().pod.name == "next"
    assert "tracked in multiple places in the scheduler: default/twin" in caplog.text


def test_done_forgets_the_pod_and_the_events_only_it_could_ask_for__qc_016() -> None:
    bench = Bench(profile(judge("Picky", NODE_ADDED)))
    bench.pod("early")
    bench.pod("late")
    early = bench.pop()
    bench.queue.move_all_to_active_or_backoff(NODE_ADD, None, make_node("between"))
    late = bench.pop()
    bench.queue.move_all_to_active_or_backoff(NODE_ADD, None, make_node("after"))
    assert bench.ledger.in_flight == {"PodPopped": 2, "NodeAdd": 2}
    bench.queue.done(early.pod.uid)
    assert bench.ledger.in_flight == {"PodPopped": 1, "NodeAdd": 1}
    bench.queue.done(late.pod.uid)
    assert not +bench.ledger.in_flight
    bench.queue.done(late.pod.uid)
    assert not +bench.ledger.in_flight


def test_done_keeps_the_events_that_an_older_pod_may_ask_for__qc_016() -> None:
    bench = Bench(profile(judge("Picky", NODE_ADDED)))
    bench.pod("early")
    bench.pod("late")
    early, late = bench.pop(), bench.pop()
    bench.queue.move_all_to_active_or_backoff(NODE_ADD, None, make_node())
    bench.queue.done(late.pod.uid)
    bench.reject(early, "Picky")
    assert bench.place("early") == "backoff"


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("unschedulable", "Pod default/pod is already present in unschedulable queue"),
        ("active", "Pod default/pod is already present in the active queue"),
        ("backoff", "Pod default/pod is already present in the backoff queue"),
    ],
)
def test_a_pod_that_waits_already_cannot_be_added_as_unschedulable__qc_018(
    place: str, message: str
) -> None:
    bench = Bench()
    info = bench.rejected("Picky") if place == "unschedulable" else bench.rejected()
    if place == "active":
        bench.queue.activate([info.pod])
    assert bench.place() == place
    with pytest.raises(StateError, match=message):
        bench.queue.add_unschedulable_if_not_present(info)


def test_an_attempt_ends_even_if_the_pod_cannot_be_taken_back__qc_017() -> None:
    bench = Bench()
    bench.pod()
    info = bench.pop()
    bench.pod()
    with pytest.raises(StateError, match="already present in the active queue"):
        bench.queue.add_unschedulable_if_not_present(info)
    assert bench.queue.view.pending_pods().in_flight == ()


def test_a_rejection_counts_as_one_and_ends_a_row_of_errors__qc_019() -> None:
    bench = Bench()
    info = bench.rejected()
    assert (info.unschedulable_count, info.consecutive_errors_count) == (0, 1)
    info.flush_timestamp = 90.0
    bench.queue.activate([info.pod])
    bench.clock.advance(4)
    bench.reject(bench.pop(), "Picky")
    assert (info.unschedulable_count, info.consecutive_errors_count) == (1, 0)
    assert info.timestamp == 104.0
    assert info.flush_timestamp is None


@pytest.mark.parametrize(
    ("plugins", "pending", "place"),
    [
        pytest.param((), (), "backoff", id="QC_021 an error waits out its back-off"),
        pytest.param(("Picky",), (), "unschedulable", id="QC_020 a rejection waits for an event"),
        pytest.param((), ("Picky",), "unschedulable", id="QC_020 pending waits for an event"),
    ],
)
def test_where_a_pod_goes_after_a_failed_attempt(
    plugins: tuple[str, ...], pending: tuple[str, ...], place: str
) -> None:
    bench = Bench()
    bench.pod()
    bench.reject(bench.pop(), *plugins, pending=pending)
    assert bench.place() == place
    assert bench.ledger.came[-1] == (place, "ScheduleAttemptFailure")


def test_what_waits_where_can_be_seen__qc_031() -> None:
    bench = Bench(profile(judge("Picky"), gate("Gate", lambda pod: pod.name == "gated")))
    bench.rejected("Picky", name="rejected")
    bench.rejected(name="broken")
    for name in ("flying", "ready", "gated"):
        bench.pod(name)
    bench.pop()
    pending = bench.queue.view.pending_pods()
    assert pending.summary == "activeQ:1; backoffQ:1; unschedulableEntities:2"
    assert [pod.name for pod in pending.pods] == ["ready", "broken", "rejected", "gated"]
    assert [pod.name for pod in pending.in_flight] == ["flying"]
    assert [pod.name for pod in pending.gated] == ["gated"]
    assert +bench.ledger.pending == {"active": 1, "backoff": 1, "unschedulable": 1, "gated": 1}
    assert bench.queue.view.find(make_pod("broken")) is not None
    assert bench.queue.view.find(make_pod("flying")) is None


def test_the_log_names_the_queues_as_upstream_does__qc_030(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench(profile(judge("Picky"), gate("Gate", lambda pod: pod.name == "gated")))
    with caplog.at_level(V(5)):
        bench.rejected(name="broken")
        bench.pod("gated")
    for place in ("Active", "Backoff", "Unschedulable"):
        assert f'queue="{place}"' in caplog.text


def test_an_attempt_that_fails_after_its_end_was_told_waits_out_a_back_off__qc_130(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench(profile(judge("Picky", NODE_ADDED)))
    bench.pod()
    info = bench.pop()
    bench.queue.done(info.pod.uid)
    bench.queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, make_pod(), None)
    bench.reject(info, "Picky")
    assert bench.place() == "backoff"
    assert '"Error getting cluster events for pod"' in caplog.text
