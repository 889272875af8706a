"""Back-off and the unschedulable timeout, second by second (parity sections 4 and 5)."""

from typing import Any

import pytest

from engine.queueing import Bench, gate, judge, profile
from moorage.engine.clock import Ticker
from moorage.engine.events import NODE_ADD
from moorage.framework.cluster_events import ActionType, EventResource, on
from moorage.testing.builders import make_node, make_pod

NODE_ADDED = on(EventResource.NODE, ActionType.ADD)


def wake_all(bench: Bench) -> None:
    bench.queue.move_all_to_active_or_backoff(NODE_ADD, None, make_node())


def picky(**options: Any) -> Bench:
    return Bench(profile(judge("Picky", NODE_ADDED)), **options)


def failed_again(bench: Bench, *plugins: str) -> None:
    bench.reject(bench.pop_specific(), *plugins)


@pytest.mark.parametrize("plugins", [("Picky",), ()], ids=["rejections", "errors"])
def test_back_off_doubles_up_to_its_limit__qc_041_qc_042(plugins: tuple[str, ...]) -> None:
    bench = picky()
    info = bench.rejected(*plugins)
    seconds = []
    for _ in range(70):
        seconds.append(bench.queue._backoff.expiration(info) - 100)
        failed_again(bench, *plugins)
    assert seconds == [1, 2, 4, 8] + [10] * 66


def test_back_off_is_set_by_the_configuration__qc_041() -> None:
    bench = picky(initial_backoff_seconds=3, max_backoff_seconds=7)
    info = bench.rejected("Picky")
    seconds = []
    for _ in range(3):
        seconds.append(bench.queue._backoff.expiration(info) - 100)
        failed_again(bench, "Picky")
    assert seconds == [3, 6, 7]


def test_errors_in_a_row_count_instead_of_rejections__qc_039() -> None:
    bench = picky()
    info = bench.rejected("Picky")
    for plugins, end in ((["Picky"], 2), ([], 1), ([], 2), (["Picky"], 4), ([], 1)):
        failed_again(bench, *plugins)
        assert bench.queue._backoff.expiration(info) == 100 + end


def test_a_pod_that_never_failed_does_not_back_off__qc_040() -> None:
    closed = True
    bench = Bench(profile(gate("Gate", lambda pod: closed, NODE_ADDED)), start=0.0)
    bench.pod()
    closed = False
    wake_all(bench)
    assert bench.place() == "active"


def test_a_limit_of_zero_turns_back_off_off__qc_043() -> None:
    bench = picky(max_backoff_seconds=0, start=0.0)
    bench.rejected("Picky")
    wake_all(bench)
    assert bench.place() == "active"


@pytest.mark.parametrize(
    ("failed_at", "ready_at"), [(100.0, 102.0), (100.4, 102.0), (100.999, 102.0), (101.0, 103.0)]
)
def test_one_second_of_back_off_lasts_until_the_second_after_it__qc_044_qc_045_qc_046(
    failed_at: float, ready_at: float
) -> None:
    bench = picky(start=failed_at)
    bench.rejected("Picky")
    wake_all(bench)
    assert bench.place() == "backoff"
    assert bench.queue.next_wakeup() == ready_at
    bench.pass_time(ready_at - failed_at - 0.001)
    assert bench.place() == "backoff"
    bench.clock.advance(ready_at - bench.clock.now())
    bench.queue.run_timers(bench.clock.now())
    assert bench.place() == "active"
    assert bench.ledger.came[-1] == ("active", "BackoffComplete")


def test_a_pod_woken_after_its_back_off_is_ready_at_once__qc_020_qc_045() -> None:
    bench = picky()
    bench.rejected("Picky")
    bench.clock.advance(1.9)
    wake_all(bench)
    assert bench.place() == "backoff"
    bench = picky()
    bench.rejected("Picky")
    bench.clock.advance(2.0)
    wake_all(bench)
    assert bench.place() == "active"


def test_without_early_pops_flushes_come_every_second_from_the_start__qc_046() -> None:
    bench = picky(pop_from_backoff=False, start=100.5)
    bench.rejected("Picky")
    wake_all(bench)
    assert bench.queue.next_wakeup() == 102.5
    for _ in range(7):
        bench.pass_time(0.25)
        assert bench.place() == "backoff"
    bench.pass_time(0.25)
    assert bench.place() == "active"


def test_without_early_pops_back_off_is_exact__qc_045() -> None:
    bench = picky(pop_from_backoff=False, start=100.5)
    bench.rejected("Picky")
    bench.clock.advance(1.0)
    wake_all(bench)
    assert bench.place() == "backoff"
    bench = picky(pop_from_backoff=False, start=100.5)
    bench.rejected("Picky")
    bench.clock.advance(1.25)
    wake_all(bench)
    assert bench.place() == "active"


def test_errors_and_rejections_leave_back_off_together__qc_003_qc_046() -> None:
    bench = picky()
    bench.rejected("Picky", name="rejected")
    wake_all(bench)
    bench.rejected(name="broken")
    assert [pod.name for pod in bench.queue.view.pending_pods().backoff] == ["rejected", "broken"]
    bench.pass_time(2)
    assert (bench.place("rejected"), bench.place("broken")) == ("active", "active")


