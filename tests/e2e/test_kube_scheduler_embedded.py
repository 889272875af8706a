"""The real kube-scheduler, unmodified, schedules a thousand pods on Moorage's API server."""

import subprocess
from collections import Counter
from pathlib import Path

import yaml

from apiserver.serving import PODS, TIMEOUT, Client, pod, served
from e2e.binaries import Binaries
from moorage.apiserver import ApiServer
from moorage.controllers.kubelet import KubeletOptions

PODS_TO_PLACE = 1000
NODES = 50


def test_kube_scheduler_places_a_thousand_pods(binaries: Binaries, tmp_path: Path) -> None:
    with served(ApiServer, kubelets=KubeletOptions()) as (serving, api):
        serving.server.write_kubeconfig(tmp_path / "kubeconfig")
        connection = {"kubeconfig": str(tmp_path / "kubeconfig"), "qps": 5000, "burst": 5000}
        config = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": connection,
        }
        (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
        for number in range(NODES):
            api.create_node(f"n{number}")
        command = [
            str(binaries.kube_scheduler),
            "--config",
            str(tmp_path / "config.yaml"),
            "--secure-port=0",
        ]
        with (tmp_path / "log").open("w") as log:
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
            try:
                nodes = place(api)
            finally:
                process.terminate()
                process.wait(TIMEOUT)
        assert len(nodes) == PODS_TO_PLACE
        counts = Counter(nodes.values())
        assert len(counts) == NODES
        assert max(counts.values()) * 100 <= 4000, "no node takes more cpu than it has"
        assert api.get("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases").names


def place(api: Client) -> dict[str, str]:
    """Create the pods and follow them until all of them run; none may move."""
    resources = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    containers = [{"name": "c", "image": "i:1", "resources": resources}]
    nodes: dict[str, str] = {}
    running: set[str] = set()
    version = api.get(PODS).version
    for number in range(PODS_TO_PLACE):
        assert api.post(PODS, pod(f"p{number}", containers=containers)).code == 201
    with api.watch(f"{PODS}?watch=1&resourceVersion={version}") as watch:
        while len(running) < PODS_TO_PLACE:
            _, obj = watch.next()
            name, node = obj["metadata"]["name"], obj["spec"].get("nodeName")
            if node:
                assert nodes.setdefault(name, node) == node
            if obj["status"]["phase"] == "Running":
                running.add(name)
    return nodes
