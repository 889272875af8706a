"""Would pods fit in another cluster than the one there is? The scheduler itself says so.

Builds a world as it would be and places the pods there, in the order of the queue. Nobody is
preempted, and the simulation is left as it is.
"""

from collections.abc import Collection, Iterable

import msgspec

from moorage.config import KubeSchedulerConfiguration
from moorage.framework.registry import Registry
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.scenarios.simulation import Simulation
from moorage.simulator.offline import place_all
from moorage.simulator.world import World


class OtherCluster:
    """The cluster of a simulation, with other nodes or without some."""

    def __init__(
        self,
        run: Simulation,
        config: KubeSchedulerConfiguration,
        registry: Registry,
        *,
        pods: Iterable[Pod] = (),
        more: Iterable[Node] = (),
        without: Collection[str] = (),
    ) -> None:
        """Only `pods` look for nodes; what else waits is left out."""
        gates = run.handle.gates
        self._world = World(config, registry=registry, gates=gates, clock=run.clock)
        waiting = [_waiting(pod) for pod in pods]
        names = {pod.key for pod in waiting}
        others = [obj for obj in run.handle.listers if not isinstance(obj, Pod)]
        placed = [
            pod for pod in run.handle.listers.of(Pod) if pod.spec.node_name and pod.key not in names
        ]
        nodes = [node for node in run.engine.state.nodes.nodes if node.name not in without]
        self._world.add_all([*nodes, *more, *others, *placed, *waiting])
        self.left = self._place()

    def add(self, node: Node) -> int:
        """A node comes; how many of the pods that were left find a place then."""
        before = len(self.left)
        self._world.put(node, Node)
        self.left = self._place()
        return before - len(self.left)

    def _place(self) -> list[Pod]:
        """The pods that find no place."""
        place_all(self._world)
        self._world.pending = [
            pod for pod in self._world.pending if self._world.state.node_of(pod) is None
        ]
        return self._world.pending


def _waiting(pod: Pod) -> Pod:
    """The pod as if it had just come, by itself, and would preempt nobody."""
    spec = msgspec.structs.replace(
        pod.spec, node_name="", preemption_policy="Never", scheduling_group=None
    )
    status = msgspec.structs.replace(pod.status, nominated_node_name="")
    return msgspec.structs.replace(pod, spec=spec, status=status)
