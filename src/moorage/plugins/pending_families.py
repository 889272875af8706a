"""Storage and device plugins, as far as they concern pods that use neither.

For such pods they answer exactly as upstream's do: they have nothing to say, and DynamicResources
speaks first when nothing fits. A pod that does use a volume claim, an attachable disk or a device
is refused with a sentence that says so, rather than placed by half of the rules.
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
    PreScorePlugin,
    ScorePlugin,
)
from moorage.framework.status import SKIP, Code, Skip, Status, Verdicts
from moorage.model.pod import Pod


class _VolumePlugin(PreFilterPlugin[None], FilterPlugin[None]):
    """Nothing to say about pods without volumes to place."""

    def pre_filter(self, pod: Pod, nodes: NodeView) -> PreFilterResult[None] | Skip | Status:
        """Skip, or say plainly that such pods are not placed yet."""
        del nodes
        if not uses_placed_volumes(pod):
            return SKIP
        return Status(
            Code.UNRESOLVABLE, ("pod uses volumes that this version of moorage cannot place",)
        )

    def filter(self, pod: Pod, nodes: NodeView, state: None) -> Verdicts:
        """Only reached if PreFilter is disabled in the profile."""
        del pod, state
        return Verdicts(len(nodes))


class VolumeRestrictions(_VolumePlugin):
    """Conflicts over the same disk."""

    name = "VolumeRestrictions"


class NodeVolumeLimits(_VolumePlugin):
    """How many volumes a node can attach."""

    name = "NodeVolumeLimits"


class VolumeZone(_VolumePlugin):
    """Volumes tied to a zone."""

    name = "VolumeZone"


class VolumeBinding(_VolumePlugin, PreScorePlugin[None], ScorePlugin[None]):
    """Claims and the volumes they are or will be bound to."""

    name = "VolumeBinding"

    def pre_score(self, pod: Pod, nodes: NodeView) -> Skip | None:
        """At the default feature gates this plugin never scores."""
        del pod, nodes
        return SKIP

    def score(self, pod: Pod, nodes: NodeView, state: None) -> Ints:
        """Only reached if PreScore is disabled in the profile."""
        del pod, state
        return np.zeros(len(nodes), np.int64)


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


def uses_placed_volumes(pod: Pod) -> bool:
    """Does the pod use a volume that restricts where it can run?"""
    return any(
        volume.persistent_volume_claim is not None
        or volume.ephemeral is not None
        or volume.gce_persistent_disk is not None
        or volume.aws_elastic_block_store is not None
        or volume.iscsi is not None
        or volume.rbd is not None
        for volume in pod.spec.volumes
    )
