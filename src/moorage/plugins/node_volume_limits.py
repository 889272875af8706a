"""NodeVolumeLimits: a CSI driver can attach only so many volumes to a node.

Counting a node's volumes means looking up every claim of every pod there. Most nodes are far from
their limits, so a kept upper bound settles them, and only the others are counted.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from moorage.cluster.attached_volumes import UNSURE, attachable
from moorage.cluster.columns import Bools, Ints
from moorage.cluster.listers import Listers
from moorage.cluster.stamps import Aspect
from moorage.cluster.view import NodeView
from moorage.framework.cluster_events import (
    ActionType,
    EventRegistration,
    EventResource,
    QueueingHint,
    on,
)
from moorage.framework.plugin import FilterPlugin, Handle, PreFilterPlugin, PreFilterResult
from moorage.framework.status import SKIP, Code, Reason, Skip, Verdicts
from moorage.model.csi_migration import (
    TranslationError,
    handle_of_inline,
    handle_of_volume,
    plugin_named,
    plugin_of,
)
from moorage.model.meta import ApiObject
from moorage.model.pod import Pod
from moorage.model.pod_claims import claim_not_found, not_made_for, uses_claim
from moorage.model.storage import (
    CSIDriver,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from moorage.model.volumes import Volume

Volumes = Mapping[str, str]
"""What a driver calls a volume, made unique by the driver's name -> the driver."""

_NO_LIMIT = np.iinfo(np.int64).max
# Upstream draws a random prefix, so that no driver's handle equals that of an unbound claim.
_UNBOUND = "\0"


