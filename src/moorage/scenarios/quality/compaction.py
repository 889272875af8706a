"""The fewest nodes that would do: the pods of a cluster packed anew by the engine's own rules.

Every filter is asked, from resources to affinity and volumes; only the scores are replaced. It is
greedy, the largest pods first, so there may be a packing that is better still.
"""

from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np

from moorage.cluster.columns import Ints
from moorage.cluster.view import NodeView
from moorage.config import DEFAULT_FEATURE_GATES, FeatureGates, load_config
from moorage.engine.clock import VirtualClock
from moorage.engine.decisions import Bind
from moorage.framework.plugin import Handle, ScorePlugin
from moorage.model.decode import KINDS
from moorage.model.pod import Pod
from moorage.model.resources import CPU, MEMORY, PODS
from moorage.simulator.virtual import VirtualCluster
from moorage.simulator.world import World, full_registry

_PROFILE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    postFilter: {disabled: [{name: "*"}]}
    score: {disabled: [{name: "*"}], enabled: [{name: OpenNodesFirst}]}
"""
_OPEN, _FULL = 60, 40
"""Points for a node that is taken already, and for one that is full."""


class OpenNodesFirst(ScorePlugin[None]):
    """Prefers nodes that have pods already, the fullest first; then the largest."""

    name = "OpenNodesFirst"

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self.taken: set[int] = set()
        """The rows of the nodes that were given pods."""

    def score(self, pod: Pod, nodes: NodeView, state: None) -> Ints:
        """At least 60 for nodes in `taken`, at most 40 for others."""
        del pod, state
        whole = np.stack([nodes.allocatable(name) for name in (CPU, MEMORY)])
        asked = np.stack([nodes.requested(name) for name in (CPU, MEMORY)])
        share = (asked / np.maximum(whole, 1)).max(axis=0)
        size = (whole / np.maximum(whole.max(axis=1, keepdims=True), 1)).min(axis=0)
        points = size * _FULL
        taken = np.isin(nodes.rows, list(self.taken))
        points[taken] = _OPEN + share[taken] * _FULL
        found: Ints = points.astype(np.int64)
        return found


def fewest_nodes(run: VirtualCluster, gates: FeatureGates = DEFAULT_FEATURE_GATES) -> int:
    """On how many nodes the pods that have one would find room together.

    Pods of DaemonSets stay where they are and need no node of their own.
    """
    pods = [pod for pod in run.handle.listers.of(Pod) if pod.spec.node_name]
    moving = [pod for pod in pods if not _is_daemon(pod)]
    now = {pod.spec.node_name for pod in moving}
    if len(now) < 2:
        return len(now)
    world = World(
        load_config(_PROFILE, "compaction", gates),
        registry=full_registry((OpenNodesFirst,)),
        gates=gates,
        clock=VirtualClock(run.now()),
    )
    for kind in KINDS.values():
        if kind.struct is not Pod:
            world.add_all(run.objects(kind.struct))
    world.add_all(pod for pod in pods if _is_daemon(pod))
    packed = _packed(world, moving)
    return len(now) if packed is None else min(packed, len(now))


def _packed(world: World, pods: Iterable[Pod]) -> int | None:
    """How many nodes were needed; None if some pod found no room."""
    (profile,) = world.profiles.values()
    plugin = profile.plugins[OpenNodesFirst.name]
    assert isinstance(plugin, OpenNodesFirst), "the profile names it"
    largest = {
        name: max(int(world.state.nodes.allocatable.values(name).max(initial=0)), 1)
        for name, _ in world.state.nodes.allocatable.items()
    }

    def size(pod: Pod) -> float:
        asked = {**pod.requests.incoming, PODS: 1}
        return max(amount / largest.get(name, 1) for name, amount in asked.items())

    for pod in sorted(pods, key=lambda pod: (-size(pod), pod.key)):
        homeless = msgspec.structs.replace(
            pod, spec=msgspec.structs.replace(pod.spec, node_name="")
        )
        decision, _ = world.cycle.decide(profile, homeless)
        if not isinstance(decision, Bind):
            return None
        world.state.assume(homeless, decision.node_name)
        plugin.taken.add(world.state.nodes.row_of[decision.node_name])
    return len(plugin.taken)


def _is_daemon(pod: Pod) -> bool:
    return any(one.controller and one.kind == "DaemonSet" for one in pod.metadata.owner_references)
