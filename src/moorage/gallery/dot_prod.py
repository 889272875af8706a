"""DotProd: place pods where their demand points least in the direction of what is left."""

import numpy as np

from moorage.cluster.columns import Ints
from moorage.cluster.view import NodeView
from moorage.framework.plugin import MAX_NODE_SCORE
from moorage.gallery.gpu_policy import GpuPolicy
from moorage.gallery.gpus import LARGEST_CPU, LARGEST_GPU, gpu_request
from moorage.model.pod import Pod
from moorage.model.resources import CPU


class DotProd(GpuPolicy):
    """The smaller the dot product of CPU and GPU, asked for and left, the better."""

    name = "DotProd"

    def score(self, pod: Pod, nodes: NodeView, state: None) -> Ints:
        """100 if the product is 0."""
        free = nodes.allocatable(CPU) - nodes.requested(CPU)
        cpu = pod.requests.incoming.get(CPU, 0)
        gpu_left, gpu = self.devices.left(nodes).sum(axis=0), gpu_request(pod).total
        product = free / LARGEST_CPU * (cpu / LARGEST_CPU)
        product += gpu_left / LARGEST_GPU * (gpu / LARGEST_GPU)
        points: Ints = np.trunc(MAX_NODE_SCORE * (1 - product / 2)).astype(np.int64)
        return points.clip(0, MAX_NODE_SCORE)
