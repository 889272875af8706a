"""Random: any node that will do, and any of its devices, to compare others with."""

from collections.abc import Sequence

import numpy as np

from moorage.cluster.columns import Ints
from moorage.cluster.view import NodeView
from moorage.framework.plugin import MAX_NODE_SCORE
from moorage.gallery.gpu_policy import GpuPolicy
from moorage.gallery.gpus import GpuRequest, tightest
from moorage.model.pod import Pod


class RandomNode(GpuPolicy):
    """Throws dice for every pod."""

    name = "Random"

    def score(self, pod: Pod, nodes: NodeView, state: None) -> Ints:
        """100 for one node, 0 for the others."""
        points = np.zeros(len(nodes), np.int64)
        points[self.handle.random.randrange(len(nodes))] = MAX_NODE_SCORE
        return points

    def choose(self, pod: Pod, request: GpuRequest, node: NodeView) -> Sequence[int]:
        """For a fraction any device that suffices."""
        left = self.devices.left(node)[:, 0].tolist()
        if not request.is_fraction:
            return tightest(left, request)
        fitting = [device for device, free in enumerate(left) if free >= request.milli]
        return (self.handle.random.choice(fitting),) if fitting else ()
