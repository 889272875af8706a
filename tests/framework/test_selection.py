"""How many nodes are looked at, in which order, and which of equals is taken (CYC-022..028)."""

import numpy as np
import pytest

from framework.building import make_cycle, make_profile, make_state, only
from moorage.engine.decisions import Bind, Unschedulable
from moorage.engine.selection import NodeSearch, best, in_this_order, nodes_to_find
from moorage.model.affinity import Affinity
from moorage.model.meta import Json
from moorage.model.node import Node
from reference.objects import make_node, make_pod, node_affinity, node_term


@pytest.mark.parametrize(
    ("percentage", "nodes", "expected"),
    [
        (None, 5000, 5000),
        (0, 5000, 5000),
        (50, 99, 99),
        (1, 50, 50),
        (50, 100, 100),
        (50, 1000, 500),
        (10, 5000, 500),
        (42, 1000, 420),
        (5, 6000, 300),
        (1, 5000, 100),
        (33, 1001, 330),
        (100, 5000, 5000),
    ],
    ids=[
        "unset looks at every node",
        "zero looks at every node",
        "under 100 nodes all are looked at",
        "few nodes, small percentage",
        "never fewer than 100",
        "half",
        "a tenth",
        "42 percent",
        "5 percent",
        "1 percent is at least 100",
        "rounded down",
        "all",
    ],
)
def test_enough_feasible_nodes_are_a_percentage_of_those_looked_at(
    percentage: int | None, nodes: int, expected: int
) -> None:
    assert nodes_to_find(percentage, nodes, scoring=True) == expected


def test_without_scoring_the_first_feasible_node_will_do() -> None:
    assert nodes_to_find(None, 5000, scoring=False) == 1
    assert nodes_to_find(50, 50, scoring=False) == 1


def search(
    searcher: NodeSearch, size: int, most: int, *, refused: set[int] | None = None
) -> list[int]:
    considered = np.ones(size, np.bool_)
    rejected = np.array([row in (refused or set()) for row in range(size)])
    accepted = considered & ~rejected
    found = searcher.feasible(np.arange(size), considered, accepted, most)
    return list(map(int, found.in_order()))


def test_a_search_that_sees_all_nodes_leaves_the_start_where_it_was() -> None:
    searcher = NodeSearch()
    assert search(searcher, 5, 5) == [0, 1, 2, 3, 4]
    assert search(searcher, 5, 5) == [0, 1, 2, 3, 4]


def test_the_next_search_goes_on_where_the_last_one_ended() -> None:
    searcher = NodeSearch()
    assert search(searcher, 5, 2) == [0, 1]
    assert search(searcher, 5, 2) == [2, 3]
    assert search(searcher, 5, 2) == [4, 0]
    assert search(searcher, 5, 2) == [1, 2]


def test_refused_nodes_on_the_way_count_as_looked_at() -> None:
    searcher = NodeSearch()
    assert search(searcher, 6, 2, refused={0, 2}) == [1, 3]
    assert search(searcher, 6, 6) == [4, 5, 0, 1, 2, 3]


def test_refused_nodes_behind_the_last_one_found_are_not_looked_at() -> None:
    searcher = NodeSearch()
    # Upstream notices that it has enough only when it meets one more.
    assert search(searcher, 6, 2, refused={2, 3}) == [0, 1]
    assert search(searcher, 6, 6)[0] == 4


def test_the_start_is_taken_modulo_the_nodes_that_are_looked_at() -> None:
    searcher = NodeSearch()
    assert search(searcher, 5, 4) == [0, 1, 2, 3]
    considered = np.array([True, False, True, False, True])
    rejected = np.zeros(5, np.bool_)
    # The start is 4; of the three nodes looked at that is the second.
    assert searcher.feasible(
        np.arange(5), considered, considered & ~rejected, 5
    ).in_order().tolist() == [2, 4, 0]
    # Three more nodes were looked at: 7 modulo all five.
    assert search(searcher, 5, 5) == [2, 3, 4, 0, 1]


def test_a_search_without_any_node_finds_nothing() -> None:
    searcher = NodeSearch()
    nothing = np.zeros(3, np.bool_)
    assert searcher.feasible(np.arange(3), nothing, nothing, 3).rows.tolist() == []


def test_the_order_of_nodes_is_followed_rather_than_that_of_rows() -> None:
    order, nothing = np.array([2, 0, 1]), np.zeros(3, np.bool_)
    found = NodeSearch().feasible(order, ~nothing, ~nothing, 2)
    assert found.in_order().tolist() == [2, 0]
    assert found.rows.tolist() == [0, 2]


