"""Clients of Python, unmodified, with `moorage up`: nodes, workloads and a custom resource.

The official client, kr8s, lightkube and kopf list, watch, create and patch.
"""

import asyncio
import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.client import Json, wait_for
from moorage.controlplane.processes import ChildProcess, wait_until_ready

_SOURCE = Path(__file__).parents[2] / "src"
_BOATS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "boats.x.io"},
    "spec": {
        "group": "x.io",
        "scope": "Namespaced",
        "names": {"plural": "boats", "singular": "boat", "kind": "Boat"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {"length": {"type": "integer"}},
                            },
                            "status": {
                                "type": "object",
                                "x-kubernetes-preserve-unknown-fields": True,
                            },
                        },
                    }
                },
            }
        ],
    },
}
# What kopf runs: an operator that writes down each boat's length.
_OPERATOR = """
import kopf

@kopf.on.create("x.io", "v1", "boats")
def made(spec, patch, **_):
    patch.status["seen"] = spec["length"]

@kopf.on.update("x.io", "v1", "boats")
def changed(spec, patch, **_):
    patch.status["seen"] = spec["length"]

@kopf.on.event("nodes")
def node(**_):
    pass
"""


def imported(name: str) -> Any:
    """A library that `make check` runs without."""
    return importlib.import_module(name)


def deployment(name: str) -> Json:
    labels = {"app": name}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "nginx:1"}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
    }


