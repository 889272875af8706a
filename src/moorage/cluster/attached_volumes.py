"""What the volumes of pods on nodes take: claims, disks, places to attach them.

Every node's set differs, so disks and claims are kept inverted: value -> where. Must not look up
claims or PersistentVolumes: they change on their own, and plugins ask for them when they need to.
"""

from collections import Counter
from collections.abc import Iterable

import numpy as np

from moorage.cluster.columns import Bools, Column, Ints, RowSpace
from moorage.errors import TranslationError
from moorage.model.csi_migration import handle_of, plugin_of
from moorage.model.pod import Pod
from moorage.model.volumes import Volume

Disk = tuple[str, ...]
"""What two volumes have in common if they may be the same disk."""

UNSURE = 1 << 40
"""Added to a row's count when looking closer may find something wrong rather than a volume."""


def disk_of(volume: Volume) -> Disk | None:
    """The disk a pod names itself, of the kinds that two pods cannot always share."""
    if volume.gce_persistent_disk is not None:
        return ("gce", volume.gce_persistent_disk.pd_name)
    if volume.aws_elastic_block_store is not None:
        return ("ebs", volume.aws_elastic_block_store.volume_id)
    if volume.iscsi is not None:
        return ("iscsi", volume.iscsi.iqn)
    if volume.rbd is not None:
        return ("rbd", volume.rbd.pool, volume.rbd.image)
    return None


def attachable(volume: Volume) -> bool:
    """May a driver have to attach the volume to the pod's node?"""
    if volume.persistent_volume_claim is not None or volume.ephemeral is not None:
        return True
    return plugin_of(volume) is not None


def weight_of(volume: Volume) -> int:
    """What a volume adds to its row's count."""
    if volume.persistent_volume_claim is not None:
        return 1
    if volume.ephemeral is not None:
        return UNSURE  # its claim may turn out to be somebody else's, which is an error
    if plugin_of(volume) is None:
        return 0
    try:
        handle_of(volume)
    except TranslationError:
        return UNSURE
    return 1


class AttachedVolumes:
    """Volumes of the pods on nodes."""

    def __init__(self, space: RowSpace) -> None:
        self._at_most: Column[np.int64] = space.column(np.int64)
        self._claims: Counter[tuple[str, str]] = Counter()
        self._disks: dict[Disk, Counter[int]] = {}

    def count(self, row: int, pod: Pod, sign: int) -> None:
        """A pod with volumes came to (+1) or left (-1) a row."""
        for volume in pod.spec.volumes:
            claim = volume.persistent_volume_claim
            if claim is not None:
                self._count_claim((pod.namespace, claim.claim_name), sign)
            self._at_most.data[row] += sign * weight_of(volume)
            disk = disk_of(volume)
            if disk is not None:
                self._count_disk(disk, row, sign)

    def move_row(self, old: int, new: int) -> None:
        """The node of row `old` now stands in row `new`; the column follows by itself."""
        for rows in self._disks.values():
            if old in rows:
                rows[new] = rows.pop(old)

    @property
    def at_most(self) -> Ints:
        """Per row, no fewer than the volumes that drivers attach for its pods."""
        return self._at_most.values

    def claim_in_use(self, namespace: str, name: str) -> bool:
        """Does a pod on a node name this claim? Claims of ephemeral volumes are not looked at."""
        return self.claim_users(namespace, name) > 0

    def claim_users(self, namespace: str, name: str) -> int:
        """How often do pods on nodes name this claim?"""
        return self._claims.get((namespace, name), 0)

    def disk_users(self, disk: Disk, row: int) -> int:
        """How often do the pods of a row name a disk?"""
        rows = self._disks.get(disk)
        return 0 if rows is None else rows[row]

    def rows_with(self, disks: Iterable[Disk]) -> Bools:
        """The rows with a pod that names one of the disks."""
        found = np.zeros(len(self.at_most), np.bool_)
        for disk in disks:
            found[list(self._disks.get(disk, ()))] = True
        return found

    def _count_claim(self, key: tuple[str, str], sign: int) -> None:
        self._claims[key] += sign
        if not self._claims[key]:
            del self._claims[key]

    def _count_disk(self, disk: Disk, row: int, sign: int) -> None:
        rows = self._disks.setdefault(disk, Counter())
        rows[row] += sign
        if not rows[row]:
            del rows[row]
        if not rows:
            del self._disks[disk]
