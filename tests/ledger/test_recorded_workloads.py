"""Every workload of the benchmark, recorded: scores add up to what the engine decided by."""

import pytest

from moorage.benchmarks.engine_bench import measure
from moorage.benchmarks.workloads import WORKLOADS
from moorage.cli.configuration import make_world, read_configuration
from moorage.explain.report import Matrix
from moorage.ledger import Ledger

PODS = 25


@pytest.mark.parametrize("reuse", [True, False], ids=["short", "plain"])
@pytest.mark.parametrize("workload", WORKLOADS)
def test_scores_add_up_to_the_total_of_the_chosen_node(workload: str, reuse: bool) -> None:
    ledger = Ledger(2**24)
    world = make_world(read_configuration(None), None, reuse=reuse)
    measure(world, nodes=20, pods=PODS, workload=workload, recorder=ledger.recorder)
    assert len(ledger) == PODS
    scored = 0
    for number in range(1, PODS + 1):
        told = ledger.explain(number, top=1, matrix=(0, 100))
        summary, matrix = told.decision, told.matrix
        assert matrix is not None
        feasible = [row for row in matrix.rows if row.feasible]
        assert len(feasible) == summary.feasible
        assert bool(told.rejections) == (len(feasible) < matrix.total)
        if summary.score is None:
            continue
        scored += 1
        best = told.scores[0]
        assert (best.node, best.total, best.chosen) == (summary.node, summary.score, True)
        assert sum(part.weighted for part in best.parts) == best.total
        assert max(row.total or 0 for row in feasible) == best.total
    assert scored or workload in ("preemption",)


@pytest.mark.parametrize("workload", ["prefspread", "spread", "prefaffinity"])
def test_both_ways_leave_the_same_scores(workload: str) -> None:
    """On the short way changes of whole groups are noted; the plain path knows no groups."""
    told = []
    for reuse in (True, False):
        ledger = Ledger(2**24)
        world = make_world(read_configuration(None), None, reuse=reuse)
        measure(world, nodes=30, pods=40, workload=workload, recorder=ledger.recorder)
        pages = [ledger.explain(number, matrix=(0, 30)).matrix for number in range(1, 41)]
        told.append([_scores(page) for page in pages if page])
    assert len(told[0]) == 40
    assert told[0] == told[1]


def _scores(page: Matrix) -> list[object]:
    """A plugin that is known to be silent leaves nothing on one way, and zeros on the other."""
    return [
        (
            row.node,
            row.total,
            {part.plugin: part for part in row.parts if part.raw or part.weighted},
        )
        for row in page.rows
    ]
