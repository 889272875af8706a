"""BestFit: fill the node that is left with least CPU and GPU, as shares of the largest node."""

import numpy as np

from moorage.cluster.columns import Ints
from moorage.cluster.view import NodeView
from moorage.framework.plugin import MAX_NODE_SCORE
from moorage.gallery.gpu_policy import GpuPolicy, first_of_best, spread
from moorage.gallery.gpus import LARGEST_CPU, LARGEST_GPU, gpu_request
from moorage.model.pod import Pod
from moorage.model.resources import CPU


class BestFit(GpuPolicy):
    """The less is left, the better; the feasible nodes' scores are spread over 0..100."""

    name = "BestFit"

    def score(self, pod: Pod, nodes: NodeView, state: None) -> Ints:
        """100 if nothing is left."""
        free = nodes.allocatable(CPU) - nodes.requested(CPU)
        cpu = free - pod.requests.incoming.get(CPU, 0)
        gpu = self.devices.left(nodes).sum(axis=0) - gpu_request(pod).total
        left = cpu / LARGEST_CPU * 0.5 + gpu / LARGEST_GPU * 0.5
        points: Ints = np.trunc((1 - left) * MAX_NODE_SCORE).astype(np.int64)
        return points

    def normalize(self, scores: Ints, state: None) -> Ints:
        """Spread, and the first of the best."""
        return first_of_best(spread(scores))
