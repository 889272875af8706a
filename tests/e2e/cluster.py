"""A real control plane on loopback: etcd and kube-apiserver, with some users.

Nothing else of Kubernetes runs: no controllers and no kubelets, so nodes are plain objects and
whatever a controller or kubelet would do is done by the test.
"""

import json
import secrets
import socket
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, Protocol

import trustme
import yaml

from e2e.binaries import Binaries
from e2e.client import KINDS, Access, Api, Json
from e2e.processes import Process, wait_until_ready

# Every kind a scenario may leave behind; namespaces stay, since no controller would empty them.
_LEFT_BEHIND = (
    *("Pod", "Node", "PriorityClass", "PodDisruptionBudget", "Service"),
    *("PersistentVolumeClaim", "PersistentVolume", "StorageClass", "CSINode", "CSIDriver"),
    *("ResourceClaim", "ResourceSlice", "DeviceClass", "DeviceTaintRule"),
    "PodGroup",
)
_GATES = (
    *("GenericWorkload", "GangScheduling", "TopologyAwareWorkloadScheduling"),
    *("WorkloadAwarePreemption", "DRADeviceTaintRules", "DRAListTypeAttributes"),
    *("DRAWorkloadResourceClaims", "DRANodeAllocatableResources"),
    "CoordinatedLeaderElection",
)
_APIS = (
    *("scheduling.k8s.io/v1alpha2", "resource.k8s.io/v1beta2"),
    "coordination.k8s.io/v1beta1",
)
SCHEDULER = "system:kube-scheduler"
# All requests of this group are in the audit log, not only what becomes of pods.
_AUDITED = "e2e:audited"


class _User(NamedTuple):
    name: str
    group: str = ""


# By the user's id, which the audit log tells: several tokens are of one user with the same rights.
_USERS = {
    "admin": _User("admin", "system:masters"),
    SCHEDULER: _User(SCHEDULER),
    **{who: _User(SCHEDULER, _AUDITED) for who in ("first", "second", "shadow")},
    **{who: _User(who) for who in ("reader", "stranger")},
}
_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [
        # Whatever the account of deploy/rbac asks for, to compare it with its rights.
        {
            "level": "Metadata",
            "users": ["system:serviceaccount:kube-system:moorage-scheduler"],
        },
        {"level": "Metadata", "userGroups": [_AUDITED]},
        {
            "level": "Metadata",
            "verbs": ["create", "patch", "delete"],
            "resources": [{"group": "", "resources": ["pods", "pods/binding", "pods/status"]}],
        },
        {"level": "None"},
    ],
}


class Server(Protocol):
    """An API server that scenarios can run against."""

    admin: Access
    scheduler_kubeconfig: Path
    folder: Path

    def bindings(self, namespace: str) -> Counter[str] | None:
        """How often each pod was bound with success; None where the server keeps no such record."""

    def restart(self) -> None:
        """Kill the server and start it again with the same address and the same objects."""


class Bound(NamedTuple):
    """A binding: which pod, by the token of whom, and when (seconds since the epoch)."""

    pod: str
    who: str
    moment: float


class ControlPlane:
    """A running etcd and kube-apiserver."""

    def __init__(
        self,
        command: list[str],
        folder: Path,
        port: int,
        tokens: dict[str, str],
        clients: trustme.CA,
    ) -> None:
        self.folder = folder
        self.tokens = tokens
        self.clients = clients
        """Signs the certificates of clients."""
        self._command = command
        self._certificate = folder / "certificates" / "apiserver.crt"
        self._url = f"https://127.0.0.1:{port}"
        self.admin = self.access("admin")
        self.admin_kubeconfig = self.kubeconfig("admin")
        self.scheduler_kubeconfig = self.kubeconfig(SCHEDULER)
        self._process = self._started()

    def access(self, who: str) -> Access:
        """How to reach the server with the token of this user id."""
        return Access(self._url, self.tokens[who], str(self._certificate))

    def kubeconfig(self, who: str) -> Path:
        """A kubeconfig with the token of this user id."""
        file = self.folder / f"{who.removeprefix('system:')}.kubeconfig"
        return write_kubeconfig(file, self.access(who))

    def restart(self) -> None:
        """Kill kube-apiserver and start it again on the same port, with the same etcd."""
        self._process.kill()
        self._process = self._started()

    def stop(self) -> None:
        """End kube-apiserver."""
        self._process.stop()

    def bindings(self, namespace: str) -> Counter[str]:
        """How often each pod of the namespace was bound with success."""
        return Counter(bound.pod for bound in self.bindings_in_order(namespace))

    def bindings_in_order(self, namespace: str) -> list[Bound]:
        """Every binding in the namespace that succeeded."""
        found = []
        for entry in self.audited('"binding"'):
            what = entry.get("objectRef", {})
            if (
                what.get("subresource") == "binding"
                and what.get("namespace") == namespace
                and entry.get("responseStatus", {}).get("code") == 201
            ):
                moment = datetime.fromisoformat(entry["stageTimestamp"]).timestamp()
                found.append(Bound(what["name"], entry["user"]["uid"], moment))
        return found

    def audited(self, word: str) -> Iterator[Json]:
        """The entries of the audit log that have this word in them."""
        for line in (self.folder / "audit.log").read_text().splitlines():
            if word in line:
                yield json.loads(line)

    def _started(self) -> Process:
        process = Process("kube-apiserver", self._command, self.folder / "kube-apiserver.log")
        try:
            wait_until_ready(process, self._certificate.exists, 60)
            with closing(Api(self.admin)) as api:
                wait_until_ready(process, api.ready, 120)
        except BaseException:
            process.kill()
            raise
        return process


