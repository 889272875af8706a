"""Decisions about volumes in memory: the books that Reserve keeps and Unreserve puts right.

Must not place anything (the node is given) nor write anything to the API (`binding` does).
"""

from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from moorage.errors import StateError
from moorage.model.meta import ApiObject
from moorage.model.storage import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    ClaimReference,
    PersistentVolume,
    PersistentVolumeClaim,
)
from moorage.plugins.volume_binding.assume_cache import AssumeCache, VolumeCache
from moorage.plugins.volume_binding.search import StaticBinding

Kind = TypeVar("Kind", bound=ApiObject)


@dataclass(slots=True)
class PodVolumes:
    """What was decided for a pod's claims; objects are replaced by what the API made of them."""

    bindings: list[StaticBinding] = field(default_factory=list)
    claims: list[PersistentVolumeClaim] = field(default_factory=list)
    """Claims to provision for."""


def assume(
    decided: PodVolumes,
    node_name: str,
    volumes: VolumeCache,
    claims: AssumeCache[PersistentVolumeClaim],
) -> PodVolumes:
    """Let the decision count for the pods that follow; raises `StateError` if it cannot."""
    assumed = PodVolumes()
    try:
        for binding in decided.bindings:
            volume = _bound(binding.volume, binding.claim)
            if volume is not binding.volume:
                volumes.assume(volume)
            assumed.bindings.append(StaticBinding(volume, binding.claim))
        for claim in decided.claims:
            chosen = _annotated(claim, SELECTED_NODE, node_name)
            claims.assume(chosen)
            assumed.claims.append(chosen)
    except StateError:
        revert(assumed, volumes, claims)
        raise
    return assumed


def revert(
    assumed: PodVolumes, volumes: VolumeCache, claims: AssumeCache[PersistentVolumeClaim]
) -> None:
    """Take the decision back, except for what the API has accepted."""
    for binding in assumed.bindings:
        volumes.restore(binding.volume)
    for claim in assumed.claims:
        claims.restore(claim)


def _bound(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """The volume with a reference to the claim; the same object if it has that already."""
    if not volume.bound_to(claim):
        volume = _annotated(volume, BOUND_BY_CONTROLLER, "yes", keep=True)
    reference = volume.spec.claim_ref
    named = (reference.namespace, reference.name, reference.uid) if reference is not None else None
    if named == (claim.namespace, claim.name, claim.metadata.uid):
        return volume
    wanted = ClaimReference(
        kind="PersistentVolumeClaim",
        api_version="v1",
        namespace=claim.namespace,
        name=claim.name,
        uid=claim.metadata.uid,
        resource_version=claim.metadata.resource_version,
    )
    return msgspec.structs.replace(
        volume, spec=msgspec.structs.replace(volume.spec, claim_ref=wanted)
    )


def _annotated(obj: Kind, key: str, value: str, *, keep: bool = False) -> Kind:
    annotations = obj.metadata.annotations
    if keep and key in annotations:
        return obj
    metadata = msgspec.structs.replace(obj.metadata, annotations={**annotations, key: value})
    return msgspec.structs.replace(obj, metadata=metadata)
