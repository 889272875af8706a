"""Kept answers: how few rows are asked, and that nothing stale is ever told."""

from collections.abc import Hashable
from typing import Any

import numpy as np
import pytest

from framework.building import make_cycle, make_profile, make_state, only, profile_of
from moorage.cluster.columns import Ints
from moorage.cluster.stamps import Aspect
from moorage.cluster.state import ClusterState
from moorage.cluster.view import NodeRow, NodeView
from moorage.engine.cycle import Cycle
from moorage.engine.decisions import Bind
from moorage.errors import PluginError
from moorage.framework.plugin import (
    FilterPlugin,
    NodeFilterPlugin,
    NodeScorePlugin,
    ScorePlugin,
)
from moorage.framework.profile import Profile
from moorage.framework.reuse import Answers
from moorage.framework.status import Reason, Verdicts
from moorage.model.pod import Pod
from moorage.model.taints import Taint
from reference.objects import make_node, make_pod

TAINT = Taint(key="k", effect="NoSchedule")


def asked(cycle: Cycle, profile: Profile, pod: Pod) -> int:
    """How many rows a decision puts to plugins."""
    before = cycle.answers.rows_asked
    cycle.decide(profile, pod)
    return cycle.answers.rows_asked - before


@pytest.fixture
def state() -> ClusterState:
    return make_state([make_node(f"n{i}") for i in range(40)])


ROW_LOCAL = ("TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit")


def test_after_a_pod_is_bound_the_next_like_it_asks_about_one_row(state: ClusterState) -> None:
    cycle, profile = make_cycle(state), make_profile(state, only("NodeResourcesFit"))
    first, second = (make_pod(f"p{i}", cpu="1") for i in range(2))
    assert asked(cycle, profile, first) == 40 + 40, "filter and score of every node"
    assert asked(cycle, profile, second) == 0, "nothing has changed"
    state.assume(first, "n3")
    assert asked(cycle, profile, second) == 1 + 1, "filter and score of one node"


def test_plugins_that_do_not_read_pods_are_not_asked_again(state: ClusterState) -> None:
    cycle, profile = make_cycle(state), make_profile(state, only("TaintToleration"))
    assert asked(cycle, profile, make_pod("p0")) == 80
    state.assume(make_pod("p1"), "n3")
    assert asked(cycle, profile, make_pod("p2")) == 0
    state.add_node(make_node("n5", taints=[TAINT]))
    assert asked(cycle, profile, make_pod("p2")) == 2


def test_a_pod_that_asks_for_something_else_is_asked_about_afresh(state: ClusterState) -> None:
    cycle, profile = make_cycle(state), make_profile(state, only("NodeResourcesFit"))
    asked(cycle, profile, make_pod("p0", cpu="1"))
    assert asked(cycle, profile, make_pod("p1", cpu="2")) == 80
    assert asked(cycle, profile, make_pod("p2", cpu="1", labels={"unlike": "p0"})) == 0


def test_when_many_rows_change_all_are_asked_again_in_one_go(state: ClusterState) -> None:
    cycle, profile = make_cycle(state), make_profile(state, only("NodeResourcesFit"))
    pod = make_pod("p", cpu="1")
    asked(cycle, profile, pod)
    for i in range(30):
        state.assume(make_pod(f"other{i}", cpu="1"), f"n{i}")
    assert asked(cycle, profile, pod) == 80


def test_without_reuse_every_row_is_asked_every_time(state: ClusterState) -> None:
    cycle = make_cycle(state, reuse=False)
    profile = make_profile(state, only("NodeResourcesFit"))
    pod = make_pod("p", cpu="1")
    assert asked(cycle, profile, pod) == 80
    assert asked(cycle, profile, pod) == 80


def test_plugins_that_look_across_nodes_are_always_asked_in_full(state: ClusterState) -> None:
    cycle, profile = make_cycle(state), make_profile(state, only("ImageLocality"))
    assert asked(cycle, profile, make_pod("p0")) == 40
    assert asked(cycle, profile, make_pod("p1")) == 40


def test_removing_the_last_row_asks_about_no_other(state: ClusterState) -> None:
    cycle, profile = make_cycle(state), make_profile(state, only("NodeResourcesFit"))
    asked(cycle, profile, make_pod("p", cpu="1"))
    state.remove_node("n39")
    assert asked(cycle, profile, make_pod("p", cpu="1")) == 0
    state.add_node(make_node("n40", cpu="1m"))
    attempt = cycle.filter(profile, make_pod("p", cpu="1"))
    assert attempt.outcome is not None
    status = attempt.outcome.status(39)
    assert status is not None
    assert status.reasons == ("Insufficient cpu",)


