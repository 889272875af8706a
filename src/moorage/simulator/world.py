"""A cluster assembled from API objects, ready to be asked where a pod would go.

Owns the way from decoded objects and a configuration to a cluster state, its profiles and a
cycle: what the informers and the start-up code do in a live scheduler. Makes no decisions itself.
"""

import time
from collections.abc import Iterable, Sequence

from moorage.cluster.state import ClusterState
from moorage.config import (
    DEFAULT_FEATURE_GATES,
    FeatureGates,
    KubeSchedulerConfiguration,
)
from moorage.engine.clock import Clock, WallClock
from moorage.engine.cycle import Cycle
from moorage.errors import InputError
from moorage.framework.extenders import Extender
from moorage.framework.pacing import Pacing
from moorage.framework.plugin import Handle
from moorage.framework.pod_level import pod_level_adjustment
from moorage.framework.profile import Profile, build_profiles
from moorage.framework.registry import Registry
from moorage.model.meta import ApiObject
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.plugins.defaults import in_tree_registry, with_devices


def full_registry() -> Registry:
    """The in-tree plugins and those of installed packages."""
    registry = in_tree_registry()
    registry.register_entry_points()
    return registry


class World:
    """A cluster, the profiles that schedule for it, and the pods that wait."""

    def __init__(
        self,
        config: KubeSchedulerConfiguration,
        *,
        registry: Registry | None = None,
        gates: FeatureGates = DEFAULT_FEATURE_GATES,
        clock: Clock | None = None,
        reuse: bool = True,
        extenders: Sequence[Extender] = (),
    ) -> None:
        self.state = ClusterState()
        clock = clock or WallClock()
        self.cycle = Cycle(self.state, clock, reuse=reuse, extenders=extenders)
        pacing = Pacing(time.monotonic)
        handle = with_devices(Handle(self.state.listers, gates, pacing=pacing, now=clock.now))
        self.profiles: dict[str, Profile] = build_profiles(
            config, registry or full_registry(), handle
        )
        self._adjust = pod_level_adjustment(gates)
        self.pending: list[Pod] = []
        """Pods without a node, in the order they were added."""

    def add_all(self, objects: Iterable[ApiObject]) -> None:
        """Add objects of any kinds, in any order.

        Nodes come first, and pods last in the order given. All others are taken by name, as the API
        server lists them: the order of nodes settles ties, the order of DeviceClasses which of them
        stands for an extended resource, and neither must depend on how somebody arranged a file.
        """
        pods: list[Pod] = []
        others: list[ApiObject] = []
        nodes: list[Node] = []
        for obj in objects:
            if isinstance(obj, Node):
                nodes.append(obj)
            elif isinstance(obj, Pod):
                pods.append(obj)
            else:
                others.append(obj)
        for node in sorted(nodes, key=lambda node: node.name):
            self._add_node(node)
        for obj in sorted(others, key=lambda obj: (obj.namespace, obj.name)):
            self.state.listers.of(type(obj)).put(obj)
        for pod in pods:
            self._add_pod(pod)

    def _add_node(self, node: Node) -> None:
        if node.name in self.state.nodes.row_of:
            raise InputError(f"node {node.name} is defined twice")
        self.state.add_node(node)

    def _add_pod(self, pod: Pod) -> None:
        if self._adjust is not None:
            pod = self._adjust(pod)
        # Upstream's informer leaves finished pods out altogether.
        if pod.finished:
            return
        if pod.spec.node_name:
            self.state.add_pod(pod)
            return
        self.pending.append(pod)
        if pod.status.nominated_node_name:
            self.cycle.nominated.add(pod, pod.status.nominated_node_name)
