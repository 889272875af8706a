"""Sweeps as files: what is tried, what is best, and what is said of one that is wrong."""

import json
import re
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from moorage.config import load_config
from moorage.errors import InputError
from moorage.scenarios.sweeps import choice
from moorage.scenarios.sweeps.candidates import candidates
from moorage.scenarios.sweeps.form import Objective, sweep_schema
from moorage.scenarios.sweeps.paths import put
from moorage.scenarios.sweeps.sweep_file import SweepFile

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "sweep" / "sweep.yaml"
SCENARIO = """
apiVersion: simulate.moorage.io/v1alpha1
kind: Scenario
cluster: {nodes: ["2:cpu=4"]}
schedulers: [{name: plain}, {name: packed, config: packed.yaml}]
"""
PACKED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: harbour
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
"""
HEAD = "apiVersion: simulate.moorage.io/v1alpha1\nkind: Sweep\nscenario: scenario.yaml\n"
OBJECTIVES = "objectives: [{measure: waiting}]\n"
SWEEP = f"""{HEAD}{OBJECTIVES}parameters:
  percentageOfNodesToScore: [50, 100]
  profiles[0].plugins.multiPoint.enabled[NodeResourcesFit].weight: {{integers: [1, 3]}}
"""


def read(folder: Path, text: str) -> SweepFile:
    (folder / "scenario.yaml").write_text(SCENARIO)
    (folder / "packed.yaml").write_text(PACKED)
    path = folder / "sweep.yaml"
    path.write_text(text)
    return SweepFile(path)


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("a", 1, {"a": 1, "l": [{"name": "x", "v": 1}]}),
        ("a.b", 1, {"a": {"b": 1}, "l": [{"name": "x", "v": 1}]}),
        ("l[0].v", 2, {"l": [{"name": "x", "v": 2}]}),
        ("l[x].v", 2, {"l": [{"name": "x", "v": 2}]}),
        ("l[y].v", 2, {"l": [{"name": "x", "v": 1}, {"name": "y", "v": 2}]}),
        ("l[1]", 2, {"l": [{"name": "x", "v": 1}, 2]}),
        ("l[x]", {"w": 3}, {"l": [{"name": "x", "w": 3}]}),
        ("l[0].v[nvidia.com/gpu]", 2, "there is nothing in v, which is 1"),
        ("l[2].v", 2, "l has 1 elements: there is no l[2]"),
        ("l.v", 2, "l is a list: expected l[v] or l[0]"),
        ("l[0", 2, "expected a path such as profiles[0].pluginConfig[NodeResourcesFit].args"),
    ],
)
def test_a_field_is_set_by_its_path(path: str, value: Any, expected: Any) -> None:
    document: dict[str, Any] = {"l": [{"name": "x", "v": 1}]}
    if isinstance(expected, str):
        with pytest.raises(ValueError, match=re.escape(expected)):
            put(document, path, value)
    else:
        put(document, path, value)
        assert document == expected


def test_profiles_go_by_the_name_of_their_scheduler() -> None:
    document = {"profiles": [{"schedulerName": "a"}]}
    put(document, "profiles[a].x", 1)
    put(document, "profiles[b].x", 2)
    assert document["profiles"] == [
        {"schedulerName": "a", "x": 1},
        {"schedulerName": "b", "x": 2},
    ]


def test_a_grid_has_every_combination_in_order(tmp_path: Path) -> None:
    tried = candidates(read(tmp_path, SWEEP))
    assert [tuple(one.parameters.values()) for one in tried] == [
        *((50, 1), (50, 2), (50, 3), (100, 1), (100, 2), (100, 3))
    ]
    assert tried[4].configuration == {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "percentageOfNodesToScore": 100,
        "profiles": [
            {"plugins": {"multiPoint": {"enabled": [{"name": "NodeResourcesFit", "weight": 2}]}}}
        ],
    }
    assert load_config(yaml.safe_dump(tried[4].configuration), "x").profiles


def test_another_scheduler_of_the_scenario_is_tuned_from_its_file(tmp_path: Path) -> None:
    text = f"""{HEAD}{OBJECTIVES}scheduler: packed
parameters:
  profiles[harbour].pluginConfig[NodeResourcesFit].args.scoringStrategy.resources[cpu].weight: [7]
  cluster.nodes[0]: ["9:cpu=4"]
