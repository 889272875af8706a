"""etcd, kube-apiserver and, where it is wanted, kube-controller-manager on loopback.

Finds the programs in the folder that KUBEBUILDER_ASSETS names, else where `make e2e` keeps those
that it built; builds none. No kubelets run.
"""

import http.client
import os
import secrets
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from moorage.controlplane.processes import ChildProcess, free_port, wait_until_ready
from moorage.errors import InputError
from moorage.version import KUBERNETES_VERSION

_ETCD, _SERVER, CONTROLLER_MANAGER = "etcd", "kube-apiserver", "kube-controller-manager"
_NEEDED = (_ETCD, _SERVER)
_READY_SECONDS = 120.0
_CONTROLLER_RATE = 1000
GROUPS_OF_PODS = "scheduling.k8s.io/v1alpha3=true,scheduling.k8s.io/v1beta1=true"
_HOST = "127.0.0.1"


class TokenUser(NamedTuple):
    """Somebody with a token."""

    name: str
    group: str = ""


ADMIN = "admin"
ADMIN_ALONE = {ADMIN: TokenUser("admin", "system:masters")}


def find_binaries(named: str = "") -> Path:
    """The folder with etcd and kube-apiserver: the one that is named, or the usual ones."""
    env = os.environ
    named = named or env.get("KUBEBUILDER_ASSETS", "")
    if named:
        folders = [Path(named)]
    else:
        kept = env.get("MOORAGE_E2E_CACHE") or Path(
            env.get("XDG_CACHE_HOME") or Path.home() / ".cache", "moorage"
        )
        folders = sorted(
            Path(kept).glob(f"controlplane-{KUBERNETES_VERSION}-*"),
            key=has_controllers,
            reverse=True,
        )
    for folder in folders:
        if all(_has(folder, name) for name in _NEEDED):
            return folder
    looked = ", ".join(str(folder) for folder in folders) or "no folder of `make e2e`"
    raise InputError(
        f"{' and '.join(_NEEDED)} were not found ({looked}): run `make e2e` once, which builds "
        "them, or let KUBEBUILDER_ASSETS name a folder that has them"
    )


def has_controllers(binaries: Path) -> bool:
    """Is there a kube-controller-manager beside the other programs? envtest's folders have none."""
    return _has(binaries, CONTROLLER_MANAGER)


def _has(folder: Path, name: str) -> bool:
    return os.access(folder / name, os.X_OK)


class ControlPlane:
    """A running etcd and kube-apiserver, with all their files in one folder.

    With `controllers` kube-controller-manager runs as well, and nothing is left out of admission.
    """

    def __init__(
        self,
        binaries: Path,
        folder: Path,
        users: Mapping[str, TokenUser],
        flags: Mapping[str, object],
        *,
        controllers: bool = False,
    ) -> None:
        self.folder = folder
        self.certificate = folder / "certificates" / "apiserver.crt"
        self.tokens = {who: secrets.token_hex(16) for who in users}
        """By user id, which an audit log tells."""
        self._port = free_port()
        self.url = f"https://{_HOST}:{self._port}"
        self._processes: dict[str, ChildProcess] = {}
        """In the order of their start."""
        try:
            self._start(binaries, users, flags, controllers=controllers)
        except BaseException:
            self.stop()
            raise

    def kubeconfig(self, who: str = ADMIN) -> Path:
        """A kubeconfig with the token of this user id."""
        cluster = {"server": self.url, "certificate-authority": str(self.certificate)}
        file = self.folder / f"{who.removeprefix('system:')}.kubeconfig"
        return write_kubeconfig(file, cluster, {"token": self.tokens[who]})

    def restart(self) -> None:
        """Kill kube-apiserver and start it again on the same port, with the same etcd."""
        self._processes[_SERVER].kill()
        self._start_server()

    @property
    def has_controllers(self) -> bool:
        """Does kube-controller-manager run?"""
        return CONTROLLER_MANAGER in self._processes

    def check(self) -> None:
        """Complain if one of the programs has ended by itself."""
        for process in self._processes.values():
            process.check()

    def stop(self) -> None:
        """End the programs, the last one first."""
        for process in reversed(self._processes.values()):
            process.stop()

    def _start(
        self,
        binaries: Path,
        users: Mapping[str, TokenUser],
        flags: Mapping[str, object],
        *,
        controllers: bool,
    ) -> None:
        self._processes[_ETCD], etcd_url = _start_etcd(binaries, self.folder)
        self._write_files(users)
        if not controllers:
            # Nobody makes service accounts, and no controller takes the taints away again.
            flags = {"disable-admission-plugins": "ServiceAccount,TaintNodesByCondition", **flags}
        self._command = self._server_command(binaries, etcd_url, flags)
        self._start_server()
        if controllers:
            self._start_controllers(binaries, flags)

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
            **flags,
        }
        return [str(binaries / _SERVER), *(f"--{flag}={every[flag]}" for flag in every)]

    def _start_server(self) -> None:
        process = ChildProcess(_SERVER, self._command, self.folder / f"{_SERVER}.log")
        self._processes[_SERVER] = process
        wait_until_ready(process, self._is_ready, _READY_SECONDS)

    def _start_controllers(self, binaries: Path, flags: Mapping[str, object]) -> None:
        every = {
            # Its own account has the rights of few controllers.
            "kubeconfig": self.kubeconfig(),
            # The certificate of a server on loopback is no authority's.
            "controllers": "*,-kube-apiserver-serving-clustertrustbundle-publisher-controller",
            "leader-elect": "false",
            "secure-port": 0,
            "root-ca-file": self.certificate,
            "service-account-private-key-file": self.folder / "service-account.key",
            "kube-api-qps": _CONTROLLER_RATE,
            "kube-api-burst": _CONTROLLER_RATE,
        }
        if "feature-gates" in flags:
            every["feature-gates"] = flags["feature-gates"]
        command = [
            str(binaries / CONTROLLER_MANAGER),
            *(f"--{flag}={value}" for flag, value in every.items()),
        ]
        log = self.folder / f"{CONTROLLER_MANAGER}.log"
        self._processes[CONTROLLER_MANAGER] = ChildProcess(CONTROLLER_MANAGER, command, log)

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
        "runtime-config": GROUPS_OF_PODS,
        **{name.replace("_", "-"): value for name, value in flags.items()},
    }
    with tempfile.TemporaryDirectory(prefix="moorage-bench-") as folder:
        plane = ControlPlane(binaries, Path(folder), ADMIN_ALONE, every)
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
    command = [str(binaries / _ETCD), *(f"--{key}={value}" for key, value in flags.items())]
    return ChildProcess(_ETCD, command, folder / "etcd.log"), client


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


def _private_key() -> bytes:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
