"""GpuHeadroom: place pods where the usual pods lose least room, and see no small differences.

As FGD it asks of each typical pod what it can use of a node before and after, and differs in two
ways. FGD takes a device for usable as soon as one more pod fits, however much CPU is left for more:
here half of the answer is how many such pods fit, by GPUs and by CPU. And differences of less than
a fifth of a GPU are none: then the first node is taken, so that pods gather and whole nodes stay
free for those that need them.
"""

import numpy as np

from moorage.cluster.columns import Ints
from moorage.cluster.derived import Floats
from moorage.framework.plugin import MAX_NODE_SCORE
from moorage.gallery.gpus import WHOLE
from moorage.gallery.typical_pods_policy import Rest, TypicalPodsPolicy

_STEP = WHOLE / 5
_ROUNDING = 1e-9


class GpuHeadroom(TypicalPodsPolicy):
    """A usual pod can use the devices that would do, and as many as such pods would fill."""

    name = "GpuHeadroom"

    def worth(self, rest: Rest) -> Floats:
        """The mean of what is left of the devices that would do, and of what pods would fill."""
        typical = self.typical
        enough, left = self.fitting(rest)
        cpu = typical.cpu[:, None]
        hosts = enough & rest.allowed & (rest.cpu >= cpu)
        milli, count = np.maximum(typical.milli, 1)[:, None], np.maximum(typical.count, 1)[:, None]
        by_gpus = (rest.gpus // milli[:, :, None]).sum(axis=1) / count
        by_cpu = np.where(cpu > 0, rest.cpu / np.maximum(cpu, 1), np.inf)
        filled = np.minimum(by_gpus, by_cpu) * typical.count[:, None] * typical.milli[:, None]
        usable = np.where(typical.milli[:, None] > 0, left, 0) + filled
        return self.typical.weights @ np.where(hosts, usable / 2, 0)

    def points(self, before: Floats, after: Floats) -> Ints:
        """100 if nothing is lost, a point less for each fifth of a GPU."""
        lost = np.floor((after - before) / _STEP + _ROUNDING)
        points: Ints = (MAX_NODE_SCORE + lost).clip(0, MAX_NODE_SCORE).astype(np.int64)
        return points