"""
    (one,) = candidates(read(tmp_path, text))
    strategy = {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 7}]}
    (profile,) = one.configuration["profiles"]
    assert profile["pluginConfig"][0]["args"] == {"scoringStrategy": strategy}
    assert one.scenario["cluster"] == {"nodes": ["9:cpu=4"]}
    assert one.scenario["schedulers"] == [{"name": "packed", "config": one.configuration}]


def test_chance_draws_settings_that_differ_and_the_same_ones_again(tmp_path: Path) -> None:
    text = f"""{HEAD}{OBJECTIVES}random: {{candidates: 20, seed: 3}}
parameters:
  percentageOfNodesToScore: {{integers: [1, 5]}}
  podInitialBackoffSeconds: [1, 2]
  arrivals[0]:
  - {{generate: {{name: p, rate: {{perHour: 1}}, until: 1h, sizes: [{{requests: {{cpu: "1"}}}}]}}}}
"""
    tried = candidates(read(tmp_path, text))
    settings = {json.dumps(one.parameters) for one in tried}
    assert len(settings) == len(tried) == 10, "there are no more"
    assert candidates(read(tmp_path, text)) == tried


def test_numbers_are_drawn_from_their_distributions(tmp_path: Path) -> None:
    text = f"""{HEAD}{OBJECTIVES}random: {{candidates: 300}}
parameters:
  arrivals[0]: [{{generate: {{name: p, rate: {{perHour: 1}}, until: 1h}}}}]
  arrivals[0].generate.sizes: [[{{requests: {{cpu: "1"}}}}]]
  arrivals[0].generate.rate.perHour: {{logUniform: [1, 100]}}
  arrivals[0].generate.sizes[0].weight: {{uniform: [1, 3]}}
