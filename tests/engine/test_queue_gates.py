"""PreEnqueue: pods that are kept out of the queue (parity section 3, and QC-005, QC-029)."""

import logging

import pytest

from engine.queueing import Bench, Gate, gate, judge, profile
from moorage.engine.events import NODE_ADD, NODE_DELETE, UNSCHEDULABLE_TIMEOUT
from moorage.framework.cluster_events import ActionType, EventResource, on
from moorage.framework.status import Code, Status
from moorage.model.pod import Pod
from moorage.plugins.scheduling_gates import SchedulingGates
from moorage.testing.builders import make_node, make_pod

NODE_ADDED = on(EventResource.NODE, ActionType.ADD)


def test_a_pod_that_is_kept_out_waits_in_the_pool__qc_005_qc_010_qc_034() -> None:
    bench = Bench(profile(gate("Gate", lambda pod: True)))
    bench.pod()
    info = bench.queue.view.find(make_pod("pod"))
    assert info is not None
    assert (info.gated, info.gating_plugin) == (True, "Gate")
    assert info.unschedulable_plugins == {"Gate"}
    assert info.initial_attempt_timestamp is None
    assert bench.place() == "gated"
    assert bench.ledger.came == [("unschedulable", "UnscheduledPodAdd")]
    assert bench.ledger.pending == {"gated": 1}
    assert bench.queue.pop() is None


def test_the_first_refusal_is_enough__qc_033() -> None:
    gates = [gate(name, lambda pod: True) for name in ("One", "Two")]
    Bench(profile(*gates)).pod()
    assert [one.asked for one in gates] == [["pod"], []]


def test_whoever_refused_last_is_asked_first__qc_033() -> None:
    opened = False
    asked: list[str] = []

    def keeps_out(name: str, closed: bool) -> Gate:
        def answer(pod: Pod) -> bool:
            asked.append(name)
            return closed and not opened

        return gate(name, answer, NODE_ADDED)

    bench = Bench(profile(keeps_out("One", False), keeps_out("Two", True), keeps_out("Six", False)))
    bench.pod()
    assert asked == ["One", "Two"]
    asked.clear()
    bench.queue.move_all_to_active_or_backoff(NODE_ADD, None, make_node())
    assert asked == ["Two"]
    asked.clear()
    opened = True
    bench.queue.move_all_to_active_or_backoff(NODE_ADD, None, make_node())
    assert asked == ["Two", "One", "Six"]
    assert bench.place() == "active"


def test_a_reason_is_counted_once_per_plugin__qc_034() -> None:
    bench = Bench(profile(gate("Gate", lambda pod: True, NODE_ADDED)))
    bench.pod()
    bench.queue.move_all_to_active_or_backoff(NODE_ADD, None, make_node())
    assert bench.ledger.reasons == {("Gate", "default-scheduler"): 1}
    assert bench.ledger.pending["gated"] == 1


@pytest.mark.parametrize("raises", [True, False])
def test_a_plugin_that_fails_keeps_the_pod_out_and_is_reported__qc_035(
    raises: bool, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Gate):
        name = "Broken"

        def pre_enqueue(self, pod: Pod) -> Status | None:
            if raises:
                raise ValueError("out of order")
            return Status(Code.ERROR, ("out of order",))

    bench = Bench(profile(Broken(lambda pod: False, ())))
    bench.pod()
    assert bench.place() == "gated"
    assert '"Unexpected error running PreEnqueue plugin" err=' in caplog.text
    assert 'pod="default/pod" plugin="Broken"' in caplog.text
    assert "out of order" in caplog.text
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert bench.ledger.gates == [("Broken", "default-scheduler", "Error")]


def test_an_explicit_success_lets_the_pod_in__qc_036() -> None:
    class Polite(Gate):
        name = "Polite"

        def pre_enqueue(self, pod: Pod) -> Status | None:
            return Status(Code.SUCCESS)

    bench = Bench(profile(Polite(lambda pod: False, ())))
    bench.pod()
    assert bench.pop().gating_plugin == ""


