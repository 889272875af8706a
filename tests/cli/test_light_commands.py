"""Help is there at once: no command loads NumPy or a benchmark to describe itself."""

import subprocess
import sys

import pytest

HELP = [
    ["--help"],
    ["--version"],
    ["schedule", "--help"],
    ["explain", "--help"],
    ["explain", "pod", "--help"],
    ["explain", "node", "--help"],
    ["explain", "decision", "--help"],
    ["up", "--help"],
    ["scheduler", "--help"],
    ["scheduler", "--version"],
    ["config", "--help"],
    ["config", "view", "--help"],
    ["config", "validate", "--help"],
    ["config", "diff", "--help"],
    ["config", "convert-policy", "--help"],
    ["apiserver", "--help"],
    ["kubelets", "--help"],
    ["conformance", "--help"],
    ["bench", "--help"],
    ["bench", "engine", "--help"],
    ["bench", "api", "--help"],
    ["bench", "perf", "--help"],
    ["completion", "--help"],
]
PROGRAM = """
import sys
from moorage.cli.main import main

try:
    code = main(sys.argv[1:])
except SystemExit as stop:
    code = stop.code
heavy = {"numpy", "plotly", "moorage.benchmarks"} & sys.modules.keys()
sys.exit(f"loaded: {sorted(heavy)}" if heavy else code)
"""


@pytest.mark.parametrize("argv", HELP, ids=" ".join)
def test_help_loads_neither_numpy_nor_benchmarks(argv: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, *argv], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_scheduling_loads_no_benchmark() -> None:
    manifest = "{apiVersion: v1, kind: Node, metadata: {name: a}}"
    program = PROGRAM.replace('"numpy", ', "")
    done = subprocess.run(
        [sys.executable, "-c", program, "schedule", "-f", "-"],
        input=manifest,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "no pods to schedule\n", "")
