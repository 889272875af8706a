"""The cluster as dictionaries of objects: what the columns must always agree with.

Everything that can be worked out from the objects present is worked out anew when asked. Three
things depend on history, as upstream keeps them: the ports in use (a set, so the first pod that
leaves frees a port two pods shared), the size of an image (the first node's word counts) and the
order of nodes (zones take turns).
"""

import copy
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from moorage.model.meta import ApiObject
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.model.workloads import (
    Namespace,
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)

T = TypeVar("T", bound=ApiObject)


class Port(NamedTuple):
    """A port in use."""

    ip: str
    protocol: str
    number: int


@dataclass
class NaiveNode:
    """A node, or the ghost of one: pods may be on a node that is not there."""

    node: Node | None = None
    pods: dict[str, Pod] = field(default_factory=dict)
    ports: set[Port] = field(default_factory=set)

    def present(self) -> Node:
        """The node, which must be there."""
        assert self.node is not None, "this node is a ghost"
        return self.node

    def add(self, pod: Pod) -> None:
        """A pod comes."""
        self.pods[pod.uid] = pod
        self.ports |= ports_of(pod)

    def remove(self, pod: Pod) -> None:
        """A pod goes, and takes its ports out of the set."""
        known = self.pods.pop(pod.uid)
        self.ports -= ports_of(known)

    def requested(self, resource: str) -> int:
        """What the pods ask for."""
        return sum(pod.requests.occupied.get(resource, 0) for pod in self.pods.values())

    def requested_with_defaults(self, resource: str) -> int:
        """The same for cpu or memory, with the defaults of containers that ask for none."""
        if resource == "cpu":
            return sum(pod.requests.occupied_with_defaults["cpu"] for pod in self.pods.values())
        return sum(pod.requests.occupied_with_defaults["memory"] for pod in self.pods.values())

    def copy(self) -> "NaiveNode":
        """A copy to try things on."""
        return NaiveNode(self.node, dict(self.pods), set(self.ports))


@dataclass
class NaiveImage:
    """An image name: its size by the first node that had it, and who has it."""

    size: int
    nodes: set[str]


