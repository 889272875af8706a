"""What `moorage simulate` prints of a result."""

import csv
import io
import json
import re
import sys
from pathlib import Path

import pytest

from moorage.cli.main import main
from moorage.cli.simulate_progress import RunProgress
from moorage.config import default_config
from moorage.controllers.kubelet import KubeletOptions
from moorage.http import explain_page
from moorage.scenarios.simulation import Simulation
from moorage.simulator.world import full_registry

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
    assert "2 of 4 pods that both placed went to another node" in lines
    assert any(
        line.startswith("the first decision that differs, at 10 s with seed 0: default/b: ")
        for line in lines
    )
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


def test_runs_and_samples_are_written_as_csv(
    scenario: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs, samples = tmp_path / "runs.csv", tmp_path / "samples.csv"
    assert main(["simulate", str(scenario), "--runs", str(runs), "--samples", str(samples)]) == 0
    with runs.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["scheduler"], row["seed"]) for row in rows] == [
        *(("spread", "0"), ("spread", "1")),
        *(("packed", "0"), ("packed", "1")),
    ]
    assert float(rows[0]["allocation.cpu.peak"]) == 0.5
    with samples.open(newline="") as file:
        moments = list(csv.DictReader(file))
    assert len(moments) == 4 * 101
    assert moments[100]["seconds"] == "70.0"
    assert moments[50]["allocation.cpu"] == "0.5"
    assert capsys.readouterr().out.startswith(" ")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("runs.txt", "runs.txt: expected a name that ends with .csv or .parquet"),
        ("runs.parquet", "runs.parquet: Parquet needs pyarrow, which is not installed"),
        ("no/runs.csv", "no/runs.csv: cannot be written: there is no folder "),
    ],
)
def test_tables_that_cannot_be_written_are_told(
    scenario: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    said: str,
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    assert main(["simulate", str(scenario), "--runs", str(scenario.parent / name)]) == 1
    assert said in capsys.readouterr().err


def test_a_report_is_one_file_that_asks_nobody(scenario: Path, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    scenario.write_text(SCENARIO.replace("name: spread", "name: </script><b>"))
    assert main(["simulate", str(scenario), "--report", str(path)]) == 0
    page = path.read_text()
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page)
    assert json.loads(data)["result"]["schedulers"][0]["name"] == "</script><b>"
    assert '<th scope="col">&lt;/script&gt;&lt;b&gt;</th>' in page
    assert "no difference seen" in page
    assert "default-src 'none'" in page
    assert not re.findall(r"<(?:script|link|img)[^>]* (?:src|href)=(?!\"data:)", page)
    assert "<!-- " not in page


def test_a_report_without_its_library_is_told_before_the_run(
    scenario: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(explain_page, "find_spec", lambda name: None)
    assert main(["simulate", str(scenario), "--report", str(tmp_path / "r.html")]) == 1
    assert "a report needs the Python package plotly" in capsys.readouterr().err
    assert not (tmp_path / "r.html").exists()


def test_a_pod_is_explained_as_things_were_then(
    scenario: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", str(scenario), "--explain", "b@20s", "--scheduler", "packed"]) == 0
    packed = capsys.readouterr().out
    assert packed.startswith("Pod default/b is on node quay-")
    assert main(["simulate", str(scenario), "--explain", "b@20s", "-o", "json"]) == 0
    spread = json.loads(capsys.readouterr().out)
    assert spread["source"] == "simulation"
    assert spread["node"] not in packed.splitlines()[0]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["b"], "--explain: expected POD@TIME such as web-1@90m, got 'b'"),
        (["b@soon"], "--explain: expected POD@TIME such as web-1@90m, got 'b@soon'"),
        (["b@5s"], "--explain: there is no pod default/b after 5s"),
        (["b@9999h"], "--explain: 9999h is after the end, 8760h"),
        (["b@20s", "--scheduler", "x"], "there is no scheduler x; there are: spread, packed"),
    ],
)
def test_moments_that_are_none_are_told(
    scenario: Path, capsys: pytest.CaptureFixture[str], flags: list[str], said: str
) -> None:
    assert main(["simulate", str(scenario), "--explain", *flags]) == 1
    assert said in capsys.readouterr().err


def test_what_runs_decide_is_written_down(
    scenario: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "ledgers"
    assert main(["simulate", str(scenario), "--ledger", str(folder)]) == 0
    assert sorted(one.name for one in folder.iterdir()) == [
        *("packed-0", "packed-1"),
        *("spread-0", "spread-1"),
    ]
    capsys.readouterr()
    ledger = ["--ledger", str(folder / "packed-1"), "-o", "json"]
    assert main(["explain", "decision", "default/b", *ledger]) == 0
    decision = json.loads(capsys.readouterr().out)
    assert decision["decision"]["pod"] == "default/b"
    assert decision["decision"]["result"] == "scheduled"
    assert main(["simulate", str(scenario), "--ledger", str(folder)]) == 1
    assert "expected a folder that is empty or not there yet" in capsys.readouterr().err


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_has_virtual_and_real_time() -> None:
    real = iter([0.0, 0.1, 9.0, 9.1])
    run = Simulation(default_config(), full_registry(), kubelets=KubeletOptions())
    shown = Terminal()
    progress = RunProgress(shown, lambda: next(real))
    progress.watch("spread", 7, run)
    namespaces = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in "abc"
    ]
    run.come(namespaces[0])
    assert shown.getvalue() == ""
    run.clock.advance(7500)
    run.come(namespaces[1])
    run.come(namespaces[2])
    assert shown.getvalue() == "\r\033[Kspread, seed 7: 2 h 5 min of virtual time in 9 s"
    progress.clear()
    assert shown.getvalue().endswith("9 s\r\033[K")
