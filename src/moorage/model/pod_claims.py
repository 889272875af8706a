"""Which volume claims a pod uses, and whether a claim is really the pod's.

Owns the rules that pod and claim settle between them. Must not look claims up.
"""

from collections.abc import Iterator

import msgspec

from moorage.model.pod import Pod
from moorage.model.storage import PersistentVolumeClaim


class PodClaim(msgspec.Struct, frozen=True):
    """A claim that one of a pod's volumes stands for."""

    name: str
    ephemeral: bool
    """Made for this pod alone from a template in its spec."""


def claims_of(pod: Pod) -> Iterator[PodClaim]:
    """The claims behind a pod's volumes, in the order of the volumes."""
    for volume in pod.spec.volumes:
        name = volume.claim_name(pod.name)
        if name is not None:
            yield PodClaim(name, volume.persistent_volume_claim is None)


def uses_claim(pod: Pod, claim: PersistentVolumeClaim, *, ephemeral: bool = True) -> bool:
    """Does the pod use the claim? Some plugins look at claims of ephemeral volumes, some do not."""
    return pod.namespace == claim.namespace and any(
        used.name == claim.name and (ephemeral or not used.ephemeral) for used in claims_of(pod)
    )


def not_made_for(pod: Pod, claim: PersistentVolumeClaim) -> str | None:
    """Why the claim of an ephemeral volume must not be used by the pod; None if it may."""
    controller = claim.metadata.controller()
    if (
        claim.namespace == pod.namespace
        and controller is not None
        and controller.uid == pod.metadata.uid
    ):
        return None
    return f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)"


def claim_not_found(name: str) -> str:
    """What upstream's lister says of a claim that does not exist."""
    return f'persistentvolumeclaim "{name}" not found'
