"""/explain of a scheduler at a real API server: who may ask, and what is told of a waiting pod."""

import http.client
import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
import yaml

from deploy.manifests import DEPLOY, KUSTOMIZE
from e2e import objects
from e2e.binaries import Binaries
from e2e.client import Api, ApiError, Json
from e2e.cluster import SCHEDULER, ControlPlane, empty
from e2e.instance import Instance, instance, let_read
from e2e.schedulers import MOORAGE, Scheduler
from moorage.kube.annotations import HISTORY, PREFIX
from secure_port.port import client_context

NAMESPACE = "explained"
SECRET = "merger-with-globex"
PATHS = ("pods", f"pods/{NAMESPACE}/{SECRET}", "nodes", "decisions", "decisions/stream", "stats")


@pytest.fixture(scope="module")
def api(server: ControlPlane) -> Iterator[Api]:
    """An emptied cluster with a namespace, and a reader who may ask for explanations only."""
    with closing(Api(server.admin)) as admin:
        empty(admin)
        for body in (_namespace(), *_reader_role()):
            _create(admin, body)
        yield admin
        empty(admin)


@pytest.fixture(scope="module")
def live(
    server: ControlPlane, scheduler: Callable[[str], Scheduler], api: Api
) -> Iterator[Instance]:
    """Moorage, with two nodes and a pod that neither has room for."""
    del api
    let_read(server)
    flags = ("--leader-elect=false", "--ledger-memory=8Mi", "--explain-page")
    with instance(scheduler(MOORAGE), server, "explained", *flags) as running:
        yield running


@pytest.fixture(scope="module")
def waiting(api: Api, live: Instance) -> str:
    """A pod that was tried in vain."""
    api.create(objects.node("quay", cpu="4"))
    api.create(objects.node("berth", cpu="2", taints=[{"key": "a", "effect": "NoSchedule"}]))
    body = objects.pod(SECRET, cpu="8")
    body["metadata"]["namespace"] = NAMESPACE
    api.create(body)

    def tried() -> bool:
        pods = live.read_json("/explain/v1/pods")["items"]
        return [pod["pod"] for pod in pods if pod["attempts"]] == [f"{NAMESPACE}/{SECRET}"]

    live.wait("an attempt", tried)
    return SECRET


@pytest.mark.parametrize(("who", "code"), [("", 403), ("wrong", 401), ("stranger", 403)])
def test_without_rights_nothing_is_told(
    server: ControlPlane, live: Instance, waiting: str, who: str, code: int
) -> None:
    token = server.tokens.get(who, who)
    for path in PATHS:
        answer = live.ask(f"/explain/v1/{path}", token)
        assert answer.status == code, path
        assert waiting not in answer.body.replace(path, ""), path


def test_kubectl_reads_with_the_rights_of_the_reader_role(
    binaries: Binaries, server: ControlPlane, live: Instance, waiting: str
) -> None:
    def raw(who: str, path: str) -> subprocess.CompletedProcess[str]:
        command = [str(binaries.kubectl), f"--server=https://127.0.0.1:{live.port}"]
        command += ["--insecure-skip-tls-verify", f"--token={server.tokens[who]}"]
        command += ["get", "--raw", path]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    told = raw("second", f"/explain/v1/pods/{NAMESPACE}/{waiting}")
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)["pod"] == f"{NAMESPACE}/{waiting}"
    unknown = raw("second", "/explain/v1/nodes/nowhere")
    assert 'nodes "nowhere" not found' in unknown.stderr
    refused = raw("stranger", f"/explain/v1/pods/{NAMESPACE}/{waiting}")
    assert refused.returncode == 1
    assert "Forbidden" in refused.stderr


def test_a_pending_pod_is_explained_with_its_place_in_the_queue_and_fixes_that_work(
    api: Api, live: Instance, waiting: str
) -> None:
    told = live.read_json(f"/explain/v1/pods/{NAMESPACE}/{waiting}?matrix=true")
    assert (told["schema"], told["source"]) == ("moorage.explain/v1", "live")
    assert (told["schedulable"], told["nodes"], told["feasible"]) == (False, 2, 0)
    found = {(one["plugin"], one["reason"]): one["nodes"] for one in told["rejections"]}
    assert found["NodeResourcesFit", "Insufficient cpu"] == 2
    assert ("TaintToleration", "node(s) had untolerated taint(s)") in found
    condition = api.get("Pod", waiting, NAMESPACE)["status"]["conditions"][0]
    assert told["message"] == condition["message"]
    queue = told["queue"]
    assert queue["unschedulablePlugins"] == ["NodeResourcesFit", "TaintToleration"]
    assert queue["attempts"] >= 1
    assert "NodeAdd" in {one["event"] for one in queue["waitsFor"]}
    assert [row["node"] for row in told["matrix"]["rows"]] == ["berth", "quay"]
    fixes = told["fixes"]
    assert all(fix["verified"] and fix["nodesGained"] for fix in fixes)
    assert "lowerRequest" in {fix["kind"] for fix in fixes}
    decision = live.read_json(f"/explain/v1/decisions/{told['decision']}?matrix=true")
    assert decision["decision"]["pod"] == f"{NAMESPACE}/{waiting}"
    assert decision["decision"]["result"] == "unschedulable"
    assert decision["decision"]["message"] == told["message"]