@contextmanager
def control_plane(binaries: Binaries, folder: Path) -> Iterator[ControlPlane]:
    """Start etcd and kube-apiserver with all their files in the folder; end them at the end."""
    with ExitStack() as running:
        etcd_url = _start_etcd(binaries, folder, running)
        port = free_port()
        tokens = _write_tokens(folder)
        _write_service_account_key(folder)
        clients = trustme.CA()
        clients.cert_pem.write_to_path(folder / "clients.crt")
        (folder / "audit.yaml").write_text(yaml.safe_dump(_AUDIT_POLICY))
        flags = {
            "etcd-servers": etcd_url,
            "secure-port": port,
            "bind-address": "127.0.0.1",
            "advertise-address": "127.0.0.1",
            "endpoint-reconciler-type": "none",
            "cert-dir": folder / "certificates",
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": folder / "service-account.key",
            "service-account-signing-key-file": folder / "service-account.key",
            "service-cluster-ip-range": "10.0.0.0/24",
            "token-auth-file": folder / "tokens.csv",
            "client-ca-file": folder / "clients.crt",
            "authorization-mode": "RBAC",
            "disable-admission-plugins": "ServiceAccount,TaintNodesByCondition",
            "audit-policy-file": folder / "audit.yaml",
            "audit-log-path": folder / "audit.log",
            # Alpha, so off by default; without objects of that API nothing else changes.
            "feature-gates": ",".join(f"{gate}=true" for gate in _GATES),
            "runtime-config": ",".join(f"{api}=true" for api in _APIS),
        }
        command = [str(binaries.kube_apiserver), *(f"--{key}={flags[key]}" for key in flags)]
        plane = ControlPlane(command, folder, port, tokens, clients)
        running.callback(plane.stop)
        yield plane


def _start_etcd(binaries: Binaries, folder: Path, running: ExitStack) -> str:
    client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    flags = {
        "data-dir": folder / "etcd",
        "listen-client-urls": client,
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"default={peer}",
        # The data dies with the tests: waiting for the disk would only slow them down.
        "unsafe-no-fsync": "true",
    }
    etcd = Process(
        "etcd",
        [str(binaries.etcd), *(f"--{key}={value}" for key, value in flags.items())],
        folder / "etcd.log",
    )
    running.callback(etcd.stop)
    return client


def _write_tokens(folder: Path) -> dict[str, str]:
    tokens = {who: secrets.token_hex(16) for who in _USERS}
    lines = [f'{tokens[who]},{user.name},{who},"{user.group}"' for who, user in _USERS.items()]
    (folder / "tokens.csv").write_text("\n".join(lines) + "\n")
    return tokens


def _write_service_account_key(folder: Path) -> None:
    command = ["openssl", "genrsa", "-out", str(folder / "service-account.key"), "2048"]
    subprocess.run(command, check=True, capture_output=True)


def write_kubeconfig(path: Path, access: Access) -> Path:
    """Write a kubeconfig of one context for this access."""
    cluster = {"server": access.server}
    if access.ca_file:
        cluster["certificate-authority"] = access.ca_file
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "e2e", "cluster": cluster}],
        "users": [{"name": "e2e", "user": {"token": access.token} if access.token else {}}],
        "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "e2e"}}],
        "current-context": "e2e",
    }
    path.write_text(yaml.safe_dump(document))
    return path


def empty(api: Api) -> None:
    """Delete whatever a scenario may have made."""
    for kind in _LEFT_BEHIND:
        for item in api.list(kind):
            meta = item["metadata"]
            if kind == "PriorityClass" and meta["name"].startswith("system-"):
                continue
            namespace = meta.get("namespace") if KINDS[kind].namespaced else None
            if kind == "Service" and namespace == "default":
                continue
            if meta.get("finalizers"):
                api.patch(kind, meta["name"], {"metadata": {"finalizers": None}}, namespace)
            api.delete(kind, meta["name"], namespace, grace=0)


def free_port() -> int:
    """A port of loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
