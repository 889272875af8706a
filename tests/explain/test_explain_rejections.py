"""Everybody who rejects a node is named, at whatever point."""

from collections.abc import Sequence

import numpy as np
import pytest

from framework.building import make_cycle, make_profile, make_state, only, profile_of
from moorage.cluster.view import NodeRow, NodeView
from moorage.engine.clock import VirtualClock
from moorage.engine.cycle import Cycle
from moorage.errors import ExtenderError, InputError
from moorage.explain.pods import explain_pod
from moorage.explain.report import PodExplanation, Rejection
from moorage.framework.extenders import Extender, FilterReply
from moorage.framework.plugin import (
    FilterPlugin,
    NodeFilterPlugin,
    PreFilterPlugin,
    PreFilterResult,
)
from moorage.framework.status import Code, Reason, Skip, Status, Verdicts
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.testing import make_node, make_pod

NODES = [
    make_node("tainted", taints=["gpu=yes:NoSchedule"]),
    make_node("full", cpu="1"),
    make_node("both", cpu="1", taints=["gpu=yes:NoSchedule"]),
]


def explained(pod: Pod, nodes: Sequence[Node] = NODES, *others: Pod) -> PodExplanation:
    state = make_state(nodes, others)
    return explain_pod(make_cycle(state), make_profile(state), pod, source="files", fixes=False)


def by_reason(told: PodExplanation) -> dict[str, Rejection]:
    return {one.reason: one for one in told.rejections}


def test_a_node_counts_for_every_plugin_that_rejects_it() -> None:
    told = explained(make_pod(cpu="2"))
    assert told.nodes == 3
    assert told.feasible == 0
    assert [(one.plugin, one.reason, one.nodes, one.only) for one in told.rejections] == [
        ("TaintToleration", "node(s) had untolerated taint(s)", 2, 1),
        ("NodeResourcesFit", "Insufficient cpu", 2, 1),
    ]
    assert told.rejections[0].examples == ("tainted", "both")
    assert told.message.startswith(
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s)."
    )


def test_no_more_than_five_nodes_are_shown() -> None:
    told = explained(make_pod(cpu="2"), [make_node(f"n{i}", cpu="1") for i in range(7)])
    (one,) = told.rejections
    assert (one.nodes, one.examples) == (7, ("n0", "n1", "n2", "n3", "n4"))


def test_it_is_told_on_how_many_nodes_evicting_pods_would_not_help() -> None:
    nodes = [make_node("small", cpu="1"), make_node("full", cpu="4")]
    told = explained(make_pod(cpu="2"), nodes, make_pod("other", cpu="3", node_name="full"))
    (one,) = told.rejections
    assert (one.nodes, one.unresolvable) == (2, 1)


def test_a_closed_gate_does_not_hide_what_else_is_wrong() -> None:
    pod = make_pod(cpu="2", spec={"schedulingGates": [{"name": "wait"}]})
    told = explained(pod)
    assert not told.schedulable
    gate = told.rejections[0]
    assert (gate.plugin, gate.point, gate.nodes) == ("SchedulingGates", "PreEnqueue", 3)
    assert gate.reason == told.message
    assert "Insufficient cpu" in by_reason(told)


def test_a_gated_pod_is_not_schedulable_though_nodes_would_take_it() -> None:
    pod = make_pod(spec={"schedulingGates": [{"name": "wait"}]})
    told = explained(pod, [make_node("free")])
    assert not told.schedulable
    assert told.node is None
    assert (told.feasible, told.scores) == (0, ())


def test_a_pod_that_is_being_deleted_has_no_scores() -> None:
    pod = make_pod(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    told = explained(pod, [make_node("free")])
    assert told.message == "skip schedule deleting pod: default/pod"
    assert not told.schedulable
    assert told.scores == ()


def test_a_rejection_before_any_node_does_not_hide_the_others() -> None:
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}
    told = explained(make_pod(cpu="2", spec={"volumes": [claim]}))
    found = {(one.plugin, one.point): one for one in told.rejections}
    assert ("VolumeBinding", "PreFilter") in found
    assert ("VolumeRestrictions", "PreFilter") in found
    assert found["VolumeBinding", "PreFilter"].nodes == 3
    assert found["NodeResourcesFit", "Filter"].nodes == 2