def test_an_idle_scheduler_takes_rejected_pods_early__qc_014() -> None:
    bench = picky()
    bench.rejected("Picky")
    wake_all(bench)
    assert bench.pop().pod.name == "pod"
    assert bench.ledger.came[-1] == ("active", "PopFromBackoffQ")
    assert bench.ledger.pending["backoff"] == 0


def test_a_ready_pod_goes_before_one_in_back_off__qc_014() -> None:
    bench = picky()
    bench.rejected("Picky", name="urgent", priority=9)
    wake_all(bench)
    bench.pod("ready")
    assert bench.pop().pod.name == "ready"
    assert bench.pop().pod.name == "urgent"


def test_pods_that_broke_are_never_taken_early__qc_003() -> None:
    bench = picky()
    bench.rejected()
    assert bench.queue.pop() is None
    assert bench.queue.next_wakeup() == 102.0


def test_early_pops_can_be_turned_off__qc_014() -> None:
    bench = picky(pop_from_backoff=False)
    bench.rejected("Picky")
    wake_all(bench)
    assert bench.queue.pop() is None


def test_within_one_second_back_off_keeps_the_order_of_the_queue__qc_002() -> None:
    bench = picky(start=100.0)
    for name, priority in (("low", 0), ("high", 5)):
        bench.rejected("Picky", name=name, priority=priority)
        bench.clock.advance(0.4)
    bench.clock.advance(0.4)
    bench.rejected("Picky", name="later", priority=9)
    wake_all(bench)
    assert [bench.pop().pod.name for _ in range(3)] == ["high", "low", "later"]


def test_a_plugin_that_was_pending_spares_its_pod_the_back_off__qc_047() -> None:
    bench = picky()
    bench.pod()
    bench.reject(bench.pop(), pending=["Picky"])
    wake_all(bench)
    assert bench.place() == "active"
    assert bench.ledger.came[-1] == ("active", "NodeAdd")


def test_a_pod_left_alone_for_too_long_is_tried_again__qc_048_qc_049_qc_050() -> None:
    bench = Bench()
    info = bench.rejected("Picky")
    bench.queue.run_timers()
    for _ in range(10):
        bench.pass_time(30)
    assert bench.clock.now() == 400.0
    assert bench.place() == "unschedulable"
    bench.pass_time(29)
    assert bench.place() == "unschedulable"
    bench.pass_time(1)
    assert bench.place() == "active"
    assert bench.ledger.came[-1] == ("active", "UnschedulableTimeout")
    assert info.flush_timestamp == 430.0


def test_how_long_is_too_long_can_be_set__qc_049() -> None:
    bench = Bench(max_in_unschedulable_seconds=20)
    bench.rejected("Picky")
    bench.pass_time(20)
    assert bench.place() == "unschedulable"
    assert bench.queue.next_wakeup() == 130.0
    bench.pass_time(10)
    assert bench.place() == "active"


def test_the_timeout_respects_back_off__qc_050() -> None:
    bench = Bench(max_in_unschedulable_seconds=1)
    bench.rejected("Picky")
    for _ in range(4):
        failed_again(bench, "Picky")
    bench.clock.advance(5)
    bench.queue.flush_unschedulable_leftover()
    assert bench.place() == "backoff"
    assert bench.ledger.came[-1] == ("backoff", "UnschedulableTimeout")


def test_the_timeout_asks_gates_again_and_then_waits_as_long__qc_049_qc_051() -> None:
    guard = gate("Gate", lambda pod: True)
    bench = Bench(profile(guard))
    bench.pod()
    info = bench.queue.view.find(make_pod("pod"))
    assert info is not None
    asked_at = []
    for _ in range(40):
        guard.asked.clear()
        bench.pass_time(30)
        if guard.asked:
            asked_at.append(bench.clock.now() - 100)
    assert asked_at == [330, 660, 990]
    assert bench.place() == "gated"


def test_the_timeout_also_concerns_pods_in_flight__qc_050_qc_063() -> None:
    bench = Bench()
    bench.rejected("Picky", name="waiting")
    bench.pod("flying")
    flying = bench.pop()
    bench.pass_time(330)
    bench.reject(flying, "Picky")
    assert bench.place("flying") == "backoff"


def test_only_a_timeout_that_moves_a_pod_is_remembered__qc_064() -> None:
    bench = Bench()
    bench.pod("flying")
    bench.pop()
    bench.pass_time(330)
    assert bench.ledger.in_flight == {"PodPopped": 1}


def test_the_next_wake_up_is_when_something_may_change() -> None:
    bench = picky()
    assert bench.queue.next_wakeup() is None
    bench.queue.run_timers()
    bench.rejected("Picky", name="waiting")
    assert bench.queue.next_wakeup() == 130.0
    bench.rejected(name="broken")
    assert bench.queue.next_wakeup() == 102.0
    bench.pass_time(2)
    assert bench.place("broken") == "active"
    assert bench.queue.next_wakeup() == 130.0
    bench.queue.delete(make_pod("waiting"))
    assert bench.queue.next_wakeup() is None


def test_a_tick_that_was_missed_is_made_up_for_once() -> None:
    ticker = Ticker(10.0, 30.0)
    assert not ticker.due(9.9)
    assert ticker.due(105.0)
    assert not ticker.due(105.0)
    assert ticker.next == 130.0
    assert ticker.due(130.0)
