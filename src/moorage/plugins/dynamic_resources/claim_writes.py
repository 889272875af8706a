"""Claims to be released, deallocated or deleted: left by extension points that must not write."""

import msgspec

from moorage.errors import ApiError
from moorage.framework.plugin import ApiPort
from moorage.model.devices import DELETE_PROTECTION, ResourceClaim, ResourceClaimStatus
from moorage.model.pod import Pod

CONFLICT_TRIES = 5
CONFLICT_WAIT = 0.01


class Release(msgspec.Struct, frozen=True):
    """A pod came to nothing: it no longer uses the claim."""

    claim: ResourceClaim
    user_uid: str


class Deallocate(msgspec.Struct, frozen=True):
    """A claim's devices are in the way: give them back."""

    claim: ResourceClaim


class Delete(msgspec.Struct, frozen=True):
    """A claim made for extended resources is of no use any more."""

    claim: ResourceClaim


class ClearStatus(msgspec.Struct, frozen=True):
    """A pod's status tells what its claims take of a node, and it did not get there."""

    pod: Pod

    @property
    def claim(self) -> Pod:
        """What the work is about, for messages."""
        return self.pod


ClaimWrite = Release | Deallocate | Delete | ClearStatus


async def write(work: ClaimWrite, api: ApiPort) -> None:
    """Write what a synchronous extension point left; raises `ApiError`."""
    match work:
        case Release(claim, user_uid):
            await api.release_claim(claim, user_uid)
        case Deallocate(claim):
            blank = msgspec.structs.replace(claim, status=ResourceClaimStatus())
            await api.update_claim_status(blank)
        case Delete(claim):
            await _delete(claim, api)
        case ClearStatus(pod):
            await api.write_node_allocatable_claims(pod, ())


async def _delete(claim: ResourceClaim, api: ApiPort) -> None:
    """The finalizer has to go first, or the claim would stay."""
    for attempt in range(CONFLICT_TRIES):
        if attempt:
            await api.sleep(CONFLICT_WAIT)
            claim = await api.get_claim(claim.namespace, claim.name)
        left = tuple(name for name in claim.metadata.finalizers if name != DELETE_PROTECTION)
        metadata = msgspec.structs.replace(claim.metadata, finalizers=left)
        try:
            await api.update_claim_finalizers(msgspec.structs.replace(claim, metadata=metadata))
            break
        except ApiError as error:
            if not error.is_conflict or attempt == CONFLICT_TRIES - 1:
                raise
    try:
        await api.delete_claim(claim)
    except ApiError as error:
        if not error.is_not_found:
            raise