class _RefusedError(Exception):
    """Volumes cannot be counted; carries what to say of the node."""

    def __init__(self, text: str, code: Code = Code.ERROR) -> None:
        super().__init__(text)
        self.reason = Reason(text, code)


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
        self._kept_limits: _Limits | None = None
        self._kept_attachments: _Attachments | None = None

    def idle_for(self, pod: Pod) -> bool:
        """Nothing to say about pods without storage."""
        return not pod.uses_storage

    def pre_filter(self, pod: Pod, nodes: NodeView) -> PreFilterResult[None] | Skip:
        """Nothing to do without a volume that might be attached."""
        del nodes
        return PreFilterResult(None) if any(map(attachable, pod.spec.volumes)) else SKIP

    def filter(self, pod: Pod, nodes: NodeView, state: None) -> Verdicts:
        """Nodes with a CSINode and nodes without are told apart: only the former translate."""
        del state
        verdicts = Verdicts(len(nodes), (self.exceeded,))
        if not pod.spec.volumes:
            return verdicts
        known = self._limits(nodes).known[nodes.rows]
        for has_csi_node, where in ((True, known), (False, ~known)):
            if not where.any():
                continue
            try:
                wanted = self._wanted(pod, migrated=has_csi_node)
            except _RefusedError as refused:
                verdicts.reject(where, refused.reason)
                continue
            if wanted:
                self._check(wanted, nodes, where, verdicts)
        return verdicts

    def events_to_register(self) -> Sequence[EventRegistration]:
        """Room made at a driver, or the missing claim."""
        return [
            on(EventResource.CSI_NODE, ActionType.ADD),
            on(EventResource.CSI_NODE, ActionType.UPDATE, _after_csi_node_update),
            on(EventResource.POD, ActionType.DELETE, _after_pod_deleted),
            on(EventResource.PERSISTENT_VOLUME_CLAIM, ActionType.ADD, _after_claim_added),
            on(EventResource.VOLUME_ATTACHMENT, ActionType.DELETE, _after_detached),
        ]

    # Over columns

    def _check(self, wanted: Volumes, nodes: NodeView, where: Bools, verdicts: Verdicts) -> None:
        """Refuse those of the nodes `where` that lack a driver or room for the volumes."""
        if self.handle.gates.enabled("VolumeLimitScaling"):
            where = self._reject_without_driver(wanted, nodes, where, verdicts)
        limits, rows = self._limits(nodes), nodes.rows
        if nodes.hypothetical:
            close = limits.any_limit[rows]
        else:
            attached = nodes.volumes.at_most[rows] + self._attachments(nodes).counts[rows]
            close = limits.any_limit[rows] & (attached >= UNSURE)
            for driver, count in Counter(wanted.values()).items():
                close |= attached > limits.of(driver)[rows] - count
        for place in np.flatnonzero(close & where):
            try:
                if self._exceeds(wanted, nodes, int(place)):
                    verdicts.reject(int(place), self.exceeded)
            except _RefusedError as refused:
                verdicts.reject(int(place), refused.reason)

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

    def _limits(self, nodes: NodeView) -> "_Limits":
        kept = self._kept_limits
        as_of = (nodes.membership, self.handle.listers.of(CSINode).generation)
        if kept is None or kept.as_of != as_of:
            kept = self._kept_limits = _Limits(nodes.whole, self.handle.listers, as_of)
        return kept

    def _attachments(self, nodes: NodeView) -> "_Attachments":
        kept = self._kept_attachments
        as_of = (nodes.membership, self.handle.listers.of(VolumeAttachment).generation)
        if kept is None or kept.as_of != as_of:
            kept = self._kept_attachments = _Attachments(nodes.whole, self.handle.listers, as_of)
        return kept

    # One node

    def _exceeds(self, wanted: Volumes, nodes: NodeView, place: int) -> bool:
        """Would a driver have to attach more than it can? All pods and attachments are counted."""
        used: dict[str, str] = {}
        for other in nodes.pods_on(place):
            self._collect(other, used, migrated=True, strict=False)
        counts = Counter(used.values())
        name = nodes.node(place).name
        for volume, driver in self._attached(self._attachments(nodes).on(name)).items():
            counts[driver] += volume not in used
        more = Counter(driver for volume, driver in wanted.items() if volume not in used)
        csi_node = self.handle.listers.of(CSINode).get(name)
        limits = csi_node.limits if csi_node is not None else {}
        return any(
            driver in limits and counts[driver] + count > limits[driver]
            for driver, count in more.items()
        )

    def _attached(self, attachments: Iterable[VolumeAttachment]) -> Volumes:
        volumes = self.handle.listers.of(PersistentVolume)
        found = {}
        for attachment in attachments:
            name, driver = attachment.spec.source.persistent_volume_name, attachment.spec.attacher
            volume = volumes.get(name) if name is not None and driver else None
            if volume is not None and volume.spec.csi is not None:
                found[f"{driver}/{volume.spec.csi.volume_handle}"] = driver
        return found

    # One pod

    def _wanted(self, pod: Pod, *, migrated: bool) -> Volumes:
        wanted: dict[str, str] = {}
        self._collect(pod, wanted, migrated=migrated, strict=True)
        return wanted

    def _collect(self, pod: Pod, found: dict[str, str], *, migrated: bool, strict: bool) -> None:
        """Add the volumes that drivers attach for a pod; `strict` insists on finding all claims."""
        for volume in pod.spec.volumes:
            name = volume.claim_name(pod.name)
            if name is None:
                located = _locate_inline(volume, migrated=migrated)
            else:
                located = self._locate_claim(pod, volume, name, migrated=migrated, strict=strict)
            if located is not None:
                driver, handle = located
                found[f"{driver}/{handle}"] = driver

    def _locate_claim(
        self, pod: Pod, volume: Volume, name: str, *, migrated: bool, strict: bool
    ) -> tuple[str, str] | None:
        """The driver of a claim and the volume's name there, if that can be said."""
        if not name:
            raise _RefusedError("PersistentVolumeClaim had no name")
        claim = self.handle.listers.of(PersistentVolumeClaim).get(name, pod.namespace)
        if claim is None:
            if not strict:
                return None
            text = f"looking up PVC {pod.namespace}/{name}: {claim_not_found(name)}"
            raise _RefusedError(text, Code.UNRESOLVABLE)
        if volume.persistent_volume_claim is None:
            objection = not_made_for(pod, claim)
            if objection is not None:
                raise _RefusedError(objection)
        driver, handle = self._driver_and_handle(claim, migrated=migrated)
        return (driver, handle) if driver and handle else None

    def _driver_and_handle(
        self, claim: PersistentVolumeClaim, *, migrated: bool
    ) -> tuple[str, str]:
        name = claim.spec.volume_name
        volume = self.handle.listers.of(PersistentVolume).get(name) if name else None
        if volume is None:
            return self._future_driver(claim, migrated=migrated)
        if volume.spec.csi is not None:
            return volume.spec.csi.driver, volume.spec.csi.volume_handle
        plugin = plugin_of(volume.spec)
        if plugin is None or not plugin.scheduled or not migrated:
            return "", ""
        try:
            return plugin.driver, handle_of_volume(volume)
        except TranslationError:
            return "", ""

    def _future_driver(self, claim: PersistentVolumeClaim, *, migrated: bool) -> tuple[str, str]:
        """A claim without a volume counts for the driver that will provision it."""
        storage_class = self.handle.listers.of(StorageClass).get(claim.storage_class)
        if storage_class is None:
            return "", ""
        driver = storage_class.provisioner
        plugin = plugin_named(driver)
        if plugin is not None:
            if not plugin.scheduled or not migrated:
                return "", ""
            driver = plugin.driver
        return driver, f"{_UNBOUND}{claim.key}"


