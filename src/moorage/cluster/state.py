"""ClusterState: nodes and the pods on them, changed by one writer.

A pod on a node is *assumed* (we decided it, the API has not confirmed it) or *confirmed*:

    assume ──> assumed ──confirm──> confirmed ──update/remove──> ...
                  └──── forget ───> gone

A pod may be confirmed without having been assumed (somebody else bound it). A pod on a node that
is not known (yet, or any more) waits beside the table and takes its row when the node appears.
"""

from collections.abc import Iterator, Mapping

from moorage.cluster.attached_volumes import AttachedVolumes
from moorage.cluster.coded import CodedStore
from moorage.cluster.columns import RowSpace
from moorage.cluster.host_ports import HostPorts
from moorage.cluster.images import Images
from moorage.cluster.listers import Listers
from moorage.cluster.node_table import NodeTable
from moorage.cluster.pod_counts import PodCounts
from moorage.cluster.pod_table import PodTable
from moorage.cluster.pod_terms import PodTerms
from moorage.cluster.row_counts import LabelDomains
from moorage.cluster.stamps import Aspect, Stamps, bits_of
from moorage.cluster.topology import NodeOrder
from moorage.errors import CorruptStateError, StateError
from moorage.model.node import Node
from moorage.model.pod import Pod

_POD_OBJECT = bits_of([Aspect.PODS])
_POD = bits_of([Aspect.REQUESTED, Aspect.PODS])
_PORTS = bits_of([Aspect.PORTS])
_VOLUMES = bits_of([Aspect.VOLUMES])


