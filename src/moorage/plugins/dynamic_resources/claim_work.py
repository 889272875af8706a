"""Work for the API that synchronous extension points leave behind."""

import msgspec

from moorage.model.devices import ResourceClaim
from moorage.model.pod import Pod


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


ClaimWork = Release | Deallocate | Delete | ClearStatus
