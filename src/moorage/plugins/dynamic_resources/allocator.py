"""Allocating devices on nodes: a search where one is needed, otherwise what is known.

Owns the demands of the claims seen last (`demands`), which change of slices, classes or usage makes
them outdated, and the search on a node that none of them knows about.
"""

from collections import OrderedDict
from collections.abc import Sequence

import msgspec

from moorage.cluster.listers import Lister
from moorage.model.devices import DeviceClass, ResourceClaim
from moorage.model.node import Node
from moorage.plugins.dynamic_resources.claim_plans import ClaimPlan, Features, attributes_read
from moorage.plugins.dynamic_resources.demands import ChosenDevices, Demand, Outcome
from moorage.plugins.dynamic_resources.errors import NodeAllocationError
from moorage.plugins.dynamic_resources.pools import Inventory, RemainingCounters
from moorage.plugins.dynamic_resources.search import DeviceSearch, SearchClock
from moorage.plugins.dynamic_resources.usage import DeviceUsage

_MOST_DEMANDS = 256

_encode = msgspec.msgpack.Encoder().encode


class Allocator:
    """Answers demands on nodes, out of an inventory and the usage of its devices."""

    def __init__(
        self,
        features: Features,
        inventory: Inventory,
        usage: DeviceUsage,
        classes: Lister[DeviceClass],
        clock: SearchClock,
    ) -> None:
        self._clock = clock
        self._features = features
        self._inventory = inventory
        self._usage = usage
        self._classes = classes
        self._counters = RemainingCounters(usage)
        self._demands: OrderedDict[tuple[bytes, ...], Demand] = OrderedDict()
        self._basis = (-1, -1)

    def demand(self, claims: Sequence[ResourceClaim]) -> Demand:
        """The demand of some claims, brought up to date; raises `AllocationError`."""
        self._inventory.refresh()
        basis = (self._inventory.generation, self._classes.generation)
        if basis != self._basis:
            self._basis = basis
            self._demands.clear()
            self._counters.forget()
        key = tuple(
            _encode((claim.spec.devices.requests, claim.spec.devices.constraints))
            for claim in claims
        )
        found = self._demands.get(key)
        if found is None:
            plans = [ClaimPlan(claim, self._features, self._classes.get) for claim in claims]
            reads = attributes_read(plans, self._inventory.selectors)
            found = self._demands[key] = Demand(plans, reads, self._inventory.pools_of, self._usage)
            if len(self._demands) > _MOST_DEMANDS:
                self._demands.popitem(last=False)
        else:
            self._demands.move_to_end(key)
            found.repeated = True
            self._drop_changed(found)
        found.as_of = self._usage.generation
        return found

    def _drop_changed(self, demand: Demand) -> None:
        changed = self._usage.changed_since(demand.as_of)
        if changed is None:
            demand.drop(None)
            return
        for pool in changed:
            names = self._inventory.nodes_reaching(pool)
            demand.drop(names)
            if names is None:
                return

    def allocate(self, demand: Demand, claims: Sequence[ResourceClaim], node: Node) -> Outcome:
        """What the node can give; raises `AllocationError`, and what ends a search early."""
        known = demand.known(node)
        if known is not False:
            return known
        pools = self._inventory.pools_of(node)
        plans = demand.plans
        if any(plan.claim is not claim for plan, claim in zip(plans, claims, strict=True)):
            # Complaints name the claim, so the search is made with plans of these very claims.
            plans = demand.plans = [
                ClaimPlan(claim, self._features, self._classes.get) for claim in claims
            ]
        search = DeviceSearch(
            node, pools, plans, self._features, self._usage, self._counters, self._clock.checkpoint
        )
        outcome: ChosenDevices | NodeAllocationError | None
        try:
            found = search.run()
            outcome = None if found is None else tuple(map(tuple, found))
        except NodeAllocationError as error:
            outcome = error.with_traceback(None)
        demand.keep(node, pools, outcome)
        return outcome
