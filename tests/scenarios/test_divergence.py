"""Where two schedulers part, and which plugin made the difference."""

from pathlib import Path

import pytest

from moorage.controllers.objects import Json
from moorage.scenarios.divergence import Parting, PlacedPod, counted_differences, parting
from moorage.scenarios.runs import run_scenario
from moorage.scenarios.scenario_file import ScenarioFile

A1, B1, B2 = PlacedPod(1, "x/a", "n1"), PlacedPod(2, "x/b", "n1"), PlacedPod(2, "x/b", "n2")
C3 = PlacedPod(3, "x/c", "n3")


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        ([A1, B1], [A1, B1], None),
        ([A1, B1, C3], [A1, B2, C3], Parting(2, "x/b", ("n1", "n2"))),
        ([A1, B1, C3], [A1, C3], Parting(2, "x/b", ("n1", None))),
        ([A1, C3], [A1, B2, C3], Parting(2, "x/b", (None, "n2"))),
        ([A1], [A1, B2], Parting(2, "x/b", (None, "n2"))),
    ],
)
def test_runs_part_at_the_first_decision_that_differs(
    one: list[PlacedPod], other: list[PlacedPod], found: Parting | None
) -> None:
    assert parting(one, other) == found


def test_pods_that_both_placed_are_compared_by_name() -> None:
    assert counted_differences([A1, B1], [A1, B2, C3]) == {"placedByBoth": 2, "elsewhere": 1}


SCENARIO = """
apiVersion: simulate.moorage.io/v1alpha1
kind: Scenario
cluster:
  nodes: ["1:cpu=4,memory=8Gi,name=near", "1:cpu=8,memory=16Gi,name=wide"]
arrivals:
- trace: {file: pods.csv}
schedulers:
- name: least
- name: other
  config:
    apiVersion: kubescheduler.config.k8s.io/v1
    kind: KubeSchedulerConfiguration
    profiles:
"""
MOST = """
    - pluginConfig:
      - name: NodeResourcesFit
        args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
"""
PINNED = """
    - pluginConfig:
      - name: NodeAffinity
        args:
          addedAffinity:
            requiredDuringSchedulingIgnoredDuringExecution:
              nodeSelectorTerms:
              - {matchFields: [{key: metadata.name, operator: In, values: [near-0]}]}
"""


def first_difference(folder: Path, profile: str) -> Json:
    (folder / "pods.csv").write_text("at,name,cpu,memory\n1s,a,2,1Gi\n")
    path = folder / "scenario.yaml"
    path.write_text(SCENARIO + profile)
    (comparison,) = run_scenario(ScenarioFile(path))["comparisons"]
    found: Json = comparison["decisions"]["first"]
    return found


def test_the_plugin_whose_scores_changed_makes_the_difference(tmp_path: Path) -> None:
    found = first_difference(tmp_path, MOST)
    assert (found["pod"], found["nodes"]) == ("default/a", {"least": "wide-0", "other": "near-0"})
    assert found["plugin"] == "NodeResourcesFit"
    # By CPU and memory: (50 + 87) // 2 and (75 + 93) // 2 are free; by CPU 50 and 25 are taken.
    scores = {
        name: {node: parts["NodeResourcesFit"] for node, parts in nodes.items()}
        for name, nodes in found["scores"].items()
    }
    assert scores == {
        "least": {"wide-0": 84, "near-0": 68},
        "other": {"wide-0": 25, "near-0": 50},
    }


def test_a_plugin_that_refuses_the_node_makes_the_difference(tmp_path: Path) -> None:
    found = first_difference(tmp_path, PINNED)
    assert found["plugin"] == "NodeAffinity"
    assert found["rejectedBy"] == {"least": {}, "other": {"wide-0": "NodeAffinity"}}
