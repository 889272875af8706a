"""What the plugin knows of one pod between its extension points."""

from dataclasses import dataclass, field

from moorage.model.devices import AllocationResult, ResourceClaim
from moorage.model.pod import Pod
from moorage.plugins.dynamic_resources.allocator import Chosen
from moorage.plugins.dynamic_resources.extended import ExtendedResources, NodeClaim
from moorage.plugins.dynamic_resources.results import allocation_result


@dataclass(frozen=True, slots=True)
class NodeAllocation:
    """What a feasible node would give to the claims that need allocation."""

    claims: tuple[ResourceClaim, ...]
    chosen: tuple[tuple[Chosen, ...], ...]
    """Per claim."""
    node_claim: NodeClaim | None = None

    def results(self, node_name: str) -> list[AllocationResult]:
        """The allocations as claims store them."""
        return [
            allocation_result(claim, chosen, node_name)
            for claim, chosen in zip(self.claims, self.chosen, strict=True)
        ]


@dataclass(slots=True)
class PodState:
    """A pod's claims and what was found out about them."""

    pod: Pod
    claims: list[ResourceClaim] = field(default_factory=list)
    """The pod's own, in the order of its spec, then the one for extended resources."""
    extended: ExtendedResources | None = None
    unavailable: set[int] = field(default_factory=set)
    """Claims that are allocated, but not for some node that was looked at."""
    nodes: dict[str, NodeAllocation] = field(default_factory=dict)
    allocations: dict[int, AllocationResult] = field(default_factory=dict)
    """Set by Reserve: what PreBind is to write, by place in `claims`."""
    reserved: NodeAllocation | None = None
    extended_uid: str = ""
    """The uid under which the extended claim was promised, before it had a real one."""

    @property
    def own_claims(self) -> list[ResourceClaim]:
        """Without the claim for extended resources."""
        return self.claims if self.extended is None else self.claims[:-1]

    @property
    def to_allocate(self) -> list[int]:
        """The places of the claims without an allocation."""
        return [i for i, claim in enumerate(self.claims) if claim.status.allocation is None]
