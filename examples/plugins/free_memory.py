"""FreeMemory, a score over columns: the larger the share of memory left free, the better.

To enable it: `--plugin free_memory.py`, and in a KubeSchedulerConfiguration
`profiles: [{plugins: {score: {enabled: [{name: FreeMemory, weight: 5}]}}}]`.
"""

from collections.abc import Hashable

import numpy as np

from moorage.cluster.columns import Ints
from moorage.cluster.stamps import Aspect
from moorage.cluster.view import NodeView
from moorage.framework.plugin import MAX_NODE_SCORE, ScorePlugin
from moorage.model.pod import Pod


class FreeMemory(ScorePlugin[None]):
    """Scores all nodes at once, as the percentage of memory that the pod would leave free."""

    name = "FreeMemory"
    reads = (Aspect.ALLOCATABLE, Aspect.REQUESTED)

    def pod_key(self, pod: Pod) -> Hashable:
        return pod.requests

    def score(self, pod: Pod, nodes: NodeView, state: None) -> Ints:
        total = nodes.allocatable("memory")
        free = total - nodes.requested("memory") - pod.requests.incoming.get("memory", 0)
        share: Ints = np.maximum(free, 0) * MAX_NODE_SCORE // np.maximum(total, 1)
        return share
