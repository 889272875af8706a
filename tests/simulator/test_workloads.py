"""Workloads in manifests: the pods that come of them, and what is left as it is."""

from typing import Any

import pytest

from moorage.errors import DecodeError
from moorage.simulator.workloads import Placed, expand_workloads


def _workload(kind: str, name: str = "web", **spec: Any) -> dict[str, Any]:
    group = "batch/v1" if kind == "Job" else "apps/v1"
    template: dict[str, Any] = {"spec": {"containers": [{"name": "c", "image": "app:1"}]}}
    if kind != "Job":
        template["metadata"] = {"labels": {"app": name}}
        spec = {"selector": {"matchLabels": {"app": name}}, **spec}
    spec = {"template": template, **spec}
    return {"apiVersion": group, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _node(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec}


def _expanded(*documents: dict[str, Any]) -> list[str]:
    placed: list[Placed] = [(document, "test") for document in documents]
    return [
        f"{made['kind']} {made['metadata'].get('name') or made['metadata']['generateName']}"
        for made, where in expand_workloads(placed)
        if where == "test"
    ]


def test_a_deployment_becomes_a_replica_set_and_its_pods() -> None:
    replica_set, *pods = _expanded(_workload("Deployment", replicas=3))
    name = replica_set.removeprefix("ReplicaSet ")
    assert name.startswith("web-")
    assert pods == [f"Pod {name}-"] * 3


def test_a_stateful_set_has_all_its_pods_at_once_and_their_claims() -> None:
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    found = _expanded(_workload("StatefulSet", "db", replicas=2, volumeClaimTemplates=[claim]))
    assert found == [
        "StatefulSet db",
        "PersistentVolumeClaim data-db-0",
        "Pod db-0",
        "PersistentVolumeClaim data-db-1",
        "Pod db-1",
    ]


def test_a_daemon_set_has_a_pod_on_every_node_that_lets_it_in() -> None:
    taint = {"key": "gpu", "effect": "NoSchedule"}
    nodes = (_node("a"), _node("b"), _node("c", taints=[taint]))
    found = _expanded(_workload("DaemonSet", "agent"), *nodes)
    assert found == ["Pod agent-", "Pod agent-", "Node a", "Node b", "Node c"]


@pytest.mark.parametrize(
    ("spec", "pods"),
    [({}, 1), ({"parallelism": 3}, 3), ({"completions": 9, "parallelism": 2}, 2)],
)
def test_a_job_has_the_pods_that_run_at_first(spec: dict[str, Any], pods: int) -> None:
    assert _expanded(_workload("Job", "sum", **spec)) == ["Pod sum-"] * pods


def test_more_pods_than_are_made_in_one_step_are_made() -> None:
    assert len(_expanded(_workload("ReplicaSet", replicas=1_200))) == 1_201


def test_pods_that_are_there_count() -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "mine", "namespace": "default", "labels": {"app": "web"}},
    }
    found = _expanded(pod, _workload("ReplicaSet", replicas=2))
    assert found == ["Pod mine", "ReplicaSet web", "Pod web-"]


def test_what_an_api_server_wrote_down_and_other_groups_kinds_stay_as_they_are() -> None:
    read = _workload("Deployment", replicas=3)
    read["metadata"]["uid"] = "e5b0"
    foreign = {**_workload("Job", "train"), "apiVersion": "batch.volcano.sh/v1alpha1"}
    assert _expanded(read, foreign) == ["Deployment web", "Job train"]


def test_a_workload_that_would_not_find_its_pods_is_refused() -> None:
    wrong = _workload("Deployment", selector={"matchLabels": {"app": "other"}})
    with pytest.raises(DecodeError) as error:
        _expanded(wrong)
    assert str(error.value) == (
        "test: Deployment default/web: spec.selector does not select the labels of spec.template"
    )


@pytest.mark.parametrize("replicas", ["many", 10**9])
def test_what_cannot_be_expanded_is_said_in_one_sentence(replicas: Any) -> None:
    with pytest.raises(DecodeError, match=r"^test: ReplicaSet default/web: "):
        _expanded(_workload("ReplicaSet", replicas=replicas))
