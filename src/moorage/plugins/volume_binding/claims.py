"""The claims of a pod: bound, to be bound by somebody else, or to be bound by us."""

import msgspec

from moorage.cluster.listers import Listers
from moorage.framework.status import Code, Status
from moorage.model.pod import Pod
from moorage.model.storage import (
    PersistentVolumeClaim,
    StorageClass,
    claim_not_found,
    claims_of,
    not_made_for,
)
from moorage.plugins.volume_binding.assume_cache import AssumeCache

LOST = "Lost"


class DelayedClaim(msgspec.Struct, frozen=True):
    """A claim that is bound, or provisioned for, where its first pod goes."""

    claim: PersistentVolumeClaim
    storage_class: StorageClass


class PodClaims(msgspec.Struct, frozen=True):
    """A pod's claims, sorted by what is left to do for them."""

    bound: tuple[PersistentVolumeClaim, ...] = ()
    delayed: tuple[DelayedClaim, ...] = ()
    waiting: tuple[PersistentVolumeClaim, ...] = ()
    """Unbound, and the volume controller's task."""

    @property
    def all_bound(self) -> bool:
        """Is nothing left to do?"""
        return not self.delayed and not self.waiting


def objection(pod: Pod, listers: Listers) -> str | None:
    """Why a claim rules out any node, if one does."""
    lister = listers.of(PersistentVolumeClaim)
    for used in claims_of(pod):
        claim = lister.get(used.name, pod.namespace)
        if claim is None:
            if used.ephemeral:
                return (
                    "waiting for ephemeral volume controller to create the "
                    f'persistentvolumeclaim "{used.name}"'
                )
            return claim_not_found(used.name)
        if claim.status.phase == LOST:
            return (
                f'persistentvolumeclaim "{claim.name}" bound to non-existent '
                f'persistentvolume "{claim.spec.volume_name}"'
            )
        if claim.metadata.deletion_timestamp is not None:
            return f'persistentvolumeclaim "{claim.name}" is being deleted'
        if used.ephemeral:
            foreign = not_made_for(pod, claim)
            if foreign is not None:
                return foreign
    return None


def classify(
    pod: Pod, claims: AssumeCache[PersistentVolumeClaim], listers: Listers
) -> PodClaims | Status:
    """Sort a pod's claims; `objection` has found none. A class without a mode is an error."""
    bound: list[PersistentVolumeClaim] = []
    delayed: list[DelayedClaim] = []
    waiting: list[PersistentVolumeClaim] = []
    for used in claims_of(pod):
        claim = claims.get(used.name, pod.namespace)
        if claim is None:
            key = f"{pod.namespace}/{used.name}"
            text = f'error getting PVC "{key}": persistentvolumeclaims "{key}" not found'
            return Status(Code.ERROR, (text,))
        if claim.fully_bound:
            bound.append(claim)
            continue
        name = claim.storage_class
        storage_class = listers.of(StorageClass).get(name) if name else None
        if storage_class is not None and storage_class.volume_binding_mode is None:
            return Status(Code.ERROR, (f'VolumeBindingMode not set for StorageClass "{name}"',))
        # A claim that already names its volume is the volume controller's, whatever its class.
        ours = storage_class is not None and storage_class.waits_for_first_consumer
        if storage_class is not None and ours and not claim.spec.volume_name:
            delayed.append(DelayedClaim(claim, storage_class))
        else:
            waiting.append(claim)
    return PodClaims(tuple(bound), tuple(delayed), tuple(waiting))
