"""The node side of simulated kubelets: Ready conditions, leases, addresses.

A node is managed if KWOK's annotation or label marks it as fake, or if all nodes are. What a node
says about its own capacity is kept; a node that says nothing gets KWOK's generous default.
"""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from moorage.apiserver.errors import ApiStatusError, Json
from moorage.apiserver.history import Stored
from moorage.apiserver.operations import Operations
from moorage.apiserver.resources import BY_PLURAL
from moorage.apiserver.subresources import set_condition
from moorage.tables import read_table

FAKE_NODE = "kwok.x-k8s.io/node"
_NODES = BY_PLURAL["", "v1", "nodes"]
_LEASES = BY_PLURAL["coordination.k8s.io", "v1", "leases"]
_LEASE_NAMESPACE = "kube-node-lease"
_STATUS = read_table("moorage.apiserver", "node_status.yaml", Json)
# However many nodes there are, renewing their leases takes at most this many writes a second.
_MOST_RENEWALS = 100

_log = logging.getLogger(__name__)


@contextmanager
def harmless(what: str) -> Iterator[None]:
    """One object that cannot be handled must not stop the others."""
    try:
        yield
    except ApiStatusError as error:
        if error.code not in (404, 409):  # gone or changed meanwhile
            _log.warning("%s: %s", what, error.message)


class NodeHeartbeats:
    """Keeps managed nodes ready."""

    def __init__(self, operations: Operations, *, all_nodes: bool, lease_seconds: float) -> None:
        self._operations = operations
        self._all_nodes = all_nodes
        self._lease_seconds = lease_seconds
        self._addresses: dict[str, str] = {}
        self._numbers = 0

    def manages(self, name: str) -> bool:
        """Is there a simulated kubelet on this node?"""
        if name not in self._addresses:
            stored = self._operations.store.nodes.get("", name)
            if stored is not None:
                self._adopt(stored)
        return name in self._addresses

    def address(self, name: str) -> str:
        """The node's internal address."""
        return self._addresses.get(name, "")

    async def run(self) -> None:
        """Watch nodes, make new ones ready, renew leases."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._operations.store.nodes.follow(self._adopt, self._forget))
            if self._lease_seconds > 0:
                group.create_task(self._renew())

    def _forget(self, name: str) -> None:
        self._addresses.pop(name, None)

    def _adopt(self, stored: Stored) -> None:
        """Take over a managed node that has no kubelet yet."""
        if stored.name in self._addresses:
            return
        node = stored.object()
        annotations = node["metadata"].get("annotations") or {}
        if not (
            self._all_nodes
            or annotations.get(FAKE_NODE) == "fake"
            or stored.labels.get(FAKE_NODE) == "fake"
        ):
            return
        self._numbers += 1
        number = self._numbers
        address = f"172.{16 + (number >> 16 & 15)}.{number >> 8 & 255}.{number & 255}"
        known = (node.get("status") or {}).get("addresses") or []
        internal = [a["address"] for a in known if a.get("type") == "InternalIP"]
        self._addresses[stored.name] = internal[0] if internal else address
        with harmless(f"node {stored.name}"):
            self._operations.change(_NODES, "", stored.name, self._ready, subresource="status")
            self._lease(stored.name, stored.uid)

    def _ready(self, node: Json) -> Json:
        now = self._operations.identities.now()
        status = node.setdefault("status", {})
        for name, value in _STATUS["capacity"].items():
            if not (status.get("capacity") or {}).get(name):
                status["capacity"] = {**(status.get("capacity") or {}), name: value}
        status["allocatable"] = {**status["capacity"], **(status.get("allocatable") or {})}
        present = {c.get("type"): c for c in status.get("conditions") or []}
        for condition in _STATUS["conditions"]:
            if condition["type"] not in present:  # what the node's author says stands
                set_condition(status, condition, now)
                status["conditions"][-1].pop("lastProbeTime")
                status["conditions"][-1]["lastHeartbeatTime"] = now
        if not status.get("addresses"):
            name = node["metadata"]["name"]
            internal = {"type": "InternalIP", "address": self._addresses[name]}
            status["addresses"] = [internal, {"type": "Hostname", "address": name}]
        status["nodeInfo"] = {**_STATUS["nodeInfo"], **(status.get("nodeInfo") or {})}
        return node

    # ---- leases ----

    def _interval(self) -> float:
        return max(self._lease_seconds, len(self._addresses) / _MOST_RENEWALS)

    def _moment(self) -> str:
        return self._operations.identities.now().replace("Z", ".000000Z")

    def _lease(self, name: str, uid: str) -> None:
        lease = {
            "metadata": {
                "name": name,
                "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}],
            },
            "spec": {
                "holderIdentity": name,
                "leaseDurationSeconds": int(self._interval() * 4),
                "renewTime": self._moment(),
            },
        }
        if self._operations.store.collection(_LEASES.storage).get(_LEASE_NAMESPACE, name) is None:
            self._operations.create(_LEASES, _LEASE_NAMESPACE, lease)

    async def _renew(self) -> None:
        """Go round the nodes slowly: one interval for all of them."""
        while True:
            names = list(self._addresses)
            if not names:
                await asyncio.sleep(self._lease_seconds)
            for name in names:
                with suppress(ApiStatusError):  # without its lease a node stays ready too
                    self._operations.change(_LEASES, _LEASE_NAMESPACE, name, self._renewed)
                await asyncio.sleep(self._interval() / len(names))

    def _renewed(self, lease: Json) -> Json:
        duration = int(self._interval() * 4)
        spec = {**(lease.get("spec") or {}), "leaseDurationSeconds": duration}
        return {**lease, "spec": {**spec, "renewTime": self._moment()}}
