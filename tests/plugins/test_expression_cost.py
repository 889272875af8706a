"""What ExpressionScore costs for 5,000 nodes, beside the same rule as a plugin over columns."""

import logging
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from framework.building import make_plugin
from moorage.cluster.columns import Ints
from moorage.cluster.state import ClusterState
from moorage.cluster.view import NodeView
from moorage.config.args import ExpressionScoreArgs
from moorage.framework.guard import raw_scores
from moorage.framework.plugin import ScorePlugin
from moorage.model.pod import Pod
from moorage.plugins.expressions import ExpressionScore
from moorage.testing import cluster, make_node, make_pod

NODES = 5_000
ROUNDS = 60
CALLS = 10
POD = make_pod("ship")


class FreeMemory(ScorePlugin[None]):
    name = "FreeMemory"

    def score(self, pod: Pod, nodes: NodeView, state: None = None) -> Ints:
        total = nodes.allocatable("memory")
        free: Ints = (total - nodes.requested("memory")) * 100 // np.maximum(total, 1)
        return free


class FastDisk(ScorePlugin[None]):
    name = "FastDisk"

    def score(self, pod: Pod, nodes: NodeView, state: None = None) -> Ints:
        return nodes.label("disk").number(lambda disk: 1 if disk == "ssd" else 0)


RULES: list[tuple[str, type[ScorePlugin[None]]]] = [
    (
        "(node.allocatable.memory - node.requested.memory) * 100 / node.allocatable.memory",
        FreeMemory,
    ),
    ("node.labels.disk == 'ssd' ? 1 : 0", FastDisk),
]


@pytest.fixture(scope="module")
def state() -> ClusterState:
    disks = ("ssd", "hdd")
    nodes = [
        make_node(f"n{i}", labels={"disk": disks[i % 2]}, memory=f"{8 + i % 7}Gi")
        for i in range(NODES)
    ]
    pods = [make_pod(f"p{i}", memory=f"{i % 5}Gi", node_name=f"n{i}") for i in range(NODES)]
    return cluster(nodes, pods)


def _score(plugin: ScorePlugin[None], state: ClusterState) -> Ints:
    return raw_scores(plugin, POD, NodeView(state), None)


def _processor_time(work: Callable[[], object]) -> int:
    start = time.process_time_ns()
    for _ in range(CALLS):
        work()
    return time.process_time_ns() - start


@pytest.mark.parametrize(("expression", "plugin"), RULES, ids=("free memory", "fast disk"))
def test_an_expression_costs_at_most_twice_its_rule_over_columns(
    expression: str, plugin: type[ScorePlugin[None]], state: ClusterState
) -> None:
    forms = [
        make_plugin(ExpressionScore, state, ExpressionScoreArgs(expression)),
        make_plugin(plugin, state),
    ]
    by_expression, by_columns = (form.score(POD, NodeView(state)) for form in forms)
    assert np.array_equal(by_expression, by_columns)
    times: list[list[int]] = [[], []]
    for _ in range(ROUNDS):  # in turn, so that whatever else goes on slows both
        for form, taken in zip(forms, times, strict=True):
            taken.append(_processor_time(partial(_score, form, state)))
    expressed, columns = (min(taken) / CALLS / 1_000 for taken in times)
    logging.info("%s: %.1f µs, %s: %.1f µs", expression, expressed, plugin.name, columns)
    assert expressed <= 2 * columns
