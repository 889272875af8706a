"""Simulations for tests, and objects for them."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from moorage.config import FeatureGates, load_config
from moorage.config.types import API_VERSION, KIND
from moorage.controllers.kubelet import KubeletOptions
from moorage.controllers.objects import Json, meta, spec, status
from moorage.scenarios.simulation import Simulation
from moorage.simulator.world import full_registry


@contextmanager
def simulated(
    *objects: Json, gates: dict[str, bool] | None = None, **config: Any
) -> Iterator[Simulation]:
    """A run with objects, under a configuration with these fields."""
    known = FeatureGates(gates or {})
    document = {"apiVersion": API_VERSION, "kind": KIND, **config}
    loaded = load_config(msgspec.json.encode(document), "test", known)
    options = KubeletOptions(lease_seconds=0)
    run = Simulation(loaded, full_registry(), gates=known, kubelets=options)
    try:
        for body in objects:
            run.come(body)
        yield run
    finally:
        run.close()


def node_body(name: str, cpu: str = "2", **labels: str) -> Json:
    amounts = {"cpu": cpu, "memory": "8Gi", "pods": "10"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def pod_body(name: str, cpu: str = "2", priority: int = 0, **more: Any) -> Json:
    container = {"name": "main", "image": "main", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container], "priority": priority, **more},
    }


def placements(run: Simulation) -> dict[str, str]:
    """The nodes of all pods."""
    pods: Iterable[Json] = run.api.cluster.all("Pod")
    return {meta(pod)["name"]: spec(pod).get("nodeName", "") for pod in pods}


def conditions(run: Simulation, kind: str, name: str) -> dict[str, tuple[str, str]]:
    """Status and reason of an object's conditions, by type."""
    found = run.api.cluster.get(kind, "default", name) or {}
    return {
        one["type"]: (one["status"], one.get("reason", ""))
        for one in status(found).get("conditions") or ()
    }
