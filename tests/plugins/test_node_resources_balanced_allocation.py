"""NodeResourcesBalancedAllocation: does the pod even out how full a node's resources are?"""

from typing import Any

import pytest

from framework.building import make_state, only
from moorage.model.meta import Json
from moorage.plugins.balanced_allocation import NodeResourcesBalancedAllocation
from plugins.tables import ScoreCase, asked, check_score, raw, table
from reference.objects import (
    make_node,
    make_pod,
)

NODES = [make_node("even", cpu="4", memory="4Gi"), make_node("odd", cpu="4", memory="4Gi")]
CPU_TAKEN = [make_pod("there", node="odd", cpu="2")]


@table(
    ScoreCase(
        "an even pod changes nothing",
        make_pod("p", cpu="1", memory="1Gi"),
        NODES,
        {"even": 75, "odd": 75},
        CPU_TAKEN,
    ),
    ScoreCase(
        "memory evens out what cpu has taken",
        make_pod("p", memory="2Gi"),
        NODES,
        {"even": 62, "odd": 87},
        CPU_TAKEN,
    ),
    ScoreCase(
        "more cpu makes it worse", make_pod("p", cpu="2"), NODES, {"even": 62, "odd": 62}, CPU_TAKEN
    ),
    ScoreCase("asks for nothing", make_pod("p"), NODES, {"even": 0, "odd": 0}, CPU_TAKEN),
)
def test_nodes_are_scored_by_how_even_the_pod_leaves_them(case: ScoreCase) -> None:
    check_score(NodeResourcesBalancedAllocation, case)


GPUS: dict[str, Any] = {"example.com__gpu": 4}

BALANCED = only("NodeResourcesBalancedAllocation")


def test_balance_uses_plain_requests_and_honours_the_pod_level() -> None:
    nodes = [make_node("n", cpu="1", memory=str(1000 * 1024**2))]
    assert asked(make_state(nodes), make_pod("p"), BALANCED).raw == {}, "no requests, no score"
    pod = make_pod("p", pod_level={"cpu": "500m"})
    # 50% against 0%: a deviation of 0.25, so 75 with the pod and 100 without it.
    assert raw(nodes, pod, BALANCED) == [50 + (50 + 75 - 100) // 2]


@pytest.mark.parametrize(
    ("cpu", "memory", "there", "expected"),
    [
        ("1", "1Gi", None, 75),
        ("2", None, None, 50 + (50 + 75 - 100) // 2),
        ("2", None, ("0", "2Gi"), 50 + (50 + 100 - 75) // 2),
        ("4", "1Gi", ("0", "3Gi"), 50 + (50 + 100 - 62) // 2),
    ],
    ids=["evenly", "one-sided", "fills the gap", "rounds each balance down"],
)
def test_balance_is_scored_by_how_much_the_pod_improves_it(
    cpu: str, memory: str | None, there: tuple[str, str] | None, expected: int
) -> None:
    nodes = [make_node("n", cpu="4", memory="4Gi")]
    pods = [make_pod("there", node="n", cpu=there[0], memory=there[1])] if there else []
    assert raw(nodes, make_pod("p", cpu=cpu, memory=memory), BALANCED, pods) == [expected]


def test_more_than_two_resources_are_balanced_by_their_standard_deviation() -> None:
    document = BALANCED | {
        "pluginConfig": [
            {
                "name": "NodeResourcesBalancedAllocation",
                "args": {"resources": [{"name": n} for n in ("cpu", "memory", "example.com/gpu")]},
            }
        ]
    }
    nodes = [make_node("n", cpu="4", memory="4Gi", **GPUS)]
    pod = make_pod("p", cpu="4", requests={"example.com/gpu": 2})
    # 100 %, 0 % and 50 %: the deviation is the square root of 1/6, about 0.408.
    assert raw(nodes, pod, document) == [50 + (50 + 59 - 100) // 2]


def test_over_commitment_counts_as_full() -> None:
    nodes = [make_node("n", cpu="1", memory="4Gi")]
    document: Json = only("NodeResourcesBalancedAllocation")
    there = make_pod("there", node="n", cpu="9", memory="4Gi")
    assert raw(nodes, make_pod("p", cpu="1"), document, [there]) == [75]


def test_the_number_of_pods_is_no_resource_to_balance() -> None:
    args = {"resources": [{"name": "cpu"}, {"name": "pods"}]}
    document = BALANCED | {
        "pluginConfig": [{"name": "NodeResourcesBalancedAllocation", "args": args}]
    }
    assert raw([make_node("n")], make_pod("p", cpu="2"), document) == [75]
