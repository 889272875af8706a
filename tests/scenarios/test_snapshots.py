"""Scenarios that begin with a cluster as it was read."""

import json
from pathlib import Path

from moorage.controllers.objects import Json
from moorage.scenarios.runs import run_scenario
from moorage.scenarios.scenario_file import ScenarioFile


def owned(kind: str, name: str, owner: Json | None, spec: Json, **status: object) -> Json:
    """An object as a cluster gives it."""
    metadata: Json = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    metadata |= {"labels": {"app": "web", "pod-template-hash": "1"}, "resourceVersion": "77"}
    if owner is not None:
        reference = {"kind": owner["kind"], "name": owner["metadata"]["name"], "controller": True}
        uid = owner["metadata"]["uid"]
        metadata["ownerReferences"] = [{"apiVersion": "apps/v1", **reference, "uid": uid}]
    version = "v1" if kind == "Pod" else "apps/v1"
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": metadata,
        "spec": spec,
        "status": status,
    }


def snapshot() -> Json:
    """Two nodes, and a ReplicaSet with its two pods on one of them."""
    pod = {"containers": [{"name": "main", "image": "web"}]}
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    nodes = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "uid": f"uid-{name}"},
            "status": {"allocatable": amounts, "capacity": amounts},
        }
        for name in ("quay-0", "quay-1")
    ]
    selector = {"matchLabels": {"app": "web"}}
    template = {"metadata": {"labels": selector["matchLabels"]}, "spec": pod}
    spec = {"replicas": 2, "selector": selector, "template": template}
    replica_set = owned("ReplicaSet", "web", None, spec, replicas=2)
    pods = [
        owned("Pod", f"web-{i}", replica_set, {**pod, "nodeName": "quay-0"}, phase="Running")
        for i in (1, 2)
    ]
    return {"apiVersion": "v1", "kind": "List", "items": [*nodes, replica_set, *pods]}


def test_a_cluster_goes_on_as_it_was_read(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text(json.dumps(snapshot()))
    plain = {
        "apiVersion": "simulate.moorage.io/v1alpha1",
        "kind": "Scenario",
        "cluster": {"manifests": ["cluster.json"]},
        "stop": {"after": "1h"},
    }
    path = tmp_path / "scenario.yaml"
    (run,) = run_scenario(ScenarioFile(path, plain))["schedulers"][0]["runs"]
    assert (run["pods"]["created"], run["pods"]["placed"]) == (2, 2)
    failure = {"events": [{"at": "10m", "what": "fail", "node": "quay-0"}]}
    (run,) = run_scenario(ScenarioFile(path, {**plain, **failure}))["schedulers"][0]["runs"]
    assert (run["pods"]["created"], run["pods"]["moved"], run["pods"]["pending"]) == (4, 2, 0)