def test_nodes_that_a_plugin_leaves_out_are_its_rejections() -> None:
    field = {"key": "metadata.name", "operator": "In", "values": ["full"]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    told = explained(make_pod(cpu="2", spec={"affinity": affinity}))
    left_out = by_reason(told)["node(s) didn't satisfy plugin(s) [NodeAffinity]"]
    assert (left_out.point, left_out.nodes, left_out.code) == (
        "PreFilter",
        2,
        "UnschedulableAndUnresolvable",
    )
    assert by_reason(told)["Insufficient cpu"].nodes == 2


def test_pods_nominated_to_a_node_may_be_all_that_spoils_it() -> None:
    state = make_state([make_node("n1", cpu="4")])
    cycle = make_cycle(state)
    cycle.nominated.add(make_pod("first", cpu="3", priority=10), "n1")
    told = explain_pod(
        cycle, make_profile(state), make_pod(cpu="2", priority=1), source="live", fixes=False
    )
    (one,) = told.rejections
    assert (one.plugin, one.reason, one.with_nominated_pods) == (
        "NodeResourcesFit",
        "Insufficient cpu",
        True,
    )
    assert not told.schedulable
    assert told.feasible == 0


class Moody(FilterPlugin[None]):
    """Breaks down."""

    name = "Moody"

    def filter(self, pod: Pod, nodes: NodeView, state: None) -> Verdicts:
        raise RuntimeError("not today")


class Fussy(NodeFilterPlugin):
    """Written node by node."""

    name = "Fussy"

    def filter_node(self, pod: Pod, node: NodeRow) -> Reason | None:
        return Reason("does not like the name") if node.name != "full" else None


def test_a_plugin_that_breaks_is_named_and_the_others_are_asked() -> None:
    state = make_state(NODES)
    profile = profile_of(state, Moody, Fussy)
    told = explain_pod(make_cycle(state), profile, make_pod(), source="files", fixes=False)
    broken = next(one for one in told.rejections if one.plugin == "Moody")
    assert (broken.code, broken.nodes) == ("Error", 3)
    assert "RuntimeError: not today" in broken.reason
    assert by_reason(told)["does not like the name"].nodes == 2
    assert not told.schedulable
    assert "not today" in told.message


class Choosy(PreFilterPlugin[None], FilterPlugin[None]):
    """Breaks down before any node."""

    name = "Choosy"

    def pre_filter(self, pod: Pod, nodes: NodeView) -> PreFilterResult[None] | Skip | Status:
        return Status(Code.ERROR, ("lost its list",))

    def filter(self, pod: Pod, nodes: NodeView, state: None) -> Verdicts:
        return Verdicts(len(nodes)).reject(np.ones(len(nodes), np.bool_), Reason("never asked"))


def test_an_error_before_any_node_is_told_as_one() -> None:
    state = make_state(NODES)
    profile = profile_of(state, Choosy)
    told = explain_pod(make_cycle(state), profile, make_pod(), source="files", fixes=False)
    (one,) = told.rejections
    reason = 'running PreFilter plugin "Choosy": lost its list'
    assert (one.point, one.code, one.reason) == ("PreFilter", "Error", reason)


class Outsider(Extender):
    """Answers what it is told to."""

    name = "outsider"
    filters = True

    def __init__(self, reply: FilterReply | None) -> None:
        self.reply = reply
        self.asked: list[list[str]] = []

    def filter(self, pod: Pod, nodes: Sequence[Node]) -> FilterReply:
        self.asked.append([node.name for node in nodes])
        if self.reply is None:
            raise ExtenderError("no answer")
        return self.reply


def with_extender(reply: FilterReply | None) -> tuple[PodExplanation, Outsider]:
    nodes = [make_node("a"), make_node("b"), make_node("c", cpu="1")]
    state = make_state(nodes)
    extender = Outsider(reply)
    cycle = Cycle(state, VirtualClock(), extenders=[extender])
    told = explain_pod(
        cycle,
        make_profile(state, only("NodeResourcesFit")),
        make_pod(cpu="2"),
        source="live",
        matrix=(0, 10),
        fixes=False,
    )
    return told, extender


def test_an_extender_is_asked_about_what_is_left_and_its_words_are_told() -> None:
    told, extender = with_extender(FilterReply(failed={"a": "wrong colour"}))
    assert ["a", "b"] in extender.asked
    found = {(one.point, one.reason): one for one in told.rejections}
    assert found["Extender", "wrong colour"].examples == ("a",)
    assert found["Extender", "left out by extender outsider"].examples == ("b",)
    assert found["Filter", "Insufficient cpu"].examples == ("c",)
    assert not told.schedulable
    assert told.matrix is not None
    assert told.matrix.plugins[-1] == "Extender"
    assert [row.verdicts[-1].verdict for row in told.matrix.rows] == [
        "rejected",
        "rejected",
        "not considered",
    ]


def test_an_extender_that_fails_is_told() -> None:
    told, _ = with_extender(None)
    one = next(one for one in told.rejections if one.point == "Extender")
    assert (one.code, one.nodes) == ("Error", 2)
    assert "no answer" in one.reason
    assert not told.schedulable


def test_without_nodes_there_is_one_sentence() -> None:
    told = explained(make_pod(), [])
    assert (told.nodes, told.feasible, told.rejections) == (0, 0, ())
    assert told.message == "no nodes available to schedule pods"
    assert not told.schedulable


def test_a_pod_that_is_being_deleted_is_not_tried() -> None:
    pod = make_pod(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    told = explained(pod, [make_node("free")])
    assert not told.schedulable
    assert told.message == "skip schedule deleting pod: default/pod"


def test_a_node_asked_for_by_name_must_be_known() -> None:
    state = make_state(NODES)
    with pytest.raises(InputError, match="node nowhere is not one of the 3 nodes known"):
        explain_pod(
            make_cycle(state), make_profile(state), make_pod(), source="files", nodes=["nowhere"]
        )
