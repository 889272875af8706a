"""GpuPacking: first devices that are shared, then free devices of used nodes, then free nodes."""

import numpy as np

from moorage.cluster.columns import Ints
from moorage.cluster.view import NodeView
from moorage.gallery.gpu_policy import GpuPolicy
from moorage.gallery.gpus import GPU_COUNT, WHOLE, gpu_request
from moorage.model.pod import Pod

# The most points for each of the three.
_SHARED, _FREE_DEVICE, _FREE_NODE = 100, 50, 33


class GpuPacking(GpuPolicy):
    """Opens as few devices as possible, and as few nodes."""

    name = "GpuPacking"

    def score(self, pod: Pod, nodes: NodeView, state: None) -> Ints:
        """Pods without GPUs have no preference."""
        request = gpu_request(pod)
        if not request.count:
            return np.zeros(len(nodes), np.int64)
        left = np.sort(self.devices.left(nodes).astype(np.int64), axis=0)
        free = (left == WHOLE).sum(axis=0)
        fitting = left >= request.milli
        taken = fitting & (fitting.cumsum(axis=0) <= request.count)
        opened = (taken & (left == WHOLE)).sum(axis=0)
        spare = (np.where(taken, left, 0) * 100 // WHOLE).sum(axis=0)
        shared = np.maximum(_SHARED - spare // 10, _FREE_DEVICE)
        on_used = np.where(opened > 0, np.maximum(_FREE_DEVICE - opened, _FREE_NODE), shared)
        unused = free == nodes.allocatable(GPU_COUNT)
        points: Ints = np.where(unused, np.maximum(_FREE_NODE - free, free), on_used)
        return points
