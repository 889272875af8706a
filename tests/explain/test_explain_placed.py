"""A pod on a node is explained as if it were not there, and the state is not touched for it."""

from collections.abc import Iterable
from enum import Enum
from typing import Any

import msgspec
import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from framework.building import make_cycle, make_profile, make_state
from moorage.cluster.columns import Column
from moorage.cluster.listers import Lister
from moorage.cluster.pod_table import PodTable
from moorage.cluster.state import ClusterState
from moorage.explain.pods import explain_pod
from moorage.explain.report import PodExplanation
from moorage.model.decode import decode_object
from moorage.model.meta import ApiObject
from moorage.model.pod import Pod
from moorage.testing import make_node, make_pod
from properties.clusters import clusters, sociable_clusters
from properties.harness import Twin, effort, fresh_cycle, rebuilt

EVERYTHING = 10_000

# What the state keeps only to answer faster: asked for a new label or selector, it grows.
KEPT = {
    "_bounds",
    "_domains",
    "_labels",
    "_queries",
    "_queries_anywhere",
    "_queries_by_pair",
    "_sets_by_pair",
    "_shared",
    "_space",
    "_sums",
    "_view",
    "queries",
}


def frozen(value: Any) -> Any:
    """Everything a state is made of, as values that can be compared."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.tobytes()
    if isinstance(value, Column):
        return frozen(value.values)
    if isinstance(value, dict):
        return [(frozen(key), frozen(inner)) for key, inner in value.items() if not unused(inner)]
    if isinstance(value, list | tuple | set | frozenset):
        return [frozen(inner) for inner in value]
    if isinstance(value, msgspec.Struct | Enum) or callable(value):
        return value
    if isinstance(value, PodTable):
        value._write()  # whoever asks about pods has this done, and nothing else is different
    names: Iterable[str] = getattr(value, "__slots__", ()) or getattr(value, "__dict__", ())
    attributes = [(name, getattr(value, name, None)) for name in names if name not in KEPT]
    return [(name, frozen(inner)) for name, inner in attributes] if names else value


def unused(value: Any) -> bool:
    """A list of objects of some kind is made when somebody first asks for it."""
    return isinstance(value, Lister) and not len(value)


def story(told: PodExplanation) -> dict[str, Any]:
    """What can be compared between states whose rows stand in another order."""
    assert told.matrix is not None
    return {
        "feasible": told.feasible,
        "rejections": {
            (one.plugin, one.point, one.reason, one.with_nominated_pods): (
                one.nodes,
                one.only,
                one.unresolvable,
            )
            for one in told.rejections
        },
        "scores": {one.node: (one.total, one.parts) for one in told.scores},
        "matrix": [(row.node, row.feasible, row.verdicts, row.total) for row in told.matrix.rows],
        "skipped": (told.skipped_filter_plugins, told.skipped_score_plugins),
    }


def picked(twin: Twin, pick: int) -> tuple[Pod, str]:
    placed = [(pod, name) for pod, name in twin.naive.placed.values() if name in twin.naive.nodes]
    assume(placed)
    return placed[pick % len(placed)]


@effort(30)
@given(st.one_of(clusters(), sociable_clusters()), st.integers(0, 2**16))
def test_a_placed_pod_is_compared_as_if_it_were_not_there(twin: Twin, pick: int) -> None:
    pod, node_name = picked(twin, pick)
    others = [other for other, name in twin.naive.placed.values() if name == node_name]
    shared = [port for other in others for port in other.host_ports if port in pod.host_ports]
    assume(len(shared) == len(pod.host_ports))  # ports are a set: one of two pods takes them along
    told = explain_pod(
        twin.cycle,
        make_profile(twin.state),
        pod,
        source="live",
        placed_on=node_name,
        top=EVERYTHING,
        matrix=(0, EVERYTHING),
    )

    really = twin.naive.copy()
    really.displace(pod.uid)
    state = rebuilt(really)
    free = msgspec.structs.replace(
        pod,
        spec=msgspec.structs.replace(pod.spec, node_name=""),
        status=msgspec.structs.replace(pod.status, nominated_node_name=""),
        metadata=msgspec.structs.replace(pod.metadata, deletion_timestamp=None),
    )
    expected = explain_pod(
        fresh_cycle(state, twin.cycle),
        make_profile(state),
        free,
        source="live",
        placed_on="a node nobody knows",
        top=EVERYTHING,
        matrix=(0, EVERYTHING),
    )

    assert story(told) == story(expected)
    assert told.placed
    assert told.schedulable
    assert told.node == node_name


def test_a_placed_pod_is_not_in_its_own_way() -> None:
    """Its port, its disk and its claim for one pod only are its own."""
    claim = decode_object(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": "data",
                "namespace": "default",
                "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
            },
            "spec": {"accessModes": ["ReadWriteOncePod"], "volumeName": "pv"},
            "status": {"phase": "Bound"},
        },
        "test",
    )
    volume = decode_object(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "pv"},
            "spec": {"accessModes": ["ReadWriteOncePod"], "capacity": {"storage": "1Gi"}},
        },
        "test",
    )
    assert isinstance(claim, ApiObject)
    assert isinstance(volume, ApiObject)
    container = {"name": "main", "ports": [{"containerPort": 80, "hostPort": 80}]}
    volumes = [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "disk", "awsElasticBlockStore": {"volumeID": "v1"}},
    ]
    spec = {"containers": [container], "volumes": volumes}
    pod = make_pod("p", node_name="n1", spec=spec)
    state = make_state([make_node("n1"), make_node("n2")], [pod], [claim, volume])
    profile = make_profile(state)

    again = explain_pod(make_cycle(state), profile, make_pod("q", spec=spec), source="files")
    reasons = {one.reason for one in again.rejections}
    assert len([text for text in reasons if "ReadWriteOncePod" in text]) == 1
    assert "node(s) had no available disk" in reasons
    assert "node(s) didn't have free ports for the requested pod ports" in reasons

    told = explain_pod(make_cycle(state), profile, pod, source="files", placed_on="n1")
    assert told.rejections == ()
    assert told.feasible == 2


def test_a_pod_on_a_node_that_is_not_known_is_told_to_be_on_such_a_node() -> None:
    state = make_state([make_node("n1"), make_node("n2")])
    pod = make_pod("lost", node_name="nowhere")

    told = explain_pod(
        make_cycle(state), make_profile(state), pod, source="files", placed_on="nowhere"
    )

    assert (told.placed, told.node) == (True, "nowhere")
    assert told.message == "default/lost is on node nowhere, not among the 2 nodes known"


@effort(30)
@given(st.one_of(clusters(), sociable_clusters()), st.integers(0, 2**16))
def test_the_state_is_the_same_bit_for_bit(twin: Twin, pick: int) -> None:
    pod, node_name = picked(twin, pick)
    profile = make_profile(twin.state)
    before = frozen(twin.state)

    explain_pod(twin.cycle, profile, pod, source="live", placed_on=node_name)

    assert frozen(twin.state) == before


def test_the_comparison_of_states_notices_a_pod_that_went_and_came_back() -> None:
    """Otherwise the test above could not fail."""
    state = ClusterState()
    state.add_node(make_node("n1"))
    pods = [make_pod(name, node_name="n1", labels={"app": "a"}) for name in ("a", "b")]
    for pod in pods:
        state.add_pod(pod)
    before = frozen(state)
    assert frozen(state) == before
    state.remove_pod(pods[0])
    state.add_pod(pods[0])
    assert frozen(state) != before
