"""kubectl with workloads on `moorage up`: what people type first does what they expect."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.binaries import Binaries
from e2e.client import Json
from moorage.controlplane.processes import ChildProcess, wait_until_ready

_SOURCE = Path(__file__).parents[2] / "src"
Kubectl = Callable[..., str]


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of a running `moorage up`."""
    folder = tmp_path_factory.mktemp("up")
    kubeconfig = folder / "kubeconfig"
    flags = ["--port", "0", "--nodes", "5", "--no-page", "--write-kubeconfig", str(kubeconfig)]
    process = ChildProcess(
        "moorage-up",
        [sys.executable, "-m", "moorage", "up", *flags],
        folder / "log",
        os.environ | {"PYTHONPATH": str(_SOURCE)},
    )
    try:
        wait_until_ready(process, lambda: "Ctrl-C" in (folder / "log").read_text(), 30)
        yield kubeconfig
    finally:
        process.stop()


@pytest.fixture
def kubectl(binaries: Binaries, local: Path, tmp_path: Path) -> Iterator[Kubectl]:
    """Runs kubectl with some words (and a document on its standard input); what it printed."""

    def run(*words: str, document: Json | None = None) -> str:
        done = subprocess.run(
            [binaries.kubectl, *words],
            env={"KUBECONFIG": str(local), "HOME": str(tmp_path)},
            input=None if document is None else json.dumps(document),
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    yield run
    run("delete", "deploy,rs,sts,ds,job,pdb,pod", "--all", "--grace-period=1", "--wait")
    run("uncordon", "node-0")


def _wait_for_no_pods(kubectl: Kubectl) -> None:
    if kubectl("get", "pods", "-o", "name"):
        kubectl("wait", "--for=delete", "pod", "--all", "--timeout=20s")


def _rolled_out(kubectl: Kubectl, what: str = "deployment/web") -> str:
    return kubectl("rollout", "status", what, "--timeout=30s").splitlines()[-1]


def _images(kubectl: Kubectl, selector: str = "app=web") -> set[str]:
    found = json.loads(kubectl("get", "pods", "-l", selector, "-o", "json"))["items"]
    return {
        one["spec"]["containers"][0]["image"]
        for one in found
        if "deletionTimestamp" not in one["metadata"]
    }


def _workload(kind: str, **spec: Any) -> Json:
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "app:1"}]},
    }
    selector = {"matchLabels": {"app": "web"}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "web"},
        "spec": {"selector": selector, "template": template, **spec},
    }


def test_create_scale_update_undo(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image=nginx:1", "--replicas=3")
    assert _rolled_out(kubectl) == 'deployment "web" successfully rolled out'
    header, row = kubectl("get", "deployment").splitlines()
    assert header.split() == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]
    assert row.split()[:4] == ["web", "3/3", "3", "3"]
    kubectl("scale", "deployment", "web", "--replicas=6")
    _rolled_out(kubectl)
    assert kubectl("get", "deployment", "web").splitlines()[1].split()[1] == "6/6"
    kubectl("set", "image", "deployment/web", "nginx=nginx:2")
    _rolled_out(kubectl)
    assert _images(kubectl) == {"nginx:2"}
    assert kubectl("rollout", "history", "deployment/web").split()[-4:] == [
        "1",
        "<none>",
        "2",
        "<none>",
    ]
    kubectl("rollout", "undo", "deployment/web")
    _rolled_out(kubectl)
    assert _images(kubectl) == {"nginx:1"}
    assert "Scaled up replica set web-" in kubectl("describe", "deployment", "web")
    kubectl("wait", "--for=condition=Available", "deployment/web", "--timeout=10s")


def test_a_rollout_is_paused_resumed_and_restarted(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image=nginx:1", "--replicas=2")
    _rolled_out(kubectl)
    kubectl("rollout", "pause", "deployment/web")
    kubectl("set", "image", "deployment/web", "nginx=nginx:2")
    assert _images(kubectl) == {"nginx:1"}
    kubectl("rollout", "resume", "deployment/web")
    _rolled_out(kubectl)
    assert _images(kubectl) == {"nginx:2"}
    before = set(kubectl("get", "pods", "-o", "name").split())
    kubectl("rollout", "restart", "deployment/web")
    _rolled_out(kubectl)
    after = kubectl("get", "pods", "--field-selector=status.phase=Running", "-o", "name").split()
    assert len(set(after) - before) == 2


@pytest.mark.parametrize("cascade", ["background", "foreground", "orphan"])
def test_delete_with_each_propagation(kubectl: Kubectl, cascade: str) -> None:
    kubectl("create", "deployment", "web", "--image=nginx", "--replicas=2")
    _rolled_out(kubectl)
    kubectl("delete", "deployment", "web", f"--cascade={cascade}", "--wait")
    assert kubectl("get", "deployment", "-o", "name") == ""
    if cascade == "orphan":
        assert len(kubectl("get", "rs", "-o", "name").split()) == 1
        assert len(kubectl("get", "pods", "-o", "name").split()) == 2
    elif cascade == "foreground":
        assert kubectl("get", "rs,pods", "-o", "name") == ""
    else:
        assert kubectl("get", "rs", "-o", "name") == ""
        _wait_for_no_pods(kubectl)


@pytest.mark.parametrize("kind", ["StatefulSet", "DaemonSet"])
def test_the_other_workloads_roll_out_and_back(kubectl: Kubectl, kind: str) -> None:
    spec = {"replicas": 3, "serviceName": "web"} if kind == "StatefulSet" else {}
    kubectl("create", "-f", "-", document=_workload(kind, **spec))
    what = f"{kind.lower()}/web"
    _rolled_out(kubectl, what)
    assert len(kubectl("get", "pods", "-o", "name").split()) == (3 if spec else 5)
    kubectl("set", "image", what, "c=app:2")
    _rolled_out(kubectl, what)
    assert _images(kubectl) == {"app:2"}
    kubectl("rollout", "undo", what)
    _rolled_out(kubectl, what)
    assert _images(kubectl) == {"app:1"}


def test_a_job_completes(kubectl: Kubectl) -> None:
    kubectl("create", "job", "hello", "--image=busybox")
    kubectl("wait", "--for=condition=complete", "job/hello", "--timeout=20s")
    header, row = kubectl("get", "job").splitlines()
    assert row.split()[0] == "hello", header
    kubectl("delete", "job", "hello")
    _wait_for_no_pods(kubectl)


def test_drain_goes_by_the_budget(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image=nginx", "--replicas=4")
    _rolled_out(kubectl)
    kubectl("create", "pdb", "web", "--selector=app=web", "--max-unavailable=1")
    kubectl("drain", "node-0", "--timeout=40s", "--force")
    _rolled_out(kubectl)
    assert "node-0" not in kubectl("get", "pods", "-l", "app=web", "-o", "wide")
