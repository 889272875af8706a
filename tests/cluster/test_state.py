"""How pods and nodes come, go and contradict each other."""

from collections.abc import Callable, Iterable

import msgspec
import numpy as np
import pytest

from framework.building import make_state
from moorage.cluster import host_ports
from moorage.cluster.host_ports import HostPorts, conflict
from moorage.cluster.pod_query import PodQuery, PodSelector
from moorage.cluster.state import ClusterState
from moorage.cluster.view import NodeView
from moorage.errors import CorruptStateError, StateError
from moorage.model.labels import EVERYTHING, selector_from_labels
from moorage.model.pod import HostPort, Pod
from reference.objects import host_port, make_node, make_pod


def requested(state: ClusterState, resource: str = "cpu") -> dict[str, int]:
    view = NodeView(state)
    return dict(zip(view.names(), view.requested(resource).tolist(), strict=True))


def bound(pod: Pod, node_name: str) -> Pod:
    spec = msgspec.structs.replace(pod.spec, node_name=node_name)
    return msgspec.structs.replace(pod, spec=spec)


@pytest.fixture
def state() -> ClusterState:
    return make_state([make_node("a"), make_node("b")])


def test_an_assumed_pod_counts_on_its_node(state: ClusterState) -> None:
    pod = make_pod("p", cpu="1")
    state.assume(pod, "b")
    assert requested(state) == {"a": 0, "b": 1000}
    assert state.is_assumed(pod)
    assert state.node_of(pod) == "b"


def test_a_confirmed_pod_counts_once(state: ClusterState) -> None:
    pod = make_pod("p", cpu="1")
    state.assume(pod, "b")
    state.add_pod(bound(pod, "b"))
    assert requested(state) == {"a": 0, "b": 1000}
    assert not state.is_assumed(pod)


def test_a_pod_confirmed_on_another_node_moves_there(state: ClusterState) -> None:
    pod = make_pod("p", cpu="1")
    state.assume(pod, "b")
    state.add_pod(bound(pod, "a"))
    assert requested(state) == {"a": 1000, "b": 0}


def test_a_forgotten_pod_is_gone(state: ClusterState) -> None:
    pod = make_pod("p", cpu="1")
    state.assume(pod, "b")
    state.forget(pod)
    assert requested(state) == {"a": 0, "b": 0}
    assert state.node_of(pod) is None
    state.assume(pod, "a")


def test_forgetting_an_unknown_pod_does_nothing(state: ClusterState) -> None:
    state.forget(make_pod("stranger"))


def test_an_updated_pod_counts_for_what_it_asks_now(state: ClusterState) -> None:
    state.add_pod(make_pod("p", node="a", cpu="1", ports=[host_port(80)]))
    state.update_pod(make_pod("p", node="a", cpu="3", labels={"app": "web"}))
    assert requested(state) == {"a": 3000, "b": 0}
    taken = NodeView(state).with_taken_ports(make_pod("q", ports=[host_port(80)]).host_ports)
    assert not taken.any()


def test_pods_of_a_removed_node_wait_for_it_to_come_back(state: ClusterState) -> None:
    pod = make_pod("p", node="a", cpu="1")
    state.add_pod(pod)
    state.remove_node("a")
    assert requested(state) == {"b": 0}
    assert state.node_of(pod) == "a"
    state.add_node(make_node("a"))
    assert requested(state) == {"b": 0, "a": 1000}


def test_a_pod_may_come_before_its_node(state: ClusterState) -> None:
    pod = make_pod("p", node="c", cpu="1")
    state.add_pod(pod)
    assert requested(state) == {"a": 0, "b": 0}
    state.add_node(make_node("c"))
    assert requested(state) == {"a": 0, "b": 0, "c": 1000}


def test_a_pod_on_a_node_that_is_not_there_can_be_changed_and_removed(
    state: ClusterState,
) -> None:
    state.add_pod(make_pod("p", node="c", cpu="1"))
    state.update_pod(make_pod("p", node="c", cpu="2"))
    state.add_pod(make_pod("q", node="c", cpu="1"))
    state.remove_pod(make_pod("q", node="c", cpu="1"))
    state.add_node(make_node("c"))
    assert requested(state) == {"a": 0, "b": 0, "c": 2000}


def assumed_twice(state: ClusterState) -> None:
    state.assume(make_pod("p"), "a")
    state.assume(make_pod("p"), "b")


def added_twice(state: ClusterState) -> None:
    state.add_pod(make_pod("p", node="a"))
    state.add_pod(make_pod("p", node="a"))


def forgotten_though_confirmed(state: ClusterState) -> None:
    state.add_pod(make_pod("p", node="a"))
    state.forget(make_pod("p"))


def updated_though_unknown(state: ClusterState) -> None:
    state.update_pod(make_pod("p", node="a"))


def updated_though_only_assumed(state: ClusterState) -> None:
    state.assume(make_pod("p"), "a")
    state.update_pod(make_pod("p", node="a"))


def removed_though_unknown(state: ClusterState) -> None:
    state.remove_pod(make_pod("p", node="a"))


def unknown_node_removed(state: ClusterState) -> None:
    state.remove_node("c")