def _locate_inline(volume: Volume, *, migrated: bool) -> tuple[str, str] | None:
    plugin = plugin_of(volume)
    if plugin is None or not plugin.scheduled or not migrated:
        return None
    try:
        return plugin.driver, handle_of_inline(volume)
    except TranslationError as error:
        text = f"converting volume({volume.name}) from inline to csi: {error}"
        raise _RefusedError(text) from error


class _Limits:
    """What CSINodes say of all rows, as columns; built again after any of them changed."""

    def __init__(self, nodes: NodeView, listers: Listers, as_of: tuple[int, int]) -> None:
        self.as_of = as_of
        lister = listers.of(CSINode)
        self._csi_nodes = [lister.get(name) for name in nodes.names()]
        self._by_driver: dict[str, Ints] = {}
        self.known: Bools = np.array([node is not None for node in self._csi_nodes], np.bool_)
        self.any_limit: Bools = np.array(
            [node is not None and bool(node.limits) for node in self._csi_nodes], np.bool_
        )

    def of(self, driver: str) -> Ints:
        """How many volumes of a driver each row can have."""
        column = self._by_driver.get(driver)
        if column is None:
            column = self._by_driver[driver] = np.array(
                [
                    _NO_LIMIT if node is None else node.limits.get(driver, _NO_LIMIT)
                    for node in self._csi_nodes
                ],
                np.int64,
            )
        return column

    def with_driver(self, driver: str) -> Bools:
        """The rows on which a driver runs."""
        return np.array(
            [
                node is not None and any(known.name == driver for known in node.spec.drivers)
                for node in self._csi_nodes
            ],
            np.bool_,
        )


class _Attachments:
    """VolumeAttachments by node; built again after any of them changed."""

    def __init__(self, nodes: NodeView, listers: Listers, as_of: tuple[int, int]) -> None:
        self.as_of = as_of
        self._by_node: dict[str, list[VolumeAttachment]] = {}
        self.counts: Ints = np.zeros(len(nodes), np.int64)
        for attachment in listers.of(VolumeAttachment):
            self._by_node.setdefault(attachment.spec.node_name, []).append(attachment)
        for name, attachments in self._by_node.items():
            row = nodes.row_of(name)
            if row is not None:
                self.counts[row] = len(attachments)

    def on(self, node_name: str) -> Sequence[VolumeAttachment]:
        """The attachments of a node."""
        return self._by_node.get(node_name, ())


def _after_csi_node_update(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> QueueingHint:
    del pod
    if not isinstance(old, CSINode) or not isinstance(new, CSINode):
        return QueueingHint.QUEUE
    raised = any(limit > old.limits.get(driver, 0) for driver, limit in new.limits.items())
    return QueueingHint.QUEUE if raised else QueueingHint.SKIP


def _after_pod_deleted(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> QueueingHint:
    del pod, new
    if not isinstance(old, Pod):
        return QueueingHint.QUEUE
    placed = old.spec.node_name or old.status.nominated_node_name
    if placed and any(map(attachable, old.spec.volumes)):
        return QueueingHint.QUEUE
    return QueueingHint.SKIP


def _after_claim_added(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> QueueingHint:
    del old
    if isinstance(new, PersistentVolumeClaim) and not uses_claim(pod, new):
        return QueueingHint.SKIP
    return QueueingHint.QUEUE


def _after_detached(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> QueueingHint:
    del new
    if not isinstance(old, VolumeAttachment):
        return QueueingHint.QUEUE
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            return QueueingHint.QUEUE
        plugin = plugin_of(volume)
        if plugin is None:
            continue
        try:
            handle_of_inline(volume)
        except TranslationError:
            return QueueingHint.QUEUE  # a mistake here may be a mistake elsewhere: try again
        if plugin.driver == old.spec.attacher:
            return QueueingHint.QUEUE
    return QueueingHint.SKIP
