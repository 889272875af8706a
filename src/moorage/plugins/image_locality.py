"""ImageLocality: prefer nodes that already have the pod's images.

An image counts with its size, scaled down by how few nodes have it, so that one node with a rare
large image does not draw every pod to itself.
"""

import numpy as np

from moorage.cluster.columns import Ints
from moorage.cluster.stamps import Aspect
from moorage.cluster.view import NodeView
from moorage.framework.plugin import MAX_NODE_SCORE, ScorePlugin
from moorage.framework.status import SKIP, Skip
from moorage.model.pod import Pod

_MIB = 1024 * 1024
MIN_THRESHOLD = 23 * _MIB
MAX_IMAGE_THRESHOLD = 1000 * _MIB
MAX_IMAGE = 2**48


class ImageLocality(ScorePlugin[None]):
    """Score by the bytes of the pod's images that a node has."""

    name = "ImageLocality"
    reads = (Aspect.IMAGES,)
    # How many nodes have an image decides its worth on each of them.
    row_local = False

    def score(self, pod: Pod, nodes: NodeView, state: None) -> Ints | Skip:
        """0 below the minimum, 100 when everything is there and everywhere."""
        if not nodes.any_images:
            return SKIP
        whole = nodes.whole
        sums: Ints = np.zeros(len(whole), np.int64)
        names = _images_of(pod)
        for name in names:
            image = nodes.image(normalized_image_name(name))
            if image is not None:
                spread = len(image.rows) / len(whole)
                # More than the most that counts would not change a score, and could overflow.
                share = min(int(float(image.size) * spread), MAX_IMAGE)
                sums[list(image.rows)] += share
        most = MAX_IMAGE_THRESHOLD * len(names)
        if most <= MIN_THRESHOLD or not sums.any():
            return SKIP
        clipped = np.clip(sums, MIN_THRESHOLD, most)
        scores = MAX_NODE_SCORE * (clipped - MIN_THRESHOLD) // (most - MIN_THRESHOLD)
        return scores if nodes is whole else scores[nodes.rows]


def normalized_image_name(name: str) -> str:
    """The name with the tag that is meant when none is written."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


def _images_of(pod: Pod) -> list[str]:
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    volumes = (volume.image.reference for volume in pod.spec.volumes if volume.image is not None)
    return [*(container.image for container in containers), *volumes]