@pytest.mark.parametrize(
    ("contradiction", "message"),
    [
        (assumed_twice, r"pod uid-default-p\(default/p\) is in the cache, so can't be assumed"),
        (added_twice, "was already in added state"),
        (forgotten_though_confirmed, "wasn't assumed so cannot be forgotten"),
        (updated_though_unknown, "is not added to scheduler cache, so cannot be updated"),
        (updated_though_only_assumed, "is not added to scheduler cache, so cannot be updated"),
        (removed_though_unknown, "is not found in scheduler cache, so cannot be removed from it"),
        (unknown_node_removed, "node c is not found"),
    ],
    ids=lambda value: value.__name__.replace("_", " ") if callable(value) else "",
)
def test_an_event_that_contradicts_the_state_is_an_error_in_upstreams_words(
    state: ClusterState, contradiction: Callable[[ClusterState], None], message: str
) -> None:
    with pytest.raises(StateError, match=message):
        contradiction(state)


def test_a_confirmed_pod_that_moved_means_the_state_is_corrupt(state: ClusterState) -> None:
    state.add_pod(make_pod("p", node="a"))
    with pytest.raises(CorruptStateError, match=r"a.*b"):
        state.update_pod(make_pod("p", node="b"))


def test_a_refused_event_leaves_everything_as_it_was(state: ClusterState) -> None:
    state.add_pod(make_pod("p", node="a", cpu="1"))
    with pytest.raises(StateError):
        state.add_pod(make_pod("p", node="b", cpu="2"))
    with pytest.raises(StateError):
        state.update_pod(make_pod("q", node="b", cpu="2"))
    assert requested(state) == {"a": 1000, "b": 0}


def test_removing_a_middle_row_moves_the_last_node_into_it() -> None:
    state = make_state(
        [make_node(name, zone=name, images={f"{name}:v1": 5}) for name in "abc"],
        [make_pod("p", node="c", cpu="1", labels={"app": "web"}, ports=[host_port(80)])],
    )
    view = NodeView(state)
    web = PodQuery((PodSelector(selector_from_labels({"app": "web"})),))
    assert view.pods_matching(web).tolist() == [0, 0, 1]
    state.remove_node("a")
    view = NodeView(state)
    assert view.names() == ["c", "b"]
    assert view.requested("cpu").tolist() == [1000, 0]
    assert view.pods_matching(web).tolist() == [1, 0]
    assert view.with_taken_ports(make_pod("q", ports=[host_port(80)]).host_ports).tolist() == [
        True,
        False,
    ]
    image = view.image("c:v1")
    assert image is not None
    assert image.rows == {0}
    assert view.image("a:v1") is None
    assert [pod.name for pod in view.pods_on(0)] == ["p"]


def test_a_port_is_free_as_soon_as_one_of_the_pods_that_share_it_goes(
    state: ClusterState,
) -> None:
    wanted = make_pod("new", ports=[host_port(80)]).host_ports
    for name in ("p", "q"):
        state.add_pod(make_pod(name, node="a", ports=[host_port(80)]))
    assert NodeView(state).with_taken_ports(wanted).tolist() == [True, False]
    state.remove_pod(make_pod("p", node="a"))
    assert NodeView(state).with_taken_ports(wanted).tolist() == [False, False]


def test_the_first_node_that_reports_an_image_says_how_large_it_is() -> None:
    state = make_state([make_node("a", images={"x:1": 10}), make_node("b", images={"x:1": 99})])
    image = NodeView(state).image("x:1")
    assert image is not None
    assert (image.size, image.rows) == (10, {0, 1})
    state.add_node(make_node("a"))
    image = NodeView(state).image("x:1")
    assert image is not None
    assert (image.size, image.rows) == (10, {1})
    # Any news of the only node that has it counts as reporting it anew.
    state.add_node(make_node("b", images={"x:1": 99}, cpu="1"))
    image = NodeView(state).image("x:1")
    assert image is not None
    assert image.size == 99


def test_more_queries_than_are_remembered_are_answered_all_the_same() -> None:
    pods = [make_pod(f"p{i}", node="a", labels={"n": str(i % 3)}) for i in range(6)]
    state = make_state([make_node("a")], pods)

    def counted(number: int) -> list[int]:
        namespaces = ("default", f"other-{number}")
        query = PodQuery((PodSelector(EVERYTHING, namespaces),))
        return list(NodeView(state).pods_matching(query))

    assert all(counted(number) == [6] for number in range(1100))
    state.remove_pod(pods[0])
    assert [counted(number) for number in (0, 500, 1099)] == [[5], [5], [5]]


def test_of_some_nodes_only_those_with_the_port_are_told(state: ClusterState) -> None:
    wanted = make_pod("new", ports=[host_port(80)]).host_ports
    state.add_pod(make_pod("p", node="b", ports=[host_port(80)]))
    view = NodeView(state)
    assert view.take(np.array([1])).with_taken_ports(wanted).tolist() == [True]
    assert view.take(np.array([0])).with_taken_ports(wanted).tolist() == [False]
    state.add_pod(make_pod("q", node="a", ports=[host_port(80)]))
    assert view.take(np.array([0])).with_taken_ports(wanted).tolist() == [True]


def test_to_ask_about_one_node_costs_no_more_where_all_use_the_port(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[str] = []

    def counted(wanted: str, used: Iterable[str]) -> bool:
        compared.append(wanted)
        return conflict(wanted, used)

    ports, port = HostPorts(), HostPort("TCP", 80, "0.0.0.0")
    for row in range(100):
        ports.add(row, [port])
    monkeypatch.setattr(host_ports, "conflict", counted)
    assert ports.conflicting_rows([port], [7]) == {7}
    assert len(compared) == 1
