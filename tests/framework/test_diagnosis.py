"""The sentence about a pod that fits nowhere (CYC-035..037)."""

from typing import Any

import pytest

from framework.building import make_cycle, make_profile, make_state, only, profile_of
from moorage.cluster.view import NodeRow, NodeView
from moorage.engine.cycle import NO_NODES
from moorage.engine.decisions import Gated, Unschedulable
from moorage.errors import PluginError
from moorage.framework.plugin import FilterPlugin, NodeFilterPlugin, Plugin
from moorage.framework.status import Code, Reason, Status, Verdicts
from moorage.model.affinity import Affinity
from moorage.model.node import Node
from moorage.model.pod import Pod, PodSchedulingGate
from moorage.model.taints import Taint
from reference.objects import make_node, make_pod, node_affinity, node_term

TAINT = Taint(key="k", effect="NoSchedule")


def refusing(name_: str, reasons: dict[str, list[Reason]]) -> type[Plugin]:
    """A filter with its reasons by node name."""

    class Refuses(FilterPlugin[None]):
        name = name_

        def filter(self, pod: Pod, nodes: NodeView, state: None) -> Verdicts:
            verdicts = Verdicts(len(nodes))
            for row, node in enumerate(nodes.names()):
                for reason in reasons.get(node, []):
                    verdicts.reject(row, reason)
            return verdicts

    return Refuses


def message(nodes: list[Node], pod: Pod, *plugins: str) -> str:
    state = make_state(nodes)
    profile = make_profile(state, only(*plugins) if plugins else None)
    decision, _ = make_cycle(state).decide(profile, pod)
    assert isinstance(decision, Unschedulable)
    return decision.message


def test_every_reason_of_the_first_refusing_plugin_is_counted() -> None:
    nodes = [make_node("a", cpu="1", memory="1Gi"), make_node("b", cpu="1")]
    assert message(nodes, make_pod("p", cpu="2", memory="2Gi"), "NodeResourcesFit") == (
        "0/2 nodes are available: 1 Insufficient memory, 2 Insufficient cpu."
    )


def test_later_plugins_do_not_add_reasons_to_a_node_already_refused() -> None:
    nodes = [make_node("a", cpu="1", taints=[TAINT]), make_node("b", cpu="1")]
    pod = make_pod("p", cpu="2")
    assert message(nodes, pod, "TaintToleration", "NodeResourcesFit") == (
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s)."
    )


def test_counts_are_sorted_as_strings() -> None:
    nodes = [make_node(f"n{i:02}", cpu="1") for i in range(10)]
    nodes += [make_node("t1", taints=[TAINT]), make_node("t2", taints=[TAINT])]
    assert message(nodes, make_pod("p", cpu="2"), "TaintToleration", "NodeResourcesFit") == (
        "0/12 nodes are available: 10 Insufficient cpu, 2 node(s) had untolerated taint(s)."
    )


def test_curable_and_incurable_shortages_of_a_resource_are_counted_together() -> None:
    state = make_state(
        [make_node("full"), make_node("small", cpu="1")],
        [make_pod("there", node="full", cpu="3")],
    )
    decision, attempt = make_cycle(state).decide(
        make_profile(state, only("NodeResourcesFit")), make_pod("p", cpu="2")
    )
    assert isinstance(decision, Unschedulable)
    assert decision.message == "0/2 nodes are available: 2 Insufficient cpu."
    assert attempt is not None
    assert attempt.diagnosis.resolvable_rows().tolist() == [True, False]


