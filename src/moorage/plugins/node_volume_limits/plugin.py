"""NodeVolumeLimits: a CSI driver can attach only so many volumes to a node.

Most nodes are far from their limits, so an upper bound settles them, and only the others are
counted (`counts`).
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from moorage.cluster.attached_volumes import UNSURE, attachable
from moorage.cluster.columns import Bools, Ints, Rows
from moorage.cluster.stamps import Aspect
from moorage.cluster.view import NodeView
from moorage.errors import TranslationError
from moorage.framework.cluster_events import ActionType, EventRegistration, EventResource, on
from moorage.framework.plugin import FilterPlugin, Handle, PreFilterPlugin, PreFilterResult
from moorage.framework.status import SKIP, Reason, Skip, Verdicts
from moorage.model.csi_migration import handle_of, plugin_of
from moorage.model.meta import ApiObject
from moorage.model.pod import Pod
from moorage.model.storage import (
    CSIDriver,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
    uses_claim,
)
from moorage.plugins.errors import UncountableError
from moorage.plugins.node_volume_limits.counts import VolumeCounts
from moorage.plugins.node_volume_limits.driver_volumes import Volumes
from moorage.plugins.node_volume_limits.limits import Limits


class NodeVolumeLimits(PreFilterPlugin[None], FilterPlugin[None]):
    """Refuse nodes to which a driver cannot attach the pod's volumes as well."""

    name = "NodeVolumeLimits"
    looks_up = (
        CSINode,
        CSIDriver,
        PersistentVolume,
        PersistentVolumeClaim,
        StorageClass,
        VolumeAttachment,
    )
    reads = (Aspect.VOLUMES,)
    exceeded = Reason("node(s) exceed max volume count")

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._kept_limits: Limits | None = None
        self._counts = VolumeCounts(handle.listers)

    def pre_filter(self, pod: Pod, nodes: NodeView) -> PreFilterResult[None] | Skip:
        """Nothing to do without a volume that might be attached."""
        return PreFilterResult(None) if any(map(attachable, pod.spec.volumes)) else SKIP

    def filter(self, pod: Pod, nodes: NodeView, state: None) -> Verdicts:
        """Nodes with a CSINode and nodes without are told apart: only the former translate."""
        verdicts = Verdicts(len(nodes), (self.exceeded,))
        if not pod.spec.volumes:
            return verdicts
        self._counts.refresh(nodes)
        known = self._limits(nodes).known[nodes.rows]
        for has_csi_node, where in ((True, known), (False, ~known)):
            if not where.any():
                continue
            try:
                wanted = self._counts.objects.wanted(pod, migrated=has_csi_node)
            except UncountableError as problem:
                verdicts.reject(where, problem.reason)
                continue
            if wanted:
                self._check(wanted, nodes, where, verdicts)
        return verdicts

    def events_to_register(self) -> Sequence[EventRegistration]:
        """Room made at a driver, or the missing claim."""
        return [
            on(EventResource.CSI_NODE, ActionType.ADD),
            on(EventResource.CSI_NODE, ActionType.UPDATE, _after_csi_node_update),
            on(EventResource.ASSIGNED_POD, ActionType.DELETE, _after_pod_deleted),
            on(EventResource.PERSISTENT_VOLUME_CLAIM, ActionType.ADD, _after_claim_added),
            on(EventResource.VOLUME_ATTACHMENT, ActionType.DELETE, _after_detached),
        ]

    def _check(self, wanted: Volumes, nodes: NodeView, where: Bools, verdicts: Verdicts) -> None:
        """Refuse those of the nodes `where` that lack a driver or room for the volumes."""
        if self.handle.gates.enabled("VolumeLimitScaling"):
            where = self._reject_without_driver(wanted, nodes, where, verdicts)
        places = np.flatnonzero(where & self._close_to_limits(wanted, nodes))
        if not len(places):
            return
        stamps = nodes.stamps_of(Aspect.VOLUMES)[places]
        as_kept = stamps >= 0
        self._check_kept(wanted, nodes, places[as_kept], stamps[as_kept], verdicts)
        for place in places[~as_kept]:
            self._check_alone(wanted, nodes, int(place), verdicts)

    def _close_to_limits(self, wanted: Volumes, nodes: NodeView) -> Bools:
        """The places that may not have room, or something that cannot be counted."""
        limits, rows = self._limits(nodes), nodes.rows
        attached = nodes.volumes.at_most[rows] + self._counts.attachments.counts[rows]
        close: Bools = limits.any_limit[rows] & (attached >= UNSURE)
        for driver, count in Counter(wanted.values()).items():
            close |= attached > limits.of(driver)[rows] - count
        return close

    def _check_kept(
        self, wanted: Volumes, nodes: NodeView, places: Rows, stamps: Ints, verdicts: Verdicts
    ) -> None:
        """The places that are as the state has them: their counts are kept."""
        counts, limits, rows = self._counts, self._limits(nodes), nodes.rows[places]
        counts.count(nodes, places, stamps)
        over = np.zeros(len(places), np.bool_)
        for driver, count in Counter(wanted.values()).items():
            more = np.full(len(places), count)
            for volume, its_driver in wanted.items():
                users = counts.using(volume)
                if users and its_driver == driver:
                    more -= np.isin(rows, list(users))
            over |= (more > 0) & (counts.of(driver)[rows] + more > limits.of(driver)[rows])
        if counts.problems:
            for i, row in enumerate(rows):
                problem = counts.problems.get(int(row))
                if problem is not None:
                    over[i] = False
                    verdicts.reject(int(places[i]), problem)
        full = np.zeros(len(nodes), np.bool_)
        full[places[over]] = True
        verdicts.reject(full, self.exceeded)

    def _check_alone(
        self, wanted: Volumes, nodes: NodeView, place: int, verdicts: Verdicts
    ) -> None:
        """A place with other pods than the state has there."""
        node_name = nodes.node(place).name
        row = nodes.row_of(node_name)
        assert row is not None, "views are over nodes of the state"
        found = self._counts.with_pods(row, node_name, nodes.pods_on(place))
        if found.problem is not None:
            verdicts.reject(place, found.problem)
            return
        limits = self._limits(nodes)
        more = Counter(driver for volume, driver in wanted.items() if volume not in found.used)
        if any(found.attached[driver] + n > limits.of(driver)[row] for driver, n in more.items()):
            verdicts.reject(place, self.exceeded)

    def _reject_without_driver(
        self, wanted: Volumes, nodes: NodeView, where: Bools, verdicts: Verdicts
    ) -> Bools:
        """Refuse nodes that lack a driver which insists on being there; the others are left."""
        listers = self.handle.listers
        for driver in dict.fromkeys(wanted.values()):
            known = listers.of(CSIDriver).get(driver)
            if known is None or not known.spec.prevent_pod_scheduling_if_missing:
                continue
            text = f"{driver} CSI driver is not installed on the node"
            missing = where & ~self._limits(nodes).with_driver(driver)[nodes.rows]
            verdicts.reject(missing, Reason(text))
            where = where & ~missing
        return where

    def _limits(self, nodes: NodeView) -> Limits:
        kept = self._kept_limits
        as_of = (nodes.membership, self.handle.listers.of(CSINode).generation)
        if kept is None or kept.as_of != as_of:
            kept = self._kept_limits = Limits(nodes.whole, self.handle.listers, as_of)
        return kept


def _after_csi_node_update(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> bool:
    if not isinstance(old, CSINode) or not isinstance(new, CSINode):
        return True
    return any(limit > old.limits.get(driver, 0) for driver, limit in new.limits.items())


def _after_pod_deleted(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> bool:
    if not isinstance(old, Pod):
        return True
    placed = bool(old.spec.node_name or old.status.nominated_node_name)
    return placed and any(map(attachable, old.spec.volumes))


def _after_claim_added(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> bool:
    return not isinstance(new, PersistentVolumeClaim) or uses_claim(pod, new)


def _after_detached(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> bool:
    if not isinstance(old, VolumeAttachment):
        return True
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            return True
        plugin = plugin_of(volume)
        if plugin is None:
            continue
        try:
            handle_of(volume)
        except TranslationError:
            return True  # a mistake here may be a mistake elsewhere: try again
        if plugin.driver == old.spec.attacher:
            return True
    return False
