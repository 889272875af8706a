"""Work for the API that synchronous extension points leave behind."""

import msgspec

from moorage.model.devices import ResourceClaim


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


ClaimWork = Release | Deallocate | Delete
