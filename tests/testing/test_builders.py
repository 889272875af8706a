"""Builders: short to write, and exactly what they say."""

import pytest

from moorage.model.custom import custom_object
from moorage.model.taints import Taint
from moorage.testing import cluster, make_node, make_pod


def test_a_pod_has_what_was_asked_for() -> None:
    pod = make_pod(
        "ship", cpu="500m", labels={"app": "web"}, priority=3, spec={"hostNetwork": True}
    )
    assert (pod.key, pod.uid, pod.priority) == ("default/ship", "default/ship", 3)
    assert pod.requests.occupied["cpu"] == 500
    assert pod.labels == {"app": "web"}
    assert pod.spec.host_network


def test_a_node_is_labelled_with_its_name_and_zone() -> None:
    node = make_node("quay", zone="north", taints=["gpu=yes:NoSchedule", "wet:NoExecute"])
    assert node.labels == {
        "kubernetes.io/hostname": "quay",
        "topology.kubernetes.io/zone": "north",
    }
    assert node.spec.taints == (
        Taint(key="gpu", value="yes", effect="NoSchedule"),
        Taint(key="wet", value="", effect="NoExecute"),
    )
    assert node.allocatable["cpu"] == 4000


def test_a_taint_without_an_effect_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="key=value:Effect"):
        make_node(taints=["gpu"])


def test_a_cluster_holds_nodes_and_their_pods() -> None:
    state = cluster([make_node("a"), make_node("b")], [make_pod("p", node_name="b", cpu="1")])
    assert len(state) == 2
    assert [(pod.name, node) for pod, node in state.placed_pods()] == [("p", "b")]
    with pytest.raises(ValueError, match="has no node"):
        cluster([make_node("a")], [make_pod("p")])


def test_a_cluster_holds_custom_resources_apart_by_kind() -> None:
    made = [
        custom_object(
            {"apiVersion": "batch/v1", "kind": kind, "metadata": {"name": "a", "namespace": "x"}}
        )
        for kind in ("Job", "CronJob")
    ]
    listers = cluster(others=made).listers
    assert listers.of("jobs.v1.batch").get("a", "x") is made[0]
    assert listers.of("cronjobs.v1.batch").get("a", "x") is made[1]
