"""An API that stores claims in the listers, as a watch would show them, and may refuse."""

from collections.abc import Callable, Sequence

import msgspec

from moorage.cluster.state import ClusterState
from moorage.errors import ApiError
from moorage.framework.plugin import ApiPort
from moorage.model.devices import ResourceClaim
from moorage.model.pod import ContainerExtendedResourceRequest, Pod


class FakeApi(ApiPort):
    """Stores what is written; `shows` says whether the watch shows it at once."""

    def __init__(self, state: ClusterState, *, shows: bool = True) -> None:
        self._claims = state.listers.of(ResourceClaim)
        self.stored = {claim.key: claim for claim in self._claims}
        self.shows = shows
        self.time = 1000.0
        self.written: list[str] = []
        self.events: list[str] = []
        self.mappings: list[tuple[str, str, str]] = []
        self.refuse: dict[str, list[ApiError]] = {}
        self.when_time_passes: Callable[[FakeApi], None] = lambda _: None

    async def bind(self, pod: Pod, node_name: str) -> None:
        raise AssertionError("claims are written before pods are bound")

    async def get_claim(self, namespace: str, name: str) -> ResourceClaim:
        return self.stored[f"{namespace}/{name}"]

    async def create_claim(self, claim: ResourceClaim) -> ResourceClaim:
        self._act("create", claim)
        name = f"{claim.metadata.generate_name}abc"
        metadata = msgspec.structs.replace(claim.metadata, name=name, uid=f"uid-{name}")
        return self._store(msgspec.structs.replace(claim, metadata=metadata))

    async def update_claim_finalizers(self, claim: ResourceClaim) -> ResourceClaim:
        self._act("finalizers", claim)
        return self._store(claim)

    async def update_claim_status(self, claim: ResourceClaim) -> ResourceClaim:
        self._act("status", claim)
        return self._store(claim)

    async def release_claim(self, claim: ResourceClaim, user_uid: str) -> None:
        self._act(f"release {user_uid}", claim)

    async def delete_claim(self, claim: ResourceClaim) -> None:
        self._act("delete", claim)
        self._claims.remove(self.stored.pop(claim.key))

    async def write_extended_claim(
        self, pod: Pod, claim_name: str, mappings: Sequence[ContainerExtendedResourceRequest]
    ) -> None:
        self.written.append(f"extended {claim_name}")
        self.mappings += [(m.container_name, m.resource_name, m.request_name) for m in mappings]

    def report(self, pod: Pod, reason: str, message: str) -> None:
        self.events.append(f"{reason}: {message}")

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += seconds
        self.when_time_passes(self)

    def show(self, claim: ResourceClaim) -> None:
        """Somebody else writes a claim, and the watch shows it."""
        self._claims.put(self._store(claim))

    def show_all(self) -> None:
        """The watch catches up."""
        for claim in self.stored.values():
            self._claims.put(claim)

    def _act(self, verb: str, claim: ResourceClaim) -> None:
        refusals = self.refuse.get(verb)
        if refusals:
            raise refusals.pop(0)
        self.written.append(f"{verb} {claim.name or claim.metadata.generate_name}")

    def _store(self, claim: ResourceClaim) -> ResourceClaim:
        version = str(int(claim.metadata.resource_version or "0") + 1)
        metadata = msgspec.structs.replace(claim.metadata, resource_version=version)
        claim = self.stored[claim.key] = msgspec.structs.replace(claim, metadata=metadata)
        if self.shows:
            self._claims.put(claim)
        return claim
