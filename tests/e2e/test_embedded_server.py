"""Moorage's API server serves kubectl, the official Python client and the real kube-scheduler."""

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.binaries import Binaries
from e2e.client import Api, Json
from e2e.cluster import ControlPlane, Server
from e2e.embedded import EmbeddedServer, embedded_server
from e2e.objects import node, pod
from e2e.scenarios import lifecycle, load, placement, preemption, requeueing
from e2e.schedulers import PEER, Scheduler
from e2e.trial import Trial, label, trial
from moorage.version import KUBERNETES_VERSION

_SCENARIOS = [
    pytest.param(scenario, id=label(scenario))
    for module in (placement, requeueing, lifecycle, preemption)
    for scenario in module.SCENARIOS
    if scenario is not lifecycle.api_server_restarted
]
Kubectl = Callable[..., str]


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    with embedded_server(tmp_path_factory.mktemp("embedded")) as running:
        yield running


@pytest.fixture
def api(embedded: EmbeddedServer) -> Iterator[Api]:
    with closing(Api(embedded.admin)) as opened:
        yield opened
        for kind in ("Pod", "Node"):
            for item in opened.list(kind):
                namespace = item["metadata"].get("namespace")
                opened.delete(kind, item["metadata"]["name"], namespace, grace=0)


@pytest.fixture
def kubectl(binaries: Binaries, embedded: EmbeddedServer, api: Api, tmp_path: Path) -> Kubectl:
    """Runs kubectl with some words (and a document on its standard input); what it printed."""

    def run(*words: str, document: Json | None = None, code: int = 0) -> str:
        done = subprocess.run(
            [binaries.kubectl, *words],
            env={"KUBECONFIG": str(embedded.scheduler_kubeconfig), "HOME": str(tmp_path)},
            input=None if document is None else json.dumps(document),
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr

    return run


@pytest.fixture
def one_node(api: Api) -> str:
    api.create(node("n1", zone="a"))
    return "n1"


def _in_default(body: Json) -> Json:
    body["metadata"]["namespace"] = "default"
    return body


def test_get_prints_the_columns_of_kubectl(kubectl: Kubectl, one_node: str) -> None:
    kubectl("create", "-f", "-", document=_in_default(pod("web", cpu="100m", nodeName=one_node)))
    header, row = kubectl("get", "pods").splitlines()
    assert header.split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert row.split()[:4] == ["web", "0/1", "Pending", "0"]
    wide = kubectl("get", "pod", "web", "-o", "wide").splitlines()
    assert "NODE" in wide[0].split()
    assert one_node in wide[1].split()
    header, row = kubectl("get", "nodes").splitlines()
    assert header.split() == ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]
    assert row.split()[:2] == [one_node, "Ready"]
    assert kubectl("get", "pods", "-A", "-l", "app=none") == ""
    assert kubectl("get", "pod", "web", "-o", "jsonpath={.spec.nodeName}") == one_node
    assert "not found" in kubectl("get", "pod", "nobody", code=1)


def test_describe_shows_the_object_and_its_events(kubectl: Kubectl, one_node: str) -> None:
    kubectl("create", "-f", "-", document=_in_default(pod("web", cpu="100m", nodeName=one_node)))
    shown = kubectl("describe", "pod", "web")
    assert "Name:             web" in shown
    assert f"Node:             {one_node}" in shown
    shown = kubectl("describe", "node", one_node)
    assert "Non-terminated Pods:          (1 in total)" in shown
    assert "100m (2%)" in shown


def test_apply_creates_then_changes_then_says_unchanged(kubectl: Kubectl, api: Api) -> None:
    body = _in_default(pod("web", cpu="100m", labels={"app": "web"}))
    assert kubectl("apply", "-f", "-", document=body) == "pod/web created\n"
    assert kubectl("apply", "-f", "-", document=body) == "pod/web unchanged\n"
    body["metadata"]["labels"] = {"tier": "front"}
    assert kubectl("apply", "-f", "-", document=body) == "pod/web configured\n"
    assert api.get("Pod", "web", "default")["metadata"]["labels"] == {"tier": "front"}
    assert "tier" in kubectl(
        "apply", "-f", "-", "--server-side", "--force-conflicts", "-o", "json", document=body
    )


