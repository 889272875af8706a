"""Runs of a sweep: kept as they end, taken up again, and the same whoever plays them."""

import json
import os
import signal
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from moorage.errors import InputError
from moorage.scenarios.sweeps.choice import NAMED
from moorage.scenarios.sweeps.results import RunLines
from moorage.scenarios.sweeps.sweep_file import SweepFile
from moorage.scenarios.sweeps.sweeping import run_sweep
from moorage.scenarios.sweeps.workers import Workers

SCENARIO = """
apiVersion: simulate.moorage.io/v1alpha1
kind: Scenario
cluster: {nodes: ["2:cpu=4,name=quay,price=3"], manifests: [ship.json]}
arrivals:
- generate: {name: p, rate: {perHour: 30}, until: 20m, sizes: [{requests: {cpu: "1"}}]}
events: [{at: 1m, node: quay-0, what: cordon}]
"""
SHIP = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "ship", "namespace": "default"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}
SWEEP = """
apiVersion: simulate.moorage.io/v1alpha1
kind: Sweep
scenario: scenario.yaml
parameters:
  percentageOfNodesToScore: [50, 100]
  events[0].node: [quay-0, quay-1]
objectives: [{measure: waiting}, {measure: pods.pending, goal: min}]
repetitions: {count: 2, seed: 1}
"""
HERE = Workers(jobs=1)


def sweep_in(folder: Path, text: str = SWEEP) -> SweepFile:
    (folder / "scenario.yaml").write_text(SCENARIO)
    (folder / "ship.json").write_text(json.dumps(SHIP))
    (folder / "sweep.yaml").write_text(text)
    return SweepFile(folder / "sweep.yaml")


class Told:
    """What is told while a sweep goes on."""

    def __init__(self) -> None:
        self.begun: tuple[int, int] | None = None
        self.failures: list[str] = []

    def __call__(self, done: int, total: int, failure: str) -> None:
        self.begun = self.begun or (done, total)
        self.failures += [failure] if failure else []


