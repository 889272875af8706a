"""Extended resources that devices stand for, as plugins that count resources see them.

Owns the question only. Who knows the devices answers it: `plugins.defaults.with_devices` puts that
into the handle, so that no plugin imports another.
"""

from moorage.cluster.columns import Ints
from moorage.cluster.view import NodeView
from moorage.model.pod import Pod


class DeviceResources:
    """Which extended resources are backed by devices, and how many devices a node has of them.

    This one answers for a cluster without devices.
    """

    def backs(self, resource: str) -> bool:
        """Do devices of some class stand for the resource?"""
        return False

    def backed_requests(self, pod: Pod) -> tuple[str, ...]:
        """The resources a pod asks for that are backed by devices."""
        return ()

    def with_devices(
        self, resource: str, nodes: NodeView, used: Ints, total: Ints
    ) -> tuple[Ints, Ints]:
        """Used and allocatable amounts, counted in devices on nodes that offer nothing else."""
        return used, total
