"""Clusters in which pods run and controllers work: `moorage up`, and the real control plane.

On the real one kube-controller-manager and `moorage kubelets` do what controllers and kubelets do,
and either scheduler schedules.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from e2e.binaries import Binaries
from e2e.cluster import SCHEDULER
from e2e.schedulers import Scheduler
from moorage.controlplane.plane import ADMIN, ControlPlane, TokenUser
from moorage.controlplane.processes import ChildProcess, wait_until_ready

GATES = "GenericWorkload=true"
_SOURCE = Path(__file__).parents[2] / "src"
_USERS = {ADMIN: TokenUser(ADMIN, "system:masters"), SCHEDULER: TokenUser(SCHEDULER)}
_FLAGS = {
    "allow-privileged": "true",
    "feature-gates": GATES,
    "runtime-config": "scheduling.k8s.io/v1beta1=true",
}


@contextmanager
def local_cluster(folder: Path, nodes: int, *flags: str) -> Iterator[Path]:
    """The kubeconfig of a running `moorage up`."""
    kubeconfig = folder / "kubeconfig"
    words = ["up", "--port", "0", "--nodes", str(nodes), "--no-page", *flags]
    process = _moorage([*words, "--write-kubeconfig", str(kubeconfig)], folder / "up.log")
    try:
        wait_until_ready(process, lambda: "Ctrl-C" in process.log.read_text(), 60)
        yield kubeconfig
    finally:
        process.stop()


@contextmanager
def real_cluster(
    binaries: Binaries, folder: Path, nodes: int, scheduler: Scheduler
) -> Iterator[Path]:
    """The administrator's kubeconfig of the real control plane with that scheduler."""
    with ExitStack() as running:
        plane = ControlPlane(binaries.etcd.parent, folder, _USERS, _FLAGS, controllers=True)
        running.callback(plane.stop)
        kubeconfig = plane.kubeconfig(ADMIN)
        flags = ["--nodes", str(nodes), "--manage-all-nodes", "--kubeconfig", str(kubeconfig)]
        kubelets = _moorage(["kubelets", *flags], folder / "kubelets.log")
        running.callback(kubelets.stop)
        started = scheduler.start(plane.kubeconfig(SCHEDULER), None, folder, "whole", GATES)
        running.callback(started.stop)
        wait_until_ready(kubelets, lambda: "Ctrl-C" in kubelets.log.read_text(), 60)
        yield kubeconfig


def _moorage(words: list[str], log: Path) -> ChildProcess:
    environment = os.environ | {"PYTHONPATH": str(_SOURCE)}
    return ChildProcess(
        f"moorage-{words[0]}", [sys.executable, "-m", "moorage", *words], log, environment
    )