def test_of_equal_totals_the_first_in_the_order_of_the_search_is_taken() -> None:
    found, totals = in_this_order(np.array([4, 1, 3]), 5), np.array([7, 7, 5])
    alike = np.full(5, 9, np.int16)
    assert best(found, totals, alike) == 1
    assert best(found, np.array([5, 7, 7]), alike) == 4
    assert best(found, np.array([1, 9, 2]), alike) == 3


def test_of_equal_totals_the_node_with_the_fewest_pods_is_taken() -> None:
    found, totals = in_this_order(np.array([4, 1, 3]), 5), np.array([7, 7, 5])
    emptiness = np.array([100, 5, 6, 7, 50], np.int16)
    assert best(found, totals, emptiness) == 3
    assert best(found, np.array([7, 7, 7]), emptiness) == 4
    assert best(found, np.array([9, 7, 7]), emptiness) == 1


@pytest.mark.parametrize("reuse", [True, False], ids=["fast path", "every plugin"])
def test_pods_that_ask_for_nothing_are_spread_over_equal_nodes(reuse: bool) -> None:
    state = make_state([make_node(f"n{i}") for i in range(3)])
    cycle, profile = make_cycle(state, reuse=reuse), make_profile(state, only("ImageLocality"))
    for i in range(30):
        pod = make_pod(f"p{i}")
        decision = cycle.decide(profile, pod)[0]
        assert isinstance(decision, Bind)
        state.assume(pod, decision.node_name)
    assert state.nodes.pod_count.values.tolist() == [10, 10, 10]


def many(count: int) -> list[Node]:
    return [make_node(f"n{i:03}") for i in range(count)]


def placed(count: int, document: Json, pods: int) -> list[str]:
    state = make_state(many(count))
    cycle, profile = make_cycle(state), make_profile(state, document)
    names = []
    for i in range(pods):
        decision, _ = cycle.decide(profile, make_pod(f"p{i}"))
        assert isinstance(decision, Bind)
        names.append((decision.node_name, decision.feasible_nodes))
    return [name for name, _ in names]


def test_a_profiles_percentage_is_honoured_with_rotation() -> None:
    document: Json = {"percentageOfNodesToScore": 50, **only("NodeName", "ImageLocality")}
    # 240 nodes: each search stops after 120 of them, and the next one starts there.
    assert placed(240, document, 3) == ["n000", "n120", "n000"]


def test_without_a_percentage_every_search_starts_at_the_first_node() -> None:
    assert placed(240, only("NodeName", "ImageLocality"), 3) == ["n000"] * 3


def test_without_score_plugins_pods_go_round_the_nodes() -> None:
    assert placed(3, only("NodeName"), 4) == ["n000", "n001", "n002", "n000"]


def test_the_rotation_is_shared_by_all_profiles() -> None:
    state = make_state(many(4))
    cycle = make_cycle(state)
    profiles = [make_profile(state, only("NodeName")) for _ in range(2)]
    names = []
    for i in range(4):
        decision, _ = cycle.decide(profiles[i % 2], make_pod(f"p{i}"))
        assert isinstance(decision, Bind)
        names.append(decision.node_name)
    assert names == ["n000", "n001", "n002", "n003"]


def test_a_search_that_finds_nothing_moves_the_start_too() -> None:
    state = make_state(many(5))
    cycle, profile = make_cycle(state), make_profile(state)
    named = Affinity(node_affinity=node_affinity([node_term(names=("In", ["n001"]))]))
    decision, _ = cycle.decide(profile, make_pod("big", cpu="99", affinity=named))
    assert isinstance(decision, Unschedulable)
    assert cycle.search.start == 1, "one node was looked at, so the next search starts there"


def test_a_pod_that_waited_for_a_node_does_not_move_the_start() -> None:
    state = make_state(many(3))
    cycle, profile = make_cycle(state), make_profile(state, only("NodeName"))
    decision, _ = cycle.decide(profile, make_pod("waited", nominated="n002"))
    assert decision == Bind(decision.pod, "n002", 1, evaluated_nodes=1)
    decision, _ = cycle.decide(profile, make_pod("next"))
    assert isinstance(decision, Bind)
    assert decision.node_name == "n000"


def test_zones_take_turns_in_the_order_nodes_are_looked_at() -> None:
    nodes = [make_node(f"n{i}", zone="ab"[i // 2]) for i in range(4)]
    state = make_state(nodes)
    cycle, profile = make_cycle(state), make_profile(state, only("NodeName"))
    names = []
    for i in range(4):
        decision, _ = cycle.decide(profile, make_pod(f"p{i}"))
        assert isinstance(decision, Bind)
        names.append(decision.node_name)
    assert names == ["n0", "n2", "n1", "n3"]
