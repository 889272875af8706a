"""A real control plane: etcd and kube-apiserver on loopback, for benchmarks and end-to-end tests.

Finds the programs in the folder that KUBEBUILDER_ASSETS names, else where `make e2e` keeps those
that it built; builds none. No controllers and no kubelets run.
"""

import http.client
import os
import random
import secrets
import socket
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from moorage.benchmarks.processes import ChildProcess
from moorage.errors import InputError, ProcessError
from moorage.version import KUBERNETES_VERSION

_NEEDED = ("etcd", "kube-apiserver")
_READY_SECONDS = 120.0
_POLL_SECONDS = 0.1
_HOST = "127.0.0.1"


class TokenUser(NamedTuple):
    """Somebody with a token."""

    name: str
    group: str = ""


ADMIN = "admin"
_ADMIN_ALONE = {ADMIN: TokenUser("admin", "system:masters")}


def find_binaries() -> Path:
    """The folder with etcd and kube-apiserver."""
    env = os.environ
    named = env.get("KUBEBUILDER_ASSETS")
    if named:
        folders = [Path(named)]
    else:
        kept = env.get("MOORAGE_E2E_CACHE") or Path(
            env.get("XDG_CACHE_HOME") or Path.home() / ".cache", "moorage"
        )
        folders = sorted(Path(kept).glob(f"controlplane-{KUBERNETES_VERSION}-*"))
    for folder in folders:
        if all(os.access(folder / name, os.X_OK) for name in _NEEDED):
            return folder
    looked = ", ".join(str(folder) for folder in folders) or "no folder of `make e2e`"
    raise InputError(
        f"{' and '.join(_NEEDED)} were not found ({looked}): run `make e2e` once, which builds "
        "them, or let KUBEBUILDER_ASSETS name a folder that has them"
    )


class ControlPlane:
    """A running etcd and kube-apiserver, with all their files in one folder."""

    def __init__(
        self,
        binaries: Path,
        folder: Path,
        users: Mapping[str, TokenUser],
        flags: Mapping[str, object],
    ) -> None:
        self.folder = folder
        self.certificate = folder / "certificates" / "apiserver.crt"
        self.tokens = {who: secrets.token_hex(16) for who in users}
        """By user id, which an audit log tells."""
        self._port = free_port()
        self.url = f"https://{_HOST}:{self._port}"
        self._etcd, etcd_url = _start_etcd(binaries, folder)
        try:
            self._write_files(users)
            self._command = self._server_command(binaries, etcd_url, flags)
            self._server = self._start_server()
        except BaseException:
            self._etcd.stop()
            raise

    def kubeconfig(self, who: str = ADMIN) -> Path:
        """A kubeconfig with the token of this user id."""
        cluster = {"server": self.url, "certificate-authority": str(self.certificate)}
        file = self.folder / f"{who.removeprefix('system:')}.kubeconfig"
        return write_kubeconfig(file, cluster, {"token": self.tokens[who]})

    def restart(self) -> None:
        """Kill kube-apiserver and start it again on the same port, with the same etcd."""
        self._server.kill()
        self._server = self._start_server()

    def stop(self) -> None:
        self._server.stop()
        self._etcd.stop()

    def _write_files(self, users: Mapping[str, TokenUser]) -> None:
        lines = [
            f'{self.tokens[who]},{user.name},{who},"{user.group}"\n' for who, user in users.items()
        ]
        (self.folder / "tokens.csv").write_text("".join(lines))
        (self.folder / "service-account.key").write_bytes(_private_key())

    def _server_command(
        self, binaries: Path, etcd_url: str, flags: Mapping[str, object]
    ) -> list[str]:
        folder = self.folder
        every = {
            "etcd-servers": etcd_url,
            "secure-port": self._port,
            "bind-address": _HOST,
            "advertise-address": _HOST,
            "endpoint-reconciler-type": "none",
            "cert-dir": self.certificate.parent,
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": folder / "service-account.key",
            "service-account-signing-key-file": folder / "service-account.key",
            "service-cluster-ip-range": "10.0.0.0/16",
            "token-auth-file": folder / "tokens.csv",
            "authorization-mode": "RBAC",
            # Nobody makes service accounts, and no controller takes the taints away again.
            "disable-admission-plugins": "ServiceAccount,TaintNodesByCondition",
            **flags,
        }
        return [str(binaries / "kube-apiserver"), *(f"--{flag}={every[flag]}" for flag in every)]

    def _start_server(self) -> ChildProcess:
        process = ChildProcess("kube-apiserver", self._command, self.folder / "kube-apiserver.log")
        try:
            wait_until_ready(process, self._is_ready, _READY_SECONDS)
        except BaseException:
            process.kill()
            raise
        return process

    def _is_ready(self) -> bool:
        if not self.certificate.exists():
            return False
        headers = {"Authorization": f"Bearer {next(iter(self.tokens.values()))}"}
        try:
            trusting = ssl.create_default_context(cafile=str(self.certificate))
            connection = http.client.HTTPSConnection(_HOST, self._port, timeout=5, context=trusting)
            connection.request("GET", "/readyz", headers=headers)
            status = connection.getresponse().status
            connection.close()
        except (OSError, http.client.HTTPException):
            return False
        return status == http.client.OK


