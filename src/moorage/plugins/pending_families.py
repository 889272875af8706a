"""The device plugin, as far as it concerns pods that use no devices.

For such pods it answers exactly as upstream's does: it has nothing to say, but speaks first when
nothing fits. A pod that does use a device is refused with a sentence that says so, rather than
placed by half of the rules.
"""

import numpy as np

from moorage.cluster.columns import Ints
from moorage.cluster.view import NodeView
from moorage.framework.attempt import Attempt
from moorage.framework.plugin import (
    FilterPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreFilterResult,
    ScorePlugin,
)
from moorage.framework.status import SKIP, Code, Skip, Status, Verdicts
from moorage.model.pod import Pod


class DynamicResources(
    PreEnqueuePlugin,
    PreFilterPlugin[None],
    FilterPlugin[None],
    PostFilterPlugin,
    ScorePlugin[None],
):
    """Devices claimed through the resource.k8s.io API."""

    name = "DynamicResources"

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Pods without claims enter the queue."""
        del pod
        return None

    def pre_filter(self, pod: Pod, nodes: NodeView) -> PreFilterResult[None] | Skip | Status:
        """Skip, or say plainly that such pods are not placed yet."""
        del nodes
        if not pod.spec.resource_claims:
            return SKIP
        return Status(
            Code.UNRESOLVABLE,
            ("pod uses resource claims that this version of moorage cannot place",),
        )

    def filter(self, pod: Pod, nodes: NodeView, state: None) -> Verdicts:
        """Only reached if PreFilter is disabled in the profile."""
        del pod, state
        return Verdicts(len(nodes))

    def post_filter(self, pod: Pod, attempt: Attempt) -> PostFilterResult:
        """There is nothing to deallocate; without PreFilter upstream cannot even tell that."""
        del pod
        if self.name not in attempt.before.ran:
            return PostFilterResult(Status(Code.ERROR, ("not found",)))
        return PostFilterResult(Status(Code.UNSCHEDULABLE, ("no new claims to deallocate",)))

    def score(self, pod: Pod, nodes: NodeView, state: None) -> Ints:
        """No claims, no preference."""
        del pod, state
        return np.zeros(len(nodes), np.int64)
