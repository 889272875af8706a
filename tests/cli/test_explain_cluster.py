"""`moorage explain` through a kubeconfig: the cluster is read, and nothing is written to it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from apiserver.serving import Client, Serving, served
from cli.answering import Answer, answering, kubeconfig_for, listed
from cli.running import Run
from kube.fake_api import pod, status
from moorage.apiserver import ApiServer

Json = dict[str, Any]


@pytest.fixture
def serving() -> Iterator[Serving]:
    with served(lambda: ApiServer(seed=1)) as (running, _):
        yield running


@pytest.fixture
def api(serving: Serving) -> Client:
    return Client(serving.url)


@pytest.fixture
def kubeconfig(serving: Serving, tmp_path: Path) -> str:
    path = tmp_path / "kubeconfig"
    serving.server.write_kubeconfig(path)
    return str(path)


def wanting(cpu: str) -> list[Json]:
    return [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]


def told(text: str) -> Json:
    answer: Json = json.loads(text)
    return answer


def test_a_waiting_pod_is_explained_in_the_cluster_as_it_is(
    run: Run, api: Client, kubeconfig: str
) -> None:
    for name in ("n1", "n2"):
        api.create_node(name)
    api.create_pod("aboard", containers=wanting("3"))
    assert api.bind("aboard", "n1").code == 201
    api.create_pod("ship", containers=wanting("2"))
    api.create_pod("liner", containers=wanting("9"))
    done = run("explain", "pod", "default/ship", "--kubeconfig", kubeconfig, "-o", "json")
    assert done.code == 0, done.err
    answer = told(done.out)
    assert (answer["source"], answer["node"], answer["nodes"]) == ("cluster", "n2", 2)
    (rejection,) = answer["rejections"]
    assert (rejection["plugin"], rejection["examples"]) == ("NodeResourcesFit", ["n1"])
    done = run("explain", "pod", "default/liner", "--kubeconfig", kubeconfig, "-o", "json")
    assert (done.code, told(done.out)["schedulable"]) == (3, False)
    assert [fix["verified"] for fix in told(done.out)["fixes"]]
    done = run("explain", "pod", "aboard", "--kubeconfig", kubeconfig, "-o", "json")
    answer = told(done.out)
    assert (done.code, answer["placed"], answer["feasible"]) == (0, True, 2)


def test_a_node_is_explained_with_the_pods_that_wait(
    run: Run, api: Client, kubeconfig: str
) -> None:
    api.create_node("n1")
    api.create_pod("ship", containers=wanting("2"))
    done = run("explain", "node", "n1", "--kubeconfig", kubeconfig, "-o", "json")
    assert (done.code, told(done.out)["accepts"]) == (0, ["default/ship"])
    done = run("explain", "node", "n7", "--kubeconfig", kubeconfig)
    assert done.code == 1
    assert "node n7 is not one of the 1 nodes in the cluster http://127.0.0.1:" in done.err


def test_nothing_is_written(run: Run, api: Client, kubeconfig: str) -> None:
    api.create_node("n1")
    api.create_pod("ship", containers=wanting("9"))
    before = api.get("/api/v1/pods").version
    assert run("explain", "pod", "ship", "--kubeconfig", kubeconfig).code == 3
    assert api.get("/api/v1/pods").version == before


def test_claims_and_volumes_of_the_cluster_count(run: Run, api: Client, kubeconfig: str) -> None:
    api.create_node("n1")
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "hold"}}
    api.create_pod("ship", volumes=[volume])
    done = run("explain", "pod", "ship", "--kubeconfig", kubeconfig)
    assert done.code == 3
    assert 'persistentvolumeclaim "hold" not found' in done.out
    claim = {
        "metadata": {"name": "hold"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "slow",
        },
    }
    assert api.post("/api/v1/namespaces/default/persistentvolumeclaims", claim).code == 201
    storage = {
        "metadata": {"name": "slow"},
        "provisioner": "example.com/disk",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    assert api.post("/apis/storage.k8s.io/v1/storageclasses", storage).code == 201
    assert run("explain", "pod", "ship", "--kubeconfig", kubeconfig).code == 0


def test_a_pod_that_is_not_there_is_one_sentence(run: Run, api: Client, kubeconfig: str) -> None:
    api.create_node("n1")
    for name, named in (
        ("default/kraken", "there is no pod default/kraken in the cluster http"),
        ("kraken", "pod kraken is not among the 0 pods that wait or run"),
    ):
        done = run("explain", "pod", name, "--kubeconfig", kubeconfig)
        assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
        assert named in done.err


def test_a_pod_that_has_finished_is_said_to_have(run: Run, api: Client, kubeconfig: str) -> None:
    api.create_node("n1")
    api.create_pod("ship")
    done = api.patch("/api/v1/namespaces/default/pods/ship/status", {"status": {"phase": "Failed"}})
    assert done.code == 200
    finished = run("explain", "pod", "default/ship", "--kubeconfig", kubeconfig)
    assert finished.code == 1
    assert "pod default/ship has run to its end (Failed)" in finished.err


def test_a_bare_name_is_looked_for_in_the_contexts_namespace(
    run: Run, api: Client, kubeconfig: str
) -> None:
    api.create_node("n1")
    api.create_pod("ship")
    for namespace in ("fleet", "navy"):
        assert api.post("/api/v1/namespaces", {"metadata": {"name": namespace}}).code == 201
        body = {"metadata": {"name": "ship"}, "spec": {"containers": wanting("1")}}
        assert api.post(f"/api/v1/namespaces/{namespace}/pods", body).code == 201
    asked = ("explain", "pod", "ship", "-o", "json", "--kubeconfig", kubeconfig)
    assert told(run(*asked).out)["pod"] == "default/ship"
    document = yaml.safe_load(Path(kubeconfig).read_text())
    own = {**document["contexts"][0]["context"], "namespace": "navy"}
    document["contexts"].append({"name": "navy", "context": own})
    Path(kubeconfig).write_text(yaml.safe_dump(document))
    assert told(run(*asked, "--context", "navy").out)["pod"] == "navy/ship"


def test_without_flags_the_usual_kubeconfig_is_read(
    run: Run, api: Client, kubeconfig: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    api.create_node("n1")
    api.create_pod("ship")
    monkeypatch.setenv("KUBECONFIG", kubeconfig)
    assert run("explain", "pod", "ship").code == 0
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    done = run("explain", "pod", "ship")
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert "there is no cluster to ask" in done.err


def test_a_cluster_that_does_not_answer_is_one_sentence(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(kubeconfig_for("http://127.0.0.1:1")))
    done = run("explain", "pod", "default/ship", "--kubeconfig", str(path))
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert "the API server http://127.0.0.1:1 cannot be reached: " in done.err
    done = run("explain", "pod", "ship", "--kubeconfig", str(tmp_path / "none"))
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert "no such file" in done.err


def test_a_kind_that_may_not_be_listed_is_a_warning_and_the_rest_is_read(
    run: Run, tmp_path: Path
) -> None:
    ship = pod("ship", 1)
    node = {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4", "pods": "9"}}}
    broken = {**pod("wreck", 2), "spec": {"containers": "\x1b[2J"}}
    refused = status(403, "Forbidden", "it is forbidden")
    answers: dict[str, Answer] = {
        "/api/v1/nodes": listed(node),
        "/api/v1/pods": listed(ship, broken),
        "/api/v1/namespaces/default/pods": listed(ship),
        "/apis/policy/v1/poddisruptionbudgets": (403, refused),
    }
    path = tmp_path / "kubeconfig"
    with answering(answers) as server:
        path.write_text(yaml.safe_dump(kubeconfig_for(server.url)))
        done = run("explain", "pod", "default/ship", "--kubeconfig", str(path))
    assert done.code == 0, done.err
    skipped, unread = done.err.splitlines()
    assert skipped.startswith("moorage: warning: skipped Pod default/wreck: ")
    assert "\x1b" not in skipped
    assert unread == (
        "moorage: warning: no PodDisruptionBudget is known, as they cannot be listed: "
        "it is forbidden"
    )
    assert all(request.startswith("GET ") and "watch" not in request for request in server.asked)


@pytest.mark.parametrize("code", [401, 403])
def test_a_user_without_rights_is_told_so_in_one_sentence(
    run: Run, tmp_path: Path, code: int
) -> None:
    path = tmp_path / "kubeconfig"
    refused = (code, status(code, "No", "nodes are none of your business"))
    with answering({"/api/v1/nodes": refused, "/api/v1/pods": listed()}) as server:
        path.write_text(yaml.safe_dump(kubeconfig_for(server.url)))
        done = run("explain", "node", "n1", "--kubeconfig", str(path))
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert "nodes are none of your business" in done.err
