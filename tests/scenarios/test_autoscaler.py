"""Node groups that follow the load, and what they cost."""

import json
from pathlib import Path
from typing import Any

import pytest

from moorage.config import FeatureGates, default_config
from moorage.controllers.kubelet import KubeletOptions
from moorage.controllers.objects import Json
from moorage.scenarios.autoscaler import Autoscaler, ScalingRule
from moorage.scenarios.node_groups import GroupLimits, ScalingGroup
from moorage.scenarios.pods import pod_manifest
from moorage.scenarios.prices import Prices
from moorage.scenarios.runs import run_scenario
from moorage.scenarios.scenario_file import ScenarioFile
from moorage.scenarios.simulation import Simulation
from moorage.simulator.node_shapes import parse_shape
from moorage.simulator.world import full_registry

HEAD: Json = {"apiVersion": "simulate.moorage.io/v1alpha1", "kind": "Scenario"}
SMALL: Json = {"name": "small", "shape": "cpu=4,memory=16Gi,price=1", "max": 10}


def played(folder: Path, *, groups: list[Json], pods: str = "", **more: Any) -> Json:
    """The result of a scenario with these groups and pods (`at,name,cpu,memory,runTime`)."""
    (folder / "pods.csv").write_text(f"at,name,cpu,memory,runTime\n{pods}")
    more.setdefault("arrivals", [{"trace": {"file": "pods.csv"}}])
    more.setdefault("cluster", {})
    more["cluster"]["nodeGroups"] = groups
    file = ScenarioFile(folder / "scenario.yaml", {**HEAD, **more})
    found: Json = run_scenario(file)["schedulers"][0]["runs"][0]
    return found


def test_nodes_come_for_pods_that_fit_nowhere_and_go_when_they_are_idle(tmp_path: Path) -> None:
    pods = "".join(f"5s,ship-{i},3,1Gi,20m\n" for i in range(3))
    found = played(tmp_path, groups=[SMALL], pods=pods)
    assert found["pods"]["finished"] == 3
    # Looked at after 10 s, a node each, there after 90 s more.
    assert found["waitingSeconds"]["p50"] == pytest.approx(95, abs=1)
    assert found["nodes"] == {"mean": found["nodes"]["mean"], "peak": 3, "end": 0}
    # From the order at 10 s until ten minutes after the pods have ended at 1,300 s.
    assert found["seconds"] == pytest.approx(1900, abs=21)
    assert found["cost"] == pytest.approx(3 * (found["seconds"] - 10) / 3600, abs=0.02)


def test_groups_stay_within_their_limits(tmp_path: Path) -> None:
    pods = "".join(f"5s,ship-{i},3,1Gi,\n" for i in range(5))
    found = played(tmp_path, groups=[{**SMALL, "min": 1, "max": 2}], pods=pods)
    assert found["pods"]["pending"] == 3
    assert found["nodes"]["end"] == 2
    found = played(tmp_path, groups=[{**SMALL, "min": 2, "max": 2}])
    assert found["nodes"] == {"mean": 2, "peak": 2, "end": 2}


def test_the_group_that_is_cheapest_for_the_pods_grows(tmp_path: Path) -> None:
    large = {"name": "large", "shape": "cpu=16,memory=64Gi,price=3", "max": 10}
    four = "".join(f"5s,ship-{i},3,1Gi,\n" for i in range(4))
    # Four small nodes cost 4, a large one 3; for one pod it is 1 against 3.
    assert played(tmp_path, groups=[SMALL, large], pods=four)["nodes"]["end"] == 1
    found = played(tmp_path, groups=[SMALL, large], pods="5s,ship,3,1Gi,1h\n")
    assert found["cost"] == pytest.approx((found["seconds"] - 10) / 3600, abs=0.02)
    # Only the large one has room for a large pod.
    assert played(tmp_path, groups=[SMALL, large], pods="5s,ship,9,1Gi,\n")["pods"]["placed"] == 1


WEB: Json = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "containers": [
                    {"name": "web", "image": "web", "resources": {"requests": {"cpu": "1"}}}
                ]
            },
        },
    },
}


