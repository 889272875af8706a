"""What DynamicResources asks of the API: a narrow port, and work that synchronous points leave.

Whoever talks to the API implements `ClaimApi`. Claims are passed as the scheduler knows them, and
that is not everything the API stores: an implementation must change only the fields named here.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import msgspec

from moorage.model.devices import ResourceClaim
from moorage.model.pod import Pod
from moorage.plugins.dynamic_resources.extended import RequestMapping


@runtime_checkable
class ClaimApi(Protocol):
    """Reading and writing claims. Refusals are raised as `ApiError`, conflicts included."""

    async def get_claim(self, namespace: str, name: str) -> ResourceClaim:
        """GET a claim."""
        ...

    async def create_claim(self, claim: ResourceClaim) -> ResourceClaim:
        """POST a claim: `generateName`, owners, annotations and spec; returned with its name."""
        ...

    async def update_finalizers(self, claim: ResourceClaim) -> ResourceClaim:
        """Write `metadata.finalizers`, if the claim still has this resource version."""
        ...

    async def update_status(self, claim: ResourceClaim) -> ResourceClaim:
        """Write `allocation`, `reservedFor` and `devices` of the status, likewise."""
        ...

    async def release(self, claim: ResourceClaim, user_uid: str) -> None:
        """Take one user out of `status.reservedFor`, whatever the resource version."""
        ...

    async def delete_claim(self, claim: ResourceClaim) -> None:
        """DELETE a claim."""
        ...

    async def write_extended_claim_status(
        self, pod: Pod, claim_name: str, mappings: Sequence[RequestMapping]
    ) -> None:
        """PATCH `status.extendedResourceClaimStatus` of a pod."""
        ...

    async def report(self, pod: Pod, reason: str, message: str) -> None:
        """Record an event of type Normal, action Scheduling, about a pod."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""
        ...


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
"""What synchronous extension points leave to be written."""
