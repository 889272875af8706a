"""What the cluster's columns take follows what there is, not what there ever was."""

import pytest

from framework.building import make_cycle, make_profile, make_state, only
from moorage.cluster import node_table
from moorage.cluster.listers import Lister
from moorage.cluster.state import ClusterState
from moorage.cluster.view import NodeView
from moorage.model.labels import make_requirement
from moorage.model.taints import Taint
from moorage.model.workloads import Namespace
from reference.objects import HOSTNAME, ZONE, make_namespace, make_node, make_pod


def test_values_of_nodes_long_gone_are_forgotten() -> None:
    state = ClusterState()
    NodeView(state).label(HOSTNAME)
    for i in range(10_000):
        taint = Taint(key="own", value=f"{i}", effect="NoSchedule")
        state.add_node(make_node(f"n{i}", taints=[taint], features=[f"f{i}"]))
        if i >= 10:
            state.remove_node(f"n{i - 10}")
    nodes = state.nodes
    for store in (nodes.label(HOSTNAME), nodes.taints, nodes.features):
        assert len(store.vocabulary) <= 2 * 10 + 64
    view = NodeView(state)
    hosts = view.label(HOSTNAME)
    assert sorted(view.names()) == [f"n{i}" for i in range(9990, 10_000)]
    assert [hosts.vocabulary.values[code] for code in hosts.codes] == view.names()
    assert [view.taints.vocabulary.values[c][0].value for c in view.taints.codes] == [
        name[1:] for name in view.names()
    ]
    assert hosts.present.all()
    wanted = hosts.matching(make_requirement(HOSTNAME, "In", ("n9995", "n3")))
    assert [name == "n9995" for name in view.names()] == wanted.tolist()


def test_a_node_without_a_label_still_has_none_after_values_are_forgotten() -> None:
    state = make_state([make_node("bare", labels={}), make_node("b")])
    column = NodeView(state).label("k")
    for i in range(200):
        state.add_node(make_node("b", labels={"k": f"{i}"}))
    assert len(state.nodes.label("k").vocabulary) <= 2 * 2 + 64
    assert NodeView(state).label("k").present.tolist() == [False, True]
    assert column.vocabulary.values[column.codes[0]] is None


def test_many_nodes_gone_at_once_leave_no_values_behind() -> None:
    state = make_state([make_node(f"n{i}") for i in range(500)])
    NodeView(state).label(HOSTNAME)
    for i in range(500):
        state.remove_node(f"n{i}")
    assert len(state.nodes.label(HOSTNAME).vocabulary) <= 64


def test_asking_for_a_resource_that_nobody_has_makes_no_column() -> None:
    state = make_state([make_node(f"n{i}") for i in range(3)])
    before = {name for name, _ in state.nodes.allocatable.items()}
    first = NodeView(state).allocatable("example.com/none")
    assert first.tolist() == [0, 0, 0]
    assert not first.flags.writeable
    assert {name for name, _ in state.nodes.allocatable.items()} == before
    state.add_node(make_node("n3", example_com__none=2))
    assert NodeView(state).allocatable("example.com/none").tolist() == [0] * 4
    assert NodeView(state).allocatable("example-com/none").tolist() == [0, 0, 0, 2]


def test_of_label_columns_only_those_asked_for_last_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(node_table, "_MOST_LABELS", 3)
    labels = {f"key{i}": "y" for i in range(10)}
    nodes = [make_node("a", zone="z1", labels=labels), make_node("b", zone="z2")]
    state = make_state(nodes)
    cycle, profile = make_cycle(state), make_profile(state, only("NodeAffinity"))
    zone = state.nodes.label(ZONE)
    for i in range(10):
        cycle.filter(profile, make_pod(f"p{i}", node_selector={f"key{i}": "x", ZONE: "z2"}))
    state.nodes.trim_labels()
    assert state.nodes.label(ZONE) is zone, "it was asked for all the time"
    assert len(state.nodes._labels) == 3
    state.add_node(make_node("c", labels={"key0": "x", ZONE: "z2"}))
    attempt = cycle.filter(profile, make_pod("q", node_selector={"key0": "x", ZONE: "z2"}))
    assert attempt.outcome is not None
    assert attempt.outcome.feasible.tolist() == [2]


def test_labels_that_no_node_has_take_no_room_until_one_does() -> None:
    state = make_state([make_node("a")])
    absent = [state.nodes.label(f"key{i}") for i in range(100)]
    assert len(set(map(id, absent))) == 1
    assert not NodeView(state).label("key7").present.any()
    state.add_node(make_node("b", labels={"key7": "x"}))
    assert NodeView(state).label("key7").present.tolist() == [False, True]
    state.add_node(make_node("b", labels={}))
    state.remove_node("a")
    assert not NodeView(state).label("key7").present.any()
    assert set(state.nodes._nodes_with) == {HOSTNAME} & set(state.nodes.nodes[0].labels)


def test_a_namespace_without_objects_takes_no_room() -> None:
    lister: Lister[Namespace] = Lister()
    namespace = make_namespace("a")
    lister.put(namespace)
    lister.remove(namespace)
    lister.remove(namespace)
    assert lister._by_namespace == {}
    assert (len(lister), list(lister)) == (0, [])


def test_resources_that_nobody_asks_for_any_more_are_forgotten() -> None:
    state = make_state([make_node("a")])
    for i in range(500):
        pod = make_pod(f"p{i}", node="a", requests={f"example.com/r{i}": "1"})
        state.add_pod(pod)
        NodeView(state).lesser_pods(10, 0.0)  # has the pods' own columns written
        if i >= 10:
            state.remove_pod(make_pod(f"p{i - 10}", node="a"))
    view = NodeView(state)
    assert len(state.nodes.requested.columns) <= 2 * node_table.MOST_UNUSED
    assert len(view.lesser_pods(10, 0.0).requests) <= 2 * node_table.MOST_UNUSED
    assert view.requested("example.com/r3").tolist() == [0]
    assert view.requested("example.com/r495").tolist() == [1]
