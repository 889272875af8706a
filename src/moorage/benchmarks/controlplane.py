"""A real control plane for a benchmark: etcd and kube-apiserver on loopback, ended afterwards.

Finds the programs in the folder that KUBEBUILDER_ASSETS names, else where `make e2e` keeps those
that it built; builds none. No controllers and no kubelets run.
"""

import asyncio
import os
import secrets
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from moorage.benchmarks.processes import Process, ProcessError
from moorage.errors import ApiError, InputError, KubeconfigError
from moorage.kube.access_discovery import user_access
from moorage.kube.client import KubeClient
from moorage.kube.requests import Request
from moorage.version import KUBERNETES_VERSION

_NEEDED = ("etcd", "kube-apiserver")
_READY_SECONDS = 120.0
_POLL_SECONDS = 0.1
# Pods here have a priority without a class, and nobody makes service accounts.
_NO_ADMISSION = "ServiceAccount,TaintNodesByCondition,Priority"


class ControlPlane(NamedTuple):
    """Where a control plane that runs can be reached."""

    kubeconfig: Path
    folder: Path


def find_binaries(env: Mapping[str, str] = os.environ) -> Path:
    """The folder with etcd and kube-apiserver."""
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


@asynccontextmanager
async def control_plane(
    binaries: Path, feature_gates: Mapping[str, bool] | None = None
) -> AsyncIterator[ControlPlane]:
    """Start etcd and kube-apiserver with all their files in a new folder; end both afterwards."""
    with tempfile.TemporaryDirectory(prefix="moorage-bench-") as name:
        folder = Path(name)
        etcd, url = _start_etcd(binaries, folder)
        server: Process | None = None
        try:
            server, kubeconfig = _start_server(binaries, folder, url, feature_gates or {})
            await _until_ready(server, folder, kubeconfig)
            yield ControlPlane(kubeconfig, folder)
        finally:
            for process in (server, etcd):
                if process is not None:
                    process.stop()


def _start_etcd(binaries: Path, folder: Path) -> tuple[Process, str]:
    client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
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
    return Process("etcd", command, folder / "etcd.log"), client


def _start_server(
    binaries: Path, folder: Path, etcd: str, feature_gates: Mapping[str, bool]
) -> tuple[Process, Path]:
    port = free_port()
    token = secrets.token_hex(16)
    (folder / "tokens.csv").write_text(f'{token},admin,admin,"system:masters"\n')
    key = folder / "service-account.key"
    key.write_bytes(_private_key())
    flags: dict[str, object] = {
        "etcd-servers": etcd,
        "secure-port": port,
        "bind-address": "127.0.0.1",
        "advertise-address": "127.0.0.1",
        "endpoint-reconciler-type": "none",
        "cert-dir": folder / "certificates",
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-account-key-file": key,
        "service-account-signing-key-file": key,
        "service-cluster-ip-range": "10.0.0.0/16",
        "token-auth-file": folder / "tokens.csv",
        "authorization-mode": "RBAC",
        "disable-admission-plugins": _NO_ADMISSION,
        "runtime-config": "resource.k8s.io/v1beta2=true,scheduling.k8s.io/v1alpha2=true",
    }
    if feature_gates:
        shown = (f"{gate}={str(on).lower()}" for gate, on in feature_gates.items())
        flags["feature-gates"] = ",".join(shown)
    command = [str(binaries / "kube-apiserver"), *(f"--{flag}={flags[flag]}" for flag in flags)]
    certificate = str(folder / "certificates" / "apiserver.crt")
    cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority": certificate}
    kubeconfig = write_kubeconfig(folder / "kubeconfig", cluster, {"token": token})
    return Process("kube-apiserver", command, folder / "kube-apiserver.log"), kubeconfig


async def _until_ready(server: Process, folder: Path, kubeconfig: Path) -> None:
    async def certified() -> bool:
        return (folder / "certificates" / "apiserver.crt").exists()

    await _wait(server, certified)
    async with KubeClient(user_access(str(kubeconfig)), timeout=5.0) as client:

        async def ready() -> bool:
            try:
                await client.send(Request("GET", "/readyz"))
            except (ApiError, KubeconfigError):
                return False
            return True

        await _wait(server, ready)


async def _wait(process: Process, ready: Callable[[], Awaitable[bool]]) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while not await ready():
        process.check()
        if time.monotonic() > deadline:
            what = f"{process.name} is not ready after {_READY_SECONDS:g} s"
            raise ProcessError(what, process.tail())
        await asyncio.sleep(_POLL_SECONDS)


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
    """A port of loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _private_key() -> bytes:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