class ClusterState:
    """The cluster as the scheduler sees it."""

    def __init__(self) -> None:
        self._space = RowSpace()
        self.nodes = NodeTable(self._space)
        self.pods = PodTable()
        self.counts = PodCounts(self._space)
        self.terms = PodTerms(self._space)
        self.ports = HostPorts()
        self.images = Images()
        self.volumes = AttachedVolumes(self._space)
        self.order = NodeOrder()
        self.stamps = Stamps(self._space)
        self.listers = Listers()
        self._domains: dict[CodedStore[str | None], LabelDomains] = {}
        self._placed: dict[str, tuple[Pod, str]] = {}
        self._assumed: set[str] = set()
        self._pods_without_node: dict[str, dict[str, Pod]] = {}
        """Pods of nodes that are not known, by the name of the node."""

    def __len__(self) -> int:
        """How many nodes there are."""
        return self._space.size

    # Nodes

    def add_node(self, node: Node) -> None:
        """A node appeared or changed."""
        row = self.nodes.row_of.get(node.name)
        if row is not None:
            self._update_node(row, node)
            return
        row = self.nodes.append(node)
        self.pods.add_row()
        self.images.add(row, node.status.images)
        self.order.add(node)
        self.stamps.touch_all_aspects(row)
        self.stamps.touch_membership()
        for pod in self._pods_without_node.pop(node.name, {}).values():
            self._occupy(row, pod)

    def remove_node(self, name: str) -> None:
        """A node is gone; its pods wait until they are removed or the node comes back."""
        row = self.nodes.row_of.get(name)
        if row is None:
            raise StateError(f"node {name} is not found")
        pods = list(self.pods.on(row))
        for pod in pods:
            self._vacate(row, pod)
        if pods:
            self._pods_without_node[name] = {pod.uid: pod for pod in pods}
        self.images.remove(row, self.nodes.nodes[row].status.images)
        moved = self.nodes.remove(row)
        self.pods.remove_row(row, moved)
        if moved != row:
            moved_pods = self.pods.on(row)
            self.counts.move_row(moved, row, moved_pods)
            self.terms.move_row(moved, row, moved_pods)
            self.ports.move_row(moved, row)
            self.images.move_row(moved, row)
            self.volumes.move_row(moved, row)
            self.stamps.touch_all_aspects(row)
        self.order.remove(name)
        self.stamps.touch_membership()

    def domains(self, key: str) -> LabelDomains:
        """The domains of a topology key."""
        store = self.nodes.label(key)
        domains = self._domains.get(store)
        if domains is None:
            self._domains = {one: old for one, old in self._domains.items() if not one.dropped}
            domains = self._domains[store] = LabelDomains(store, self.stamps)
        return domains

    def _update_node(self, row: int, node: Node) -> None:
        old = self.nodes.nodes[row]
        self.nodes.write(row, node)
        changed = []
        if old.status.allocatable != node.status.allocatable:
            changed.append(Aspect.ALLOCATABLE)
        if old.labels != node.labels:
            changed.append(Aspect.LABELS)
            self.order.add(node)
        if (old.spec.taints, old.spec.unschedulable) != (
            node.spec.taints,
            node.spec.unschedulable,
        ):
            changed.append(Aspect.TAINTS)
        # Even if they are the same: an image that only this node has takes the size it reports.
        self.images.remove(row, old.status.images)
        self.images.add(row, node.status.images)
        if old.status.images != node.status.images:
            changed.append(Aspect.IMAGES)
        if old.status.declared_features != node.status.declared_features:
            changed.append(Aspect.FEATURES)
        if changed:
            self.stamps.touch(row, changed)

    # Pods

    def assume(self, pod: Pod, node_name: str) -> None:
        """We decided that the pod goes to the node; it counts there from now on."""
        uid = pod.metadata.uid
        if uid in self._placed:
            raise StateError(f"pod {uid}({pod.key}) is in the cache, so can't be assumed")
        self._place(pod, node_name)
        self._assumed.add(uid)

    def forget(self, pod: Pod) -> None:
        """The decision came to nothing; unknown pods are ignored."""
        if pod.uid not in self._placed:
            return
        if pod.uid not in self._assumed:
            raise StateError(f"pod {pod.uid}({pod.key}) wasn't assumed so cannot be forgotten")
        self._displace(pod.uid)

    def add_pod(self, pod: Pod) -> None:
        """The API shows the pod on a node: confirms an assumed pod, or adds an unknown one."""
        if pod.uid in self._placed:
            if pod.uid not in self._assumed:
                raise StateError(f"pod {pod.uid}({pod.key}) was already in added state")
            self._replace(pod)
            return
        self._place(pod, pod.spec.node_name)

    def update_pod(self, pod: Pod) -> None:
        """A confirmed pod changed; it cannot have moved."""
        known = self._placed.get(pod.uid)
        if known is None or pod.uid in self._assumed:
            raise StateError(
                f"pod {pod.uid}({pod.key}) is not added to scheduler cache, so cannot be updated"
            )
        if known[1] != pod.spec.node_name:
            raise CorruptStateError(
                f"pod {pod.uid}({pod.key}) was on node {known[1]} and is now on "
                f"{pod.spec.node_name}: the cache is corrupted"
            )
        self._replace(pod)

    def remove_pod(self, pod: Pod) -> None:
        """A pod is gone from its node."""
        if pod.uid not in self._placed:
            raise StateError(
                f"pod {pod.uid}({pod.key}) is not found in scheduler cache, "
                "so cannot be removed from it"
            )
        self._displace(pod.uid)

    def is_assumed(self, pod: Pod) -> bool:
        """Did we decide this pod, without confirmation so far?"""
        return pod.uid in self._assumed

    def node_of(self, pod: Pod) -> str | None:
        """The node the pod is on or assumed to be on."""
        placed = self._placed.get(pod.uid)
        return placed[1] if placed else None

    def placed_pods(self) -> Iterator[tuple[Pod, str]]:
        """Every pod on a node, with the node's name."""
        return iter(self._placed.values())

    def assumed_pods(self) -> Iterator[tuple[Pod, str]]:
        """The pods that we decided, without confirmation so far, with their nodes' names."""
        return (self._placed[uid] for uid in self._assumed)

    def sizes(self) -> Mapping[str, int]:
        """How many `nodes`, `pods` and `assumed_pods` are known, for metrics.

        As upstream, a node counts that is gone but for its pods.
        """
        return {
            "nodes": len(self) + len(self._pods_without_node),
            "pods": len(self._placed),
            "assumed_pods": len(self._assumed),
        }

    def _place(self, pod: Pod, node_name: str) -> None:
        self._placed[pod.metadata.uid] = (pod, node_name)
        row = self.nodes.row_of.get(node_name)
        if row is None:
            self._pods_without_node.setdefault(node_name, {})[pod.uid] = pod
        else:
            self._occupy(row, pod)

    def _replace(self, pod: Pod) -> None:
        """A newer version of a pod that is here already, perhaps on another node."""
        old, node_name = self._placed[pod.uid]
        row = self.nodes.row_of.get(node_name)
        if row is None or node_name != pod.spec.node_name or not weighs_the_same(old, pod):
            self._displace(pod.uid)
            self._place(pod, pod.spec.node_name)
            return
        # By far the most frequent change, a confirmed or a running pod, touches no column of nodes:
        # at most its labels are others, as the API server adds its node's zone when it is bound.
        if old.terminating != pod.terminating or old.labels != pod.labels:
            self.counts.count(pod, row, 1)
            self.counts.count(old, row, -1)
        self._placed[pod.uid] = (pod, node_name)
        self._assumed.discard(pod.uid)
        self.pods.swap(row, pod)
        self.stamps.touch_bits(row, _POD_OBJECT)

    def _displace(self, uid: str) -> None:
        pod, node_name = self._placed.pop(uid)
        self._assumed.discard(uid)
        row = self.nodes.row_of.get(node_name)
        if row is not None:
            self._vacate(row, pod)
            return
        waiting = self._pods_without_node[node_name]
        del waiting[uid]
        if not waiting:
            del self._pods_without_node[node_name]

    def _occupy(self, row: int, pod: Pod) -> None:
        self.pods.add(row, pod)
        self._account(row, pod, 1)
        if pod.host_ports:
            self.ports.add(row, pod.host_ports)

    def _vacate(self, row: int, pod: Pod) -> None:
        self.pods.remove(row, pod)
        self._account(row, pod, -1)
        self.ports.remove(row, pod.host_ports)

    def _account(self, row: int, pod: Pod, sign: int) -> None:
        nodes, requests = self.nodes, pod.requests
        nodes.requested.add(row, requests.occupied, sign)
        nodes.requested_with_defaults.add(row, requests.occupied_with_defaults, sign)
        nodes.count_pod(row, sign)
        self.counts.count(pod, row, sign)
        if pod.spec.affinity is not None:
            self.terms.count(pod, row, sign)
        changed = _POD
        if pod.host_ports:
            changed |= _PORTS
        if pod.spec.volumes:
            self.volumes.count(row, pod, sign)
            changed |= _VOLUMES
        self.stamps.touch_bits(row, changed)


def weighs_the_same(old: Pod, new: Pod) -> bool:
    """Are two versions of a pod equal in what nodes are judged by? Labels are counted elsewhere."""
    before, after = old.requests, new.requests
    return (
        old.priority == new.priority
        and (
            before is after
            or (
                before.occupied == after.occupied
                and before.occupied_with_defaults == after.occupied_with_defaults
            )
        )
        and old.affinity_terms == new.affinity_terms
        # Taking a port away and giving it back is not nothing, if another pod lost it meanwhile.
        and not (old.host_ports or new.host_ports)
        and old.spec.volumes == new.spec.volumes
    )
