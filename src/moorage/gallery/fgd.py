"""FGD: place pods where the GPUs that the usual pods can no longer use grow least.

Fragmentation gradient descent, as Weng et al. describe it ("Beware of Fragmentation: Scheduling
GPU-Sharing Workloads with Fragmentation Gradient Descent", USENIX ATC 2023).
"""

import numpy as np

from moorage.cluster.columns import Bools, Ints
from moorage.cluster.derived import Floats
from moorage.framework.plugin import MAX_NODE_SCORE
from moorage.gallery.gpus import WHOLE
from moorage.gallery.typical_pods_policy import Rest, TypicalPodsPolicy


class FGD(TypicalPodsPolicy):
    """A usual pod finds those devices useless that are too small, or all if it does not fit."""

    name = "FGD"

    def worth(self, rest: Rest) -> Floats:
        """Fragments count against a node.

        Changes are often nearly nothing, and then the last digits decide on which side of a whole
        score they are. So sums are taken as in the published runs: for each cause by itself, pod by
        pod.
        """
        typical, allowed = self.typical, rest.allowed
        enough, left = self.fitting(rest)
        total = rest.gpus.sum(axis=0)
        no_gpu = (typical.milli == 0)[:, None]
        allowed = allowed & ~no_gpu
        has_cpu = rest.cpu >= typical.cpu[:, None]
        amounts = typical.weights[:, None] * total
        parts = typical.weights[:, None] * (total - left)
        causes = (
            (allowed & ~enough & ~has_cpu, amounts),
            (allowed & has_cpu, np.where(enough, parts, amounts)),
            (allowed & enough & ~has_cpu, amounts),
            (no_gpu & has_cpu, amounts),
            (no_gpu & ~has_cpu, amounts),
            (~allowed & ~no_gpu, amounts),
        )
        fragments: Floats = np.zeros(len(total))
        for where, what in causes:
            fragments += _sum_in_order(where, what)
        return -fragments

    def points(self, before: Floats, after: Floats) -> Ints:
        """50 if fragmentation stays as it is, more if it shrinks."""
        points: Ints = (MAX_NODE_SCORE / (1 + np.exp((before - after) / WHOLE))).astype(np.int64)
        return points


def _sum_in_order(where: Bools, what: Floats) -> Floats:
    """Sums over the rows, one added after the other."""
    amounts: Floats = np.where(where, what, 0)
    if amounts.shape[1] == 1:  # a single column would be summed up in halves
        amounts = np.add.accumulate(amounts)[-1:]
    sums: Floats = amounts.sum(axis=0)
    return sums