def boat(name: str) -> Json:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "x.io/v1", "kind": "Boat", "metadata": metadata, "spec": {"length": 5}}


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of a running `moorage up` that knows boats."""
    folder = tmp_path_factory.mktemp("up")
    path = folder / "kubeconfig"
    flags = ["--port", "0", "--nodes", "3", "--no-page", "--write-kubeconfig", str(path)]
    process = ChildProcess(
        "moorage-up",
        [sys.executable, "-m", "moorage", "up", *flags],
        folder / "log",
        os.environ | {"PYTHONPATH": str(_SOURCE)},
    )
    try:
        wait_until_ready(process, lambda: "Ctrl-C" in (folder / "log").read_text(), 30)
        kubernetes = imported("kubernetes")
        with kubernetes.config.new_client_from_config(str(path)) as client:
            kubernetes.client.ApiextensionsV1Api(client).create_custom_resource_definition(_BOATS)
        yield path
    finally:
        process.stop()


def test_the_official_client(kubeconfig: Path) -> None:
    kubernetes = imported("kubernetes")
    with kubernetes.config.new_client_from_config(str(kubeconfig)) as client:
        core, apps = kubernetes.client.CoreV1Api(client), kubernetes.client.AppsV1Api(client)
        custom = kubernetes.client.CustomObjectsApi(client)
        core.create_node({"metadata": {"name": "official"}})
        core.patch_node("official", {"metadata": {"labels": {"a": "b"}}})
        nodes = {node.metadata.name: node for node in core.list_node().items}
        assert nodes["official"].metadata.labels["a"] == "b"
        assert nodes["node-0"].status.node_info.operating_system
        core.delete_node("official")
        apps.create_namespaced_deployment("default", deployment("official"))
        apps.patch_namespaced_deployment("official", "default", {"spec": {"replicas": 3}})
        watched = kubernetes.watch.Watch().stream(
            apps.list_namespaced_deployment, "default", timeout_seconds=30
        )
        assert any(
            event["object"].metadata.name == "official"
            and event["object"].status.available_replicas == 3
            for event in watched
        )
        pods = core.list_namespaced_pod("default", label_selector="app=official").items
        assert [pod.status.phase for pod in pods] == ["Running"] * 3
        assert core.list_event_for_all_namespaces().items
        which = ("x.io", "v1", "default", "boats")
        custom.create_namespaced_custom_object(*which, boat("official"))
        longer = {"spec": {"length": 6}}
        patched = custom.patch_namespaced_custom_object(*which, "official", longer)
        assert patched["spec"] == {"length": 6}
        watched = kubernetes.watch.Watch().stream(
            custom.list_namespaced_custom_object, *which, timeout_seconds=30
        )
        assert next(event for event in watched)["type"] == "ADDED"


def test_lightkube(kubeconfig: Path) -> None:
    lightkube, codecs = imported("lightkube"), imported("lightkube.codecs")
    resources = imported("lightkube.generic_resource")
    node, pod = (getattr(imported("lightkube.resources.core_v1"), k) for k in ("Node", "Pod"))
    workload = imported("lightkube.resources.apps_v1").Deployment
    types = imported("lightkube.types").PatchType
    config = lightkube.KubeConfig.from_file(kubeconfig)
    client = lightkube.Client(config, field_manager="tests")
    assert len([one for one in client.list(node) if one.status.nodeInfo.kubeletVersion]) == 3
    client.patch(node, "node-0", {"metadata": {"labels": {"lightkube": "1"}}})
    client.create(codecs.from_dict(deployment("lightkube")))
    client.patch(workload, "lightkube", {"spec": {"replicas": 3}})
    client.wait(workload, "lightkube", for_conditions=["Available"])
    _, first = next(iter(client.watch(workload, namespace="default")))
    assert first.kind == "Deployment"
    assert list(client.list(pod, labels={"app": "lightkube"}))
    applied = codecs.from_dict(deployment("applied"))
    assert client.apply(applied).spec.replicas == 2
    applied.spec.template.spec.containers[0].image = "nginx:2"
    changed = client.apply(applied, force=True)
    assert changed.spec.template.spec.containers[0].image == "nginx:2"
    boats = resources.create_namespaced_resource("x.io", "v1", "Boat", "boats")
    client.create(boats(**boat("lightkube")))
    longer = {"spec": {"length": 7}}
    patched = client.patch(boats, "lightkube", longer, patch_type=types.MERGE)
    assert patched.spec == {"length": 7}
    assert "lightkube" in {one.metadata.name for one in client.list(boats)}
    _, first = next(iter(client.watch(boats)))
    assert first.kind == "Boat"


@pytest.mark.filterwarnings("ignore:Kubernetes version .* is not supported")
def test_kr8s(kubeconfig: Path) -> None:
    kr8s, objects = imported("kr8s.asyncio"), imported("kr8s.asyncio.objects")

    async def work() -> None:
        api = await kr8s.api(kubeconfig=str(kubeconfig))
        assert "node-1" in [one.name async for one in api.get("nodes")]
        node = await objects.Node.get("node-1", api=api)
        await node.label({"kr8s": "1"})
        await node.cordon()
        await node.uncordon()
        workload = await objects.Deployment(deployment("kr8s"), api=api)
        await workload.create()
        await workload.scale(3)
        await workload.patch({"metadata": {"labels": {"patched": "1"}}})
        await workload.wait("condition=Available", timeout=30)
        pods = [one async for one in api.get("pods", label_selector={"app": "kr8s"})]
        assert len(pods) == 3
        async for kind, _ in api.watch("deployments", namespace="default"):
            assert kind == "ADDED"
            break
        boats = objects.new_class(kind="Boat", version="x.io/v1", namespaced=True, plural="boats")
        made = await boats(boat("kr8s"), api=api)
        await made.create()
        await made.patch({"spec": {"length": 9}})
        assert made.raw["spec"] == {"length": 9}
        assert "kr8s" in [one.name async for one in api.get("boats.x.io", namespace="default")]
        pod = {"containers": [{"name": "c", "image": "i"}]}
        body = {"metadata": {"name": "kr8s", "namespace": "default"}, "spec": pod}
        single = await objects.Pod(body, api=api)
        await single.create()
        await single.wait("condition=Ready", timeout=30)
        await single.delete()

    asyncio.run(work())


def test_kopf(kubeconfig: Path, tmp_path: Path) -> None:
    imported("kopf")
    (tmp_path / "boats.py").write_text(_OPERATOR)
    kubernetes = imported("kubernetes")
    which = ("x.io", "v1", "default", "boats")
    words = [sys.executable, "-m", "kopf", "run", "--all-namespaces", "boats.py"]
    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen(
            words,
            cwd=tmp_path,
            env=os.environ | {"KUBECONFIG": str(kubeconfig)},
            stdout=log,
            stderr=subprocess.STDOUT,
        ) as process,
        kubernetes.config.new_client_from_config(str(kubeconfig)) as client,
    ):
        try:
            custom = kubernetes.client.CustomObjectsApi(client)

            def seen() -> Any:
                found = custom.get_namespaced_custom_object(*which, "kopf")
                return found.get("status", {}).get("seen")

            custom.create_namespaced_custom_object(*which, boat("kopf"))
            wait_for("the operator", lambda: seen() == 5 or None)
            longer = {"spec": {"length": 8}}
            custom.patch_namespaced_custom_object(*which, "kopf", longer)
            wait_for("the operator", lambda: seen() == 8 or None)
        finally:
            process.terminate()
    log_text = (tmp_path / "log").read_text()
    assert "Traceback" not in log_text, log_text
