"""What claims ask for together, and what every node is known to answer.

Pods made from one template bring claims that ask for the same: one `Demand`. Thousands of pods
bring it, and between two of them the devices of a few nodes change hands. Owns everything that is
kept of outcomes, and when it is dropped:

- by node, until the node's labels or the devices in its reach change;
- by what nodes with the same answer have in common (`NodePools.answer_key`), as places among their
  devices. That stays true whatever becomes of the nodes.

`DemandStatus` overlooks all nodes at once. Errors about a claim are never kept: they name it. The
`Allocator` keeps the demands seen last, knows which change of slices, classes or usage makes them
outdated, and searches on a node that a demand knows nothing about.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from moorage.cluster.columns import Rows
from moorage.cluster.listers import Lister
from moorage.cluster.stamps import Aspect, Stamps
from moorage.cluster.view import NodeView
from moorage.model.devices import DeviceClass, ResourceClaim
from moorage.model.node import Node
from moorage.plugins.dynamic_resources.capacity import Amount
from moorage.plugins.dynamic_resources.claim_plans import (
    ClaimPlan,
    RequestPlan,
    attributes_read,
)
from moorage.plugins.dynamic_resources.pools import (
    Inventory,
    NodePools,
    RemainingCounters,
)
from moorage.plugins.dynamic_resources.search import ChosenDevice, DeviceSearch, SearchClock
from moorage.plugins.dynamic_resources.selectors import Reads
from moorage.plugins.dynamic_resources.slices import Features, decides_alike
from moorage.plugins.dynamic_resources.usage import DeviceUsage
from moorage.plugins.errors import NodeAllocationError

UNKNOWN, SHORT, ENOUGH = 0, 1, 2
"""Must be looked at; has not enough devices; has them."""
_MOST_ALIKE = 1024
_DECIDING = (Aspect.LABELS, Aspect.FEATURES)

Codes = NDArray[np.int8]
ChosenDevices = tuple[tuple[ChosenDevice, ...], ...]
"""The devices chosen, per claim."""


class DevicePlace(NamedTuple):
    """A choice without the device's name: its place among the devices of the node."""

    request: RequestPlan
    place: int
    consumed: dict[str, Amount]


Places = tuple[tuple[DevicePlace, ...], ...]
"""The places chosen, per claim."""


class ChosenPlaces(NamedTuple):
    """A choice by places, to be looked up when the node is taken: of many, one is."""

    places: Places
    pools: NodePools

    def devices(self) -> ChosenDevices:
        """The devices chosen."""
        found = self.pools.devices
        return tuple(
            tuple(ChosenDevice(one.request, found[one.place][0], one.consumed) for one in claim)
            for claim in self.places
        )


Outcome = ChosenDevices | ChosenPlaces | NodeAllocationError | None
"""Devices per claim; or why the node is out of the question; None: not enough devices."""
Outcomes = dict[str, tuple[Node, Outcome]]
"""By the node's name, with the node as it was."""


class DemandStatus:
    """What all nodes say to one demand, as far as it is known: a code per row of the cluster state.

    A code says only of which kind an outcome is; the outcomes themselves are kept by name.
    """

    def __init__(self) -> None:
        self._stamps: Stamps | None = None
        """Those of the cluster state that the rows are of."""
        self._as_of = 0
        self._codes: Codes = np.zeros(0, np.int8)
        self._touched: set[str] = set()

    def touch(self, names: Iterable[str]) -> None:
        """The devices of some nodes changed hands."""
        self._touched.update(names)

    def forget(self) -> None:
        """Nothing is known any more."""
        self._stamps = None

    def of(self, nodes: NodeView) -> Codes:
        """The codes of a view's nodes, for the caller to keep."""
        self._follow(nodes)
        return self._codes.copy() if nodes.whole is nodes else self._codes[nodes.rows]

    def settle(self, nodes: NodeView, places: Rows, codes: Codes) -> None:
        """Some nodes of a view were looked at."""
        self._codes[nodes.rows[places]] = codes

    def _follow(self, nodes: NodeView) -> None:
        """Its name, labels and declared features are all of a node that decides over devices."""
        stamps = nodes.stamps
        if stamps is not self._stamps or stamps.latest(Aspect.MEMBERSHIP) > self._as_of:
            self._stamps = stamps
            self._codes = np.zeros(len(stamps.of(Aspect.MEMBERSHIP)), np.int8)
        else:
            for name in self._touched:
                row = nodes.row_of(name)
                if row is not None:
                    self._codes[row] = UNKNOWN
            if max(map(stamps.latest, _DECIDING)) > self._as_of:
                self._codes[stamps.changed_since(_DECIDING, self._as_of)] = UNKNOWN
        self._as_of = stamps.generation
        self._touched.clear()


class Demand:
    """What some claims ask for together, and what nodes answered."""

    def __init__(
        self,
        plans: Sequence[ClaimPlan],
        reads: Reads,
        pools_of: Callable[[Node], NodePools],
        usage: DeviceUsage,
    ) -> None:
        self.plans = plans
        self._pools_of = pools_of
        self._usage = usage
        self._reads = reads
        """The attributes that decide which devices will do; None if all may."""
        self.as_of = 0
        """The generation of `DeviceUsage` up to which changes were followed."""
        self.repeated = False
        """Was it asked for before? Only then is it worth while to keep what each node said."""
        self.outcomes: Outcomes = {}
        self.status = DemandStatus()
        self._alike: dict[Hashable | None, Places | NodeAllocationError | None] = {}
        """By what the nodes have in common."""

    def known(self, node: Node) -> Outcome | Literal[False]:
        """What the node can give if that is known without a search; False if it is not."""
        name = node.metadata.name  # asked for every node
        kept = self.outcomes.get(name)
        if kept is not None and decides_alike(kept[0], node):
            return kept[1]
        pools = self._pools_of(node)
        key = pools.answer_key(self._usage, self._reads)
        if key not in self._alike:
            return False
        found = self._alike[key]
        outcome: Outcome = ChosenPlaces(found, pools) if isinstance(found, tuple) else found
        if self.repeated:
            self.outcomes[name] = (node, outcome)
        return outcome

    def keep(
        self, node: Node, pools: NodePools, outcome: ChosenDevices | NodeAllocationError | None
    ) -> None:
        """A search on the node has ended so."""
        self.outcomes[node.name] = (node, outcome)
        key = pools.answer_key(self._usage, self._reads)
        if key is None:
            return
        if len(self._alike) >= _MOST_ALIKE:
            self._alike.clear()
        if not isinstance(outcome, tuple):
            self._alike[key] = outcome
            return
        places = {device.id: place for place, (device, _) in enumerate(pools.devices)}
        self._alike[key] = tuple(
            tuple(DevicePlace(one.request, places[one.device.id], one.consumed) for one in devices)
            for devices in outcome
        )

    def drop(self, names: Iterable[str] | None) -> None:
        """Some nodes may give something else now; None: any node may."""
        if names is None:
            self.outcomes.clear()
            self.status.forget()
            return
        self.status.touch(names)
        for name in names:
            self.outcomes.pop(name, None)


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