def test_nodes_that_were_not_looked_at_are_counted_with_a_reason_of_their_own() -> None:
    named = Affinity(node_affinity=node_affinity([node_term(names=("In", ["a"]))]))
    nodes = [make_node("a", cpu="1"), make_node("b"), make_node("c")]
    pod = make_pod("p", cpu="2", affinity=named)
    assert message(nodes, pod, "NodeAffinity", "NodeResourcesFit") == (
        "0/3 nodes are available: 1 Insufficient cpu, "
        "2 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    )


def test_a_rejection_before_filtering_stands_alone() -> None:
    conflict = node_term(names=("In", ["a"]))
    other = node_term(names=("In", ["b"]))
    both = type(conflict)(match_fields=(*conflict.match_fields, *other.match_fields))
    pod = make_pod("p", affinity=Affinity(node_affinity=node_affinity([both])))
    assert message([make_node("a")], pod, "NodeAffinity") == (
        "0/1 nodes are available: pod affinity terms conflict."
    )


def test_what_preemption_says_follows() -> None:
    assert message([make_node("a", cpu="1")], make_pod("p", cpu="2")) == (
        "0/1 nodes are available: 1 Insufficient cpu. "
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )


def test_without_nodes_the_sentence_is_another_one() -> None:
    assert message([], make_pod("p")) == NO_NODES == "no nodes available to schedule pods"


def test_a_gated_pod_is_not_looked_at() -> None:
    state = make_state([make_node("a")])
    pod = make_pod("p")
    gates = (PodSchedulingGate(name="b"), PodSchedulingGate(name="a"))
    spec = type(pod.spec)(containers=pod.spec.containers, scheduling_gates=gates)
    gated = Pod(metadata=pod.metadata, spec=spec)
    decision, attempt = make_cycle(state).decide(make_profile(state), gated)
    assert isinstance(decision, Gated)
    assert attempt is None
    assert decision.status == Status(
        Code.UNRESOLVABLE, ("waiting for scheduling gates: [b a]",), "SchedulingGates"
    )


def test_the_plugins_that_refused_are_named_for_the_queue() -> None:
    state = make_state([make_node("a", taints=[TAINT]), make_node("b", cpu="1")])
    decision, _ = make_cycle(state).decide(
        make_profile(state, only("TaintToleration", "NodeResourcesFit", "NodeName")),
        make_pod("p", cpu="2"),
    )
    assert isinstance(decision, Unschedulable)
    assert decision.unschedulable_plugins == {"TaintToleration", "NodeResourcesFit"}


def test_a_plugin_that_only_asks_for_patience_is_pending_as_well() -> None:
    state = make_state([make_node("a"), make_node("b")])
    waits = refusing("Waits", {"a": [Reason("soon", Code.PENDING)]})
    refuses = refusing("Refuses", {"b": [Reason("no")]})
    decision, attempt = make_cycle(state).decide(profile_of(state, waits, refuses), make_pod("p"))
    assert isinstance(decision, Unschedulable)
    assert attempt is not None
    assert attempt.diagnosis.pending_plugins == {"Waits"}
    assert attempt.diagnosis.resolvable_rows().tolist() == [False, True]


def test_a_node_that_fails_only_with_its_nominated_pods_gives_their_reason() -> None:
    state = make_state([make_node("a"), make_node("b", cpu="1")])
    cycle = make_cycle(state)
    waiting = make_pod("waiting", cpu="3", priority=10, nominated="a")
    cycle.nominated.add(waiting, "a")
    decision, attempt = cycle.decide(make_profile(state), make_pod("p", cpu="2", priority=10))
    assert isinstance(decision, Unschedulable)
    assert decision.message.startswith("0/2 nodes are available: 2 Insufficient cpu.")
    assert attempt is not None
    assert attempt.status(0).code is Code.UNSCHEDULABLE
    assert attempt.status(1).code is Code.UNRESOLVABLE


@pytest.mark.parametrize("priority", [9, 10], ids=["lower", "equal"])
def test_a_less_important_nominee_is_not_made_room_for(priority: int) -> None:
    state = make_state([make_node("a")])
    cycle = make_cycle(state)
    cycle.nominated.add(make_pod("waiting", cpu="3", priority=priority, nominated="a"), "a")
    attempt = cycle.filter(make_profile(state), make_pod("p", cpu="2", priority=10))
    assert attempt.outcome is not None
    assert attempt.outcome.any_feasible is (priority < 10)


class Breaks(NodeFilterPlugin):
    """Answers one node with an error."""

    name = "Breaks"

    def filter_node(self, pod: Pod, node: NodeRow) -> Reason | None:
        return Reason("disk on fire", Code.ERROR) if node.name == "b" else None


def test_a_node_answered_with_an_error_fails_the_whole_attempt() -> None:
    state = make_state([make_node("a"), make_node("b")])
    with pytest.raises(PluginError, match='running "Breaks" filter plugin: disk on fire'):
        make_cycle(state).decide(profile_of(state, Breaks), make_pod("p"))


def test_an_error_on_a_node_that_was_refused_before_does_not_matter() -> None:
    state = make_state([make_node("a"), make_node("b", unschedulable=True)])
    profile = make_profile(state, only("NodeUnschedulable", "Breaks"), [Breaks])
    decision, _ = make_cycle(state).decide(profile, make_pod("p"))
    assert decision_node(decision) == "a"


def decision_node(decision: Any) -> str:
    return str(decision.node_name)
