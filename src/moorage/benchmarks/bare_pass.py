"""What deciding about a pod costs at the least: one NumPy pass over the nodes, and nothing else.

Owns the yardstick that `moorage bench engine` prints beside its figures. It reads the same columns
in the same process, so that the speed of the machine cancels out; it takes no place, keeps nothing
and knows no rules beyond those that nearly every pod meets.
"""

from typing import Any

import numpy as np

from moorage.cluster.view import NodeView
from moorage.framework.plugin import MAX_NODE_SCORE
from moorage.model.node import ZONE_LABEL
from moorage.model.pod import Pod
from moorage.model.resources import CPU, MEMORY, PODS

_SKEW = 5


class BarePass:
    """Fit, taints, least-allocated, balanced allocation, one spread mask, and the best node."""

    def __init__(self, nodes: NodeView, pod: Pod) -> None:
        amounts = pod.requests.incoming
        self._asked = [(name, amounts.get(name, 0)) for name in (CPU, MEMORY)]
        self._amounts = {
            name: (np.maximum(nodes.allocatable(name), 1), nodes.requested(name))
            for name, _ in self._asked
        }
        self._room = (nodes.allocatable(PODS), nodes.pod_count)
        taints = nodes.taints
        self._tolerated = np.array(
            [not any(one.keeps_out for one in taint_set) for taint_set in taints.vocabulary.values]
        )
        self._taints = taints.codes
        self._open = ~nodes.unschedulable
        self._zones = nodes.label(ZONE_LABEL).codes
        self._pods_by_zone = np.zeros(int(self._zones.max(initial=0)) + 1, np.int64)

    def __call__(self) -> int:
        """The row of the best node, or -1."""
        limit, pods = self._room
        feasible = (pods < limit) & self._open
        score: Any = 0
        shares = []
        for name, asked in self._asked:
            allocatable, requested = self._amounts[name]
            after = requested + asked
            feasible &= after <= allocatable
            # In whole numbers, as upstream has it.
            score = score + (allocatable - after) * MAX_NODE_SCORE // allocatable
            shares.append(np.minimum(after / allocatable, 1.0))
        score = score // len(self._asked)
        deviation = np.abs(shares[0] - shares[1]) / 2
        score += ((1.0 - deviation) * MAX_NODE_SCORE).astype(np.int64)
        feasible &= self._tolerated[self._taints]
        counts = self._pods_by_zone
        feasible &= (counts - counts.min() < _SKEW)[self._zones]
        best = int(np.where(feasible, score, -1).argmax())
        return best if feasible[best] else -1
