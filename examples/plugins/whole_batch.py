"""WholeBatch, a Permit plugin: pods labelled `batch` wait until `batch-size` of them have a node.

To enable it: `--plugin whole_batch.py`, and in a KubeSchedulerConfiguration
`profiles: [{plugins: {multiPoint: {enabled: [{name: WholeBatch}]}}}]`.
"""

from collections import defaultdict
from typing import Any

from moorage.framework.plugin import Handle, PermitPlugin, ReservePlugin
from moorage.framework.status import Code, Status
from moorage.model.pod import Pod


class PlacedPods(defaultdict[tuple[str, str], set[str]]):
    """Namespace and batch -> the uids of pods that have a node."""


class WholeBatch(ReservePlugin, PermitPlugin):
    name = "WholeBatch"

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)  # shared: pods go on waiting when the configuration changes
        self.placed = handle.listers.shared(PlacedPods, lambda: PlacedPods(set))

    def reserve(self, pod: Pod, node_name: str) -> None:
        self.placed[pod.namespace, pod.labels.get("batch", "")].add(pod.uid)

    def unreserve(self, pod: Pod, node_name: str) -> None:
        self.placed[pod.namespace, pod.labels.get("batch", "")].discard(pod.uid)

    def permit(self, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        key = pod.namespace, pod.labels.get("batch", "")
        if "batch" in pod.labels and len(self.placed[key]) < int(pod.labels.get("batch-size", 1)):
            return Status(Code.WAIT, ("waiting for the rest of the batch",)), 60.0
        for uid in self.placed.pop(key):
            self.handle.waiting.allow(uid, self.name)
        return None, 0.0