def test_a_custom_resource_is_defined_used_and_removed(kubectl: Kubectl) -> None:
    path = Path(__file__).parents[2] / "examples" / "plugins" / "berths.yaml"
    definition = next(yaml.safe_load_all(path.read_text()))
    name = "customresourcedefinition.apiextensions.k8s.io/berths.harbour.example"
    assert kubectl("apply", "-f", "-", document=definition) == f"{name} created\n"
    kubectl("wait", "--for=condition=Established", "--timeout=10s", name)
    berth = {
        "apiVersion": "harbour.example/v1",
        "kind": "Berth",
        "metadata": {"name": "north", "namespace": "default"},
        "spec": {"node": "n1", "length": 100},
    }
    assert kubectl("apply", "-f", "-", document=berth) == "berth.harbour.example/north created\n"
    berth["spec"] = {"node": "n2", "length": 100}
    assert kubectl("apply", "-f", "-", document=berth) == (
        "berth.harbour.example/north configured\n"
    )
    assert kubectl("get", "berth", "north", "-o", "jsonpath={.spec.node}") == "n2"
    header, row = kubectl("get", "berths").splitlines()
    assert (header.split(), row.split()[0]) == (["NAME", "AGE"], "north")
    kubectl("delete", name)
    assert "could not find the requested resource" in kubectl("get", "berths", code=1)


def test_what_is_not_valid_is_refused_with_the_path_of_the_field(kubectl: Kubectl) -> None:
    body = _in_default(pod("Web!"))
    assert "metadata.name" in kubectl("create", "-f", "-", document=body, code=1)
    body = _in_default(pod("web"))
    body["spec"]["containers"] = []
    assert "spec.containers" in kubectl("create", "-f", "-", document=body, code=1)


@pytest.mark.parametrize("kind", ["strategic", "merge", "json"])
def test_patch(kind: str, kubectl: Kubectl, api: Api, one_node: str) -> None:
    change: Any = {"metadata": {"labels": {"colour": "red"}}}
    if kind == "json":
        change = [{"op": "add", "path": "/metadata/labels/colour", "value": "red"}]
    kubectl("patch", "node", one_node, "--type", kind, "-p", json.dumps(change))
    assert api.get("Node", one_node)["metadata"]["labels"]["colour"] == "red"


def test_label_taint_and_cordon(kubectl: Kubectl, api: Api, one_node: str) -> None:
    kubectl("label", "node", one_node, "disk=ssd")
    assert api.get("Node", one_node)["metadata"]["labels"]["disk"] == "ssd"
    kubectl("label", "node", one_node, "disk-")
    assert "disk" not in api.get("Node", one_node)["metadata"]["labels"]
    kubectl("annotate", "node", one_node, "note=hello")
    kubectl("taint", "node", one_node, "busy=yes:NoSchedule")
    (found,) = api.get("Node", one_node)["spec"]["taints"]
    assert found == {"key": "busy", "value": "yes", "effect": "NoSchedule"}
    kubectl("taint", "node", one_node, "busy-")
    kubectl("cordon", one_node)
    assert api.get("Node", one_node)["spec"]["unschedulable"]
    assert "SchedulingDisabled" in kubectl("get", "node", one_node)
    kubectl("uncordon", one_node)
    assert not api.get("Node", one_node)["spec"].get("unschedulable")


def test_delete_waits_until_the_object_has_gone(kubectl: Kubectl, api: Api) -> None:
    kubectl("create", "-f", "-", document=_in_default(pod("web")))
    assert "deleted" in kubectl("delete", "pod", "web", "--timeout=20s")
    assert api.find("Pod", "web", "default") is None
    kubectl("create", "-f", "-", document=_in_default(pod("web", nodeName="n1")))
    assert "deleted" in kubectl("delete", "pod", "web", "--force", "--grace-period=0")


