"""Clusters for the browser tests: `moorage up` as a process, with the official client."""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]

_SOURCE = Path(__file__).parents[2] / "src"
_END_SECONDS = 60
ZONES = ("east", "north", "west")
DOCKS = 3
"""So many nodes are tainted, and are the only ones that the waiting pod may go to."""


def manifests(nodes: int) -> Iterator[Json]:
    """Nodes in three zones with something on each, pods that find a place, and pods that wait."""
    for index in range(nodes):
        yield _node(f"quay-{index:04d}", ZONES[index % 3], index)
    for index in range(DOCKS, nodes):
        cpu = f"{250 * (1 + index * index % 29)}m"
        yield pod("moored", f"barge-{index:04d}", cpu=cpu, nodeName=f"quay-{index:04d}")
    for index in range(40):
        yield pod("fleet", f"ship-{index:04d}", cpu=f"{100 * (1 + index % 4)}m")
    # Held by a taint: the smallest fix is to tolerate it.
    for name in ("tug", "dinghy"):
        yield pod("harbour", name, cpu="500m", nodeSelector={"role": "dock"})
    # Held by what it selects: the API lets that be changed only on a new pod.
    yield pod("harbour", "skiff", cpu="250m", nodeSelector={"berth": "nowhere"})
    # Held by its size: the smallest fix is to ask for less.
    yield pod("harbour", "leviathan", cpu="40")


def _node(name: str, zone: str, index: int) -> Json:
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone}
    made: Json = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    if index < DOCKS:
        labels["role"] = "dock"
        made["spec"]["taints"] = [{"key": "dedicated", "value": "dock", "effect": "NoSchedule"}]
    if index % 50 == 17:
        made["spec"]["unschedulable"] = True
    return made


def pod(namespace: str, name: str, *, cpu: str, **spec: Any) -> Json:
    requests = {"cpu": cpu, "memory": "256Mi"}
    container = {"name": "hold", "image": "hold", "resources": {"requests": requests}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {"containers": [container], **spec},
    }


class Harbour:
    """A running cluster with its page."""

    def __init__(self, process: "subprocess.Popen[str]", kubeconfig: Path) -> None:
        self._process = process
        self.kubeconfig = kubeconfig
        self.page = ""
        self.nodes = 0
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append(line)
            if line.startswith("Page at "):
                self.page = line.split()[-1]
            if line.startswith("Ctrl-C ends it"):
                break
        assert self.page, f"no page was announced:\n{''.join(lines)}"

    def core(self) -> Any:
        """The official client's core API."""
        kubernetes = import_module("kubernetes")
        client = kubernetes.config.new_client_from_config(str(self.kubeconfig))
        return kubernetes.client.CoreV1Api(client)

    def create_pod(self, namespace: str, name: str, *, cpu: str = "100m") -> None:
        """One more pod."""
        self.core().create_namespaced_pod(namespace, pod(namespace, name, cpu=cpu))

    def patch_pod(self, namespace: str, name: str, patch: list[Json]) -> None:
        """Change a pod in place."""
        self.core().patch_namespaced_pod(name, namespace, patch)

    def resize_pod(self, namespace: str, name: str, patch: list[Json]) -> None:
        """Change what a pod asks for."""
        self.core().patch_namespaced_pod_resize(name, namespace, patch)

    def replace_pod(self, namespace: str, name: str, patch: list[Json]) -> None:
        """What `kubectl replace --force` does: delete the pod and create it with the change."""
        core = self.core()
        body = core.api_client.sanitize_for_serialization(core.read_namespaced_pod(name, namespace))
        for key in ("uid", "resourceVersion", "creationTimestamp", "managedFields"):
            body["metadata"].pop(key, None)
        body.pop("status", None)
        for operation in patch:
            _apply(body, operation)
        core.delete_namespaced_pod(name, namespace, grace_period_seconds=0)
        core.create_namespaced_pod(namespace, body)


def _apply(body: Json, operation: Mapping[str, Any]) -> None:
    *way, last = [part.replace("~1", "/") for part in operation["path"].split("/")[1:]]
    at: Any = body
    for part in way:
        at = at[int(part)] if isinstance(at, list) else at[part]
    if operation["op"] in ("add", "replace"):
        at[last] = operation["value"]
    elif operation["op"] == "remove":
        del at[last]


def patch_in(command: str) -> list[Json]:
    """The JSON patch of a command that the page shows, read as a shell would read it."""
    words = shlex.split(command.replace("\\\n", " "))
    patch: list[Json] = json.loads(words[words.index("-p") + 1])
    return patch


@contextmanager
def harbour(folder: Path, nodes: int, *flags: str) -> Iterator[Harbour]:
    """Run a cluster of so many nodes."""
    path, kubeconfig = folder / "cluster.yaml", folder / "kubeconfig"
    loader = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    path.write_text(yaml.dump_all(manifests(nodes), Dumper=loader))
    command = [sys.executable, "-m", "moorage", "up", "-f", str(path), *flags]
    with subprocess.Popen(
        [*command, "--write-kubeconfig", str(kubeconfig)],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(_SOURCE)},
    ) as process:
        try:
            yield Harbour(process, kubeconfig)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
