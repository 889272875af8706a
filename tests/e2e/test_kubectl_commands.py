"""The commands of kubectl that people type, at `moorage up`: none crashes, each does its work."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.binaries import Binaries
from e2e.client import Json
from moorage.controlplane.processes import ChildProcess, wait_until_ready

_SOURCE = Path(__file__).parents[2] / "src"
_COLUMNS = "custom-columns=NAME:.metadata.name,IMAGE:.spec.containers[0].image"


class Kubectl:
    """Runs kubectl; `folder` is its home."""

    def __init__(self, program: Path, kubeconfig: Path, folder: Path) -> None:
        self._program, self._kubeconfig, self.folder = program, kubeconfig, folder

    def __call__(self, *words: str, document: Json | None = None, code: int = 0, **env: str) -> str:
        home = {"KUBECONFIG": str(self._kubeconfig), "HOME": str(self.folder)}
        done = subprocess.run(
            [self._program, *words],
            env=home | {"PATH": os.environ["PATH"], **env},
            input=None if document is None else json.dumps(document),
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == code, done.stdout + done.stderr
        assert "panic" not in done.stderr
        return done.stdout if code == 0 else done.stdout + done.stderr

    def object(self, *words: str) -> Json:
        found: Json = json.loads(self("get", *words, "-o", "json"))
        return found


@pytest.fixture(scope="module")
def kubectl(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    folder = tmp_path_factory.mktemp("up")
    kubeconfig = folder / "kubeconfig"
    flags = ["--port", "0", "--nodes", "3", "--no-page", "--write-kubeconfig", str(kubeconfig)]
    log = folder / "log"
    process = ChildProcess(
        "moorage-up",
        [sys.executable, "-m", "moorage", "up", *flags],
        log,
        os.environ | {"PYTHONPATH": str(_SOURCE)},
    )
    try:
        wait_until_ready(process, lambda: "Ctrl-C" in log.read_text(), 30)
        run = Kubectl(binaries.kubectl, kubeconfig, folder)
        run("create", "deployment", "web", "--image=nginx:1", "--replicas=2")
        run("rollout", "status", "deployment/web", "--timeout=30s")
        run("run", "single", "--image=busybox:1")
        run("wait", "--for=condition=Ready", "pod/single", "--timeout=30s")
        yield run
    finally:
        process.stop()
    assert "Traceback" not in log.read_text()


def configmap(**data: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm"}, "data": data}


def test_apply_diff_and_replace(kubectl: Kubectl) -> None:
    assert "created" in kubectl("apply", "-f", "-", document=configmap(a="1", b="2"))
    assert "unchanged" in kubectl("apply", "-f", "-", document=configmap(a="1", b="2"))
    differs = kubectl("diff", "-f", "-", document=configmap(a="1", c="3"), code=1)
    assert '+  c: "3"' in differs
    assert '-  b: "2"' in differs
    assert "configured" in kubectl("apply", "-f", "-", document=configmap(a="1", c="3"))
    assert kubectl.object("configmap", "cm")["data"] == {"a": "1", "c": "3"}
    kubectl("diff", "-f", "-", document=configmap(a="1", c="3"))
    assert "replaced" in kubectl("replace", "-f", "-", document=configmap(d="4"))
    assert kubectl.object("configmap", "cm")["data"] == {"d": "4"}
    misspelt = {**configmap(), "dada": {}}
    refused = kubectl("apply", "-f", "-", document=misspelt, code=1)
    assert 'strict decoding error: unknown field "dada"' in refused
    kubectl("apply", "--validate=warn", "-f", "-", document=misspelt)
    assert "dada" not in kubectl.object("configmap", "cm")
    kubectl("delete", "configmap", "cm")


def test_server_side_apply(kubectl: Kubectl) -> None:
    apply = ("apply", "--server-side", "-f", "-")
    kubectl(*apply, "--field-manager=a", document=configmap(x="1", y="2"))
    kubectl(*apply, "--field-manager=b", document=configmap(x="1", z="3"))
    refused = kubectl(*apply, "--field-manager=b", document=configmap(x="9"), code=1)
    assert 'Apply failed with 1 conflict: conflict with "a": .data.x' in refused
    kubectl(*apply, "--field-manager=b", "--force-conflicts", document=configmap(x="9"))
    assert kubectl.object("configmap", "cm")["data"] == {"x": "9", "y": "2"}
    kubectl(*apply, "--field-manager=a", document=configmap(x="9"))
    assert kubectl.object("configmap", "cm")["data"] == {"x": "9"}
    shown = kubectl("get", "configmap", "cm", "-o", "yaml", "--show-managed-fields")
    assert "manager: a" in shown
    kubectl("delete", "configmap", "cm")
    # What kubectl applied on its own side goes on to be its own.
    kubectl("apply", "-f", "-", document=configmap(a="1", b="2"))
    kubectl(*apply, document=configmap(a="3"))
    assert kubectl.object("configmap", "cm")["data"] == {"a": "3"}
    kubectl("delete", "configmap", "cm")


def test_edit_opens_an_editor_and_keeps_what_it_saves(kubectl: Kubectl) -> None:
    kubectl("create", "configmap", "edited", "--from-literal=colour=red")
    assert "edited" in kubectl("edit", "configmap", "edited", KUBE_EDITOR="sed -i s/red/blue/")
    assert kubectl.object("configmap", "edited")["data"] == {"colour": "blue"}
    kubectl("edit", "configmap", "edited", KUBE_EDITOR="true")
    assert kubectl.object("configmap", "edited")["data"] == {"colour": "blue"}


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        (
            "strategic",
            '{"spec":{"template":{"spec":{"containers":[{"name":"nginx","tty":true}]}}}}',
        ),
        ("merge", '{"metadata":{"labels":{"patched":"merge"}}}'),
        ("json", '[{"op":"add","path":"/metadata/labels/patched","value":"json"}]'),
    ],
)
def test_patches_of_every_kind(kubectl: Kubectl, kind: str, patch: str) -> None:
    assert "patched" in kubectl("patch", "deployment", "web", f"--type={kind}", "-p", patch)
    stored = kubectl.object("deployment", "web")
    if kind == "strategic":
        (container,) = stored["spec"]["template"]["spec"]["containers"]
        assert (container["image"], container["tty"]) == ("nginx:1", True)
    else:
        assert stored["metadata"]["labels"]["patched"] == kind


def test_labels_annotations_taints_and_cordons(kubectl: Kubectl) -> None:
    kubectl("label", "node", "node-1", "disk=ssd")
    kubectl("annotate", "node", "node-1", "note=here")
    kubectl("taint", "node", "node-1", "a=b:NoSchedule")
    kubectl("cordon", "node-1")
    node = kubectl.object("node", "node-1")
    assert node["metadata"]["labels"]["disk"] == "ssd"
    assert node["metadata"]["annotations"]["note"] == "here"
    assert {"key": "a", "value": "b", "effect": "NoSchedule"} in node["spec"]["taints"]
    assert "SchedulingDisabled" in kubectl("get", "node", "node-1")
    described = kubectl("describe", "node", "node-1")
    assert "Taints:" in described
    assert "a=b:NoSchedule" in described
    kubectl("label", "node", "node-1", "disk-")
    kubectl("taint", "node", "node-1", "a-")
    kubectl("uncordon", "node-1")
    assert "disk" not in kubectl.object("node", "node-1")["metadata"]["labels"]
    kubectl("drain", "node-2", "--pod-selector=app=web", "--ignore-daemonsets")
    kubectl("uncordon", "node-2")
    kubectl("rollout", "status", "deployment/web", "--timeout=30s")


def test_output_of_every_form(kubectl: Kubectl) -> None:
    assert "busybox:1" in kubectl("get", "pods", "-o", _COLUMNS)
    assert kubectl("get", "pod", "single", "-o", "jsonpath={.status.phase}") == "Running"
    assert "kind: Pod" in kubectl("get", "pod", "single", "-o", "yaml")
    assert kubectl("get", "pods", "-o", "name", "--sort-by=.metadata.name")
    assert kubectl("get", "all", "-A", "-o", "wide")
    assert kubectl("get", "pods", "--show-labels", "-l", "app=web").count("app=web") >= 2
    for field in (".lastTimestamp", ".metadata.creationTimestamp", ".eventTime"):
        assert "single" in kubectl("get", "events", f"--sort-by={field}")
    assert "single" in kubectl("events")
    watched = kubectl("get", "pods", "-w", "--request-timeout=2s", code=0)
    assert "single" in watched


def test_describe_tells_of_every_kind(kubectl: Kubectl) -> None:
    assert "Successfully assigned default/single" in kubectl("describe", "pod", "single")
    assert "NewReplicaSet" in kubectl("describe", "deployment", "web")
    for kind in ("replicasets", "nodes", "namespaces", "events", "serviceaccounts"):
        assert kubectl("describe", kind)


def test_expose_autoscale_and_the_rest_of_create(kubectl: Kubectl) -> None:
    kubectl("expose", "deployment", "web", "--port=80")
    kubectl("autoscale", "deployment", "web", "--max=5", "--cpu=50%")
    kubectl("set", "resources", "deployment", "web", "--requests=cpu=10m")
    kubectl("set", "env", "deployment", "web", "A=b")
    for words in (
        "cronjob cj --image=i --schedule=0\\ *\\ *\\ *\\ * -- date",
        "secret generic s --from-literal=a=b",
        "serviceaccount sa",
        "role r --verb=get --resource=pods",
        "rolebinding rb --role=r --serviceaccount=default:sa",
        "clusterrole cr --verb=get --resource=nodes",
        "clusterrolebinding crb --clusterrole=cr --user=me",
        "quota q --hard=pods=10",
        "ingress i --rule=host/path=web:80",
        "poddisruptionbudget b --selector=app=other --min-available=1",
        "priorityclass high --value=5",
    ):
        kubectl("create", *(word.replace("\0", " ") for word in words.replace("\\ ", "\0").split()))
    listed = kubectl("get", "hpa,svc,cj,secret,sa,role,rolebinding,quota,ing,pdb", "-o", "name")
    assert len(listed.split()) >= 10
    assert "Deployment/web" in kubectl("get", "hpa")
    for kind in ("hpa/web", "service/web", "cronjob/cj", "ingress/i", "quota/q", "pdb/b"):
        assert kubectl("describe", kind)
        kubectl("delete", kind)


def test_who_may_what(kubectl: Kubectl) -> None:
    assert kubectl("auth", "can-i", "create", "pods").strip() == "yes"
    assert "*.*" in kubectl("auth", "can-i", "--list")
    assert "system:" in kubectl("auth", "whoami")


def test_what_is_said_of_the_server(kubectl: Kubectl) -> None:
    assert "Server Version: v1.37" in kubectl("version")
    assert "is running at" in kubectl("cluster-info")
    assert "apps/v1" in kubectl("api-versions")
    assert "deployments" in kubectl("api-resources")
    explained = kubectl("explain", "pod.spec.containers.ports")
    assert "containerPort" in explained
    assert "<integer>" in explained
    assert "template" in kubectl("explain", "deployment.spec", "--recursive")


@pytest.mark.parametrize(
    "words",
    [
        "logs single",
        "exec single -- ls",
        "attach single",
        "cp single:/x /tmp/x",
        "port-forward single 8080:80",
        "debug single --image=busybox",
    ],
)
def test_what_needs_a_container_is_refused_in_a_sentence(kubectl: Kubectl, words: str) -> None:
    said = kubectl(*words.split(), code=1)
    assert "no container runs in this simulated cluster: a pod " in said


@pytest.mark.parametrize("what", ["nodes", "pods"])
def test_there_are_no_metrics(kubectl: Kubectl, what: str) -> None:
    assert "Metrics API not available" in kubectl("top", what, code=1)


def test_a_custom_resource(kubectl: Kubectl) -> None:
    spec = {"type": "object", "properties": {"length": {"type": "integer"}}}
    schema = {"type": "object", "properties": {"spec": spec}}
    column = {"name": "Length", "type": "integer", "jsonPath": ".spec.length"}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "additionalPrinterColumns": [column],
    }
    names = {"plural": "boats", "singular": "boat", "kind": "Boat", "shortNames": ["bo"]}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "boats.x.io"},
        "spec": {"group": "x.io", "scope": "Namespaced", "names": names, "versions": [version]},
    }
    kubectl("apply", "-f", "-", document=definition)
    kubectl("wait", "crd/boats.x.io", "--for=condition=Established", "--timeout=10s")
    boat = {"apiVersion": "x.io/v1", "kind": "Boat", "metadata": {"name": "tug"}}
    kubectl("apply", "-f", "-", document={**boat, "spec": {"length": 12}})
    assert kubectl("get", "bo").split() == ["NAME", "LENGTH", "tug", "12"]
    kubectl("apply", "-f", "-", document={**boat, "spec": {"length": 13}})
    assert "13" in kubectl("describe", "boat", "tug")
    refused = kubectl("apply", "-f", "-", document={**boat, "spec": {"length": "x"}}, code=1)
    assert 'spec.length in body must be of type integer: "string"' in refused
    assert "length" in kubectl("explain", "boat.spec")
    kubectl("delete", "crd", "boats.x.io")
    assert "could not find the requested resource" in kubectl("get", "boats", code=1)
