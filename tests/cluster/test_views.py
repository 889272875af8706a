"""What plugins see, and what they must not be able to do."""

import numpy as np
import pytest

from framework.building import make_state
from moorage.cluster.pod_query import PodQuery
from moorage.cluster.stamps import Aspect
from moorage.cluster.state import ClusterState
from moorage.cluster.view import NodeView
from moorage.model.taints import Taint
from properties.columns import all_read_only
from reference.objects import HOSTNAME, ZONE, away, host_port, make_node, make_pod, pod_term


@pytest.fixture
def state() -> ClusterState:
    return make_state(
        [make_node(f"n{i}", zone="ab"[i % 2]) for i in range(4)],
        [
            make_pod("low", node="n1", cpu="1", priority=1, ports=[host_port(80)]),
            make_pod("high", node="n1", cpu="2", priority=9),
        ],
    )


def test_the_arrays_of_a_view_cannot_be_written_to(state: ClusterState) -> None:
    assert all_read_only(NodeView(state))
    with pytest.raises(ValueError, match="read-only"):
        NodeView(state).requested("cpu")[0] = 1


def test_a_resource_that_nobody_mentioned_is_zero_everywhere(state: ClusterState) -> None:
    assert NodeView(state).allocatable("example.com/nothing").tolist() == [0] * 4
    assert NodeView(state).requested("example.com/nothing").tolist() == [0] * 4


def test_a_part_of_a_view_keeps_the_order_it_was_asked_for(state: ClusterState) -> None:
    part = NodeView(state).take(np.array([3, 1]))
    assert part.names() == ["n3", "n1"]
    assert part.requested("cpu").tolist() == [0, 3000]
    assert part.take(np.array([1])).names() == ["n1"]
    assert part.node(0).name == "n3"
    assert part.whole.names() == ["n0", "n1", "n2", "n3"]
    assert [row.name for row in part] == ["n3", "n1"]


def test_a_row_shows_its_node_and_pods_as_objects(state: ClusterState) -> None:
    row = list(NodeView(state))[1]
    assert (row.name, row.labels[HOSTNAME]) == ("n1", "n1")
    assert {pod.name for pod in row.pods} == {"low", "high"}
    assert (row.allocatable("cpu"), row.requested("cpu"), row.requested("none")) == (4000, 3000, 0)


def test_a_label_column_tells_values_apart_and_absence_from_emptiness() -> None:
    nodes = [
        make_node("a", labels={"k": "x"}),
        make_node("b", labels={}),
        make_node("c", labels={"k": ""}),
        make_node("d", labels={"k": "x"}),
    ]
    label = NodeView(make_state(nodes)).label("k")
    assert label.present.tolist() == [True, False, True, True]
    assert label.codes[0] == label.codes[3] != label.codes[2]
    assert label.where(lambda value: value == "").tolist() == [False, False, True, False]


def test_a_question_about_taints_is_put_once_per_distinct_set() -> None:
    taint = Taint(key="k", effect="NoSchedule")
    state = make_state([make_node(f"n{i}", taints=[taint] * (i % 2)) for i in range(20)])
    asked = []

    def question(taints: tuple[Taint, ...]) -> bool:
        asked.append(taints)
        return bool(taints)

    assert NodeView(state).taints.where(question).tolist() == [False, True] * 10
    assert len(asked) == 2


def test_a_view_of_nodes_without_lesser_pods_gives_them_back_one_by_one(
    state: ClusterState,
) -> None:
    view = NodeView(state)
    wanted = make_pod("new", ports=[host_port(80)]).host_ports
    lesser = view.lesser_pods(5, 0.0)
    assert [pod.name for pod in lesser.pods] == ["low"]
    assert view.have_lesser_pods(5).tolist() == [False, True, False, False]
    without = view.without(lesser, np.array([1, 2]))
    assert without.requested("cpu").tolist() == [2000, 0]
    assert without.pod_count.tolist() == [1, 0]
    assert [pod.name for pod in without.pods_on(0)] == ["high"]
    assert without.with_taken_ports(wanted).tolist() == [False, False]
    without.give_back(np.array([0]))
    assert without.requested("cpu").tolist() == [3000, 0]
    assert without.pod_count.tolist() == [2, 0]
    assert {pod.name for pod in without.pods_on(0)} == {"high", "low"}
    assert without.with_taken_ports(wanted).tolist() == [True, False]
    without.take_away(np.array([0]))
    assert without.requested("cpu").tolist() == [2000, 0]
    assert view.requested("cpu").tolist() == [0, 3000, 0, 0], "the cluster itself is untouched"


def test_a_what_if_can_be_cut_and_answers_across_nodes(state: ClusterState) -> None:
    new, anyone = make_pod("new", cpu="1"), PodQuery(())
    what_if = NodeView(state).what_if({0: [new], 1: [new]}, {})
    assert what_if.pods_matching(anyone).tolist() == [1, 3]
    assert what_if.take(np.array([1])).requested("cpu").tolist() == [4000]
    assert what_if.whole.requested("cpu").tolist() == [1000, 4000, 0, 0]
    zones = NodeView(state).label(ZONE).vocabulary
    sums = what_if.pods_per_domain(anyone, ZONE).sums
    assert [sums[zones.code(zone)] for zone in "ab"] == [1, 3]


def test_a_what_if_does_not_leave_out_the_terms_of_pods_that_would_come(
    state: ClusterState,
) -> None:
    pod = make_pod("pod")
    what_if = NodeView(state).what_if({0: [make_pod("plain")]}, {})
    assert what_if.terms_matching(pod) == ()
    apart = make_pod("apart", affinity=away(pod_term(HOSTNAME, None)))
    with pytest.raises(TypeError, match="use with_pod"):
        NodeView(state).what_if({0: [apart]}, {}).terms_matching(pod)


