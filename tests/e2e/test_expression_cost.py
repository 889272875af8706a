"""What ExpressionScore costs for 5,000 nodes, beside the same rule as a plugin over columns.

It is here and not in `make test` because it measures: these tests have the machine to themselves.
"""

import logging
import time
from collections.abc import Callable
from functools import partial

import pytest

from framework.building import make_plugin
from moorage.cluster.columns import Ints
from moorage.cluster.state import ClusterState
from moorage.cluster.view import NodeView
from moorage.config.args import ExpressionScoreArgs
from moorage.framework.guard import raw_scores
from moorage.framework.plugin import ScorePlugin
from moorage.plugins.expressions import ExpressionScore
from moorage.testing import make_pod
from plugins.expression_rules import RULES, ruled_cluster

NODES = 5_000
ROUNDS = 60
CALLS = 10
POD = make_pod("ship")


@pytest.fixture(scope="module")
def state() -> ClusterState:
    return ruled_cluster(NODES)


def _score(plugin: ScorePlugin[None], state: ClusterState) -> Ints:
    return raw_scores(plugin, POD, NodeView(state), None)


def _processor_time(work: Callable[[], object]) -> int:
    start = time.process_time_ns()
    for _ in range(CALLS):
        work()
    return time.process_time_ns() - start


@pytest.mark.parametrize(("expression", "plugin"), RULES.items())
def test_an_expression_costs_at_most_twice_its_rule_over_columns(
    expression: str, plugin: type[ScorePlugin[None]], state: ClusterState
) -> None:
    forms = [
        make_plugin(ExpressionScore, state, ExpressionScoreArgs(expression)),
        make_plugin(plugin, state),
    ]
    times: list[list[int]] = [[], []]
    for _ in range(ROUNDS):  # in turn, so that whatever else goes on slows both
        for form, taken in zip(forms, times, strict=True):
            taken.append(_processor_time(partial(_score, form, state)))
    expressed, columns = (min(taken) / CALLS / 1_000 for taken in times)
    logging.info("%s: %.1f µs, %s: %.1f µs", expression, expressed, plugin.name, columns)
    assert expressed <= 2 * columns