# Plugins written node by node


class OddNames(NodeFilterPlugin, NodeScorePlugin):
    """Counts how often it is asked; refuses nodes whose number is odd."""

    name = "OddNames"
    reads = (Aspect.LABELS,)
    odd = Reason("odd")
    calls: list[str] = []
    fails = False

    def pod_key(self, pod: Pod) -> Hashable:
        return pod.namespace

    def filter_node(self, pod: Pod, node: NodeRow) -> Reason | None:
        if self.fails:
            raise RuntimeError("out of order")
        self.calls.append(node.name)
        return self.odd if int(node.name[1:]) % 2 else None

    def score_node(self, pod: Pod, node: NodeRow) -> int:
        return int(node.name[1:])


@pytest.fixture
def odd() -> type[OddNames]:
    class Fresh(OddNames):
        calls: list[str] = []

    return Fresh


def test_a_per_node_plugin_is_asked_only_about_nodes_still_in_the_running(
    odd: type[OddNames],
) -> None:
    state = make_state([make_node(f"n{i}", unschedulable=i < 6) for i in range(10)])
    profile = make_profile(state, only("NodeUnschedulable", odd.name), [odd])
    make_cycle(state).decide(profile, make_pod("p"))
    assert odd.calls == ["n6", "n7", "n8", "n9"]


def test_a_per_node_plugin_is_asked_about_a_node_when_it_is_first_needed(
    odd: type[OddNames],
) -> None:
    state = make_state([make_node(f"n{i}", unschedulable=i < 6) for i in range(10)])
    cycle = make_cycle(state)
    profile = make_profile(state, only("NodeUnschedulable", odd.name), [odd])
    cycle.decide(profile, make_pod("p"))
    odd.calls.clear()
    state.add_node(make_node("n4"))
    attempt = cycle.filter(profile, make_pod("q"))
    assert odd.calls == ["n4"]
    assert attempt.outcome is not None
    assert attempt.outcome.feasible.tolist() == [4, 6, 8]


def test_a_per_node_plugin_that_raised_has_not_answered(odd: type[OddNames]) -> None:
    state = make_state([make_node(f"n{i}") for i in range(4)])
    cycle, profile = make_cycle(state), profile_of(state, odd)
    plugin = profile.plugins[odd.name]
    assert isinstance(plugin, odd)
    plugin.fails = True
    with pytest.raises(PluginError, match="out of order"):
        cycle.filter(profile, make_pod("p"))
    plugin.fails = False
    attempt = cycle.filter(profile, make_pod("p"))
    assert attempt.outcome is not None
    assert attempt.outcome.feasible.tolist() == [0, 2], "the odd ones are still refused"


def test_a_stale_answer_about_a_node_out_of_the_running_is_asked_for_again(
    odd: type[OddNames],
) -> None:
    state = make_state([make_node(f"n{i}") for i in range(8)])
    cycle = make_cycle(state)
    profile = make_profile(state, only("NodeUnschedulable", odd.name), [odd])
    cycle.decide(profile, make_pod("p"))
    odd.calls.clear()
    state.add_node(make_node("n3", labels={"changed": "yes"}, unschedulable=True))
    cycle.decide(profile, make_pod("p"))
    assert odd.calls == []
    state.add_node(make_node("n3", labels={"changed": "yes"}))
    cycle.decide(profile, make_pod("p"))
    assert odd.calls == ["n3"]


# Keeping within limits, and away from harm


class Loud(FilterPlugin[None]):
    """A reason of its own for every answer."""

    name = "Loud"
    reads = (Aspect.REQUESTED,)

    def pod_key(self, pod: Pod) -> Hashable:
        return "all alike"

    def filter(self, pod: Pod, nodes: NodeView, state: None) -> Verdicts:
        verdicts = Verdicts(len(nodes))
        for row, count in enumerate(nodes.pod_count):
            verdicts.reject(row, Reason(f"{count} pods are enough"))
        return verdicts


def test_an_answer_may_see_more_than_64_reasons_in_its_life() -> None:
    state = make_state([make_node(f"n{i}") for i in range(8)])
    cycle, profile = make_cycle(state), profile_of(state, Loud)
    for i in range(100):
        state.assume(make_pod(f"p{i}"), "n3")
        attempt = cycle.filter(profile, make_pod("new"))
        assert attempt.outcome is not None
        status = attempt.outcome.status(3)
        assert status is not None
        assert status.reasons == (f"{i + 1} pods are enough",)


