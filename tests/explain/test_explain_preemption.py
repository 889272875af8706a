"""Why preemption helps or does not, without anybody being evicted."""

from typing import Any

import pytest

from framework.building import make_cycle, make_profile, make_state, only
from moorage.cluster.state import ClusterState
from moorage.explain import preemption as module
from moorage.explain.pods import explain_pod
from moorage.explain.report import PodExplanation, Preemption
from moorage.framework.attempt import AttemptResult
from moorage.framework.plugin import PostFilterPlugin, PostFilterResult
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.model.workloads import PodDisruptionBudget
from moorage.testing import make_node, make_pod
from reference.objects import make_budget, selector

SPREAD = {
    "topologySpreadConstraints": [
        {
            "maxSkew": 100,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "a"}},
        }
    ]
}


def full_nodes(count: int, cpu: str = "2") -> list[Node]:
    return [make_node(f"n{i:03}", cpu=cpu) for i in range(count)]


def fillers(nodes: list[Node], **fields: Any) -> list[Pod]:
    return [make_pod(f"on-{node.name}", cpu="2", node_name=node.name, **fields) for node in nodes]


def explained(pod: Pod, state: ClusterState) -> PodExplanation:
    return explain_pod(make_cycle(state), make_profile(state), pod, source="files", fixes=False)


def preemption(pod: Pod, state: ClusterState) -> Preemption:
    told = explained(pod, state).preemption
    assert told is not None
    return told


def test_a_pod_that_has_a_place_needs_none() -> None:
    assert explained(make_pod(cpu="1"), make_state(full_nodes(1))).preemption is None


def test_a_pod_that_never_preempts_is_said_to_be_one() -> None:
    nodes = full_nodes(1)
    pod = make_pod(cpu="2", priority=10, spec={"preemptionPolicy": "Never"})
    told = preemption(pod, make_state(nodes, fillers(nodes, priority=1)))
    assert not told.helps
    assert told.message == "not eligible due to preemptionPolicy=Never."
    assert told.candidates == ()


def test_nobody_less_important_is_upstreams_sentence_and_grouped() -> None:
    nodes = full_nodes(3)
    told = explained(make_pod(cpu="2", priority=1), make_state(nodes, fillers(nodes, priority=1)))
    assert told.preemption is not None
    assert not told.preemption.helps
    (group,) = told.preemption.refusals
    assert (group.reason, group.nodes, group.examples) == (
        "No preemption victims found for incoming pod",
        3,
        ("n000", "n001", "n002"),
    )
    assert told.preemption.message == (
        "0/3 nodes are available: 3 No preemption victims found for incoming pod."
    )
    assert told.message.endswith("preemption: " + told.preemption.message)


def test_nodes_are_grouped_by_what_still_stands_in_the_way() -> None:
    nodes = [
        make_node("small", cpu="1"),
        make_node("busy", cpu="4"),
        make_node("shared", cpu="4"),
    ]
    placed = [
        make_pod("vip", cpu="3", node_name="busy", priority=100),
        make_pod("boss", cpu="2", node_name="shared", priority=100),
        make_pod("low", cpu="1", node_name="shared", priority=1),
    ]
    told = preemption(make_pod(cpu="3", priority=10), make_state(nodes, placed))
    assert {group.reason: (group.nodes, group.examples) for group in told.refusals} == {
        "Preemption is not helpful for scheduling": (1, ("small",)),
        "No preemption victims found for incoming pod": (1, ("busy",)),
        "Insufficient cpu": (1, ("shared",)),
    }
    assert told.tried_nodes == 2
    assert told.candidate_nodes == 0


def test_candidates_name_victims_and_broken_budgets_and_nobody_goes() -> None:
    nodes = full_nodes(3)
    placed = fillers(nodes, priority=1)
    guarded = make_pod("guarded", cpu="2", node_name="n999", priority=1, labels={"app": "guarded"})
    nodes.append(make_node("n999", cpu="2"))
    budget = make_budget("b", selector({"app": "guarded"}), allowed=0)
    state = make_state(nodes, [*placed, guarded], [budget])
    before = sorted(pod.key for pod, _ in state.placed_pods())

    told = preemption(make_pod(cpu="2", priority=10), state)

    assert told.helps
    assert told.nominated_node in {"n000", "n001", "n002"}
    assert told.candidates[0].node == told.nominated_node
    assert told.candidates[0].chosen
    assert told.candidates[0].victims == (f"default/on-{told.nominated_node}",)
    by_node = {candidate.node: candidate for candidate in told.candidates}
    assert by_node["n999"].pdb_violations == 1
    assert told.candidate_nodes == 4
    assert told.message == (f"1 less important pod would have to leave node {told.nominated_node}")
    assert sorted(pod.key for pod, _ in state.placed_pods()) == before
    assert list(state.listers.of(PodDisruptionBudget)) == [budget]


