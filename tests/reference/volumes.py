"""Volumes the slow way: one node, one claim, one volume at a time.

Owns plain restatements of static binding and of counting attached volumes, to compare the columns
with. Must not share code with the plugins.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from moorage.model.labels import compile_selector
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.model.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from reference.resources import Shape, on_shape


def match_node(
    node: Node, claims: Sequence[PersistentVolumeClaim], volumes: Sequence[PersistentVolume]
) -> list[tuple[str, str | None]]:
    """(claim, volume or None) for one node, in the order in which claims choose."""
    used: set[str] = set()
    found: list[tuple[str, str | None]] = []
    for claim in sorted(claims, key=lambda claim: claim.milli_request or 0):
        chosen = _choose(node, claim, [v for v in volumes if v.name not in used])
        if chosen is not None:
            used.add(chosen)
        found.append((claim.name, chosen))
    return found


def _choose(
    node: Node, claim: PersistentVolumeClaim, volumes: Sequence[PersistentVolume]
) -> str | None:
    best: PersistentVolume | None = None
    for volume in volumes:
        ref = volume.spec.claim_ref
        mine = ref is not None and (ref.namespace, ref.name) == (claim.namespace, claim.name)
        mine = mine and ref is not None and ref.uid in ("", claim.metadata.uid)
        if ref is not None and not mine:
            continue
        if volume.spec.storage_class_name != claim.spec.storage_class_name:
            continue
        if volume.milli_capacity < (claim.milli_request or 0):
            continue
        if (volume.spec.volume_mode or "Filesystem") != (claim.spec.volume_mode or "Filesystem"):
            continue
        if volume.metadata.deletion_timestamp is not None:
            continue
        if mine:
            return volume.name if volume.reachable_from(node.labels) else None
        if volume.status.phase != "Available" or not volume.reachable_from(node.labels):
            continue
        if claim.spec.selector is not None and not compile_selector(claim.spec.selector).matches(
            volume.labels
        ):
            continue
        if not set(claim.spec.access_modes) <= set(volume.spec.access_modes):
            continue
        if best is None or volume.milli_capacity < best.milli_capacity:
            best = volume
    return best.name if best is not None else None


Use = tuple[str, int, int]
"""(storage class, bytes requested, bytes there are)"""


def score_storage(existing: Sequence[Use], on_demand: Sequence[Use], shape: Shape) -> int:
    """VolumeBinding: the mean over storage classes of how well the room on a node is used.

    `existing` volumes are added up by class, and only without any the room of drivers counts.
    """
    asked: dict[str, int] = {}
    room: dict[str, int] = {}
    for name, requested, there in existing or on_demand:
        asked[name] = asked.get(name, 0) + requested
        room[name] = there + (room.get(name, 0) if existing else 0)
    if not asked:
        return 0
    total = 0
    for name, requested in asked.items():
        full = room[name] == 0 or requested > room[name]
        total += on_shape(shape, 100 if full else requested * 100 // room[name])
    return math.floor(Fraction(total, len(asked)) + Fraction(1, 2))


class Storage:
    """The objects that counting looks at, by name."""

    def __init__(
        self,
        claims: Iterable[PersistentVolumeClaim] = (),
        volumes: Iterable[PersistentVolume] = (),
        classes: Iterable[StorageClass] = (),
        attachments: Iterable[VolumeAttachment] = (),
    ) -> None:
        self.claims = {(c.namespace, c.name): c for c in claims}
        self.volumes = {v.name: v for v in volumes}
        self.classes = {c.name: c for c in classes}
        self.attachments = list(attachments)


def over_limit(pod: Pod, guests: Iterable[Pod], csi_node: CSINode, storage: Storage) -> bool:
    """Would the node have more volumes of some driver than it can attach?"""
    wanted = _volumes_of(pod, storage)
    used: dict[tuple[str, str], str] = {}
    for guest in guests:
        used.update(_volumes_of(guest, storage))
    attached: dict[tuple[str, str], str] = {}
    for attachment in storage.attachments:
        volume = storage.volumes.get(attachment.spec.source.persistent_volume_name or "")
        here = attachment.spec.node_name == csi_node.name
        if here and volume is not None and volume.spec.csi is not None:
            driver = attachment.spec.attacher
            attached[driver, volume.spec.csi.volume_handle] = driver
    for driver, limit in csi_node.limits.items():
        new = sum(d == driver for key, d in wanted.items() if key not in used)
        old = sum(d == driver for d in {**attached, **used}.values())
        if new and old + new > limit:
            return True
    return False


def _volumes_of(pod: Pod, storage: Storage) -> Mapping[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    for volume in pod.spec.volumes:
        if volume.aws_elastic_block_store is not None:
            found["ebs.csi.aws.com", volume.aws_elastic_block_store.volume_id] = "ebs.csi.aws.com"
        if volume.persistent_volume_claim is None:
            continue
        claim = storage.claims.get((pod.namespace, volume.persistent_volume_claim.claim_name))
        if claim is None:
            continue
        bound = storage.volumes.get(claim.spec.volume_name)
        if bound is not None:
            if bound.spec.csi is not None:
                found[bound.spec.csi.driver, bound.spec.csi.volume_handle] = bound.spec.csi.driver
        elif claim.storage_class in storage.classes:
            driver = storage.classes[claim.storage_class].provisioner
            found[driver, f"future {claim.key}"] = driver
    return found