class InPlace(ScorePlugin[None]):
    """Normalises in the array it is given."""

    name = "InPlace"
    reads = (Aspect.ALLOCATABLE,)

    def pod_key(self, pod: Pod) -> Hashable:
        return "all alike"

    def score(self, pod: Pod, nodes: NodeView, state: None) -> Ints:
        return nodes.allocatable("pods") * 10

    def normalize(self, scores: Ints, state: None) -> Ints:
        scores -= scores.min()
        scores //= 10
        return scores


@pytest.mark.parametrize("cordoned", [False, True], ids=["all feasible", "some feasible"])
def test_normalising_in_place_does_not_spoil_kept_scores(cordoned: bool) -> None:
    nodes = [make_node(f"n{i}", pods=i + 1, unschedulable=cordoned and i == 0) for i in range(6)]
    state = make_state(nodes)
    cycle = make_cycle(state)
    profile = make_profile(state, only("NodeUnschedulable", InPlace.name), [InPlace])
    totals = []
    for i in range(3):
        decision, _ = cycle.decide(profile, make_pod(f"p{i}"))
        assert isinstance(decision, Bind)
        totals.append((decision.node_name, decision.total_score))
    assert totals == [("n5", 4 if cordoned else 5)] * 3


def test_answers_beyond_the_limit_are_dropped_the_oldest_first(state: ClusterState) -> None:
    answers = Answers(state, limit_bytes=(9 * 40 + 1024) * 2)
    profile = make_profile(state, only("NodeResourcesFit"))
    fit: Any = profile.plugins["NodeResourcesFit"]
    nodes, all_rows = NodeView(state), np.ones(40, np.bool_)

    def rows_for(cpu: str) -> int:
        before = answers.rows_asked
        answers.verdicts(fit, make_pod("p", cpu=cpu), nodes, None, all_rows)
        return answers.rows_asked - before

    assert [rows_for(cpu) for cpu in ("1", "2", "1", "3")] == [40, 40, 0, 40]
    assert rows_for("1") == 0, "it was asked for last"
    assert rows_for("2") == 40, "it had to go"


def test_answers_are_kept_as_before_when_the_cluster_has_shrunk(state: ClusterState) -> None:
    answers = Answers(state, limit_bytes=(9 * 40 + 1024) * 2)
    profile = make_profile(state, only("NodeResourcesFit"))
    fit: Any = profile.plugins["NodeResourcesFit"]

    def rows_for(cpu: str) -> int:
        before = answers.rows_asked
        nodes = NodeView(state)
        all_rows = np.ones(len(nodes), np.bool_)
        answers.verdicts(fit, make_pod("p", cpu=cpu), nodes, None, all_rows)
        return answers.rows_asked - before

    rows_for("1")
    rows_for("2")
    for i in range(8, 40):
        state.remove_node(f"n{i}")
    rows_for("3")
    rows_for("4")
    assert rows_for("3") == 0, "both small answers find room"


def test_answers_that_grow_with_the_cluster_are_charged_for_it() -> None:
    state = make_state([make_node("n0")])
    answers = Answers(state, limit_bytes=1033 * 3)
    profile = make_profile(state, only("NodeResourcesFit"))
    fit: Any = profile.plugins["NodeResourcesFit"]

    def rows_for(cpu: str) -> int:
        before = answers.rows_asked
        nodes = NodeView(state)
        answers.verdicts(fit, make_pod("p", cpu=cpu), nodes, None, np.ones(len(nodes), np.bool_))
        return answers.rows_asked - before

    assert [rows_for(cpu) for cpu in ("1", "2", "3", "1")] == [1, 1, 1, 0]
    for i in range(1, 100):
        state.add_node(make_node(f"n{i}"))
    rows_for("1")
    assert rows_for("1") == 0, "an answer is never dropped for itself"
    assert rows_for("3") == 100
    assert rows_for("2") == 100, "it was dropped when the first one grew"


def test_equal_answers_of_different_plugins_are_kept_apart(state: ClusterState) -> None:
    cycle = make_cycle(state)
    first = make_profile(state, only("NodeResourcesFit"))
    second = make_profile(state, only("NodeResourcesFit"))
    assert asked(cycle, first, make_pod("p", cpu="1")) == 80
    assert asked(cycle, second, make_pod("p", cpu="1")) == 80
