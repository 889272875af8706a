"""Simulated kubelets."""

from collections.abc import Iterator

import pytest

from apiserver.serving import PODS, Client, Json, served
from moorage.apiserver import ApiServer, KubeletOptions
from moorage.apiserver.kubelets import duration_seconds

FROM_NOW = "watch=1&resourceVersion="


@pytest.fixture
def cluster() -> Iterator[Client]:
    options = KubeletOptions(max_grace_seconds=0.05)
    with served(lambda: ApiServer(kubelets=options)) as (_, api):
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


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({"moorage.io/finish-after": "10ms"}, "Succeeded"),
        ({"moorage.io/finish-after": "0s", "moorage.io/exit-code": "3"}, "Failed"),
        ({"pod-complete.stage.kwok.x-k8s.io/delay": "10ms"}, "Succeeded"),
    ],
)
def test_annotated_pods_finish(cluster: Client, annotations: dict[str, str], expected: str) -> None:
    cluster.create_node("n1")
    with cluster.watch(f"{PODS}?watch=1") as watch:
        cluster.create_pod("a", nodeName="n1", metadata={"annotations": annotations})
        finished = watch.until(lambda _, obj: phase(obj) in ("Succeeded", "Failed"))
    assert phase(finished) == expected
    ended = finished["status"]["containerStatuses"][0]["state"]["terminated"]
    assert ended["exitCode"] == (3 if expected == "Failed" else 0)


def test_pods_of_jobs_finish_by_themselves(cluster: Client) -> None:
    cluster.create_node("n1")
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "1"}
    with cluster.watch(f"{PODS}?watch=1") as watch:
        cluster.create_pod("a", nodeName="n1", metadata={"ownerReferences": [owner]})
        watch.until(lambda _, obj: phase(obj) == "Succeeded")


def test_a_delay_is_kept(cluster: Client) -> None:
    cluster.create_node("n1")
    annotations = {"pod-ready.stage.kwok.x-k8s.io/delay": "1h"}
    with cluster.watch(f"{PODS}?watch=1") as watch:
        cluster.create_pod("slow", nodeName="n1", metadata={"annotations": annotations})
        cluster.create_pod("z", nodeName="n1")
        watch.until(lambda _, obj: phase(obj) == "Running")
    assert phase(cluster.get(f"{PODS}/slow").body) == "Pending"


def test_only_marked_nodes_are_simulated_if_so_wanted() -> None:
    options = KubeletOptions(all_nodes=False)
    with served(lambda: ApiServer(kubelets=options)) as (_, api):
        api.create_node("real")
        api.create_node("fake", annotations={"kwok.x-k8s.io/node": "fake"})
        with api.watch(f"{PODS}?watch=1") as watch:
            api.create_pod("a", nodeName="real")
            api.create_pod("b", nodeName="fake")
            running = watch.until(lambda _, obj: phase(obj) == "Running")
        assert running["metadata"]["name"] == "b"
        assert phase(api.get(f"{PODS}/a").body) == "Pending"
        assert "conditions" not in api.get("/api/v1/nodes/real").body["status"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5s", 5), ("1m30s", 90), ("250ms", 0.25), ("1.5h", 5400), ("", None), ("soon", None)],
)
def test_durations(text: str, seconds: float | None) -> None:
    assert duration_seconds(text) == seconds