def test_decisions_are_told_as_they_are_made_and_again_to_those_who_missed_them(
    server: ControlPlane, api: Api, live: Instance, waiting: str
) -> None:
    del waiting
    with closing(_stream(live, server)) as stream:
        assert stream.getheader("Content-Type") == "text/event-stream"
        body = objects.pod("small", cpu="1")
        body["metadata"]["namespace"] = NAMESPACE
        api.create(body)
        told = _next_about(stream, f"{NAMESPACE}/small")
        assert (told["result"], told["node"]) == ("scheduled", "quay")
    with closing(_stream(live, server, last=told["number"] - 1)) as stream:
        assert _next_about(stream, f"{NAMESPACE}/small")["number"] == told["number"]


def test_the_page_is_there_for_anybody_but_tells_nothing(live: Instance, waiting: str) -> None:
    answer = live.ask("/explain/")
    assert answer.status == 200
    assert "<html" in answer.body
    assert waiting not in answer.body
    assert live.ask("/explain/v1/pods").status == 403


def test_sigterm_ends_it_at_once_though_somebody_follows(
    server: ControlPlane, scheduler: Callable[[str], Scheduler], api: Api
) -> None:
    del api
    with (
        instance(scheduler(MOORAGE), server, "followed", "--leader-elect=false") as running,
        closing(_stream(running, server)) as stream,
    ):
        assert stream.status == 200
        # Without an election the end counts as a failure, as upstream; killed it would be -9.
        assert running.process.stop(3.0) == 1


def test_decisions_are_written_to_pods_only_where_that_is_asked_for_and_allowed(
    server: ControlPlane, scheduler: Callable[[str], Scheduler], api: Api
) -> None:
    api.create(objects.node("annotated", cpu="64"))

    def placed(name: str) -> None:
        body = objects.pod(name, cpu="10m", schedulerName="annotator")
        body["metadata"]["namespace"] = NAMESPACE
        api.create(body)
        running.wait(name, lambda: api.get("Pod", name, NAMESPACE)["spec"].get("nodeName"))

    # Beside the other instance, so for pods of its own.
    config = server.folder / "annotator.yaml"
    config.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "clientConnection": {"kubeconfig": str(server.scheduler_kubeconfig)},
                "leaderElection": {"leaderElect": False},
                "profiles": [{"schedulerName": "annotator"}],
            }
        )
    )
    flags = (f"--config={config}", "--explain-annotations")
    with instance(scheduler(MOORAGE), server, "annotations", *flags) as running:
        placed("unwritten")
        running.wait("refusal", lambda: "annotations of pod" in running.log())
        assert 'cannot patch resource "pods"' in running.log()
        for body in _annotation_role():
            _create(api, body)

        running.wait("rights, which take a moment to be known", lambda: _may_patch(server))
        placed("written")
        found = running.wait("annotations", lambda: _annotations(api, "written"))
    node = found[PREFIX + "selected-node"]
    assert json.loads(found[PREFIX + "bind-result"]) == {"DefaultBinder": "success"}
    assert json.loads(found[PREFIX + "filter-result"])[node]["NodeResourcesFit"] == "passed"
    assert len(json.loads(found[HISTORY])) == 1
    assert not any(key.startswith(PREFIX) for key in _annotations(api, "unwritten"))


def _annotations(api: Api, pod: str) -> dict[str, str]:
    found: dict[str, str] = api.get("Pod", pod, NAMESPACE)["metadata"].get("annotations", {})
    return found


def _may_patch(server: ControlPlane) -> bool:
    """Has the API server heard that the scheduler may change pods?"""
    with closing(Api(server.access(SCHEDULER))) as its:
        try:
            its.patch("Pod", "unwritten", {"metadata": {"annotations": {"a": "b"}}}, NAMESPACE)
        except ApiError as failure:
            if failure.code == 403:
                return False
            raise
    return True


def _stream(
    running: Instance, server: ControlPlane, last: int | None = None
) -> http.client.HTTPResponse:
    connection = http.client.HTTPSConnection(
        "127.0.0.1", running.port, context=client_context(), timeout=30
    )
    headers = {"Authorization": f"Bearer {server.tokens['reader']}"}
    if last is not None:
        headers["Last-Event-ID"] = str(last)
    connection.request("GET", "/explain/v1/decisions/stream", headers=headers)
    return connection.getresponse()


def _next_about(stream: http.client.HTTPResponse, pod: str) -> Json:
    for line in stream:
        if line.startswith(b"data: "):
            told: Json = json.loads(line.removeprefix(b"data: "))
            if told["pod"] == pod:
                return told
    raise AssertionError("the stream ended")


def _namespace() -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}


def _reader_role() -> list[Json]:
    """The role of deploy/rbac, bound to a group of its own."""
    (role,) = yaml.safe_load_all((DEPLOY / "rbac" / "explain-reader.yaml").read_text())
    return [role, _binding(role, {"kind": "Group", "name": "e2e:audited"})]


def _annotation_role() -> list[Json]:
    folder = KUSTOMIZE / "components" / "explain-annotations"
    (role,) = yaml.safe_load_all((folder / "cluster-role.yaml").read_text())
    return [role, _binding(role, {"kind": "User", "name": SCHEDULER})]


def _binding(role: Json, subject: Json) -> Json:
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"e2e:{role['metadata']['name']}"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role["metadata"]["name"]},
        "subjects": [{"apiGroup": group, **subject}],
    }


def _create(api: Api, body: Json) -> None:
    path = {
        "Namespace": "/api/v1/namespaces",
        "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    }[body["kind"]]
    try:
        api.call("POST", path, body)
    except ApiError as failure:
        if failure.code != 409:
            raise
