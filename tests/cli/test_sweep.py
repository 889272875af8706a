"""`moorage sweep`: what it prints, writes, and says of bad input."""

import json
from pathlib import Path

import pytest

from cli.running import Run, Write
from moorage.config import load_config

SCENARIO = """
apiVersion: simulate.moorage.io/v1alpha1
kind: Scenario
cluster: {nodes: ["2:cpu=4"]}
arrivals:
- generate: {name: p, rate: {perHour: 30}, until: 10m, sizes: [{requests: {cpu: "1"}}]}
"""
SWEEP = """
apiVersion: simulate.moorage.io/v1alpha1
kind: Sweep
scenario: scenario.yaml
parameters:
  profiles[0].pluginConfig[NodeResourcesFit].args.scoringStrategy.type: [MostAllocated]
  cluster.nodes[0]: ["2:cpu=8", "4:cpu=4"]
objectives: [{measure: utilisation}]
"""


@pytest.fixture
def sweep(write: Write) -> str:
    write("scenario.yaml", SCENARIO)
    return write("sweep.yaml", SWEEP)


def test_the_best_is_marked_and_written(run: Run, sweep: str) -> None:
    done = run("sweep", sweep, "--jobs", "1")
    folder = Path(sweep).parent
    assert done.code == 0
    assert done.err.endswith("2 of 2 runs, about 0 s left\n")
    header, first, second, *_, last = done.out.splitlines()
    assert header.split() == ["scoringStrategy.type", "cluster.nodes[0]", "utilisation"]
    assert first.split()[:3] == ["best", "MostAllocated", "2:cpu=8"]
    assert second.split()[:3] == ["front", "MostAllocated", "4:cpu=4"]
    assert last == f"The best configuration is in {folder / 'sweep.best.yaml'}."
    (profile,) = load_config((folder / "sweep.best.yaml").read_text(), "best").profiles
    assert profile.scheduler_name == "default-scheduler"
    runs = [json.loads(line) for line in (folder / "sweep.runs.jsonl").read_text().splitlines()]
    assert [run["parameters"]["cluster.nodes[0]"] for run in runs] == ["2:cpu=8", "4:cpu=4"]
    assert runs[0]["result"]["pods"]["placed"] > 0

    again = run("sweep", "run", sweep, "-o", "json")
    assert again.err == "2 of 2 runs are there already\n"
    result = json.loads(again.out)
    assert result["best"]["parameters"] == runs[0]["parameters"]
    assert result["missing"] == []


def test_runs_that_are_missing_are_listed(run: Run, sweep: str, write: Write) -> None:
    write("sweep.yaml", SWEEP + "budget: {time: 0s}\n")
    done = run("sweep", sweep)
    assert done.code == 3
    assert "No candidate has all its runs.\n2 runs missing:\n" in done.out
    assert done.out.endswith("  MostAllocated, 4:cpu=4, seed 0: beyond the budget\n")
    assert not (Path(sweep).parent / "sweep.best.yaml").exists()


def test_the_schema_of_sweeps_is_printed(run: Run) -> None:
    assert "Objective" in json.loads(run("sweep", "schema").out)["$defs"]


def test_a_bad_sweep_is_one_sentence(run: Run, sweep: str, write: Write) -> None:
    write("sweep.yaml", SWEEP.replace("measure: utilisation", "measure: tides, goal: up"))
    done = run("sweep", sweep)
    assert (done.code, done.out) == (1, "")
    assert "sweep.yaml:8: objectives[0].goal: expected one of max, min" in done.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--backend", "dask"), "--backend dask needs --address, where the cluster is"),
        (("--address", "tcp://a:1"), "--address is for a cluster: add --backend dask or ray"),
        (
            ("--backend", "dask", "--address", "tcp://a:1", "--jobs", "2"),
            "--jobs is for processes on this machine: a cluster has its own",
        ),
    ],
)
def test_flags_that_do_not_go_together_are_refused(
    run: Run, sweep: str, words: tuple[str, ...], message: str
) -> None:
    done = run("sweep", sweep, *words)
    assert (done.code, done.err) == (1, f"moorage: error: {message}\n")