def test_pods_of_controllers_move_together_and_others_keep_their_node(tmp_path: Path) -> None:
    (tmp_path / "web.json").write_text(json.dumps(WEB))
    both = [{"trace": {"file": "pods.csv"}}, {"at": "5s", "manifests": ["web.json"]}]
    short = "1s,short-1,3,1Gi,5m\n2s,short-2,3,1Gi,5m\n"
    found = played(tmp_path, groups=[SMALL], pods=short, arrivals=both)
    assert (found["nodes"]["peak"], found["nodes"]["end"]) == (2, 1)
    assert (found["pods"]["created"], found["pods"]["removed"]) == (5, 1)
    alone = f"{short}5s,alone-1,1,1Gi,\n5s,alone-2,1,1Gi,\n"
    found = played(tmp_path, groups=[SMALL], pods=alone)
    assert (found["nodes"]["peak"], found["nodes"]["end"]) == (2, 2)


def test_a_node_whose_pods_fit_nowhere_else_stays(tmp_path: Path) -> None:
    (tmp_path / "web.json").write_text(json.dumps(WEB))
    web = [{"at": "5s", "manifests": ["web.json"]}]
    one_each = {**SMALL, "shape": "cpu=1900m,memory=16Gi,price=1"}
    rule = {"below": 0.9, "unneeded": "1m", "afterStart": "1m"}
    found = played(tmp_path, groups=[one_each], autoscaler=rule, arrivals=web)
    assert (found["nodes"]["end"], found["pods"]["removed"]) == (2, 0)


def test_nodes_that_do_not_help_are_not_started_for_ever() -> None:
    gates = FeatureGates.parse("GenericWorkload=true")
    config, registry = default_config(gates), full_registry()
    options = KubeletOptions(lease_seconds=0)
    run = Simulation(config, registry, gates=gates, kubelets=options)
    prices = Prices(run)
    group = ScalingGroup(run, prices, GroupLimits(parse_shape("cpu=4,name=small"), 0, 2, 90))
    Autoscaler(run, config, registry, [group], ScalingRule(10, 0.5, 60, 60))
    policy = {"schedulingPolicy": {"gang": {"minCount": 3}}}
    metadata = {"name": "team", "namespace": "default"}
    version = "scheduling.k8s.io/v1alpha3"
    run.come({"apiVersion": version, "kind": "PodGroup", "metadata": metadata, "spec": policy})
    for number in range(3):
        pod = pod_manifest(f"member-{number}", {"cpu": "3"}, None, {})
        pod["spec"]["schedulingGroup"] = {"podGroupName": "team"}
        run.come(pod)
    # Two of the three fit, but they only go together.
    assert run.play(1e9) == "nothing more could happen"
    assert len(run.pending) == 3
    assert run.elapsed < 4 * 3600
    assert prices.result()["nodes"] == {**prices.result()["nodes"], "peak": 2, "end": 0}


def test_a_run_may_end_with_the_pods_or_when_too_many_wait(tmp_path: Path) -> None:
    pods = "5s,first,3,1Gi,1m\n10m,second,3,1Gi,1m\n"
    found = played(tmp_path, groups=[SMALL], pods=pods, stop={"finished": True})
    assert found["ended"] == "all pods had finished"
    assert (found["pods"]["finished"], found["nodes"]["end"]) == (2, 1)
    pods = "5s,first,3,1Gi,1m\n10m,second,3,1Gi,1m\n10m,third,3,1Gi,1m\n"
    found = played(tmp_path, groups=[{**SMALL, "max": 1}], pods=pods, stop={"pending": 0})
    assert (found["ended"], found["seconds"]) == ("more than 0 pods waited for a node", 5)
    found = played(tmp_path, groups=[{**SMALL, "max": 1}], pods=pods, stop={"pending": 1})
    assert found["pods"]["finished"] == 3


def test_what_is_there_from_the_beginning_costs_as_well(tmp_path: Path) -> None:
    nodes = ["2:cpu=4,memory=8Gi,name=own,price=0.5"]
    found = played(tmp_path, groups=[], cluster={"nodes": nodes}, pods="1s,ship,1,1Gi,1h\n")
    assert found["cost"] == pytest.approx(found["seconds"] / 3600, abs=1e-6)
    free = {"nodes": ["2:cpu=4,memory=8Gi"]}
    assert played(tmp_path, groups=[], cluster=free)["cost"] is None
