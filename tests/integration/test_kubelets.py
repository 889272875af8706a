"""Simulated kubelets over the API, on the embedded server."""

import asyncio
from collections.abc import Iterator

import pytest

from apiserver.serving import PODS, Client, Json, served
from moorage.apiserver import ApiServer, Fault
from moorage.apiserver.errors import ApiStatusError
from moorage.controllers.kubelet import KubeletOptions
from moorage.kube.access import Access
from moorage.local.kubelets import create_nodes
from moorage.simulator.node_shapes import node_manifests

FROM_NOW = "watch=1&resourceVersion="


@pytest.fixture
def cluster() -> Iterator[Client]:
    options = KubeletOptions(max_grace_seconds=0.05)
    with served(ApiServer, kubelets=options) as (_, api):
        yield api


def phase(obj: Json) -> str:
    return str(obj["status"].get("phase"))


def test_a_bound_pod_runs(cluster: Client) -> None:
    cluster.create_node("n1")
    version = cluster.create_pod("a")["metadata"]["resourceVersion"]
    with cluster.watch(f"{PODS}?{FROM_NOW}{version}") as watch:
        cluster.bind("a")
        running = watch.until(lambda _, obj: phase(obj) == "Running")
    status = running["status"]
    conditions = {c["type"]: c["status"] for c in status["conditions"]}
    assert conditions["Ready"] == conditions["PodScheduled"] == "True"
    assert status["podIP"].startswith("10.")
    assert status["startTime"]
    assert status["hostIP"]
    assert status["containerStatuses"][0]["state"]["running"]["startedAt"]


def test_a_node_becomes_ready_and_has_a_lease(cluster: Client) -> None:
    with cluster.watch("/api/v1/nodes?watch=1") as watch:
        cluster.post("/api/v1/nodes", {"metadata": {"name": "bare"}})
        node = watch.until(lambda _, obj: "conditions" in obj.get("status", {}))
    assert {c["type"]: c["status"] for c in node["status"]["conditions"]}["Ready"] == "True"
    assert node["status"]["allocatable"] == {"cpu": "1k", "memory": "1Ti", "pods": "1M"}
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    assert cluster.get(leases).names == ["bare"]
    cluster.delete("/api/v1/nodes/bare")
    assert cluster.get(leases).names == []


def test_what_a_node_says_of_itself_stands(cluster: Client) -> None:
    with cluster.watch("/api/v1/nodes?watch=1") as watch:
        conditions = [{"type": "Ready", "status": "False"}]
        capacity = {"cpu": "2", "memory": "1Gi", "pods": "10"}
        status = {"conditions": conditions, "capacity": capacity}
        cluster.post("/api/v1/nodes", {"metadata": {"name": "n"}, "status": status})
        node = watch.until(lambda _, obj: len(obj["status"].get("conditions", ())) > 1)
    assert node["status"]["conditions"][0]["status"] == "False"
    assert node["status"]["capacity"] == capacity


def test_a_deleted_pod_goes(cluster: Client) -> None:
    cluster.create_node("n1")
    with cluster.watch(f"{PODS}?watch=1") as watch:
        cluster.create_pod("a", nodeName="n1")
        watch.until(lambda _, obj: phase(obj) == "Running")
        cluster.delete(f"{PODS}/a")
        watch.until(lambda kind, _: kind == "DELETED")
    assert cluster.get(PODS).names == []


def test_a_pod_that_fails_is_started_again_or_not(cluster: Client) -> None:
    cluster.create_node("n1")
    annotations = {"moorage.io/finish-after": "10ms", "moorage.io/exit-code": "3"}
    metadata = {"annotations": annotations}
    with cluster.watch(f"{PODS}?watch=1") as watch:
        cluster.create_pod("once", nodeName="n1", restartPolicy="Never", metadata=metadata)
        failed = watch.until(lambda _, obj: phase(obj) == "Failed")
        assert failed["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
        cluster.create_pod("again", nodeName="n1", metadata=metadata)
        watch.until(lambda _, obj: restarts(obj) == 1)


def restarts(pod: Json) -> int:
    containers = pod["status"].get("containerStatuses") or [{"restartCount": 0}]
    return int(containers[0]["restartCount"])


def test_only_marked_nodes_are_simulated_if_so_wanted() -> None:
    options = KubeletOptions(all_nodes=False)
    with served(ApiServer, kubelets=options) as (_, api):
        api.create_node("real")
        api.create_node("fake", annotations={"kwok.x-k8s.io/node": "fake"})
        with api.watch(f"{PODS}?watch=1") as watch:
            api.create_pod("a", nodeName="real")
            api.create_pod("b", nodeName="fake")
            running = watch.until(lambda _, obj: phase(obj) == "Running")
        assert running["metadata"]["name"] == "b"
        assert phase(api.get(f"{PODS}/a").body) == "Pending"
        assert "conditions" not in api.get("/api/v1/nodes/real").body["status"]


def test_nodes_are_created_once_and_marked_as_simulated() -> None:
    with served(ApiServer) as (serving, api):
        api.create_node("node-1")
        access, nodes = Access(serving.url), node_manifests(3)
        assert asyncio.run(create_nodes(access, nodes)) == 2
        assert asyncio.run(create_nodes(access, nodes)) == 0
        marks = [
            node["metadata"].get("annotations", {}).get("kwok.x-k8s.io/node")
            for node in api.get("/api/v1/nodes").body["items"]
        ]
        assert marks == ["fake", None, "fake"]


def test_what_is_refused_is_said_once_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    with served(ApiServer, kubelets=KubeletOptions()) as (serving, api):
        error = ApiStatusError(403, "Forbidden", "injected: not for you")
        fault = Fault(error, methods=("PATCH",), plural="pods", subresource="status", times=3)
        serving.call(lambda: serving.server.faults.add(fault))
        api.create_node("n1")
        with api.watch(f"{PODS}?watch=1") as watch:
            api.create_pod("a", nodeName="n1")
            watch.until(lambda _, obj: phase(obj) == "Running")
    said = [record.getMessage() for record in caplog.records if "injected" in record.getMessage()]
    assert said == [
        "Pod default/a: injected: not for you; it is tried again, others like it are not named"
    ]
