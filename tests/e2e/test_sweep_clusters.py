"""Sweeps on a real Dask cluster on loopback come to what processes come to.

And the real kube-scheduler takes the best configuration as it is.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from e2e.binaries import Binaries
from e2e.client import Access
from e2e.cluster import write_kubeconfig
from moorage.controlplane.processes import free_port
from moorage.errors import InputError
from moorage.scenarios.sweeps.sweep_file import SweepFile
from moorage.scenarios.sweeps.sweeping import run_sweep
from moorage.scenarios.sweeps.workers import Workers

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "sweep" / "sweep.yaml"
RUNS = 64
SCENARIO = """
apiVersion: simulate.moorage.io/v1alpha1
kind: Scenario
cluster: {nodes: ["4:cpu=4"]}
arrivals:
- generate:
    name: ship
    rate: {perHour: 60}
    until: 15m
    sizes: [{requests: {cpu: "1"}}, {requests: {cpu: "3"}}]
    runTime: {exponential: 5m}
"""
SWEEP = """
apiVersion: simulate.moorage.io/v1alpha1
kind: Sweep
scenario: scenario.yaml
parameters:
  profiles[0].pluginConfig[NodeResourcesFit].args.scoringStrategy.type:
  - LeastAllocated
  - MostAllocated
  profiles[0].plugins.multiPoint.enabled[NodeResourcesFit].weight: [1, 10]
  cluster.nodes[0]: ["4:cpu=4", "2:cpu=8"]
objectives: [{measure: waiting}, {measure: spread}, {measure: utilisation}]
repetitions: {count: 8, seed: 1}
"""


class DaskCluster:
    """A scheduler and two workers, each a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.address = f"tcp://127.0.0.1:{free_port()}"
        self.processes = ExitStack()
        port = self.address.rpartition(":")[2]
        self._start("scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard")
        workers = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1")
        folders = ("--local-directory", str(folder))
        self.workers = [self._start("worker", self.address, *workers, *folders) for _ in "ab"]

    def _start(self, what: str, *words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", *words]
        path = os.pathsep.join(map(str, (ROOT / "src", ROOT / "tests")))
        started = subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": path},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.processes.callback(started.wait)
        self.processes.callback(started.kill)
        return started


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[DaskCluster]:
    distributed = pytest.importorskip("distributed")
    found = DaskCluster(tmp_path)
    with found.processes:
        with distributed.Client(found.address, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)
        yield found


def sweep_in(folder: Path) -> SweepFile:
    (folder / "scenario.yaml").write_text(SCENARIO)
    (folder / "sweep.yaml").write_text(SWEEP)
    return SweepFile(folder / "sweep.yaml")


def test_a_dask_cluster_comes_to_the_same_bytes_though_a_worker_is_killed(
    cluster: DaskCluster, tmp_path: Path
) -> None:
    file = sweep_in(tmp_path)
    here, there = tmp_path / "here.jsonl", tmp_path / "there.jsonl"
    failures = []

    def tell(done: int, total: int, failure: str) -> None:
        assert total == RUNS
        failures.extend([failure] if failure else [])
        if done == RUNS // 3:
            cluster.workers[0].send_signal(signal.SIGKILL)

    on_cluster = run_sweep(file, there, Workers(backend="dask", address=cluster.address), 0, tell)
    assert run_sweep(file, here, Workers(), 0) == on_cluster
    assert here.read_bytes() == there.read_bytes()
    assert len(here.read_bytes().splitlines()) == RUNS
    assert cluster.workers[0].wait() == -signal.SIGKILL
    assert on_cluster["missing"] == failures == []


def test_a_process_that_is_killed_is_replaced(tmp_path: Path) -> None:
    file = sweep_in(tmp_path)
    failures: list[str] = []

    def tell(done: int, total: int, failure: str) -> None:
        failures.extend([failure] if failure else [])
        if done == RUNS // 3 and not failures:
            own = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
            worker = next(one for one in own if _is_worker(one))
            os.kill(int(worker), signal.SIGKILL)

    result = run_sweep(file, tmp_path / "r", Workers(jobs=2), 1, tell)
    assert result["missing"] == []
    assert len(failures) == 1
    assert failures[0].startswith("workers ended: ")


def _is_worker(pid: str) -> bool:
    return b"loky.backend.popen_loky" in Path(f"/proc/{pid}/cmdline").read_bytes()


def test_without_a_cluster_a_sentence_says_so(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    address = f"tcp://127.0.0.1:{free_port()}"
    with pytest.raises(InputError, match=f"--address {address}: no Dask scheduler: "):
        run_sweep(sweep_in(tmp_path), tmp_path / "r", Workers(-1, "dask", address), 0)


@pytest.fixture
def ray_address() -> Iterator[str]:
    """A Ray cluster of one node, where Ray is installed."""
    pytest.importorskip("ray")
    port = str(free_port())
    flags = ("--block", "--disable-usage-stats", "--include-dashboard=false", "--num-cpus=2")
    with subprocess.Popen(
        [str(Path(sys.executable).with_name("ray")), "start", "--head", "--port", port, *flags],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as started:
        assert started.stdout is not None
        assert any("Ray runtime started" in line for line in started.stdout)
        yield f"127.0.0.1:{port}"
        started.terminate()


def test_a_ray_cluster_comes_to_the_same_bytes(ray_address: str, tmp_path: Path) -> None:
    file = sweep_in(tmp_path)
    here, there = tmp_path / "here.jsonl", tmp_path / "there.jsonl"
    on_cluster = run_sweep(file, there, Workers(-1, "ray", ray_address), 0)
    assert run_sweep(file, here, Workers(), 0) == on_cluster
    assert here.read_bytes() == there.read_bytes()


def test_kube_scheduler_takes_the_best_configuration_of_the_example_as_it_is(
    binaries: Binaries, tmp_path: Path
) -> None:
    best, written = tmp_path / "best.yaml", tmp_path / "written.yaml"
    words = ("--best", str(best), "--results", str(tmp_path / "runs.jsonl"))
    swept = subprocess.run(
        [sys.executable, "-m", "moorage", "sweep", str(EXAMPLE), *words],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    table = swept.stdout.partition("\n\n")[0]
    assert table in (ROOT / "docs" / "sweep.md").read_text()
    access = Access(f"http://127.0.0.1:{free_port()}", "")
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", access)
    text = best.read_text()
    best.write_text(f"{text}clientConnection: {{kubeconfig: {json.dumps(str(kubeconfig))}}}\n")
    command = [str(binaries.kube_scheduler), f"--config={best}", f"--write-config-to={written}"]
    flags = ("--secure-port=0", "--authentication-skip-lookup")
    subprocess.run([*command, *flags], capture_output=True, timeout=30, check=False)
    assert "type: LeastAllocated" in written.read_text()
