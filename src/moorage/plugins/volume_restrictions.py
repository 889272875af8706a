"""VolumeRestrictions: disks and claims that not every two pods can share.

Disks named in pods themselves conflict on a node; a ReadWriteOncePod claim conflicts everywhere.
"""

from collections.abc import Sequence

import msgspec
import numpy as np

from moorage.cluster.attached_volumes import disk_of
from moorage.cluster.columns import Bools
from moorage.cluster.stamps import Aspect
from moorage.cluster.view import NodeView
from moorage.framework.cluster_events import ActionType, EventRegistration, EventResource, on
from moorage.framework.plugin import FilterPlugin, PreFilterPlugin, PreFilterResult
from moorage.framework.status import SKIP, Code, Reason, Skip, Status, Verdicts
from moorage.model.meta import ApiObject
from moorage.model.pod import Pod
from moorage.model.storage import (
    READ_WRITE_ONCE_POD,
    PersistentVolumeClaim,
    claim_not_found,
    claims_of,
    uses_claim,
)
from moorage.model.volumes import Volume


class ClaimsInUse(msgspec.Struct, frozen=True):
    """The pod's ReadWriteOncePod claims, and how often other pods use them."""

    names: frozenset[str] = frozenset()
    users: int = 0


class VolumeRestrictions(PreFilterPlugin[ClaimsInUse], FilterPlugin[ClaimsInUse]):
    """Refuse nodes with a conflicting disk, and all nodes while a claim for one pod is in use."""

    name = "VolumeRestrictions"
    looks_up = (PersistentVolumeClaim,)
    reads = (Aspect.VOLUMES,)
    row_local = False  # the number of users is counted over the whole cluster
    disk_conflict = Reason("node(s) had no available disk")
    claim_conflict = Reason(
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
        "already in-use by another pod"
    )
    no_state = Reason('cannot read "PreFilterVolumeRestrictions" from cycleState', Code.ERROR)

    def pre_filter(self, pod: Pod, nodes: NodeView) -> PreFilterResult[ClaimsInUse] | Skip | Status:
        """Find the claims that only one pod may use; nothing to do if nobody else does."""
        if not pod.spec.volumes:
            return SKIP
        claims = self.handle.listers.of(PersistentVolumeClaim)
        names = set()
        for used in claims_of(pod):
            if used.ephemeral:
                continue
            claim = claims.get(used.name, pod.namespace)
            if claim is None:
                return Status(Code.UNRESOLVABLE, (claim_not_found(used.name),))
            if READ_WRITE_ONCE_POD in claim.spec.access_modes:
                names.add(claim.name)
        users = sum(nodes.volumes.claim_in_use(pod.namespace, name) for name in names)
        if not users and not any(map(disk_of, pod.spec.volumes)):
            return SKIP
        return PreFilterResult(ClaimsInUse(frozenset(names), users))

    def with_pod(
        self, state: ClaimsInUse, pod: Pod, other: Pod, nodes: NodeView, row: int, sign: int
    ) -> ClaimsInUse:
        """Count one pod in or out; upstream compares names of claims only, not namespaces."""
        uses = sum(not used.ephemeral and used.name in state.names for used in claims_of(other))
        return ClaimsInUse(state.names, state.users + sign * uses) if uses else state

    def filter(self, pod: Pod, nodes: NodeView, state: ClaimsInUse | None) -> Verdicts:
        """A disk in the way is reported first."""
        verdicts = Verdicts(len(nodes), (self.disk_conflict, self.claim_conflict))
        conflicting = _with_conflicting_disks(pod, nodes)
        verdicts.reject(conflicting, self.disk_conflict)
        if state is None:
            return verdicts.reject(~conflicting, self.no_state)
        if state.users > 0:
            verdicts.reject(~conflicting, self.claim_conflict)
        return verdicts

    def events_to_register(self) -> Sequence[EventRegistration]:
        """A pod that gives a volume back, a new node, or the missing claim."""
        return [
            on(EventResource.ASSIGNED_POD, ActionType.DELETE, _after_pod_deleted),
            on(EventResource.NODE, ActionType.ADD),
            on(EventResource.PERSISTENT_VOLUME_CLAIM, ActionType.ADD, _after_claim_added),
        ]


def _with_conflicting_disks(pod: Pod, nodes: NodeView) -> Bools:
    """The nodes of the view on which a pod has a disk that the pod cannot share."""
    found = np.zeros(len(nodes), np.bool_)
    wanted = [(disk, volume) for volume in pod.spec.volumes if (disk := disk_of(volume))]
    if not wanted:
        return found
    rows = nodes.volumes.rows_with(disk for disk, _ in wanted)
    for place in np.flatnonzero(rows[nodes.rows]):
        others = nodes.pods_on(int(place))
        found[place] = any(_conflicts(volume, other) for _, volume in wanted for other in others)
    return found


def _conflicts(volume: Volume, other: Pod) -> bool:
    return any(_same_disk(volume, used) for used in other.spec.volumes)


def _same_disk(mine: Volume, other: Volume) -> bool:
    """Are the two one disk, and not both content with reading it?"""
    if disk_of(mine) is None or disk_of(mine) != disk_of(other):
        return False
    if mine.gce_persistent_disk is not None and other.gce_persistent_disk is not None:
        return not (mine.gce_persistent_disk.read_only and other.gce_persistent_disk.read_only)
    if mine.iscsi is not None and other.iscsi is not None:
        return not (mine.iscsi.read_only and other.iscsi.read_only)
    if mine.rbd is not None and other.rbd is not None:
        # The same image of the same pool may still be of another cluster.
        shared = not set(mine.rbd.monitors).isdisjoint(other.rbd.monitors)
        return shared and not (mine.rbd.read_only and other.rbd.read_only)
    return True  # EBS disks are never shared


def _after_pod_deleted(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> bool:
    if not isinstance(old, Pod):
        return True
    if old.namespace != pod.namespace:
        return False
    if any(disk_of(volume) and _conflicts(volume, old) for volume in pod.spec.volumes):
        return True
    mine = {used.name for used in claims_of(pod) if not used.ephemeral}
    freed = {used.name for used in claims_of(old) if not used.ephemeral}
    return not mine.isdisjoint(freed)


def _after_claim_added(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> bool:
    return not isinstance(new, PersistentVolumeClaim) or uses_claim(pod, new, ephemeral=False)
