"""`moorage simulate`: what it prints, writes, and says of bad input."""

import csv
import json
from pathlib import Path

import pytest

from cli.running import Finished, Run, Write

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn-0,8000,8192,2,T4\nn-1,8000,8192,2,G2\n"
PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
    "p-0,1000,64,1,500,\np-1,1000,64,1,1000,\np-2,1000,64,1,250,G2\n"
)
ORDER = "1 0 0 1 1 1 1 2 2\n1 0\n"


@pytest.fixture
def simulate(run: Run, write: Write, tmp_path: Path) -> "Simulate":
    return Simulate(run, write, tmp_path / "curve.csv")


class Simulate:
    def __init__(self, run: Run, write: Write, curve: Path) -> None:
        self.curve = curve
        self._run, self._write = run, write

    def __call__(self, policy: str, *, nodes: str = NODES, order: str = ORDER) -> Finished:
        files = {"nodes.csv": nodes, "pods.csv": PODS, "order.txt": order}
        paths = {name: self._write(name, text) for name, text in files.items()}
        return self._run(
            *("simulate", "openb", "--nodes", paths["nodes.csv"], "--pods", paths["pods.csv"]),
            *("--order", paths["order.txt"], "--policy", policy, "--curve", str(self.curve)),
        )


def test_a_run_is_summed_up_and_its_curve_written(simulate: Simulate) -> None:
    done = simulate("gpu-packing")
    assert done == (
        0,
        "gpu-packing: 5 of 9 pods placed; 4 GPUs\n  100.00 % allocated when 100 % were asked for\n",
        "",
    )
    header, row = csv.reader(simulate.curve.read_text().splitlines())
    values = dict(zip(header, row, strict=True))
    assert values["workload"] == "pods"
    assert values["sc_policy"] == "04-GpuPacking"
    assert values["25"] == "25.0"


@pytest.mark.parametrize(
    "policy",
    ["fgd", "best-fit", "dot-product", "gpu-packing", "gpu-clustering", "gpu-headroom", "random"],
)
def test_every_policy_runs_and_twice_alike(simulate: Simulate, policy: str) -> None:
    first = simulate(policy)
    curve = simulate.curve.read_bytes()
    assert (simulate(policy), simulate.curve.read_bytes()) == (first, curve)
    assert first.code == 0


def test_bad_input_is_one_sentence(simulate: Simulate) -> None:
    done = simulate("fgd", nodes=NODES.replace("8192,2,G2", "lots,2,G2"))
    assert (done.code, done.out) == (1, "")
    assert done.err.endswith("nodes.csv:3: memory_mib: expected a whole number, got 'lots'\n")
    simulate.curve = Path("/nonexistent/curve.csv")
    assert "curve.csv: cannot be written: No such file" in simulate("fgd").err


SCENARIO = """
apiVersion: simulate.moorage.io/v1alpha1
kind: Scenario
cluster: {nodes: ["2:cpu=4"]}
arrivals:
- generate:
    name: ship
    rate: {perHour: 30}
    until: 1h
    sizes: [{requests: {cpu: "1"}}]
    runTime: {constant: 1m}
"""


def test_a_scenario_is_played_and_summed_up(run: Run, write: Write) -> None:
    done = run("simulate", write("s.yaml", SCENARIO))
    assert (done.code, done.err) == (0, "default, seed 0 ...\n")
    assert ["pods", "pending", "in", "the", "end", "0.00"] in map(str.split, done.out.splitlines())
    assert "s of virtual time; nothing more could happen\n" in done.out


def test_a_scenario_is_told_as_json_and_alike_each_time(run: Run, write: Write) -> None:
    path = write("s.yaml", SCENARIO)
    first, second = (
        run("simulate", path, "-o", "json"),
        run("simulate", "scenario", path, "-o", "json"),
    )
    assert first == second
    (scheduler,) = json.loads(first.out)["schedulers"]
    assert scheduler["runs"][0]["pods"]["placed"] == scheduler["summary"]["pods.placed"]["mean"] > 0


def test_the_schema_of_scenarios_is_printed(run: Run) -> None:
    assert "Rate" in json.loads(run("simulate", "schema").out)["$defs"]


def test_a_bad_scenario_is_one_sentence(run: Run, write: Write) -> None:
    done = run("simulate", write("s.yaml", SCENARIO.replace("perHour: 30", "perHour: often")))
    assert (done.code, done.out) == (1, "")
    assert "s.yaml:8: arrivals[0].generate.rate.perHour: expected `float`, got `str`" in done.err