def test_a_sweep_goes_on_after_it_was_killed_and_comes_to_the_same(tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole.jsonl", tmp_path / "cut.jsonl"
    file = sweep_in(tmp_path)
    result = run_sweep(file, whole, HERE, 0)
    command = [sys.executable, "-m", "moorage", "sweep", str(file.path), "--jobs", "1"]
    with subprocess.Popen(
        [*command, "--results", str(cut)],
        env={**os.environ, "PYTHONPATH": str(files("moorage") / "..")},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert "1 of 8 runs" in process.stderr.readline()
        process.send_signal(signal.SIGKILL)
    with cut.open("ab") as lines:
        lines.write(b'{"id":"cut of')
    told = Told()
    assert run_sweep(file, cut, HERE, 0, told) == result
    assert told.begun is not None
    assert 1 <= told.begun[0] < told.begun[1] == 8
    assert cut.read_bytes() == whole.read_bytes()


def test_processes_come_to_the_same_as_one_alone(tmp_path: Path) -> None:
    alone, beside = tmp_path / "alone.jsonl", tmp_path / "beside.jsonl"
    file = sweep_in(tmp_path)
    assert run_sweep(file, alone, HERE, 0) == run_sweep(file, beside, Workers(jobs=2), 0)
    assert alone.read_bytes() == beside.read_bytes()
    seeds = [json.loads(line)["seed"] for line in alone.read_text().splitlines()]
    assert seeds == [1, 2] * 4


def test_a_run_that_fails_is_tried_again_and_the_others_go_on(tmp_path: Path) -> None:
    file = sweep_in(tmp_path, SWEEP.replace("quay-1", "pier").replace("[50, 100]", "[50]"))
    told = Told()
    result = run_sweep(file, tmp_path / "r", HERE, 2, told)
    assert [one["runs"] for one in result["candidates"]] == [2, 0]
    assert [one["onFront"] for one in result["candidates"]] == [True, False]
    assert result["best"]["parameters"]["events[0].node"] == "quay-0"
    why = f"{tmp_path / 'scenario.yaml'}: events[0].node: expected a node that is there then"
    assert [one["seed"] for one in result["missing"]] == [1, 2]
    assert result["missing"][0]["why"].startswith(why)
    assert len(told.failures) == 2 * 3
    parameters = 'percentageOfNodesToScore=50, events[0].node="pier", seed 1: '
    assert told.failures[0].startswith(parameters + why)


def test_a_measure_that_runs_do_not_have_is_told_with_those_that_they_have(tmp_path: Path) -> None:
    file = sweep_in(tmp_path, SWEEP.replace("pods.pending", "pods.lost") + "budget: {runs: 1}\n")
    with pytest.raises(InputError) as error:
        run_sweep(file, tmp_path / "r", HERE, 0)
    assert str(error.value).startswith(
        f"{tmp_path / 'sweep.yaml'}:8: objectives[1].measure: expected a measure of these runs, "
        "got pods.lost: utilisation, waiting, spread, disruption, cost, "
    )


def test_the_five_names_are_of_measures_that_runs_have(tmp_path: Path) -> None:
    others = ", ".join(f"{{measure: {name}}}" for name in NAMED if name != "waiting")
    text = SWEEP.replace("{measure: pods.pending, goal: min}", others)
    file = sweep_in(tmp_path, text.replace("[50, 100]", "[50]").replace("count: 2", "count: 1"))
    result = run_sweep(file, tmp_path / "r", HERE, 0)
    assert all(None not in one["objectives"].values() for one in result["candidates"])
    assert result["candidates"][0]["objectives"]["cost"] > 0


def test_a_budget_is_kept_and_the_next_call_goes_on(tmp_path: Path) -> None:
    results = tmp_path / "r"
    first = run_sweep(sweep_in(tmp_path, SWEEP + "budget: {runs: 3}\n"), results, HERE, 0)
    assert [one["runs"] for one in first["candidates"]] == [2, 1, 0, 0]
    assert {one["why"] for one in first["missing"]} == {"beyond the budget"}
    late = run_sweep(sweep_in(tmp_path, SWEEP + "budget: {time: 0s}\n"), results, HERE, 0)
    assert late["candidates"] == first["candidates"]
    told = Told()
    assert run_sweep(sweep_in(tmp_path), results, HERE, 0, told)["missing"] == []
    assert told.begun == (3, 8)


def test_runs_depend_on_the_files_that_the_scenario_names(tmp_path: Path) -> None:
    text = SWEEP.replace("[50, 100]", "[50]").replace("count: 2", "count: 1")
    file, results = sweep_in(tmp_path, text), tmp_path / "r"
    run_sweep(file, results, HERE, 0)
    (tmp_path / "ship.json").write_text(json.dumps(SHIP).replace("ship", "boat"))
    told = Told()
    run_sweep(file, results, HERE, 0, told)
    assert told.begun == (0, 2)
    assert len(results.read_text().splitlines()) == 4, "what others found is kept"


def test_a_line_that_was_cut_off_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "r"
    path.write_text('{"id":"a","x":1}\n{"id":"b","x"')
    with RunLines(path) as lines:
        assert lines.runs == {"a": {"id": "a", "x": 1}}
        lines.append({"id": "c"})
    assert path.read_text() == '{"id":"a","x":1}\n{"id":"c"}\n'


@pytest.mark.parametrize("text", ["ship\n", "[1]\n", "{}\n"])
def test_a_file_of_something_else_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "r"
    path.write_text('{"id":"a"}\n' + text)
    with pytest.raises(InputError, match=r"r:2: expected a run of a sweep"):
        RunLines(path)
    assert path.read_text() == '{"id":"a"}\n' + text


def test_only_one_sweep_writes_a_file(tmp_path: Path) -> None:
    with (
        RunLines(tmp_path / "r"),
        pytest.raises(InputError, match="another sweep writes its results here"),
    ):
        RunLines(tmp_path / "r")


def test_without_joblib_a_sentence_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing: Any = None
    monkeypatch.setitem(sys.modules, "joblib", missing)
    with pytest.raises(InputError, match=r"pip install 'moorage\[sweep\]'"):
        run_sweep(sweep_in(tmp_path), tmp_path / "r", HERE, 0)
