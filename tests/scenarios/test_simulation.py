"""Scenarios played in virtual time: the scheduler with controllers and kubelets."""

import json
import os
import subprocess
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from gallery.gpu_clusters import devices_in
from moorage.config import default_config, load_config
from moorage.controllers.kubelet import FINISH_AFTER, KubeletOptions
from moorage.controllers.objects import Json, meta, spec
from moorage.errors import InputError
from moorage.gallery.gpus import GPU_COUNT, GPU_INDEX, GPU_MILLI
from moorage.scenarios.measures import Measures
from moorage.scenarios.runs import run_scenario
from moorage.scenarios.scenario_file import ScenarioFile
from moorage.scenarios.simulation import Simulation
from moorage.simulator.world import full_registry

HEAD = "apiVersion: simulate.moorage.io/v1alpha1\nkind: Scenario\n"
DEPLOYMENT: Json = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 4,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main", "image": "web"}]},
        },
    },
}


def simulation(config: str = "", **kubelets: Any) -> Simulation:
    loaded = load_config(config, "test") if config else default_config()
    options = KubeletOptions(lease_seconds=0, **kubelets)
    return Simulation(loaded, full_registry(), kubelets=options)


def node(name: str, cpu: str = "2", **more: str) -> Json:
    amounts = {"cpu": cpu, "memory": "8Gi", "pods": "10", **more}
    status = {"allocatable": amounts, "capacity": amounts}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def come(run: Simulation, body: Json) -> None:
    run.api.create(body)


def pod(name: str, cpu: str = "2", lasts: str = "", priority: int = 0) -> Json:
    notes = {FINISH_AFTER: lasts} if lasts else {}
    container = {"name": "main", "image": "main", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": notes},
        "spec": {"containers": [container], "priority": priority, "restartPolicy": "Never"},
    }


def where(run: Simulation) -> dict[str, str]:
    """The nodes of all pods."""
    pods = run.api.cluster.all("Pod")
    return {meta(pod)["name"]: spec(pod).get("nodeName", "") for pod in pods}


def test_a_pod_waits_until_another_has_finished() -> None:
    run = simulation(start_seconds=1)
    measures = Measures(run)
    for body in (node("quay"), pod("first", lasts="60s"), pod("second", lasts="30s")):
        run.api.create(body)
    ended = run.play(3600)
    result = measures.result(ended)
    assert ended == "nothing more could happen"
    assert result["pods"] == {
        "created": 2,
        "placed": 2,
        "pending": 0,
        "finished": 2,
        "preempted": 0,
        "evicted": 0,
        "removed": 0,
        "moved": 0,
    }
    assert result["completionSeconds"]["p50"] == 61
    # The first pod's end wakes it at once: its back-off is over by then.
    assert result["waitingSeconds"]["p99"] == 61
    assert result["makespanSeconds"] == 92
    assert result["allocation"]["cpu"]["peak"] == 1


def test_controllers_replace_the_pods_of_a_failed_node() -> None:
    run = simulation()
    for body in (node("a"), node("b"), DEPLOYMENT):
        run.api.create(body)
    run.plan(60, lambda: run.fail("a"))
    run.plan(120, partial(come, run, node("a")))
    run.play(30)
    assert set(where(run).values()) == {"a", "b"}
    run.play(90)
    assert list(where(run).values()) == ["b"] * 4
    run.play(200)
    assert "a" in run.engine.state.nodes.row_of


def test_a_drained_node_loses_its_pods_and_takes_none() -> None:
    run = simulation(max_grace_seconds=5)
    for body in (node("a"), node("b"), DEPLOYMENT):
        run.api.create(body)
    run.plan(10, lambda: run.drain("a"))
    run.play(12)
    assert "a" in where(run).values(), "they have their time of grace"
    run.play(60)
    assert list(where(run).values()) == ["b"] * 4
    run.cordon("a", on=False)
    run.cordon("b")
    run.api.create(pod("new"))
    run.play(70)
    assert where(run)["new"] == "a"


def test_a_taint_drives_pods_out() -> None:
    run = simulation()
    for body in (node("a"), pod("ship", cpu="1")):
        run.api.create(body)
    run.play(1)
    assert where(run) == {"ship": "a"}
    taint = {"key": "dry", "effect": "NoExecute"}
    run.taint("a", taint)
    run.play(20)
    assert where(run) == {}
    run.taint("a", taint, on=False)
    run.api.create(pod("next"))
    run.play(30)
    assert where(run) == {"next": "a"}


def test_a_preemptor_waits_for_the_grace_of_its_victim() -> None:
    run = simulation(max_grace_seconds=7)
    measures = Measures(run)
    run.api.create(node("a"))
    run.api.create(pod("low"))
    run.plan(10, partial(come, run, pod("high", priority=100)))
    run.play(60)
    assert where(run) == {"high": "a"}
    result = measures.result("")
    assert result["pods"]["preempted"] == 1
    assert result["pods"]["removed"] == 1
    assert result["waitingSeconds"]["p99"] == pytest.approx(7, abs=1)


def test_what_plugins_note_on_pods_stays() -> None:
    config = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {multiPoint: {enabled: [{name: BestFit}]}}