def test_watch_shows_changes(binaries: Binaries, embedded: EmbeddedServer, api: Api) -> None:
    watching = subprocess.Popen(
        [binaries.kubectl, "get", "pods", "--watch", "--no-headers", "--request-timeout=10s"],
        env={"KUBECONFIG": str(embedded.scheduler_kubeconfig)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert watching.stdout is not None
        api.create(_in_default(pod("first")))
        assert watching.stdout.readline().split()[0] == "first"
        api.create(_in_default(pod("second")))
        assert watching.stdout.readline().split()[0] == "second"
    finally:
        watching.kill()
        watching.communicate()


def test_kubectl_knows_the_kinds_of_a_scheduler(kubectl: Kubectl) -> None:
    known = set(kubectl("api-resources", "-o", "name").split())
    assert known >= {
        *("pods", "nodes", "namespaces", "services", "persistentvolumes"),
        *("persistentvolumeclaims", "events", "leases.coordination.k8s.io"),
        *("replicasets.apps", "statefulsets.apps", "poddisruptionbudgets.policy"),
        *("priorityclasses.scheduling.k8s.io", "storageclasses.storage.k8s.io"),
        *("csinodes.storage.k8s.io", "csidrivers.storage.k8s.io"),
        *("resourceclaims.resource.k8s.io", "resourceslices.resource.k8s.io"),
    }
    assert f"Server Version: {KUBERNETES_VERSION}" in kubectl("version")


def test_the_official_python_client(embedded: EmbeddedServer, api: Api, one_node: str) -> None:
    kubernetes = pytest.importorskip("kubernetes", reason="needs the official Python client")
    client = kubernetes.config.new_client_from_config(str(embedded.scheduler_kubeconfig))
    core = kubernetes.client.CoreV1Api(client)
    assert [item.metadata.name for item in core.list_node().items] == [one_node]
    body = _in_default(pod("web", cpu="100m", labels={"app": "web"}))
    created = core.create_namespaced_pod("default", body)
    assert created.spec.containers[0].resources.requests == {"cpu": "100m"}
    core.patch_namespaced_pod("web", "default", {"metadata": {"labels": {"tier": "front"}}})
    seen = kubernetes.watch.Watch().stream(core.list_namespaced_pod, "default", timeout_seconds=5)
    assert next(iter(seen))["object"].metadata.labels == {"app": "web", "tier": "front"}
    binding = kubernetes.client.V1Binding(
        metadata={"name": "web"}, target={"apiVersion": "v1", "kind": "Node", "name": one_node}
    )
    core.create_namespaced_pod_binding("web", "default", binding, _preload_content=False)
    assert core.read_namespaced_pod("web", "default").spec.node_name == one_node
    with pytest.raises(kubernetes.client.exceptions.ApiException, match="Conflict"):
        core.create_namespaced_pod("default", body)
    core.delete_namespaced_pod("web", "default", grace_period_seconds=0)
    assert core.list_namespaced_pod("default").items == []
    client.close()


def test_the_real_kube_scheduler_places_a_thousand_pods(
    embedded: EmbeddedServer, scheduler: Callable[[str], Scheduler]
) -> None:
    with trial(embedded, scheduler(PEER), "thousand-pods") as stage:
        assert load.thousand_pods(stage)["bound"] == 990


@pytest.mark.parametrize("scenario", _SCENARIOS)
def test_kube_scheduler_sees_no_difference_from_a_real_api_server(
    scenario: Callable[[Trial], Json],
    server: ControlPlane,
    embedded: EmbeddedServer,
    scheduler: Callable[[str], Scheduler],
) -> None:
    _compare(scenario, server, embedded, scheduler(PEER))


def test_kube_scheduler_sees_no_difference_after_a_restart_of_the_server(
    server: ControlPlane, scheduler: Callable[[str], Scheduler], tmp_path: Path
) -> None:
    # A server of its own: one that does not come back would fail the other tests as well.
    with embedded_server(tmp_path) as embedded:
        _compare(lifecycle.api_server_restarted, server, embedded, scheduler(PEER))


def _compare(
    scenario: Callable[[Trial], Json],
    server: ControlPlane,
    embedded: EmbeddedServer,
    peer: Scheduler,
) -> None:
    name = label(scenario)
    seen: dict[str, Json] = {}
    stages: tuple[tuple[str, Server], ...] = (("embedded", embedded), ("real", server))
    for role, stage in stages:
        with trial(stage, peer, f"{name}-{role}") as opened:
            seen[role] = scenario(opened)
        file = server.folder / f"{name}.{role}.yaml"
        file.write_text(yaml.safe_dump(seen[role], sort_keys=False, width=1000))
    assert seen["embedded"] == seen["real"]