def test_a_pod_that_could_preempt_is_not_schedulable_yet() -> None:
    nodes = full_nodes(1)
    state = make_state(nodes, fillers(nodes, priority=1))
    told = explained(make_pod(cpu="2", priority=10), state)
    assert not told.schedulable
    assert told.message == (
        "0/1 nodes are available: 1 Insufficient cpu. preemption: found a potential placement for "
        "pod on node n000, preempting 1 victims"
    )


def test_of_many_candidates_some_are_told_and_all_are_counted() -> None:
    nodes = full_nodes(50)
    told = preemption(make_pod(cpu="2", priority=10), make_state(nodes, fillers(nodes, priority=1)))
    assert told.candidate_nodes == 50
    assert len(told.candidates) == module.MOST_CANDIDATES
    assert told.candidates[0].chosen


def test_both_ways_of_trying_tell_the_same() -> None:
    """A plugin that looks across nodes makes preemption try one node after the other."""
    nodes = [*full_nodes(4), make_node("vip", cpu="2"), make_node("small", cpu="1")]
    placed = fillers(nodes[:4], priority=1)
    placed.append(make_pod("boss", cpu="2", node_name="vip", priority=100))
    state = make_state(nodes, placed)
    together = preemption(make_pod(cpu="2", priority=10), state)
    alone = preemption(make_pod(cpu="2", priority=10, labels={"app": "a"}, spec=SPREAD), state)
    assert alone == together


def test_where_trying_is_dear_only_some_nodes_are_tried_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_TRIALS", 5)
    nodes = full_nodes(12)
    state = make_state(nodes, fillers(nodes, priority=1))
    pod = make_pod(cpu="2", priority=10, labels={"app": "a"}, spec=SPREAD)
    told = preemption(pod, state)
    assert told.helps
    assert (told.tried_nodes, told.candidate_nodes) == (5, 5)
    assert told.message.endswith("; 5 of 12 nodes with less important pods were tried")

    hopeless = make_pod(cpu="2", priority=10, labels={"app": "a"}, spec=SPREAD)
    vips = [make_pod(f"vip-{n.name}", node_name=n.name, cpu="1", priority=50) for n in nodes]
    crowded = make_state(full_nodes(12), [*vips, *placed_beside(nodes)])
    told = preemption(hopeless, crowded)
    assert not told.helps
    assert told.message == (
        "5 of 12 nodes with less important pods were tried, and none of these could be freed"
    )


def placed_beside(nodes: list[Node]) -> list[Pod]:
    return [make_pod(f"low-{n.name}", node_name=n.name, cpu="1", priority=1) for n in nodes]


class Broken(PostFilterPlugin):
    """Breaks down."""

    name = "Broken"

    def post_filter(self, pod: Pod, attempt: AttemptResult) -> PostFilterResult:
        raise RuntimeError("not today")


def test_a_plugin_that_breaks_is_named() -> None:
    state = make_state(full_nodes(1))
    profile = make_profile(state, only("NodeResourcesFit", "Broken"), [Broken])
    pod = make_pod(cpu="3")
    told = explain_pod(make_cycle(state), profile, pod, source="files", fixes=False)
    expected = 'running PostFilter plugin "Broken": RuntimeError: not today ('
    assert told.message.startswith(expected)
    assert told.preemption == Preemption(False, told.message)
    assert [one.reason for one in told.rejections] == ["Insufficient cpu"]


def test_without_the_plugin_nobody_makes_room() -> None:
    nodes = full_nodes(1)
    state = make_state(nodes, fillers(nodes, priority=1))
    profile = make_profile(state, only("NodeResourcesFit"))
    pod = make_pod(cpu="2", priority=10)
    told = explain_pod(make_cycle(state), profile, pod, source="files", fixes=False)
    assert told.preemption == Preemption(
        False, "no plugin makes room: DefaultPreemption is not enabled"
    )
    assert told.message == "0/1 nodes are available: 1 Insufficient cpu."
