"""Allocating the same demand again and again: what a node can give is kept until it changes.

Pods made from one template bring claims that ask for the same. The outcome on a node depends on
that demand, on the node's pools and on the devices in use there, so it is kept per demand and node
and dropped when one of these changes; nodes that have the same pools or look alike (`lookalikes`)
share one search, and all nodes are overlooked at once (`standings`). Errors are never kept: they
name the claim.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from moorage.cluster.listers import Lister
from moorage.model.devices import DeviceClass, ResourceClaim
from moorage.model.node import Node
from moorage.plugins.dynamic_resources.allocator import CounterBooks, Search
from moorage.plugins.dynamic_resources.lookalikes import (
    ClaimsChoice,
    Located,
    Lookalikes,
    sight_of,
)
from moorage.plugins.dynamic_resources.pools import Inventory, NodePools
from moorage.plugins.dynamic_resources.requests import (
    ClaimPlan,
    Features,
    NodeAllocationError,
)
from moorage.plugins.dynamic_resources.search_clock import SearchClock
from moorage.plugins.dynamic_resources.selectors import Attribute, DeviceSelectors, Reads
from moorage.plugins.dynamic_resources.standings import Standings
from moorage.plugins.dynamic_resources.usage import DeviceUsage

_MOST_DEMANDS = 256

Outcome = ClaimsChoice | Located | NodeAllocationError | None
"""Devices per claim; or why the node is out of the question; None: not enough devices."""
Outcomes = dict[str, tuple[Node, Outcome]]
"""By the node's name, with the node as it was."""
DemandKey = tuple[bytes, ...]

_encode = msgspec.msgpack.Encoder().encode


class Demand:
    """What some claims ask for together, and what nodes answered."""

    def __init__(self, plans: Sequence[ClaimPlan], selectors: DeviceSelectors) -> None:
        self.plans = plans
        self.reads = _reads(plans, selectors)
        """The attributes that decide which devices will do; None if all may."""
        self.as_of = 0
        self.outcomes: Outcomes = {}
        self.by_pools: dict[NodePools, Outcome] = {}
        """What nodes give that share their pools, so that it does not matter which of them."""
        self.standings = Standings()
        self.lookalikes = Lookalikes()
        self.repeated = False
        """Was it asked for before? Only then is it worth while to keep what each node said."""

    def drop(self, names: Iterable[str] | None) -> None:
        """Some nodes may give something else now; None: any node may."""
        self.by_pools.clear()
        if names is None:
            self.outcomes.clear()
            self.standings.forget()
            return
        self.standings.touch(names)
        for name in names:
            self.outcomes.pop(name, None)


def _reads(plans: Sequence[ClaimPlan], selectors: DeviceSelectors) -> Reads:
    found: frozenset[Attribute] = frozenset()
    for plan in plans:
        reads = plan.reads(selectors)
        if reads is None:
            return None
        found |= reads
    return found


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
        self._counters = CounterBooks(usage)
        self._demands: OrderedDict[DemandKey, Demand] = OrderedDict()
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
            found = self._demands[key] = Demand(plans, self._inventory.selectors)
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

    def known(self, demand: Demand, node: Node) -> Outcome | Literal[False]:
        """What the node can give if that is known without a search; False if it is not."""
        name = node.metadata.name
        kept = demand.outcomes.get(name)
        if kept is not None and (kept[0] is node or kept[0].labels == node.labels):
            return kept[1]
        pools = self._inventory.pools_of(node)
        found: Outcome | Literal[False] = demand.by_pools.get(pools, False)
        if found is False:
            sight = sight_of(pools, self._usage, demand.reads)
            if sight is None:
                return False
            found = demand.lookalikes.recall(sight, pools)
        if found is not False and demand.repeated:
            demand.outcomes[name] = (node, found)
        return found

    def allocate(
        self,
        demand: Demand,
        claims: Sequence[ResourceClaim],
        node: Node,
    ) -> Outcome:
        """What the node can give; raises `AllocationError`, and what ends a search early."""
        known = self.known(demand, node)
        if known is not False:
            return known
        pools = self._inventory.pools_of(node)
        sight = sight_of(pools, self._usage, demand.reads)
        plans = demand.plans
        if any(plan.claim is not claim for plan, claim in zip(plans, claims, strict=True)):
            # Complaints name the claim, so the search is made with plans of these very claims.
            plans = demand.plans = [
                ClaimPlan(claim, self._features, self._classes.get) for claim in claims
            ]
        search = Search(
            node,
            pools,
            plans,
            self._features,
            self._usage,
            self._counters,
            self._clock.checkpoint,
        )
        outcome: Outcome
        try:
            found = search.run()
            outcome = None if found is None else tuple(map(tuple, found))
            if sight is not None:
                demand.lookalikes.keep(sight, pools, outcome)
        except NodeAllocationError as error:
            outcome = error.with_traceback(None)
        demand.outcomes[node.name] = (node, outcome)
        if pools.for_any_node:
            demand.by_pools[pools] = outcome
        return outcome
