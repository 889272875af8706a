"""The processes of a soak: one API server with its data in a folder, and schedulers."""

import os
import sys
from pathlib import Path

from moorage.controlplane.plane import write_kubeconfig
from moorage.controlplane.processes import ChildProcess, free_port

_SOURCE = Path(__file__).parents[2] / "src"
_ENVIRONMENT = os.environ | {"PYTHONPATH": str(_SOURCE)}
LEASE_SECONDS = 6


class Moorage:
    """A command of Moorage that can be killed and started again."""

    def __init__(self, name: str, arguments: list[str], folder: Path) -> None:
        self.name = name
        self._arguments = arguments
        self._log = folder / f"{name}.log"
        self._process: ChildProcess | None = None

    @property
    def pid(self) -> int:
        """The process's id; 0 while there is none."""
        return 0 if self._process is None else self._process.pid

    def start(self) -> None:
        """Start it, unless it runs."""
        if self._process is not None and self._process.running:
            return
        command = [sys.executable, "-m", "moorage", *self._arguments]
        self._process = ChildProcess(self.name, command, self._log, _ENVIRONMENT)

    def kill(self) -> None:
        """End it as a power cut would."""
        assert self._process is not None, "it was started"
        self._process.kill()
        self._process = None

    def stop(self) -> None:
        """End it in good order."""
        if self._process is not None:
            self._process.stop()

    def ended(self) -> str | None:
        """The end of its log if it ended by itself, else None."""
        if self._process is None or self._process.running:
            return None
        return self._process.tail()


def api_server(folder: Path, port: int) -> Moorage:
    """The embedded API server."""
    flags = ["--port", str(port), "--data", str(folder / "data"), "--kubelets"]
    flags += ["--write-kubeconfig", str(folder / "server.kubeconfig")]
    return Moorage("apiserver", ["apiserver", *flags], folder)


def whole_cluster(folder: Path, port: int) -> Moorage:
    """API server, kubelets and scheduler in one process."""
    flags = ["--port", str(port), "--data", str(folder / "data"), "--nodes", "0"]
    flags += ["--write-kubeconfig", str(folder / "server.kubeconfig")]
    return Moorage("up", ["up", *flags], folder)


class SchedulerProcess(Moorage):
    """A scheduler with leader election and a port of its own."""

    def __init__(self, name: str, folder: Path, server: str) -> None:
        self.port = free_port()
        kubeconfig = write_kubeconfig(folder / f"{name}.kubeconfig", {"server": server}, {})
        flags = {
            "kubeconfig": kubeconfig,
            "bind-address": "127.0.0.1",
            "secure-port": self.port,
            # The limiter of requests would otherwise decide how soon a fault is made up for.
            "kube-api-qps": 1000,
            "kube-api-burst": 1000,
            "leader-elect": "true",
            "leader-elect-lease-duration": f"{LEASE_SECONDS}s",
            "leader-elect-renew-deadline": "4s",
            "leader-elect-retry-period": "1s",
            "authorization-always-allow-paths": "/livez,/metrics",
        }
        words = [f"--{key}={value}" for key, value in flags.items()]
        super().__init__(name, ["scheduler", *words], folder)
