"""What `moorage simulate` prints of a result."""

import json
from pathlib import Path

import pytest

from moorage.cli.main import main

SCENARIO = """
apiVersion: simulate.moorage.io/v1alpha1
kind: Scenario
cluster:
  nodes: ["2:cpu=4,memory=8Gi,name=quay"]
arrivals:
- trace: {file: pods.csv}
schedulers:
- name: spread
- name: packed
  config:
    apiVersion: kubescheduler.config.k8s.io/v1
    kind: KubeSchedulerConfiguration
    profiles:
    - pluginConfig:
      - name: NodeResourcesFit
        args:
          scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}
      plugins: {score: {disabled: [{name: NodeResourcesBalancedAllocation}]}}
repetitions: {count: 2}
"""
PODS = "at,name,cpu,memory,runTime\n0s,a,2,1Gi,60s\n10s,b,2,1Gi,60s\n"


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    (tmp_path / "pods.csv").write_text(PODS)
    path = tmp_path / "scenario.yaml"
    path.write_text(SCENARIO)
    return path


def test_means_and_differences_stand_side_by_side(
    scenario: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", str(scenario)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["spread", "packed"]
    assert lines[1].split() == ["pods", "placed", "2.00", "2.00"]
    assert "packed less spread, seed by seed: the differences that chance does not explain" in lines
    assert any(line.startswith("imbalance of CPU, %") for line in lines)
    assert any(line.startswith("no difference seen in ") for line in lines)
    assert lines[-1] == "packed, seed 1: 70 s of virtual time; nothing more could happen"


def test_one_seed_says_nothing_of_chance(
    scenario: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario.write_text(SCENARIO.replace("count: 2", "count: 1"))
    assert main(["simulate", str(scenario)]) == 0
    out = capsys.readouterr().out
    assert "packed less spread: one seed does not tell what is chance" in out
    assert "no difference seen" not in out


def test_the_result_is_json_of_a_version(
    scenario: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", str(scenario), "-o", "json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["apiVersion"], result["kind"]) == (
        "moorage.io/simulation-v1",
        "SimulationResult",
    )
    (comparison,) = result["comparisons"]
    assert (comparison["name"], comparison["with"]) == ("packed", "spread")
    assert comparison["differences"]["imbalance.cpu"]["seen"] is True
