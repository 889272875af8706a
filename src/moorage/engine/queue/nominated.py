"""Pods that wait for a node to be freed for them."""

from collections.abc import Mapping, Sequence

from moorage.cluster.view import NodeView
from moorage.model.pod import Pod


class NominatedPods:
    """Which pending pods are nominated to which node."""

    def __init__(self) -> None:
        self._by_node: dict[str, dict[str, Pod]] = {}
        self._node_of: dict[str, str] = {}

    def add(self, pod: Pod, node_name: str) -> None:
        """Nominate a pod; an earlier nomination is taken back."""
        self.remove(pod)
        self._by_node.setdefault(node_name, {})[pod.uid] = pod
        self._node_of[pod.uid] = node_name

    def remove(self, pod: Pod) -> None:
        """The pod waits for no node any more."""
        node_name = self._node_of.pop(pod.uid, None)
        if node_name is not None:
            waiting = self._by_node[node_name]
            del waiting[pod.uid]
            if not waiting:
                del self._by_node[node_name]

    def ahead_of(self, pod: Pod, nodes: NodeView) -> Mapping[int, Sequence[Pod]]:
        """Row -> the other pods nominated there that `pod` must not take the place of."""
        ahead: dict[int, Sequence[Pod]] = {}
        for node_name, waiting in self._by_node.items():
            row = nodes.row_of(node_name)
            pods = [
                other
                for other in waiting.values()
                if other.priority >= pod.priority and other.uid != pod.uid
            ]
            if row is not None and pods:
                ahead[row] = pods
        return ahead
