"""Why this node and not that one: scores part by part, and the matrix page by page."""

from collections.abc import Sequence
from typing import Any

import msgspec

from framework.building import make_cycle, make_profile, make_state
from moorage.engine.clock import VirtualClock
from moorage.engine.cycle import Cycle
from moorage.engine.decisions import Bind
from moorage.explain.pods import explain_pod
from moorage.explain.report import PodExplanation
from moorage.framework.extenders import Extender
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.testing import make_node, make_pod

NODES = [make_node(f"n{i}", cpu=str(2 + i)) for i in range(6)]
POD = make_pod(cpu="2", labels={"app": "a"})


def explained(pod: Pod = POD, **options: Any) -> PodExplanation:
    state = make_state(NODES)
    return explain_pod(make_cycle(state), make_profile(state), pod, source="files", **options)


def test_the_best_nodes_come_first_and_the_chosen_one_is_marked() -> None:
    told = explained(top=3)
    assert told.schedulable
    assert told.node == "n5"
    assert told.message == "would be assigned to n5"
    assert [(one.node, one.chosen) for one in told.scores] == [
        ("n5", True),
        ("n4", False),
        ("n3", False),
    ]
    totals = [one.total for one in told.scores]
    assert totals == sorted(totals, reverse=True)


def test_a_total_is_the_sum_of_its_parts() -> None:
    told = explained()
    for one in told.scores:
        assert one.total == sum(part.weighted for part in one.parts)
        for part in one.parts:
            assert part.weighted == part.normalized * part.weight
            assert 0 <= part.normalized <= 100
    taints = next(part for part in told.scores[0].parts if part.plugin == "TaintToleration")
    assert (taints.raw, taints.normalized, taints.weight, taints.weighted) == (0, 100, 3, 300)
    assert "NodeAffinity" in told.skipped_score_plugins


def test_nodes_asked_for_by_name_are_told_though_others_are_better() -> None:
    told = explained(top=1, nodes=["n0", "n2"])
    assert [one.node for one in told.scores] == ["n5", "n0", "n2"]
    assert [row.node for row in told.asked] == ["n0", "n2"]
    assert [row.total for row in told.asked] == [one.total for one in told.scores[1:]]


def test_a_node_asked_for_by_name_that_cannot_take_the_pod_says_why() -> None:
    told = explained(make_pod(cpu="3"), nodes=["n0"])
    (row,) = told.asked
    assert not row.feasible
    against = [verdict for verdict in row.verdicts if verdict.verdict == "rejected"]
    assert [(one.plugin, one.reasons) for one in against] == [
        ("NodeResourcesFit", ("Insufficient cpu",))
    ]
    assert row.total is None
    assert "n0" not in [one.node for one in told.scores]


def test_a_single_feasible_node_is_scored_though_nothing_hangs_on_it() -> None:
    told = explained(make_pod(cpu="7"))
    assert [one.node for one in told.scores] == ["n5"]
    assert told.scores[0].parts


def test_pages_of_the_matrix_are_parts_of_the_whole() -> None:
    names = [f"n{i}" for i in (3, 1, 10, 2, 0)]
    nodes = [make_node(name) for name in names]
    state = make_state(nodes)
    profile, cycle = make_profile(state), make_cycle(state)

    def page(offset: int, limit: int) -> PodExplanation:
        return explain_pod(cycle, profile, POD, source="files", matrix=(offset, limit))

    everything = page(0, 100).matrix
    assert everything is not None
    assert [row.node for row in everything.rows] == sorted(names)
    second = page(2, 2).matrix
    assert second is not None
    assert second.rows == everything.rows[2:4]
    assert (second.total, second.offset) == (5, 2)
    beyond = page(50, 2).matrix
    assert beyond is not None
    assert beyond.rows == ()
    assert second.plugins == everything.plugins
    assert all(len(row.verdicts) == len(everything.plugins) for row in everything.rows)


def test_plugins_with_nothing_to_say_are_skipped_in_the_matrix() -> None:
    told = explained(matrix=(0, 1))
    assert told.matrix is not None
    (row,) = told.matrix.rows
    verdicts = {verdict.plugin: verdict.verdict for verdict in row.verdicts}
    assert verdicts["NodePorts"] == "skipped"
    assert verdicts["NodeResourcesFit"] == "ok"
    assert "NodePorts" in told.skipped_filter_plugins


def test_where_a_percentage_ends_the_search_only_nodes_it_got_to_are_compared() -> None:
    nodes = [make_node(f"n{i:03}", cpu=str(4 + i % 7)) for i in range(300)]
    state = make_state(nodes)
    profile = make_profile(state, percentage=40)
    cycle = make_cycle(state)
    for _ in range(3):
        told = explain_pod(cycle, profile, POD, source="live", top=1000)
        decision, attempt = cycle.attempt(profile, POD)
        assert isinstance(decision, Bind)
        assert attempt is not None
        assert attempt.scores is not None
        assert told.node == decision.node_name
        assert len(told.scores) == 120
        assert told.scores[0].total == decision.total_score
        assert sorted(one.total for one in told.scores) == sorted(attempt.scores.totals.tolist())
        assert told.feasible == 300


class Admirer(Extender):
    """Gives points."""

    name = "admirer"
    weight = 2
    prioritizes = True

    def prioritize(self, pod: Pod, nodes: Sequence[Node]) -> Sequence[tuple[str, int]]:
        return [("n0", 10)]


def test_points_of_extenders_are_parts_too() -> None:
    state = make_state(NODES)
    cycle = Cycle(state, VirtualClock(), extenders=[Admirer()])
    told = explain_pod(cycle, make_profile(state), POD, source="live")
    assert told.node == "n0"
    part = told.scores[0].parts[-1]
    assert (part.plugin, part.raw, part.normalized, part.weight, part.weighted) == (
        "admirer",
        10,
        100,
        2,
        200,
    )


def test_an_explanation_can_be_written_as_json_and_read_again() -> None:
    told = explained(matrix=(0, 3), nodes=["n1"])
    again = msgspec.json.decode(msgspec.json.encode(told), type=PodExplanation)
    assert again == told
