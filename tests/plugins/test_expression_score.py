"""ExpressionScore: the larger the number that an expression gives a node, the better."""

from typing import Any

import numpy as np
import pytest

from framework.building import make_plugin, make_state, only
from moorage.cluster.view import NodeView
from moorage.config.args import ExpressionScoreArgs
from moorage.framework.plugin import ScorePlugin
from moorage.model.meta import Json
from moorage.plugins.expressions import ExpressionScore
from moorage.testing import check_plugin, make_node, make_pod
from plugins.expression_rules import RULES, ruled_cluster
from plugins.tables import raw, weighted

FAILED = -(2**63)
NODES = [
    make_node("fast", labels={"disk": "ssd", "rank": "7"}, cpu="8"),
    make_node("slow", labels={"disk": "hdd", "rank": "first"}, cpu="2"),
    make_node("bare", cpu="4"),
]
GUESTS = [
    make_pod("one", node_name="fast", cpu="6"),
    make_pod("two", node_name="slow", cpu="500m"),
]
POD = make_pod("ship", cpu="1", labels={"wants": "ssd"})


def document(expression: str, **args: str) -> Json:
    entry = {"name": "ExpressionScore", "args": {"expression": expression, **args}}
    return only("ExpressionScore") | {"pluginConfig": [entry]}


@pytest.mark.parametrize(
    ("expression", "numbers", "points"),
    [
        pytest.param("7", [7, 7, 7], [100, 100, 100], id="all the same"),
        pytest.param(
            "node.allocatable.cpu - node.requested.cpu",
            [2000, 1500, 4000],
            [20, 0, 100],
            id="the most free cpu",
        ),
        pytest.param(
            "-(node.requested.cpu * 100 / node.allocatable.cpu)",
            [-75, -25, 0],
            [0, 66, 100],
            id="the least used, by share",
        ),
        pytest.param(
            "node.labels[?'disk'].orValue('') == pod.labels.wants ? 1 : 0",
            [1, 0, 0],
            [100, 0, 0],
            id="what the pod wishes for",
        ),
        pytest.param(
            "int(node.labels.rank)", [7, FAILED, FAILED], [100, 0, 0], id="failures get nothing"
        ),
        pytest.param("int(node.labels.nobody)", [FAILED] * 3, [0, 0, 0], id="nothing but failures"),
        pytest.param(
            "node.pods.map(p, p.requests.cpu).sum()", [6000, 500, 0], [100, 8, 0], id="over pods"
        ),
        pytest.param(
            "node.name == 'fast' ? 9223372036854775807 : -9223372036854775807",
            [2**63 - 1, 1 - 2**63, 1 - 2**63],
            [100, 0, 0],
            id="as far apart as can be",
        ),
    ],
)
def test_the_best_node_gets_100_points_and_the_worst_none(
    expression: str, numbers: list[int], points: list[int]
) -> None:
    assert raw(NODES, POD, document(expression), GUESTS) == numbers
    assert weighted(NODES, POD, document(expression), GUESTS) == points


@pytest.mark.parametrize(
    ("expression", "points"),
    [
        ("node.allocatable.cpu / 100", [80, 20, 40]),
        ("node.allocatable.cpu - 3950", [100, 0, 50]),
        ("int(node.labels.rank)", [7, 0, 0]),
    ],
)
def test_without_normalization_numbers_are_points(expression: str, points: list[int]) -> None:
    assert weighted(NODES, POD, document(expression, normalization="None"), GUESTS) == points


@pytest.mark.parametrize(
    "expression",
    [
        "(node.allocatable.memory - node.requested.memory) / 1000",
        "node.labels.?disk.orValue('') == 'ssd' ? 10 : size(node.pods)",
        "node.pods.filter(p, p.namespace == pod.namespace).size()",
    ],
)
def test_an_expression_passes_the_checks_of_plugins(expression: str) -> None:
    check_plugin(ExpressionScore, ExpressionScoreArgs(expression), rounds=2)


def test_scores_are_an_array_of_their_own() -> None:
    state = make_state(NODES)
    plugin: Any = make_plugin(
        ExpressionScore, state, ExpressionScoreArgs("node.allocatable.memory")
    )
    scores = plugin.score(POD, NodeView(state))
    scores += 1
    assert np.array_equal(plugin.score(POD, NodeView(state)), scores - 1)


@pytest.mark.parametrize(("expression", "plugin"), RULES.items())
def test_an_expression_scores_like_its_rule_over_columns(
    expression: str, plugin: type[ScorePlugin[None]]
) -> None:
    state = ruled_cluster(50)
    by_expression = make_plugin(ExpressionScore, state, ExpressionScoreArgs(expression))
    assert not by_expression.may_take_long(POD), "it is evaluated in columns"
    view = NodeView(state)
    by_columns = make_plugin(plugin, state).score(POD, view)
    assert np.array_equal(by_expression.score(POD, view), by_columns)
