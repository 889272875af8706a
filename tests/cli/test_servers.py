"""`moorage up` and `moorage apiserver`: what they refuse, and what they leave behind."""

import os
import signal
import socket
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from cli.running import NODE, POD, Run, Write
from moorage.kube.live import LiveScheduler

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(files("moorage") / "..")}


@pytest.mark.parametrize("command", ["up", "apiserver"])
@pytest.mark.parametrize("port", ["65536", "-1", "x"])
def test_a_port_out_of_range_is_wrong_usage(run: Run, command: str, port: str) -> None:
    done = run(command, f"--port={port}")
    assert done.code == 2
    assert "expected a port from 0 to 65535" in done.err


@pytest.mark.parametrize("command", ["up", "apiserver"])
def test_a_port_in_use_is_said_in_one_sentence(run: Run, command: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = run(command, "--port", str(taken.getsockname()[1]))
    assert done.code == 1
    assert done.err.count("\n") == 1
    assert "cannot listen on 127.0.0.1:" in done.err


@pytest.mark.parametrize("command", ["up", "apiserver"])
def test_a_data_directory_that_is_a_file_is_no_matter_of_listening(
    run: Run, write: Write, command: str
) -> None:
    path = write("data", "")
    done = run(command, "--data", path)
    assert done.code == 1
    assert f"the data directory {path} cannot be used: File exists" in done.err
    assert "listen" not in done.err


def test_a_certificate_that_is_none_is_no_matter_of_listening(run: Run, write: Write) -> None:
    path = write("tls.crt", "rum")
    done = run("apiserver", "--tls-cert-file", path, "--tls-private-key-file", path)
    assert done.code == 1
    assert "the TLS certificate or its key cannot be used: " in done.err
    assert "listen" not in done.err


@pytest.mark.parametrize("command", ["up", "apiserver"])
def test_a_kubeconfig_that_cannot_be_written_is_said_in_one_sentence(
    run: Run, tmp_path: Path, command: str
) -> None:
    done = run(command, "--write-kubeconfig", str(tmp_path))
    assert done.code == 1
    assert f"error: {tmp_path} cannot be written: Is a directory\n" in done.err


@pytest.mark.parametrize("command", ["up", "apiserver"])
def test_a_kubeconfig_of_no_name_goes_with_the_server(tmp_path: Path, command: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "moorage", command],
        stderr=subprocess.PIPE,
        text=True,
        env={**ENVIRONMENT, "TMPDIR": str(tmp_path)},
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "kubeconfig" in line:
                break
        assert list(tmp_path.glob("moorage-*/kubeconfig"))
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert list(tmp_path.iterdir()) == []


def test_up_ends_with_one_sentence_when_the_scheduler_dies(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def sink(self: LiveScheduler) -> None:
        raise RuntimeError("we are sinking")

    monkeypatch.setattr(LiveScheduler, "run", sink)
    done = run("up")
    assert done.code == 1
    assert done.err.splitlines()[-1] == ("moorage: error: the scheduler has ended: we are sinking")


def test_up_once_places_pods(run: Run, write: Write) -> None:
    pod = POD.replace("namespace: fleet", "namespace: default").replace(
        "name: hold", "name: hold, image: i"
    )
    done = run("up", "--once", "-f", write("c.yaml", f"{NODE}---\n{pod}"))
    assert done.code == 0, done.err
    assert "1 pods: 1 on nodes, 0 waiting" in done.out


def test_the_sample_cluster_is_placed_with_its_workloads(run: Run) -> None:
    done = run("up", "--once", "--sample")
    assert done.code == 0, done.err
    assert "37 pods: 34 on nodes, 3 waiting" in done.out


_DEPLOYMENT = """apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: i}]}
"""


def test_up_makes_the_pods_of_workloads(run: Run, write: Write) -> None:
    done = run("up", "--once", "--nodes", "2", "-f", write("d.yaml", _DEPLOYMENT))
    assert done.code == 0, done.err
    assert "3 pods: 3 on nodes, 0 waiting" in done.out
    assert done.err.count("skipped") == 0


def test_up_without_controllers_makes_none(run: Run, write: Write) -> None:
    path = write("d.yaml", _DEPLOYMENT)
    done = run("up", "--once", "--no-controllers", "--nodes", "2", "-f", path)
    assert "0 pods: 0 on nodes, 0 waiting" in done.out
    assert "1 of kind Deployment skipped" in done.err


def test_up_starts_again_on_what_it_kept(run: Run, tmp_path: Path) -> None:
    for _ in range(2):
        done = run("up", "--once", "--data", str(tmp_path / "data"))
        assert done.code == 0, done.err


def test_up_refuses_a_feature_gate_that_there_is_not(run: Run) -> None:
    done = run("up", "--once", "--feature-gates", "Kraken=true")
    assert done.code == 1
    assert done.err.endswith("--feature-gates: unrecognized feature gate: Kraken\n")


def test_up_logs_as_kube_scheduler_does_if_told_to() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "moorage", "up", "--once", "-v", "2", "--nodes", "1"],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        timeout=60,
        check=True,
    )
    assert '"Added node to NodeTree" node="node-0"' in done.stderr