"""
    drawn = [list(one.parameters.values())[2:] for one in candidates(read(tmp_path, text))]
    rates, weights = ([values[place] for values in drawn] for place in (0, 1))
    assert 1 <= min(rates) < max(rates) <= 100
    assert 120 < sum(rate < 10 for rate in rates) < 180
    assert 1 <= min(weights) < 1.1 < 2.9 < max(weights) <= 3


PARAMETERS = "parameters: {percentageOfNodesToScore: [1]}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ":1: expected `object`, got `null`"),
        (
            SWEEP.replace("scenario.yaml", "none.yaml"),
            ":3: scenario: expected a scenario: FOLDER/none.yaml: No such file or directory",
        ),
        (SWEEP + "scheduler: other\n", ":8: scheduler: expected one of the scenario's: plain, "),
        (HEAD + OBJECTIVES + "parameters: {}\n", ":5: parameters: expected at least one"),
        (SWEEP.replace("[50, 100]", "[]"), ":6: parameters.percentageOfNodesToScore: expected at "),
        (
            SWEEP.replace("[50, 100]", "[2026-01-01]"),
            ":6: parameters.percentageOfNodesToScore: expected values that JSON has; quote dates",
        ),
        (
            SWEEP.replace("].weight", ".weight"),
            ":7: parameters.profiles[0].plugins.multiPoint.enabled[NodeResourcesFit.weight: "
            "expected a path such as",
        ),
        (
            SWEEP.replace("percentageOf", "numberOf"),
            ":6: parameters.numberOfNodesToScore: expected a field of KubeSchedulerConfiguration "
            "(profiles and the like) or of the scenario (arrivals, ",
        ),
        (
            SWEEP.replace("percentageOfNodesToScore", "repetitions.count"),
            ":6: parameters.repetitions.count: expected the sweep's own repetitions",
        ),
        (
            SWEEP.replace("integers: [1, 3]", "integers: [3, 1]"),
            ":7: parameters.profiles[0].plugins.multiPoint.enabled[NodeResourcesFit].weight"
            ".integers: expected two numbers, the smaller first",
        ),
        (
            SWEEP.replace("integers: [1, 3]", "uniform: [1, 3]"),
            ":7: parameters.profiles[0].plugins.multiPoint.enabled[NodeResourcesFit].weight"
            ".uniform: expected values or integers: a grid needs a few to try",
        ),
        (
            SWEEP.replace("integers: [1, 3]", ""),
            ":7: parameters.profiles[0].plugins.multiPoint.enabled[NodeResourcesFit].weight: "
            "expected values, or one of integers, uniform and logUniform",
        ),
        (
            SWEEP + "random: {candidates: 0}\n",
            ":8: random.candidates: expected a number from 1 to 10,000",
        ),
        (
            SWEEP + "repetitions: {count: 0}\n",
            ":8: repetitions.count: expected a number from 1 to 10,000",
        ),
        (SWEEP + "budget: {runs: 0}\n", ":8: budget.runs: expected at least 1"),
        (SWEEP + "budget: {time: soon}\n", ":8: budget.time: expected a duration such as 90s"),
        (HEAD + PARAMETERS + "objectives: []\n", ":5: objectives: expected at least one, and "),
        (
            HEAD + PARAMETERS + "objectives:\n- {measure: pods.pending}\n",
            ":6: objectives[0]: expected a goal, min or max, as the measure is none of ",
        ),
        (
            HEAD + PARAMETERS + "objectives:\n- {measure: waiting, weight: -1}\n",
            ":6: objectives[0].weight: expected a number above 0",
        ),
        (
            SWEEP.replace("[50, 100]", "[50, often]"),
            ":6: parameters: expected values that go together, got percentageOfNodesToScore="
            '"often", profiles[0].plugins.multiPoint.enabled[NodeResourcesFit].weight=1: '
            "FOLDER/scenario.yaml: schedulers[0].config: ",
        ),
        (
            SWEEP.replace("percentageOfNodesToScore", "stop.after"),
            ":6: parameters: expected values that go together, got stop.after=50, profiles[0]"
            ".plugins.multiPoint.enabled[NodeResourcesFit].weight=1: FOLDER/scenario.yaml: "
            "stop.after: expected `str`, got `int`",
        ),
        (
            SWEEP.replace("percentageOfNodesToScore", "cluster.nodes[4]"),
            ":6: parameters.cluster.nodes[4]: nodes has 1 elements: there is no nodes[4]",
        ),
    ],
)
def test_a_sweep_that_is_wrong_is_told_by_line_and_field(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(InputError) as error:
        candidates(read(tmp_path, text))
    wanted = message.replace("FOLDER", str(tmp_path))
    assert str(error.value).startswith(f"{tmp_path / 'sweep.yaml'}{wanted}")


def test_a_grid_that_never_ends_is_refused(tmp_path: Path) -> None:
    text = SWEEP.replace("[50, 100]", "{integers: [1, 1000000000000]}")
    with pytest.raises(InputError, match="expected a grid of at most 10,000 candidates"):
        candidates(read(tmp_path, text))


def test_the_front_has_what_nothing_else_beats() -> None:
    losses = {0: (1.0, 9.0), 1: (2.0, 2.0), 2: (2.0, 3.0), 3: (9.0, 1.0), 4: (2.0, 2.0)}
    assert choice.pareto_front(losses) == {0, 1, 3, 4}


def test_the_front_is_that_of_its_definition() -> None:
    dice = Random(1)
    for _ in range(50):
        losses = {i: tuple(dice.choices(range(4), k=3)) for i in range(20)}
        beaten = {
            i
            for i, one in losses.items()
            for other in losses.values()
            if other != one and all(a <= b for a, b in zip(other, one, strict=True))
        }
        assert choice.pareto_front(losses) == losses.keys() - beaten


@pytest.mark.parametrize(
    ("rule", "weight", "expected"),
    [("weighted", 1.0, 1), ("weighted", 100.0, 0), ("lexicographic", 1.0, 0)],
)
def test_the_best_is_chosen_by_its_rule(rule: str, weight: float, expected: int) -> None:
    objectives = (Objective("waiting", weight=weight), Objective("utilisation"))
    losses = {0: (1.0, 9.0), 1: (2.0, 2.0), 2: (1.0, 10.0), 3: (9.0, 1.0)}
    assert choice.best(objectives, losses, rule) == expected


def test_what_was_not_measured_is_not_compared() -> None:
    objectives = (Objective("disruption"), Objective("utilisation"))
    summary = {"pods.preempted": {"mean": 1.0}, "utilisation.cpu.mean": {"mean": 0.5}}
    values = choice.measured(objectives, summary)
    assert values == {"disruption": None, "utilisation": 0.5}
    assert choice.losses(objectives, values) is None
    values = choice.measured(objectives, {**summary, "pods.evicted": {"mean": 2.0}})
    assert values == {"disruption": 3.0, "utilisation": 0.5}
    assert choice.losses(objectives, values) == [3.0, -0.5]


def test_the_schema_names_every_field() -> None:
    schema = sweep_schema()
    named = {name for part in schema["$defs"].values() for name in part.get("properties", ())}
    assert {"apiVersion", "logUniform", "measure", "candidates", "choose"} <= named


def test_the_example_is_that_of_the_documentation() -> None:
    assert len(candidates(SweepFile(EXAMPLE))) == 4
    assert f"```yaml\n{EXAMPLE.read_text()}```" in (ROOT / "docs" / "sweep.md").read_text()