"""
    with closing(simulation(config)) as run:
        run.api.create(node("a", **{GPU_COUNT: "2"}))
        for name in ("one", "two", "three"):
            body = pod(name, cpu="100m", lasts="60s")
            meta(body)["annotations"] |= {GPU_COUNT: "1", GPU_MILLI: "600"}
            run.api.create(body)
        run.play(10)
        assert devices_in(run.api.cluster.all("Pod"), GPU_INDEX) == {"one": "0", "two": "1"}
        run.play(300)
        assert set(devices_in(run.api.cluster.all("Pod"), GPU_INDEX)) == {"one", "two", "three"}


def test_a_run_that_cannot_end_says_so() -> None:
    template = DEPLOYMENT["spec"]["template"]
    notes = {"annotations": {FINISH_AFTER: "60s"}}
    ending = {**template, "metadata": {**template["metadata"], **notes}}
    with closing(simulation()) as run:
        run.api.create(node("a"))
        run.api.create({**DEPLOYMENT, "spec": {**DEPLOYMENT["spec"], "template": ending}})
        ended = run.play(1e9, patience=50)
    assert ended.startswith("it would go on for ever: nothing is planned, but ")
    assert "default/web" in ended
    assert run.elapsed < 1e6


def test_a_run_ends_when_its_time_is_over() -> None:
    run = simulation()
    run.api.create(node("a"))
    run.api.create(pod("ship", lasts="1h"))
    assert run.play(60) == "its time was over"
    assert run.elapsed == 60


def test_pods_that_fit_nowhere_do_not_keep_a_run_going() -> None:
    run = simulation()
    run.api.create(node("a"))
    run.api.create(pod("large", cpu="64"))
    assert run.play(1e9) == "nothing more could happen"
    assert run.elapsed < 3600


SCENARIO = f"""{HEAD}cluster:
  nodes: ["3:cpu=4,memory=8Gi,name=quay"]
arrivals:
- generate:
    name: ship
    rate: {{perHour: 60}}
    until: 1h
    sizes:
    - {{requests: {{cpu: "1", memory: 1Gi}}, weight: 2}}
    - {{requests: {{cpu: "3", memory: 1Gi}}}}
    runTime: {{exponential: 5m}}
- {{at: 10m, manifests: [late.yaml]}}
- {{trace: {{file: trace.csv}}}}
events:
- {{at: 20m, node: quay-1, what: fail}}
- {{at: 30m, node: quay-1, what: repair}}
- {{at: 35m, node: quay-2, what: taint, taint: "dry=yes:NoSchedule"}}
- {{at: 36m, node: quay-2, what: untaint, taint: "dry=yes:NoSchedule"}}
- {{at: 40m, node: quay-0, what: drain}}
- {{at: 45m, node: quay-0, what: uncordon}}
schedulers:
- {{name: spread}}
- {{name: packed, config: packed.yaml}}
repetitions: {{count: 2, seed: 7}}
"""
PACKED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}
"""


def scenario_in(folder: Path, text: str = SCENARIO) -> ScenarioFile:
    (folder / "packed.yaml").write_text(PACKED)
    (folder / "late.yaml").write_text(json.dumps(DEPLOYMENT))
    (folder / "trace.csv").write_text(
        "at,name,cpu,memory,runTime\n5m,boat-1,500m,1Gi,90s\n6m,boat-2,500m,1Gi,\n"
    )
    path = folder / "scenario.yaml"
    path.write_text(text)
    return ScenarioFile(path)


def test_a_scenario_gives_the_same_bytes_again_and_each_scheduler_the_same_pods(
    tmp_path: Path,
) -> None:
    file = scenario_in(tmp_path)
    tried: list[tuple[str, int]] = []
    result = run_scenario(file, lambda name, seed, run: tried.append((name, seed)))
    assert json.dumps(run_scenario(file)) == json.dumps(result)
    assert tried == [("spread", 7), ("spread", 8), ("packed", 7), ("packed", 8)]
    spread, packed = result["schedulers"]
    created = [[run["pods"]["created"] for run in one["runs"]] for one in (spread, packed)]
    assert created[0][0] != created[0][1]
    assert spread["summary"]["imbalance.cpu"]["mean"] < packed["summary"]["imbalance.cpu"]["mean"]
    assert spread["runs"][0]["pods"]["pending"] == 0
    assert spread["summary"]["pods.placed"]["plusMinus"] > 0


def test_other_processes_give_the_same_bytes(tmp_path: Path) -> None:
    path = scenario_in(tmp_path, SCENARIO.replace("count: 2", "count: 1")).path
    command = [sys.executable, "-m", "moorage", "simulate", str(path), "-o", "json"]
    found = {
        subprocess.run(
            command, env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


def test_a_configuration_may_stand_in_the_scenario(tmp_path: Path) -> None:
    file = scenario_in(tmp_path)
    scheduler = {"name": "packed", "config": yaml.safe_load(PACKED)}
    inline = ScenarioFile(file.path, {**file.plain, "schedulers": [scheduler]})
    packed = run_scenario(file)["schedulers"][1]
    assert run_scenario(inline)["schedulers"] == [packed]
    scheduler["config"]["profiles"][0]["harbour"] = 1
    with pytest.raises(InputError, match=r"schedulers\[0\].config: strict decoding error"):
        run_scenario(ScenarioFile(file.path, {**file.plain, "schedulers": [scheduler]}))


def test_events_on_nodes_that_are_not_there_are_refused(tmp_path: Path) -> None:
    file = scenario_in(tmp_path, SCENARIO.replace("quay-0, what: drain", "pier-0, what: drain"))
    with pytest.raises(InputError) as error:
        run_scenario(file)
    assert str(error.value) == (
        f"{file.path}:21: events[4].node: expected a node that is there then, got pier-0"
    )
