"""Simulated kubelets at the real API server: with its controllers pods run, roll out and go."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from e2e.binaries import Binaries
from e2e.client import Json
from e2e.schedulers import PEER, schedulers
from moorage.controlplane.plane import ADMIN_ALONE, ControlPlane
from moorage.controlplane.processes import ChildProcess, wait_until_ready

_SOURCE = Path(__file__).parents[2] / "src"
_NODES = 20
_LONGER_THAN_THE_GRACE_PERIOD = 70
"""Of node-lifecycle-controller: 50 s after the last sign of life a node is given up."""
Kubectl = Callable[..., str]
_FAILS = {"moorage.io/finish-after": "100ms", "moorage.io/exit-code": "3"}


def _moorage(folder: Path, command: str, *words: str) -> ChildProcess:
    log = folder / f"{command}.log"
    flags = [sys.executable, "-m", "moorage", command, *words]
    environment = os.environ | {"PYTHONPATH": str(_SOURCE)}
    process = ChildProcess(f"moorage-{command}", flags, log, environment)
    try:
        wait_until_ready(process, lambda: "Ctrl-C" in log.read_text(), 60)
    except BaseException:
        process.stop()
        raise
    return process


@contextmanager
def _plane(binaries: Binaries, folder: Path) -> Iterator[Path]:
    """The kubeconfig of a control plane with its controller manager."""
    plane = ControlPlane(binaries.etcd.parent, folder, ADMIN_ALONE, {}, controllers=True)
    try:
        yield plane.kubeconfig()
        plane.check()
    finally:
        plane.stop()


def _apart(binaries: Binaries, folder: Path, running: ExitStack) -> Path:
    """`moorage kubelets` beside the real kube-scheduler."""
    kubeconfig = running.enter_context(_plane(binaries, folder))
    flags = ("--nodes", str(_NODES), "--shape", "cpu=32,memory=128Gi,gpu=8")
    kubelets = _moorage(folder, "kubelets", "--kubeconfig", str(kubeconfig), *flags)
    running.callback(kubelets.stop)
    scheduler = schedulers(binaries)[PEER].start(kubeconfig, None, folder, "kubelets")
    running.callback(scheduler.stop)
    return kubeconfig


def _on_it(binaries: Binaries, folder: Path, running: ExitStack) -> Path:
    """`moorage up` on an API server that is there."""
    kubeconfig = running.enter_context(_plane(binaries, folder))
    flags = ("--kubeconfig", str(kubeconfig), "--nodes", str(_NODES), "--no-page")
    running.callback(_moorage(folder, "up", *flags).stop)
    return kubeconfig


def _with_it(binaries: Binaries, folder: Path, running: ExitStack) -> Path:
    """`moorage up` with the programs of a control plane."""
    kubeconfig = folder / "kubeconfig"
    programs = ("--control-plane", str(binaries.etcd.parent), "--nodes", str(_NODES), "--no-page")
    flags = (*programs, "--write-kubeconfig", str(kubeconfig))
    running.callback(_moorage(folder, "up", *flags).stop)
    return kubeconfig


@pytest.fixture(scope="module", params=[_apart, _on_it, _with_it], ids=lambda way: way.__name__)
def cluster(
    request: pytest.FixtureRequest, binaries: Binaries, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """The kubeconfig of a real control plane whose kubelets are simulated."""
    with ExitStack() as running:
        yield request.param(binaries, tmp_path_factory.mktemp("kubelets"), running)


@pytest.fixture
def kubectl(binaries: Binaries, cluster: Path, tmp_path: Path) -> Iterator[Kubectl]:
    """Runs kubectl with some words; what it printed."""

    def run(*words: str, fails: bool = False, document: Json | None = None) -> str:
        done = subprocess.run(
            [binaries.kubectl, *words],
            env={"KUBECONFIG": str(cluster), "HOME": str(tmp_path)},
            input=None if document is None else json.dumps(document),
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert (done.returncode != 0) is fails, done.stdout + done.stderr
        return done.stderr if fails else done.stdout

    yield run
    run("delete", "deployment,job,pdb,pod", "--all", "--wait")
    run("uncordon", "node-0")


def _pods(kubectl: Kubectl) -> list[Json]:
    found: list[Json] = json.loads(kubectl("get", "pods", "-o", "json"))["items"]
    return found


def _rolled_out(kubectl: Kubectl) -> None:
    said = kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    assert "successfully rolled out" in said


def test_a_deployment_runs_rolls_out_scales_and_goes(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image=nginx:1", "--replicas=30")
    _rolled_out(kubectl)
    pods = _pods(kubectl)
    assert {pod["status"]["phase"] for pod in pods} == {"Running"}
    addresses = {pod["status"]["podIP"] for pod in pods}
    assert len(addresses) == 30
    kubectl("set", "image", "deployment/web", "nginx=nginx:2")
    _rolled_out(kubectl)
    kubectl("rollout", "undo", "deployment/web")
    _rolled_out(kubectl)
    kubectl("scale", "deployment/web", "--replicas=5")
    _rolled_out(kubectl)
    kubectl("delete", "deployment", "web")
    if kubectl("get", "pods", "-o", "name"):
        kubectl("wait", "--for=delete", "pod", "--all", "--timeout=60s")


def test_a_drained_node_loses_its_pods_to_others(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image=nginx:1", "--replicas=40")
    _rolled_out(kubectl)
    kubectl("create", "pdb", "web", "--selector=app=web", "--max-unavailable=1")
    assert "node-0" in {pod["spec"]["nodeName"] for pod in _pods(kubectl)}
    assert "node/node-0 drained" in kubectl("drain", "node-0", "--timeout=60s")
    _rolled_out(kubectl)
    pods = _pods(kubectl)
    assert len(pods) == 40
    assert "node-0" not in {pod["spec"]["nodeName"] for pod in pods}


def test_jobs_complete_and_what_fails_is_started_again(kubectl: Kubectl) -> None:
    kubectl("create", "job", "fine", "--image=i")
    kubectl("wait", "--for=condition=Complete", "job/fine", "--timeout=60s")
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "again", "annotations": _FAILS},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    kubectl("apply", "-f", "-", document=pod)
    restarted = "--for=jsonpath={.status.containerStatuses[0].restartCount}=1"
    kubectl("wait", restarted, "pod/again", "--timeout=60s")


def test_a_taint_drives_pods_to_other_nodes(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image=nginx:1", "--replicas=40")
    _rolled_out(kubectl)
    kubectl("taint", "node", "node-1", "gone=soon:NoExecute")
    kubectl("wait", "--for=delete", "pod", "--field-selector=spec.nodeName=node-1", "--timeout=60s")
    _rolled_out(kubectl)
    kubectl("taint", "node", "node-1", "gone-")


@pytest.mark.parametrize("cluster", [_apart], ids=["_apart"], indirect=True)
def test_nodes_stay_ready(kubectl: Kubectl) -> None:
    waiting = f"--timeout={_LONGER_THAN_THE_GRACE_PERIOD}s"
    said = kubectl("wait", "--for=condition=Ready=Unknown", "node/node-2", waiting, fails=True)
    assert "timed out" in said
    nodes = json.loads(kubectl("get", "nodes", "-o", "json"))["items"]
    assert len(nodes) == _NODES
    for node in nodes:
        ready = [one for one in node["status"]["conditions"] if one["type"] == "Ready"]
        assert [one["status"] for one in ready] == ["True"]
        assert "taints" not in node["spec"]
