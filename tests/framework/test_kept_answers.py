"""The fast path: how few nodes are asked about, and that nothing stale is ever told."""

import gc
from collections.abc import Hashable
from typing import Any

import pytest

from framework.building import make_cycle, make_profile, make_state, only, profile_of
from moorage.cluster.columns import Ints
from moorage.cluster.stamps import Aspect
from moorage.cluster.state import ClusterState
from moorage.cluster.view import NodeRow, NodeView
from moorage.engine.cycle import Cycle
from moorage.engine.decisions import Bind
from moorage.errors import PluginError
from moorage.framework.fast_path import MOST_KEYS
from moorage.framework.plugin import FilterPlugin, NodeFilterPlugin, ScorePlugin
from moorage.framework.profile import Profile
from moorage.framework.status import Reason, Verdicts
from moorage.model.pod import Pod
from reference.objects import make_node, make_pod


class Counting(FilterPlugin[None], ScorePlugin[None]):
    """Refuses full nodes, prefers empty ones, and notes about how many nodes it was asked."""

    name = "Counting"
    reads = (Aspect.REQUESTED,)
    full = Reason("full")
    filtered: list[int]
    scored: list[int]

    def pod_key(self, pod: Pod) -> Hashable | None:
        return pod.labels.get("kind")

    def filter(self, pod: Pod, nodes: NodeView, state: None) -> Verdicts:
        self.filtered.append(len(nodes))
        return Verdicts(len(nodes), (self.full,)).reject(nodes.pod_count >= 2, self.full)

    def score(self, pod: Pod, nodes: NodeView, state: None) -> Ints:
        self.scored.append(len(nodes))
        return 100 - nodes.pod_count


@pytest.fixture
def state() -> ClusterState:
    return make_state([make_node(f"n{i}") for i in range(40)])


@pytest.fixture
def profile(state: ClusterState) -> Profile:
    profile = profile_of(state, Counting)
    plugin: Any = profile.plugins[Counting.name]
    plugin.filtered, plugin.scored = [], []
    return profile


def asked(cycle: Cycle, profile: Profile, pod: Pod) -> tuple[list[int], list[int]]:
    """About how many nodes each call of Filter and Score was."""
    plugin: Any = profile.plugins[Counting.name]
    plugin.filtered.clear()
    plugin.scored.clear()
    cycle.decide(profile, pod)
    return list(plugin.filtered), list(plugin.scored)


def pod(name: str, kind: str = "web") -> Pod:
    return make_pod(name, labels={"kind": kind})


def test_from_the_third_pod_on_only_nodes_that_changed_are_asked_about(
    state: ClusterState, profile: Profile
) -> None:
    cycle = make_cycle(state)
    everything = [40], [40]
    assert asked(cycle, profile, pod("first")) == everything
    assert asked(cycle, profile, pod("second")) == everything, "keeping begins with the second"
    assert asked(cycle, profile, pod("third")) == ([], []), "nothing has changed"
    state.assume(pod("third"), "n3")
    assert asked(cycle, profile, pod("fourth")) == ([1], [1])
    state.add_node(make_node("n5", labels={"unread": "by the plugin"}))
    assert asked(cycle, profile, pod("fifth")) == ([], [])


def test_pods_of_other_kinds_are_asked_about_afresh(state: ClusterState, profile: Profile) -> None:
    cycle = make_cycle(state)
    for name in ("a", "b"):
        asked(cycle, profile, pod(name))
    assert asked(cycle, profile, pod("c", "db")) == ([40], [40])
    assert asked(cycle, profile, pod("d")) == ([], [])
    without_key = make_pod("e")
    assert [asked(cycle, profile, without_key) for _ in range(3)] == [([40], [40])] * 3


def test_only_the_kinds_seen_last_are_kept(state: ClusterState, profile: Profile) -> None:
    cycle = make_cycle(state)
    for name in ("a", "b"):
        asked(cycle, profile, pod(name))
    for number in range(MOST_KEYS):
        asked(cycle, profile, pod(f"other-{number}", f"kind-{number}"))
    assert asked(cycle, profile, pod("c")) == ([40], [40])


