"""A real control plane on loopback: etcd and kube-apiserver, with some users.

Nothing else of Kubernetes runs: no controllers and no kubelets, so nodes are plain objects and
whatever a controller or kubelet would do is done by the test.
"""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, Protocol

import trustme
import yaml

from e2e.binaries import Binaries
from e2e.client import KINDS, Access, Api, Json
from moorage.controlplane.plane import ControlPlane as BareControlPlane
from moorage.controlplane.plane import TokenUser
from moorage.controlplane.plane import write_kubeconfig as write_context

# Every kind a scenario may leave behind; namespaces stay, since no controller would empty them.
_LEFT_BEHIND = (
    *("Pod", "Node", "PriorityClass", "PodDisruptionBudget", "Service"),
    *("PersistentVolumeClaim", "PersistentVolume", "StorageClass", "CSINode", "CSIDriver"),
    *("ResourceClaim", "ResourceSlice", "DeviceClass", "DeviceTaintRule"),
    "PodGroup",
)
_GATES = (
    *("GenericWorkload", "TopologyAwareWorkloadScheduling", "DRAListTypeAttributes"),
    *("DRAWorkloadResourceClaims", "DRANodeAllocatableResources", "CoordinatedLeaderElection"),
)
_APIS = ("scheduling.k8s.io/v1beta1", "coordination.k8s.io/v1beta1")
SCHEDULER = "system:kube-scheduler"
# All requests of this group are in the audit log, not only what becomes of pods.
_AUDITED = "e2e:audited"


# By the user's id, which the audit log tells: several tokens are of one user with the same rights.
_USERS = {
    "admin": TokenUser("admin", "system:masters"),
    SCHEDULER: TokenUser(SCHEDULER),
    **{who: TokenUser(SCHEDULER, _AUDITED) for who in ("first", "second", "shadow")},
    **{who: TokenUser(who) for who in ("reader", "stranger")},
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


class ControlPlane(BareControlPlane):
    """A running etcd and kube-apiserver with an audit log, and the users that tests play."""

    def __init__(self, binaries: Binaries, folder: Path) -> None:
        self.clients = trustme.CA()
        """Signs the certificates of clients."""
        self.clients.cert_pem.write_to_path(folder / "clients.crt")
        (folder / "audit.yaml").write_text(yaml.safe_dump(_AUDIT_POLICY))
        flags = {
            "client-ca-file": folder / "clients.crt",
            "audit-policy-file": folder / "audit.yaml",
            "audit-log-path": folder / "audit.log",
            # Off by default; without objects of that API nothing else changes.
            "feature-gates": ",".join(f"{gate}=true" for gate in _GATES),
            "runtime-config": ",".join(f"{api}=true" for api in _APIS),
        }
        super().__init__(binaries.etcd.parent, folder, _USERS, flags)
        self.admin = self.access("admin")
        self.admin_kubeconfig = self.kubeconfig("admin")
        self.scheduler_kubeconfig = self.kubeconfig(SCHEDULER)

    def access(self, who: str) -> Access:
        """How to reach the server with the token of this user id."""
        return Access(self.url, self.tokens[who], str(self.certificate))

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


@contextmanager
def control_plane(binaries: Binaries, folder: Path) -> Iterator[ControlPlane]:
    """Start etcd and kube-apiserver with all their files in the folder; end them at the end."""
    plane = ControlPlane(binaries, folder)
    try:
        yield plane
    finally:
        plane.stop()


def write_kubeconfig(path: Path, access: Access) -> Path:
    """Write a kubeconfig of one context for this access."""
    cluster = {"server": access.server}
    if access.ca_file:
        cluster["certificate-authority"] = access.ca_file
    return write_context(path, cluster, {"token": access.token} if access.token else {})


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