@contextmanager
def control_plane(binaries: Path, **flags: object) -> Iterator[ControlPlane]:
    """A control plane for a benchmark, with its files in a new folder; both go afterwards."""
    every = {
        # Pods here have a priority without a class.
        "disable-admission-plugins": "ServiceAccount,TaintNodesByCondition,Priority",
        "runtime-config": "scheduling.k8s.io/v1alpha3=true,scheduling.k8s.io/v1beta1=true",
        **{name.replace("_", "-"): value for name, value in flags.items()},
    }
    with tempfile.TemporaryDirectory(prefix="moorage-bench-") as folder:
        plane = ControlPlane(binaries, Path(folder), _ADMIN_ALONE, every)
        try:
            yield plane
        finally:
            plane.stop()


def gates_flag(gates: Mapping[str, bool]) -> str:
    """Feature gates as a flag has them."""
    return ",".join(f"{gate}={str(on).lower()}" for gate, on in gates.items())


def _start_etcd(binaries: Path, folder: Path) -> tuple[ChildProcess, str]:
    client, peer = (f"http://{_HOST}:{free_port()}" for _ in range(2))
    flags = {
        "data-dir": folder / "etcd",
        "listen-client-urls": client,
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"default={peer}",
        # As in upstream's benchmark: the disk is not what is measured.
        "unsafe-no-fsync": "true",
        "quota-backend-bytes": 8 * 2**30,
    }
    command = [str(binaries / "etcd"), *(f"--{key}={value}" for key, value in flags.items())]
    return ChildProcess("etcd", command, folder / "etcd.log"), client


def wait_until_ready(process: ChildProcess, ready: Callable[[], bool], seconds: float) -> None:
    """Poll until a process serves; complain when it ends or takes too long."""
    deadline = time.monotonic() + seconds
    while not ready():
        process.check()
        if time.monotonic() > deadline:
            raise ProcessError(f"{process.name} is not ready after {seconds:g} s", process.tail())
        time.sleep(_POLL_SECONDS)


def write_kubeconfig(path: Path, cluster: Mapping[str, str], user: Mapping[str, str]) -> Path:
    """Write a kubeconfig of one context, readable by its owner alone."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "bench", "cluster": dict(cluster)}],
        "users": [{"name": "bench", "user": dict(user)}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
        "current-context": "bench",
    }
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(document))
    return path


def free_port() -> int:
    """A port of loopback that nobody listens on now, and that no client is given as its own."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def _private_key() -> bytes:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