def test_after_many_changes_all_nodes_are_asked_about_in_one_go(
    state: ClusterState, profile: Profile
) -> None:
    cycle = make_cycle(state)
    for name in ("a", "b"):
        asked(cycle, profile, pod(name))
    for number in range(30):
        state.assume(make_pod(f"other-{number}"), f"n{number}")
    assert asked(cycle, profile, pod("c")) == ([40], [40])


def test_another_number_of_nodes_is_asked_about_in_full(
    state: ClusterState, profile: Profile
) -> None:
    cycle = make_cycle(state)
    for name in ("a", "b"):
        asked(cycle, profile, pod(name))
    state.remove_node("n39")
    assert asked(cycle, profile, pod("c")) == ([39], [39])
    state.add_node(make_node("n40"))
    assert asked(cycle, profile, pod("d")) == ([40], [40])


def test_without_the_fast_path_everything_is_asked_every_time(
    state: ClusterState, profile: Profile
) -> None:
    cycle = make_cycle(state, reuse=False)
    for number in range(3):
        assert asked(cycle, profile, pod(f"p{number}")) == ([40], [40])


def test_equal_plugins_of_different_profiles_are_kept_apart(state: ClusterState) -> None:
    cycle = make_cycle(state)
    generous = make_profile(state, only("NodeResourcesFit"))
    strict = make_profile(state, only("NodeResourcesFit", "NodeUnschedulable"))
    state.add_node(make_node("n0", unschedulable=True))
    for number in range(4):
        for profile, feasible in ((generous, 40), (strict, 39)):
            decision, _ = cycle.decide(profile, make_pod(f"p{number}", cpu="1"))
            assert isinstance(decision, Bind)
            assert decision.feasible_nodes == feasible


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


def test_a_kept_answer_may_see_more_than_64_reasons_in_its_life() -> None:
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
    for i in range(4):
        decision, _ = cycle.decide(profile, make_pod(f"p{i}"))
        assert isinstance(decision, Bind)
        totals.append((decision.node_name, decision.total_score))
    assert totals == [("n5", 4 if cordoned else 5)] * 4


class Moody(NodeFilterPlugin):
    """Written node by node; fails when it is told to."""

    name = "Moody"
    reads = (Aspect.PODS,)
    odd = Reason("odd")
    fails = False
    calls: list[str]

    def pod_key(self, pod: Pod) -> Hashable:
        return pod.namespace

    def filter_node(self, pod: Pod, node: NodeRow) -> Reason | None:
        if self.fails:
            raise RuntimeError("out of order")
        self.calls.append(node.name)
        return self.odd if int(node.name[1:]) % 2 else None


def test_a_plugin_written_node_by_node_is_asked_about_nodes_in_the_running() -> None:
    state = make_state([make_node(f"n{i}", unschedulable=i < 6) for i in range(10)])
    profile = make_profile(state, only("NodeUnschedulable", Moody.name), [Moody])
    plugin: Any = profile.plugins[Moody.name]
    plugin.calls = []
    make_cycle(state).decide(profile, make_pod("p"))
    assert plugin.calls == ["n6", "n7", "n8", "n9"]


def test_a_plugin_that_raised_has_not_answered() -> None:
    state = make_state([make_node(f"n{i}") for i in range(4)])
    cycle, profile = make_cycle(state), profile_of(state, Moody)
    plugin: Any = profile.plugins[Moody.name]
    plugin.calls = []
    for _ in range(3):
        cycle.filter(profile, make_pod("p"))
    state.assume(make_pod("guest"), "n2")
    plugin.fails = True
    with pytest.raises(PluginError, match="out of order"):
        cycle.filter(profile, make_pod("p"))
    plugin.fails = False
    attempt = cycle.filter(profile, make_pod("p"))
    assert attempt.outcome is not None
    assert attempt.outcome.feasible.tolist() == [0, 2], "the odd ones are still refused"


def test_profiles_that_are_gone_leave_nothing_behind(state: ClusterState) -> None:
    cycle = make_cycle(state)
    fast_path = cycle.runner.fast_path
    assert fast_path is not None
    for number in range(20):
        profile = make_profile(state, only("NodeResourcesFit"))
        for _ in range(2):
            cycle.decide(profile, make_pod(f"p{number}", cpu="1"))
        del profile
    gc.collect()
    assert len(fast_path._caches) <= 1