def test_the_gate_is_asked_on_the_way_to_back_off_and_not_again_on_the_way_out__qc_032() -> None:
    closed = False
    guard = gate("Gate", lambda pod: closed)
    bench = Bench(profile(guard, judge("Picky", NODE_ADDED)))
    bench.rejected("Picky")
    assert guard.asked == ["pod"]
    bench.queue.move_all_to_active_or_backoff(NODE_ADD, None, make_node())
    assert guard.asked == ["pod", "pod"]
    closed = True
    bench.pass_time(5)
    assert bench.place() == "active"
    assert guard.asked == ["pod", "pod"]


def test_the_gate_can_close_on_the_way_to_back_off__qc_032() -> None:
    closed = False
    bench = Bench(profile(gate("Gate", lambda pod: closed), judge("Picky", NODE_ADDED)))
    bench.rejected("Picky")
    closed = True
    bench.queue.move_all_to_active_or_backoff(NODE_ADD, None, make_node())
    assert bench.place() == "gated"
    assert +bench.ledger.pending == {"gated": 1}
    assert bench.ledger.reasons[("Gate", "default-scheduler")] == 1


def test_without_early_pops_the_gate_is_asked_when_back_off_ends__qc_032() -> None:
    closed = False
    guard = gate("Gate", lambda pod: closed)
    bench = Bench(profile(guard, judge("Picky", NODE_ADDED)), pop_from_backoff=False)
    bench.rejected("Picky")
    bench.queue.move_all_to_active_or_backoff(NODE_ADD, None, make_node())
    assert (bench.place(), guard.asked) == ("backoff", ["pod"])
    closed = True
    bench.pass_time(5)
    assert (bench.place(), guard.asked) == ("gated", ["pod", "pod"])


def test_a_gated_pod_is_touched_only_by_events_of_the_plugin_that_gates_it__qc_029() -> None:
    guard = gate("Gate", lambda pod: True, NODE_ADDED)
    bench = Bench(profile(guard, judge("Picky", on(EventResource.NODE, ActionType.DELETE))))
    bench.pod()
    info = bench.queue.view.find(make_pod("pod"))
    assert info is not None
    info.unschedulable_plugins.add("Picky")
    guard.asked.clear()
    bench.queue.move_all_to_active_or_backoff(NODE_DELETE, make_node(), None)
    assert guard.asked == []
    bench.queue.move_all_to_active_or_backoff(NODE_ADD, None, make_node())
    assert guard.asked == ["pod"]


def test_a_wildcard_touches_gated_pods_too__qc_029_qc_051() -> None:
    guard = gate("Gate", lambda pod: True)
    bench = Bench(profile(guard))
    bench.pod()
    guard.asked.clear()
    bench.queue.move_all_to_active_or_backoff(UNSCHEDULABLE_TIMEOUT, None, None)
    assert guard.asked == ["pod"]
    assert bench.place() == "gated"
    assert bench.ledger.came[-1] == ("unschedulable", "UnschedulableTimeout")


def test_a_pod_without_gates_left_becomes_ready_at_once__qc_023_qc_037() -> None:
    bench = Bench(profile(SchedulingGates.__new__(SchedulingGates)))
    old = bench.pod(spec={"schedulingGates": [{"name": "a"}, {"name": "b"}]})
    fewer = make_pod(spec={"schedulingGates": [{"name": "b"}]})
    bench.queue.update(old, fewer)
    assert bench.place() == "gated"
    bench.queue.update(fewer, make_pod())
    assert bench.place() == "active"
    assert bench.ledger.came[-1] == (
        "active",
        "TargetPodUpdatePodSchedulingGatesEliminated",
    )
    assert +bench.ledger.pending == {"active": 1}


def test_a_ready_pod_with_the_same_name_is_not_pushed_out_by_a_gated_one() -> None:
    closed = False
    bench = Bench(profile(gate("Gate", lambda pod: closed)))
    bench.pod()
    closed = True
    bench.pod()
    assert bench.place() == "active"


def test_the_gate_of_another_profile_is_not_asked() -> None:
    strict = profile(gate("Gate", lambda pod: True), name="strict")
    bench = Bench(profile(judge("Picky")), strict)
    bench.pod("free")
    bench.pod("held", spec={"schedulerName": "strict"})
    assert (bench.place("free"), bench.place("held")) == ("active", "gated")
