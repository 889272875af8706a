"""A scheduler as a command that is measured: how it is written, and how it is started.

The command may name `{kubeconfig}` and `{config}`; one that names neither is taken for
kube-scheduler or something that understands its flags.
"""

import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import yaml

from moorage.controlplane.processes import ChildProcess
from moorage.errors import InputError

CLIENT_RATE = 5000
_PLACEHOLDERS = ("{kubeconfig}", "{config}")
_FLAGS = ("--config={config}", "--leader-elect=false", "--secure-port=0")


class SchedulerCommand(msgspec.Struct, frozen=True):
    """A scheduler's name, and the words that start it."""

    name: str
    words: tuple[str, ...]

    def start(
        self,
        kubeconfig: Path,
        folder: Path,
        *,
        configuration: Mapping[str, object] | None = None,
        flags: Sequence[str] = (),
    ) -> ChildProcess:
        """Start it with a configuration file that lets it talk to the API as fast as it can."""
        config = folder / f"{self.name}.config.yaml"
        config.write_text(yaml.safe_dump(_configuration(kubeconfig, configuration or {})))
        words = [*self.words]
        if not any(mark in word for word in words for mark in _PLACEHOLDERS):
            words += _FLAGS
        words += flags
        values = dict(zip(_PLACEHOLDERS, (str(kubeconfig), str(config)), strict=True))
        for mark, value in values.items():
            words = [word.replace(mark, value) for word in words]
        return ChildProcess(self.name, words, folder / f"{self.name}.log", os.environ)


def moorage_command() -> SchedulerCommand:
    """Moorage itself, as it is installed here."""
    return SchedulerCommand("moorage", (sys.executable, "-m", "moorage", "scheduler"))


def parse_command(text: str, binaries: Path | None = None) -> SchedulerCommand:
    """The command that a user wrote in one argument.

    A bare `kube-scheduler` that is nowhere on the path is looked for among `binaries`.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InputError(f"the scheduler command {text!r} cannot be read: {error}") from None
    if not words:
        raise InputError("the scheduler command is empty: expected a program and its arguments")
    name = Path(words[0]).name
    if binaries is not None and name == words[0] and shutil.which(name) is None:
        beside = binaries / name
        words[0] = str(beside) if beside.exists() else name
    if "moorage" in words[1:3]:  # python -m moorage scheduler
        name = "moorage"
    return SchedulerCommand(name, tuple(words))


def _configuration(kubeconfig: Path, given: Mapping[str, object]) -> dict[str, object]:
    connection = {"kubeconfig": str(kubeconfig), "qps": CLIENT_RATE, "burst": CLIENT_RATE}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        **given,
        "clientConnection": connection,
    }
