"""The fewest nodes that would do, by cases that can be reckoned by hand."""

from moorage.config import default_config
from moorage.model.meta import ApiObject, Json
from moorage.model.node import HOSTNAME_LABEL
from moorage.scenarios.quality.compaction import fewest_nodes
from moorage.simulator.virtual import VirtualCluster
from moorage.simulator.world import full_registry
from moorage.testing.builders import make_node, make_pod

NODES = [make_node(f"n{i}", cpu="4", memory="8Gi") for i in range(3)]
APART: Json = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": HOSTNAME_LABEL}
            ]
        }
    }
}


def cluster(*objects: ApiObject) -> VirtualCluster:
    found = VirtualCluster(default_config(), full_registry())
    found.add(*objects)
    return found


def test_pods_that_fit_on_one_node_need_one() -> None:
    pods = [make_pod(f"p{i}", cpu="1", node_name=f"n{i}") for i in range(3)]
    assert fewest_nodes(cluster(*NODES, *pods)) == 1


def test_the_large_pods_are_packed_first() -> None:
    # 3 + 1 and 2 + 2 fill two nodes of four; the small ones first would take a third.
    asked = {"a": "1", "b": "2", "c": "2", "d": "3"}
    pods = [
        make_pod(name, cpu=cpu, node_name=f"n{i % 3}")
        for i, (name, cpu) in enumerate(asked.items())
    ]
    assert fewest_nodes(cluster(*NODES, *pods)) == 2


def test_nodes_where_a_pod_does_not_fit_are_left_out() -> None:
    small = [make_node(f"a{i}", cpu="1", memory="8Gi") for i in range(3)]
    pods = [make_pod(f"p{i}", cpu="2", node_name=f"n{i}") for i in range(3)]
    assert fewest_nodes(cluster(*small, *NODES, *pods)) == 2


def test_pods_that_must_be_apart_stay_apart() -> None:
    pods = [
        make_pod(f"p{i}", cpu="1", labels={"app": "a"}, node_name=f"n{i}", spec=APART)
        for i in range(3)
    ]
    assert fewest_nodes(cluster(*NODES, *pods)) == 3


def test_pods_of_daemon_sets_need_no_node_of_their_own() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d"}
    metadata = {"ownerReferences": [{**owner, "controller": True}]}
    daemons = [make_pod(f"d{i}", cpu="2", node_name=f"n{i}", metadata=metadata) for i in range(3)]
    # They leave room for 2 CPUs on each node, so three pods of 1 CPU need two nodes.
    pods = [make_pod(f"p{i}", cpu="1", node_name=f"n{i}") for i in range(3)]
    assert fewest_nodes(cluster(*NODES, *daemons, *pods)) == 2
    assert fewest_nodes(cluster(*NODES, *daemons)) == 0
