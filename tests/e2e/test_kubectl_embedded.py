"""kubectl, unmodified, against Moorage's API server."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from apiserver.serving import PODS, Client, Json, served
from e2e.binaries import Binaries
from moorage.apiserver import ApiServer
from moorage.controllers.kubelet import KubeletOptions
from moorage.version import KUBERNETES_VERSION

MANIFEST = """
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  containers: [{name: main, image: "nginx:1", resources: {limits: {cpu: 100m}}}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec: {containers: [{name: main, image: "shop:1"}]}
"""


class Kubectl:
    def __init__(self, program: Path, folder: Path, client: Client) -> None:
        self.client = client
        self._folder = folder
        self._command = [str(program), "--kubeconfig", str(folder / "kubeconfig")]

    def run(self, *arguments: str, text: str = "", fails: bool = False) -> str:
        done = subprocess.run(
            [*self._command, *arguments],
            input=text,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={"HOME": str(self._folder), "PATH": os.environ["PATH"]},
        )
        assert (done.returncode != 0) is fails, done.stdout + done.stderr
        return done.stderr if fails else done.stdout

    def json(self, *arguments: str) -> Json:
        parsed: Json = json.loads(self.run(*arguments, "-o", "json"))
        return parsed


@pytest.fixture(scope="module")
def kubectl(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    folder = tmp_path_factory.mktemp("kubectl")
    options = KubeletOptions(max_grace_seconds=0.05)
    with served(ApiServer, kubelets=options) as (serving, client):
        serving.server.write_kubeconfig(folder / "kubeconfig")
        client.create_node("n1", labels={"topology.kubernetes.io/zone": "z1"})
        yield Kubectl(binaries.kubectl, folder, client)


def test_version_and_api_resources(kubectl: Kubectl) -> None:
    assert f"Server Version: {KUBERNETES_VERSION}" in kubectl.run("version")
    listed = kubectl.run("api-resources", "-o", "name").split()
    assert {"pods", "leases.coordination.k8s.io", "resourceclaims.resource.k8s.io"} <= set(listed)


def test_apply_twice_then_changed(kubectl: Kubectl) -> None:
    kubectl.run("create", "namespace", "apply")
    into = ("-n", "apply", "-f", "-")
    assert "pod/web created" in kubectl.run("apply", *into, text=MANIFEST)
    assert "pod/web unchanged" in kubectl.run("apply", *into, text=MANIFEST)
    changed = MANIFEST.replace("shop:1", "shop:2").replace("{app: web}", "{app: web, new: x}")
    output = kubectl.run("apply", *into, text=changed)
    assert "pod/web configured" in output
    assert "deployment.apps/shop configured" in output
    shop = kubectl.json("-n", "apply", "get", "deployment", "shop")
    assert shop["spec"]["template"]["spec"]["containers"][0]["image"] == "shop:2"
    removed = changed.replace(", new: x", "")
    kubectl.run("apply", *into, text=removed)
    assert kubectl.json("-n", "apply", "get", "pod", "web")["metadata"]["labels"] == {"app": "web"}
    assert kubectl.run("diff", *into, text=removed) == ""
    applied = kubectl.run("apply", "--server-side", "--force-conflicts", *into, text=removed)
    assert "pod/web serverside-applied" in applied
    kubectl.run("delete", *into, text=removed)
    assert kubectl.json("-n", "apply", "get", "pods")["items"] == []
    kubectl.run("delete", "namespace", "apply")


def test_a_list_is_created_object_by_object(kubectl: Kubectl) -> None:
    members = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"listed-{i}"}}
        for i in range(2)
    ]
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": members})

    assert kubectl.run("create", "-f", "-", text=listed).split() == [
        *("configmap/listed-0", "created"),
        *("configmap/listed-1", "created"),
    ]


def test_get_prints_columns_and_describe_tells_the_story(kubectl: Kubectl) -> None:
    kubectl.run("create", "-f", "-", text=MANIFEST.partition("---")[0])
    kubectl.client.bind("web")
    kubectl.run("wait", "--for=condition=Ready", "pod/web", "--timeout=30s")
    head, row = kubectl.run("get", "pods", "-o", "wide").splitlines()
    assert head.split()[:5] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert row.split()[:3] == ["web", "1/1", "Running"]
    assert "n1" in row
    event = {
        "metadata": {"name": "web.1"},
        "involvedObject": {
            "kind": "Pod",
            "name": "web",
            "namespace": "default",
            "uid": kubectl.json("get", "pod", "web")["metadata"]["uid"],
        },
        "reason": "Scheduled",
        "message": "Successfully assigned default/web to n1",
        "type": "Normal",
    }
    kubectl.client.post("/api/v1/namespaces/default/events", event)
    story = kubectl.run("describe", "pod", "web")
    assert "Node:             n1/" in story
    assert "Successfully assigned default/web to n1" in story
    assert "Successfully assigned" in kubectl.run("get", "events")
    assert "cpu                100m" in kubectl.run("describe", "node", "n1")
    assert kubectl.run("get", "pods", "-l", "app in (web)", "-o", "name") == "pod/web\n"
    chosen = kubectl.run("get", "pods", "--field-selector", "spec.nodeName=n1", "-o", "name")
    assert chosen == "pod/web\n"
    kubectl.run("delete", "pod", "web")
    assert "not found" in kubectl.run("get", "pod", "web", fails=True)


def test_label_annotate_taint_cordon(kubectl: Kubectl) -> None:
    kubectl.run("label", "node", "n1", "disk=ssd")
    kubectl.run("annotate", "node", "n1", "note=here")
    kubectl.run("taint", "node", "n1", "key=value:NoSchedule")
    kubectl.run("cordon", "n1")
    node = kubectl.json("get", "node", "n1")
    assert node["metadata"]["labels"]["disk"] == "ssd"
    assert node["metadata"]["annotations"]["note"] == "here"
    assert node["spec"]["unschedulable"]
    assert {"key": "key", "value": "value", "effect": "NoSchedule"} in node["spec"]["taints"]
    assert "SchedulingDisabled" in kubectl.run("get", "nodes")
    kubectl.run("uncordon", "n1")
    kubectl.run("taint", "node", "n1", "key-")
    kubectl.run("label", "node", "n1", "disk-")
    spec = kubectl.json("get", "node", "n1")["spec"]
    assert not spec.get("unschedulable")
    assert not spec.get("taints")


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        ("merge", '{"metadata":{"labels":{"p":"1"}}}'),
        ("strategic", '{"metadata":{"labels":{"p":"1"}}}'),
        ("json", '[{"op":"add","path":"/metadata/labels","value":{"p":"1"}}]'),
    ],
)
def test_patch(kubectl: Kubectl, kind: str, patch: str) -> None:
    name = f"patched-{kind}"
    kubectl.run("run", name, "--image=nginx:1")
    kubectl.run("patch", "pod", name, "--type", kind, "-p", patch)
    assert kubectl.json("get", "pod", name)["metadata"]["labels"]["p"] == "1"
    kubectl.run("delete", "pod", name)


def test_typed_commands_that_send_protobuf(kubectl: Kubectl) -> None:
    kubectl.run("create", "namespace", "typed")
    for arguments in (
        "configmap c --from-literal=a=b",
        "secret generic s --from-literal=a=b",
        "deployment d --image=nginx:1",
        "poddisruptionbudget p --min-available=50% --selector=app=d",
        "quota q --hard=pods=5",
        "serviceaccount sa",
        "service clusterip svc --tcp=80:8080",
        "job j --image=nginx:1",
        "role r --verb=get --resource=pods",
    ):
        kubectl.run("-n", "typed", "create", *arguments.split())
    assert kubectl.json("-n", "typed", "get", "cm", "c")["data"] == {"a": "b"}
    assert kubectl.json("-n", "typed", "get", "pdb", "p")["spec"]["minAvailable"] == "50%"
    port = kubectl.json("-n", "typed", "get", "svc", "svc")["spec"]["ports"][0]
    assert (port["port"], port["targetPort"]) == (80, 8080)
    kubectl.run("-n", "typed", "scale", "deployment", "d", "--replicas=4")
    assert kubectl.json("-n", "typed", "get", "deployment", "d")["spec"]["replicas"] == 4
    kubectl.run("create", "priorityclass", "urgent", "--value=1000")
    kubectl.run("delete", "namespace", "typed")
    assert "not found" in kubectl.run("get", "namespace", "typed", fails=True)


def test_watch_prints_changes(kubectl: Kubectl) -> None:
    kubectl.run("create", "namespace", "watched")
    command = [*kubectl._command, "-n", "watched", "get", "pods", "--watch", "-o", "name"]
    watching = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        kubectl.run("-n", "watched", "run", "seen", "--image=nginx:1")
        assert watching.stdout is not None
        assert watching.stdout.readline() == "pod/seen\n"
    finally:
        watching.kill()
        watching.communicate()


def test_refusals_are_shown_as_upstream_words_them(kubectl: Kubectl) -> None:
    bad = MANIFEST.partition("---")[0].replace("100m", "lots")
    message = kubectl.run("create", "-f", "-", text=bad, fails=True)
    assert "cannot be handled as a Pod: quantities must match the regular expression" in message
    kubectl.run("create", "configmap", "twice")
    again = kubectl.run("create", "configmap", "twice", fails=True)
    assert 'configmaps "twice" already exists' in again


def test_explain_auth_and_drain(kubectl: Kubectl) -> None:
    assert "KIND:       Pod" in kubectl.run("explain", "pod")
    assert kubectl.run("auth", "can-i", "create", "pods") == "yes\n"
    kubectl.client.create_pod("evicted", nodeName="n1")
    kubectl.run("wait", "--for=condition=Ready", "pod/evicted", "--timeout=30s")
    assert "evicted" in kubectl.run("drain", "n1", "--force", "--timeout=30s")
    kubectl.run("uncordon", "n1")
    assert kubectl.client.get(f"{PODS}/evicted").code == 404
