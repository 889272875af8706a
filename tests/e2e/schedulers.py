"""Starts the schedulers under comparison: the peer kube-scheduler and the subject Moorage."""

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import yaml

from e2e.binaries import Binaries
from e2e.client import Json
from moorage.controlplane.processes import ChildProcess

PEER = "kube-scheduler"
MOORAGE = "moorage"
# Moorage is run from this tree, whether or not it is installed.
_FROM_SOURCE = {"PYTHONPATH": str(Path(__file__).parents[2] / "src")}


class Scheduler(NamedTuple):
    """One of the schedulers under comparison: its name, and the words that start it."""

    name: str
    command: tuple[str, ...]

    def start(
        self,
        kubeconfig: Path,
        config: Json | None,
        folder: Path,
        label: str,
        gates: str = "",
        more: Sequence[str] = (),
    ) -> ChildProcess:
        """Start it with a configuration file, or with flags only where config is None."""
        flags = ["--leader-elect=false", "--secure-port=0", "--v=4", *more]
        if gates:
            flags.append(f"--feature-gates={gates}")
        if config is None:
            flags.append(f"--kubeconfig={kubeconfig}")
        else:
            file = folder / f"{label}.config.yaml"
            file.write_text(yaml.safe_dump(_document(config, kubeconfig)))
            flags.append(f"--config={file}")
        return self.run(flags, folder / f"{label}.{self.name}.log")

    def run(self, flags: Sequence[str], log: Path) -> ChildProcess:
        """Start it with these flags."""
        return ChildProcess(self.name, [*self.command, *flags], log, os.environ | _FROM_SOURCE)


def schedulers(binaries: Binaries) -> dict[str, Scheduler]:
    """The two schedulers by name; MOORAGE_CMD replaces the words that start Moorage."""
    named = os.environ.get("MOORAGE_CMD")
    moorage: Sequence[str] = [sys.executable, "-m", "moorage", "scheduler"]
    if named:
        moorage = shlex.split(named)
    return {
        PEER: Scheduler(PEER, (str(binaries.kube_scheduler),)),
        MOORAGE: Scheduler(MOORAGE, tuple(moorage)),
    }


def subject() -> str:
    """Who is compared with kube-scheduler: MOORAGE_E2E_SUBJECT=kube-scheduler checks the tests."""
    return os.environ.get("MOORAGE_E2E_SUBJECT", MOORAGE)


def _document(config: Json, kubeconfig: Path) -> Json:
    connection = {"kubeconfig": str(kubeconfig), **config.get("clientConnection", {})}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        **config,
        "clientConnection": connection,
    }