def test_a_what_if_adds_and_removes_pods_of_one_kind_on_many_nodes(state: ClusterState) -> None:
    low = next(pod for pod in NodeView(state).pods_on(1) if pod.name == "low")
    same = make_pod("same", cpu="1")
    view = NodeView(state).what_if({1: [make_pod("two", cpu="2")], 3: [same, same]}, {1: [low]})
    assert view.rows.tolist() == [1, 3]
    assert view.pod_count.tolist() == [2, 2]
    assert view.requested("cpu").tolist() == [4000, 2000]
    assert NodeView(state).pod_count.tolist() == [0, 2, 0, 0]


def test_a_what_if_covers_exactly_the_rows_it_names(state: ClusterState) -> None:
    low = next(pod for pod in NodeView(state).pods_on(1) if pod.name == "low")
    view = NodeView(state).what_if({3: [make_pod("new", cpu="1")]}, {1: [low]})
    assert view.names() == ["n1", "n3"]
    assert view.requested("cpu").tolist() == [2000, 1000]
    assert view.pod_count.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("change", "aspects"),
    [
        (make_node("n1", zone="b", cpu="1"), {Aspect.ALLOCATABLE}),
        (make_node("n1", zone="c"), {Aspect.LABELS}),
        (make_node("n1", zone="b", unschedulable=True), {Aspect.TAINTS}),
        (make_node("n1", zone="b", images={"x:1": 1}), {Aspect.IMAGES}),
        (make_node("n1", zone="b", features=["F"]), {Aspect.FEATURES}),
        (make_node("n1", zone="b"), set()),
    ],
    ids=["allocatable", "labels", "cordon", "images", "features", "nothing"],
)
def test_a_changed_node_is_stamped_in_what_changed_and_nothing_else(
    state: ClusterState, change: object, aspects: set[Aspect]
) -> None:
    before = state.stamps.generation
    assert isinstance(change, type(state.nodes.nodes[0]))
    state.add_node(change)
    stamped = {a for a in Aspect if state.stamps.changed_since([a], before).tolist() == [1]}
    assert stamped == aspects
    assert not any(state.stamps.changed_since([a], before).size for a in Aspect if a not in aspects)


def test_a_row_taken_by_another_node_is_changed_in_every_aspect(state: ClusterState) -> None:
    before = state.stamps.generation
    state.remove_node("n0")
    for aspect in Aspect:
        assert state.stamps.changed_since([aspect], before).tolist() == [0], aspect.name
    assert NodeView(state).names() == ["n3", "n1", "n2"]


def test_removing_the_last_row_changes_no_other_row(state: ClusterState) -> None:
    before = state.stamps.generation
    state.remove_node("n3")
    for aspect in Aspect:
        assert state.stamps.changed_since([aspect], before).tolist() == []


def test_nodes_are_looked_at_zone_by_zone_in_turns() -> None:
    zones = {"a1": "a", "a2": "a", "a3": "a", "b1": "b", "c1": "c", "none": None}
    state = make_state([make_node(name, zone=zone) for name, zone in zones.items()])

    def order() -> list[str]:
        rows = state.order.rows(state.nodes.row_of)
        return [state.nodes.nodes[row].name for row in rows]

    assert order() == ["a1", "b1", "c1", "none", "a2", "a3"]
    state.remove_node("b1")
    assert order() == ["a1", "c1", "none", "a2", "a3"]
    state.add_node(make_node("b1", zone="b"))
    assert order() == ["a1", "c1", "none", "b1", "a2", "a3"], "the zone begins anew at the end"
    state.add_node(make_node("a1", zone="c"))
    assert order() == ["a2", "c1", "none", "b1", "a3", "a1"], "it goes to the end of its new zone"
    state.add_node(make_node("a2", zone="a", cpu="1"))
    assert order()[0] == "a2", "other changes do not move it"


@pytest.mark.parametrize(
    ("labels", "other"),
    [
        ({ZONE: "a"}, {ZONE: "a", "topology.kubernetes.io/region": "r"}),
        ({"failure-domain.beta.kubernetes.io/zone": "x", ZONE: "a"}, {ZONE: "a"}),
        ({"failure-domain.beta.kubernetes.io/region": "x", ZONE: "a"}, {ZONE: "a"}),
    ],
    ids=["region counts", "the beta zone wins", "the beta region wins"],
)
def test_nodes_of_different_zone_keys_take_turns(
    labels: dict[str, str], other: dict[str, str]
) -> None:
    nodes = [make_node(f"one{i}", labels=labels) for i in range(2)]
    nodes += [make_node("two", labels=other)]
    state = make_state(nodes)
    rows = state.order.rows(state.nodes.row_of)
    assert [state.nodes.nodes[row].name for row in rows] == ["one0", "two", "one1"]


def test_without_its_lesser_pods_a_node_has_less_requested_with_defaults_too(
    state: ClusterState,
) -> None:
    whole = NodeView(state)
    view = whole.without(whole.lesser_pods(5, 0.0), np.array([1, 2]))
    expected = whole.what_if({2: ()}, {1: [p for p in whole.pods_on(1) if p.name == "low"]})
    for resource in ("cpu", "memory", "pods"):
        assert (
            view.requested_with_defaults(resource).tolist()
            == expected.requested_with_defaults(resource).tolist()
        )
    assert view.requested_with_defaults("cpu").tolist() == [2000, 0]
    view.give_back(np.array([0]))
    assert view.requested_with_defaults("cpu").tolist() == [3000, 0]
