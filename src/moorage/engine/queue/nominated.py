"""Pods that wait for a node to be freed for them.

Owns which pending pod is promised which node. A promise may be newer here than in the pod's
status: the API hears of it later. Must not decide who is nominated; preemption does.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from moorage.cluster.view import NodeView
from moorage.model.pod import Pod

LivePod = Callable[[Pod], Pod | None]
"""The newest known version of a pod, looked up by its name; None if it is gone."""


class NominatedPods:
    """Which pending pods are nominated to which node, per node in the order of nomination."""

    def __init__(self, live_pod: LivePod | None = None) -> None:
        self._live_pod = live_pod
        self._by_node: dict[str, dict[str, Pod]] = {}
        self._node_of: dict[str, str] = {}

    def __bool__(self) -> bool:
        """Is anybody nominated at all?"""
        return bool(self._node_of)

    def add(self, pod: Pod, node_name: str | None = None) -> None:
        """Nominate a pod, by default to the node its status names; replaces any earlier promise.

        An empty name takes the promise back. A pod that is gone or has a node meanwhile is not
        nominated.
        """
        self.remove(pod)
        if node_name is None:
            node_name = pod.status.nominated_node_name
        if node_name and self._still_waits(pod):
            self._by_node.setdefault(node_name, {})[pod.uid] = pod
            self._node_of[pod.uid] = node_name

    def update(self, old: Pod, new: Pod) -> None:
        """Follow a new version of a pod.

        If neither version names a node, a promise made here stands: the update was on its way
        before the API heard of the promise.
        """
        silent = not old.status.nominated_node_name and not new.status.nominated_node_name
        promised = self._node_of.get(old.uid) if silent else None
        self.remove(old)
        self.add(new, promised)

    def remove(self, pod: Pod) -> None:
        """The pod waits for no node any more."""
        node_name = self._node_of.pop(pod.uid, None)
        if node_name is not None:
            waiting = self._by_node[node_name]
            del waiting[pod.uid]
            if not waiting:
                del self._by_node[node_name]

    def __iter__(self) -> Iterator[tuple[Pod, str]]:
        """Every nominated pod with its node."""
        for node_name, waiting in self._by_node.items():
            for pod in waiting.values():
                yield pod, node_name

    def node_of(self, pod: Pod) -> str | None:
        """The node a pod is nominated to."""
        return self._node_of.get(pod.uid)

    def on_node(self, node_name: str) -> Sequence[Pod]:
        """The pods nominated to a node."""
        return tuple(self._by_node.get(node_name, {}).values())

    def ahead_of(self, pod: Pod, nodes: NodeView) -> Mapping[int, Sequence[Pod]]:
        """Row -> the other pods nominated there that `pod` must not take the place of."""
        ahead: dict[int, Sequence[Pod]] = {}
        # They may be as many as there are nodes, and this is asked in every attempt.
        least, own, row_of = pod.priority, pod.uid, nodes.row_of
        for node_name, waiting in self._by_node.items():
            pods = [
                other for uid, other in waiting.items() if uid != own and other.priority >= least
            ]
            if pods:
                row = row_of(node_name)
                if row is not None:
                    ahead[row] = pods
        return ahead

    def _still_waits(self, pod: Pod) -> bool:
        if self._live_pod is None:
            return True
        live = self._live_pod(pod)
        return live is not None and not live.spec.node_name
