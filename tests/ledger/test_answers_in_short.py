"""What live plugins tell is recorded as they told it: until they fall silent, and with trouble."""

from typing import Any

import pytest

from engine.test_scheduler import run
from moorage.benchmarks.engine_bench import measure
from moorage.cli.configuration import make_world, read_configuration
from moorage.config import DEFAULT_FEATURE_GATES
from moorage.engine.clock import VirtualClock
from moorage.engine.scheduler import Scheduler
from moorage.kube.live import build_scheduler
from moorage.ledger import Ledger
from moorage.ledger.recorder import Recorder
from moorage.plugins.defaults import in_tree_registry
from moorage.testing import make_node
from reference.objects import make_pod

IMAGE = "registry.example/tool:1"


@pytest.fixture
def ledger() -> Ledger:
    return Ledger(2**24)


@pytest.fixture
def scheduler(ledger: Ledger) -> Scheduler:
    config = read_configuration(None)
    made = build_scheduler(config, in_tree_registry(), DEFAULT_FEATURE_GATES, VirtualClock(0.0))
    made.record(ledger.recorder)
    return made


def locality(ledger: Ledger, number: int) -> dict[str, int]:
    """What ImageLocality gave each node, where it gave something."""
    page = ledger.explain(number, matrix=(0, 9)).matrix
    assert page is not None
    return {
        row.node: part.raw
        for row in page.rows
        for part in row.parts
        if part.plugin == "ImageLocality" and part.raw
    }


def test_a_scorer_that_falls_silent_is_not_told_by_its_last_scores(
    scheduler: Scheduler, ledger: Ledger
) -> None:
    has_it = make_node("n1", images={IMAGE: 500_000_000})
    # Another scorer, with raw scores of the ranking's own, speaks up at the same time.
    has_not = make_node("n1", taints=["slow:PreferNoSchedule"])
    scheduler.handlers.add_node(has_it)
    scheduler.handlers.add_node(make_node("n2"))
    lane = scheduler.cycle.fast_lane
    assert lane is not None
    for number in range(1, 7):
        if number in (3, 5):
            pair = (has_it, has_not) if number == 3 else (has_not, has_it)
            scheduler.handlers.update_node(*pair)
        scheduler.handlers.add_pod(make_pod(f"web-{number}", image=IMAGE))
        run(scheduler)
    assert lane.taken == 6
    told = [locality(ledger, number).keys() for number in range(1, 7)]
    assert told == [{"n1"}, {"n1"}, set(), set(), {"n1"}, {"n1"}]


def test_answers_that_cannot_be_written_cost_verdicts_but_no_decision(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("bug")

    world = make_world(read_configuration(None), None, reuse=True)
    with monkeypatch.context() as broken:
        broken.setattr("moorage.ledger.answers.Answers.write", fail)
        measured = measure(
            world, nodes=5, pods=10, workload="prefaffinity", recorder=ledger.recorder
        )
        ledger.recorder.flush()
    assert measured.placed == len(ledger) == 10
    assert "verdicts" in caplog.text
    assert {ledger.explain(number, matrix=(0, 9)).matrix for number in range(1, 11)} == {None}
    [first, *_] = ledger.summaries(limit=1)
    assert (first.number, first.result) == (10, "scheduled")


@pytest.mark.parametrize(("few", "checks"), [(64, 0), (5, 2)])
def test_long_answers_are_looked_at_more_often(
    monkeypatch: pytest.MonkeyPatch, few: int, checks: int
) -> None:
    monkeypatch.setattr("moorage.ledger.domains._FEW", few)
    ledger, seen = Ledger(64 * 2**20), []  # how often depends on the limit
    check = Recorder._noted_one

    def noted_one(recorder: Recorder) -> None:
        seen.append(recorder.waiting)
        check(recorder)

    monkeypatch.setattr(Recorder, "_noted_one", noted_one)
    world = make_world(read_configuration(None), None, reuse=True)
    measure(world, nodes=20, pods=140, workload="prefspread", recorder=ledger.recorder)
    assert len(seen) == checks
