"""What the plugin knows of one pod between its extension points."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from moorage.model.devices import AllocationResult, ResourceClaim, ResourceClaimConsumerReference
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.plugins.dynamic_resources.claims import consumer
from moorage.plugins.dynamic_resources.demands import ChosenDevices, ChosenPlaces, Outcome, Outcomes
from moorage.plugins.dynamic_resources.extended_resources import ExtendedResources, NodeClaim
from moorage.plugins.dynamic_resources.node_allocatable import Statuses
from moorage.plugins.errors import NodeAllocationError


class NodeAllocations:
    """What nodes would give to the claims that need allocation; to be asked of feasible ones."""

    def __init__(self) -> None:
        self._found: dict[str, ChosenDevices | ChosenPlaces] = {}
        self._kept: Mapping[str, tuple[Node, Outcome]] = {}

    def __bool__(self) -> bool:
        return bool(self._found or self._kept)

    def get(self, node_name: str) -> ChosenDevices | None:
        """The devices; None if there are not enough, or nothing is known of the node."""
        found: Outcome = self._found.get(node_name)
        if found is None and node_name in self._kept:
            found = self._kept[node_name][1]
        if isinstance(found, ChosenPlaces):
            return found.devices()
        return None if isinstance(found, NodeAllocationError) else found

    def put(self, node_name: str, choice: ChosenDevices | ChosenPlaces) -> None:
        """A node can give these."""
        self._found[node_name] = choice

    def drop(self, node_name: str) -> None:
        """A node is out of the question for another reason."""
        self._found.pop(node_name, None)

    def adopt(self, outcomes: Outcomes) -> None:
        """All that is known of all nodes, as it is just now: they go on changing."""
        self._kept = outcomes.copy()

    def keep_only(self, node_name: str, choice: ChosenDevices) -> None:
        """One node was chosen; the others' choices may be many."""
        self._found, self._kept = {node_name: choice}, {}


@dataclass(slots=True)
class PodNotes:
    """What the plugin's points hand on to one another about a pod, from PreFilter to PreBind."""

    tried: "PodState | None" = None
    """Of a pod of a group, what the latest PreFilter began with and the points after it filled."""
    filtered: "PodState | None" = None
    """What the latest filter found out, until it is reserved."""
    reserved: "PodState | None" = None
    released: dict[str, "PodState"] = field(default_factory=dict)
    """By node. Pods of groups are reserved, all of them are released, and those that go on are
    reserved again without another filter."""

    def meant_on(self, node_name: str) -> "PodState | None":
        """The state to reserve on a node."""
        return self.filtered or self.released.get(node_name)


@dataclass(slots=True)
class PodState:
    """A pod's claims and what was found out about them."""

    pod: Pod
    claims: list[ResourceClaim] = field(default_factory=list)
    """The pod's own, in the order of its spec, then the one for extended resources."""
    extended: ExtendedResources | None = None
    users: list[ResourceClaimConsumerReference] = field(default_factory=list)
    """For whom the claims are reserved, by place; for the pod where nothing is said."""
    pending: dict[int, AllocationResult] = field(default_factory=dict)
    """What another pod of the group, tried just now, is going to write, by place in `claims`."""
    unavailable: set[int] = field(default_factory=set)
    """Claims that are allocated, but not for some node that was looked at."""
    nodes: NodeAllocations = field(default_factory=NodeAllocations)
    """What feasible nodes would give to the claims that need allocation."""
    node_claims: dict[str, NodeClaim] = field(default_factory=dict)
    """The claim for extended resources as each node has to meet it, where nodes differ ..."""
    common_claim: NodeClaim | None = None
    """... and as all of them have to, where they do not."""
    node_statuses: dict[str, Statuses] = field(default_factory=dict)
    """What the claims would take of each node's own resources."""
    status_written: bool = False
    """Set by PreBind: the pod's status tells what its claims take of the node."""
    allocations: dict[int, AllocationResult] = field(default_factory=dict)
    """Set by Reserve: what PreBind is to write, by place in `claims`."""
    reserved: NodeClaim | None = None
    """Set by Reserve: the claim for extended resources as the chosen node has to meet it."""
    extended_uid: str = ""
    """The uid under which the extended claim was promised, before it had a real one."""

    def node_claim_on(self, node_name: str) -> NodeClaim | None:
        """The claim for extended resources as a node has to meet it."""
        return self.node_claims.get(node_name, self.common_claim)

    @property
    def own_claims(self) -> list[ResourceClaim]:
        """Without the claim for extended resources."""
        return self.claims if self.extended is None else self.claims[:-1]

    @property
    def to_allocate(self) -> list[int]:
        """The places of the claims without an allocation."""
        return [
            i
            for i, claim in enumerate(self.claims)
            if claim.status.allocation is None and i not in self.pending
        ]

    def user(self, place: int) -> ResourceClaimConsumerReference:
        """For whom a claim is to be reserved."""
        return self.users[place] if place < len(self.users) else consumer(self.pod)

    def claims_for(self, node_claim: NodeClaim | None) -> list[ResourceClaim]:
        """The claims without an allocation, as a node has to meet them."""
        claims = [self.claims[i] for i in self.to_allocate]
        if node_claim is not None:
            claims[-1] = node_claim.claim
        return claims
