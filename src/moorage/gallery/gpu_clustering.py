"""GpuClustering: pods that ask for alike numbers of GPUs gather on the same nodes."""

import numpy as np

from moorage.cluster.columns import Ints
from moorage.cluster.view import NodeView
from moorage.framework.plugin import MAX_NODE_SCORE, Handle
from moorage.gallery.gpu_policy import GpuPolicy
from moorage.gallery.gpus import LARGEST_GPU, gpu_request
from moorage.gallery.kept_scores import KeptScores
from moorage.model.pod import Pod

_QUARTER = MAX_NODE_SCORE // 4
_FRACTION = 0
"""The kind of pods that share a device; others' kind is how many they ask for."""


class GpuClustering(GpuPolicy):
    """Nodes with pods of the same kind only, with such among others, without any, with others."""

    name = "GpuClustering"

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self._kept = KeptScores(self.reads)

    def score(self, pod: Pod, nodes: NodeView, state: None) -> Ints:
        """Within each of the four, the fuller the better; pods without GPUs do not care."""
        kind = _kind(pod)
        if kind is None:
            return np.zeros(len(nodes), np.int64)
        return self._kept.of(kind, nodes, lambda some: self._scores(kind, some))

    def _scores(self, kind: int, nodes: NodeView) -> Ints:
        left = self.devices.left(nodes).sum(axis=0).astype(np.int64)
        quarters = np.zeros(len(nodes), np.int64)
        for index in range(len(nodes)):
            there = {_kind(pod) for pod in nodes.pods_on(index)} - {None}
            if kind in there:
                quarters[index] = 3 if len(there) == 1 else 2
            elif not there:
                quarters[index] = 1
        points: Ints = quarters * _QUARTER + _QUARTER * (LARGEST_GPU - left) // LARGEST_GPU
        return points.clip(0, MAX_NODE_SCORE)


def _kind(pod: Pod) -> int | None:
    try:
        request = gpu_request(pod)
    except ValueError:
        return None
    if not request.count:
        return None
    return _FRACTION if request.is_fraction else request.count
