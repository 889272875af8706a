"""Moorage's own API server as the stage of scenarios."""

import base64
import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import yaml

from e2e.client import Access, Api
from moorage.controlplane.processes import ChildProcess, free_port, wait_until_ready

_SOURCE = Path(__file__).parents[2] / "src"


class EmbeddedServer:
    """A running `moorage apiserver` over TLS that keeps its objects in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.scheduler_kubeconfig = folder / "kubeconfig"
        self._port = free_port()
        self._log = folder / "moorage-apiserver.log"
        self._process = self._started()
        self.admin = _access(self.scheduler_kubeconfig)
        self._wait()

    def restart(self) -> None:
        """Kill the server and start it again with the same port and folder."""
        self._process.kill()
        self._process = self._started()
        self._wait()

    def stop(self) -> None:
        """End the server."""
        self._process.stop()

    def bindings(self, namespace: str) -> Counter[str] | None:
        """The embedded server keeps no audit log."""

    def _started(self) -> ChildProcess:
        self._seen = len(self._log.read_text()) if self._log.exists() else 0
        flags = ["--port", str(self._port), "--tls", "--data", str(self.folder / "data")]
        flags += ["--write-kubeconfig", str(self.scheduler_kubeconfig)]
        process = ChildProcess(
            "moorage-apiserver",
            [sys.executable, "-m", "moorage", "apiserver", *flags],
            self._log,
            os.environ | {"PYTHONPATH": str(_SOURCE)},
        )
        # The server says so when the file is complete.
        wait_until_ready(process, lambda: "kubeconfig:" in self._new_log(), 30)
        return process

    def _wait(self) -> None:
        with closing(Api(self.admin)) as api:
            wait_until_ready(self._process, api.ready, 30)

    def _new_log(self) -> str:
        return self._log.read_text()[self._seen :]


@contextmanager
def embedded_server(folder: Path) -> Iterator[EmbeddedServer]:
    """Start Moorage's API server; end it at the end."""
    running = EmbeddedServer(folder)
    try:
        yield running
    finally:
        running.stop()


def _access(kubeconfig: Path) -> Access:
    """What the kubeconfig says of server, token and authority."""
    document = yaml.safe_load(kubeconfig.read_text())
    (cluster,), (user,) = document["clusters"], document["users"]
    authority = cluster["cluster"].get("certificate-authority")
    data = cluster["cluster"].get("certificate-authority-data")
    if data:
        authority = str(kubeconfig.with_suffix(".crt"))
        Path(authority).write_bytes(base64.b64decode(data))
    return Access(cluster["cluster"]["server"], user["user"].get("token"), authority)
