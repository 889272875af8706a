"""What happens in the cluster while a pod is being tried (QC-063)."""

import pytest

from engine.queueing import Bench, judge, profile
from moorage.engine.events import NODE_ADD
from moorage.framework.cluster_events import ActionType, EventResource, on
from moorage.model.meta import ApiObject
from moorage.model.pod import Pod
from moorage.testing.builders import make_node


def test_events_during_an_attempt_are_judged_when_it_ends__qc_063() -> None:
    bench = Bench(profile(judge("Picky", on(EventResource.NODE, ActionType.ADD))))
    bench.pod()
    info = bench.pop()
    bench.queue.move_all_to_active_or_backoff(NODE_ADD, None, make_node())
    assert bench.ledger.hints == []
    bench.reject(info, "Picky")
    assert bench.place() == "backoff"
    assert bench.ledger.hints == [("Picky", "NodeAdd", "Queue")]


def test_events_from_before_an_attempt_do_not_count__qc_063() -> None:
    bench = Bench(profile(judge("Picky", on(EventResource.NODE, ActionType.ADD))))
    bench.pod("older")
    bench.pod("newer")
    bench.pop()
    bench.queue.move_all_to_active_or_backoff(NODE_ADD, None, make_node())
    bench.reject(bench.pop(), "Picky")
    assert bench.place("newer") == "unschedulable"


@pytest.mark.parametrize(
    ("answers", "pending", "asked", "place"),
    [
        pytest.param("sqq", False, 2, "backoff", id="the first yes settles it"),
        pytest.param("sss", False, 3, "unschedulable", id="all say no"),
        pytest.param("ssq", True, 3, "active", id="pending: yes at last"),
        pytest.param("sqs", True, 2, "active", id="pending: the first yes settles it"),
    ],
)
def test_events_are_replayed_in_order_until_one_settles_it__qc_063(
    answers: str, pending: bool, asked: int, place: str
) -> None:
    replies = iter(answers)

    def hint(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> bool:
        return next(replies) == "q"

    bench = Bench(profile(judge("Picky", on(EventResource.NODE, ActionType.ADD, hint))))
    bench.pod()
    info = bench.pop()
    for _ in answers:
        bench.queue.move_all_to_active_or_backoff(NODE_ADD, None, make_node())
    if pending:
        bench.reject(info, pending=["Picky"])
    else:
        bench.reject(info, "Picky")
    assert bench.place() == place
    assert len(bench.ledger.hints) == asked


def test_an_error_comes_back_after_its_back_off_without_asking__qc_021_qc_055() -> None:
    bench = Bench(profile(judge("Picky", on(EventResource.NODE, ActionType.ADD))))
    bench.pod()
    info = bench.pop()
    bench.queue.move_all_to_active_or_backoff(NODE_ADD, None, make_node())
    bench.reject(info)
    assert bench.place() == "backoff"
    assert bench.ledger.hints == []