class NaiveCluster:
    """Nodes, pods and the other objects."""

    def __init__(self) -> None:
        self.infos: dict[str, NaiveNode] = {}
        self.zones: list[tuple[tuple[str, str], list[str]]] = []
        self.images: dict[str, NaiveImage] = {}
        self.placed: dict[str, tuple[Pod, str]] = {}
        self.assumed: set[str] = set()
        self.objects: dict[tuple[type[ApiObject], str, str], ApiObject] = {}
        self.nominated: dict[str, tuple[Pod, str]] = {}

    # Nodes

    @property
    def nodes(self) -> dict[str, Node]:
        """The nodes that are there."""
        return {name: info.node for name, info in self.infos.items() if info.node is not None}

    def put_node(self, node: Node) -> None:
        """A node appeared or changed."""
        info = self.infos.setdefault(node.name, NaiveNode())
        if info.node is not None:
            self._forget_images(info.node)
        if info.node is None or _zone(info.node) != _zone(node):
            self._leave_zone(node.name)
            self._enter_zone(node)
        if info.node is None:
            # Upstream's ghosts keep their set; here a node that comes back starts from its pods.
            # The two differ only where pods share a port, which no kubelet lets happen.
            info.ports = {port for pod in info.pods.values() for port in ports_of(pod)}
        info.node = node
        for image in node.status.images:
            for name in image.names:
                known = self.images.setdefault(name, NaiveImage(image.size_bytes, set()))
                known.nodes.add(node.name)

    def remove_node(self, name: str) -> None:
        """A node went; its pods stay with its ghost."""
        info = self.infos[name]
        self._forget_images(info.present())
        self._leave_zone(name)
        info.node = None
        if not info.pods:
            del self.infos[name]

    def order(self) -> list[str]:
        """Node names, the zones taking turns."""
        names: list[str] = []
        turn = 0
        while len(names) < len(self.nodes):
            names += [members[turn] for _, members in self.zones if turn < len(members)]
            turn += 1
        return names

    def _enter_zone(self, node: Node) -> None:
        zone = _zone(node)
        for name, members in self.zones:
            if name == zone:
                members.append(node.name)
                return
        self.zones.append((zone, [node.name]))

    def _leave_zone(self, name: str) -> None:
        for zone, members in list(self.zones):
            if name in members:
                members.remove(name)
                if not members:
                    self.zones.remove((zone, members))

    def _forget_images(self, node: Node) -> None:
        for image in node.status.images:
            for name in image.names:
                known = self.images.get(name)
                if known is not None:
                    known.nodes.discard(node.name)
                    if not known.nodes:
                        del self.images[name]

    # Pods

    def place(self, pod: Pod, node_name: str, *, assumed: bool = False) -> None:
        """A pod is on a node from now on."""
        self.placed[pod.uid] = (pod, node_name)
        if assumed:
            self.assumed.add(pod.uid)
        self.infos.setdefault(node_name, NaiveNode()).add(pod)

    def displace(self, uid: str) -> None:
        """A pod is gone from its node."""
        pod, node_name = self.placed.pop(uid)
        self.assumed.discard(uid)
        info = self.infos[node_name]
        info.remove(pod)
        if info.node is None and not info.pods:
            del self.infos[node_name]

    def ahead_of(self, pod: Pod, node_name: str) -> list[Pod]:
        """The pods nominated to a node that an incoming pod must leave room for."""
        return [
            other
            for other, where in self.nominated.values()
            if where == node_name and other.priority >= pod.priority and other.uid != pod.uid
        ]

    # Other objects

    def put(self, obj: ApiObject) -> None:
        """An object was added or changed."""
        self.objects[(type(obj), obj.namespace, obj.name)] = obj

    def drop(self, obj: ApiObject) -> None:
        """An object was deleted."""
        self.objects.pop((type(obj), obj.namespace, obj.name), None)

    def all_of(self, kind: type[T]) -> list[T]:
        """All objects of a kind."""
        return [obj for obj in self.objects.values() if isinstance(obj, kind)]

    def get(self, kind: type[T], namespace: str, name: str) -> T | None:
        """One object."""
        found = self.objects.get((kind, namespace, name))
        return found if isinstance(found, kind) else None

    def namespace_labels(self, name: str) -> dict[str, str]:
        """A namespace's labels; none if it is not known."""
        found = self.get(Namespace, "", name)
        return found.labels if found is not None else {}

    def copy(self) -> "NaiveCluster":
        """A copy that can be changed on its own."""
        other = NaiveCluster()
        other.infos = {name: info.copy() for name, info in self.infos.items()}
        other.zones = copy.deepcopy(self.zones)
        other.images = copy.deepcopy(self.images)
        other.placed = dict(self.placed)
        other.assumed = set(self.assumed)
        other.objects = dict(self.objects)
        other.nominated = dict(self.nominated)
        return other


KINDS: tuple[type[ApiObject], ...] = (
    Namespace,
    Service,
    ReplicaSet,
    StatefulSet,
    ReplicationController,
    PodDisruptionBudget,
)
"""The kinds that a naive cluster may hold beside nodes and pods."""


def ports_of(pod: Pod) -> set[Port]:
    """The host ports of containers that run for the whole life of the pod."""
    sidecars = [c for c in pod.spec.init_containers if c.restart_policy == "Always"]
    return {
        Port(port.host_ip or "0.0.0.0", port.protocol or "TCP", port.host_port)
        for container in [*pod.spec.containers, *sidecars]
        for port in container.ports
        if port.host_port > 0
    }


def _zone(node: Node) -> tuple[str, str]:
    labels = node.labels
    region = labels.get("failure-domain.beta.kubernetes.io/region")
    zone = labels.get("failure-domain.beta.kubernetes.io/zone")
    if region is None:
        region = labels.get("topology.kubernetes.io/region", "")
    if zone is None:
        zone = labels.get("topology.kubernetes.io/zone", "")
    return region, zone
