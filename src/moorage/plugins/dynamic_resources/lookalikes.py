"""Nodes that look alike: what one of them gives for a demand, the others give as well.

Nodes are mostly bought in numbers, so their devices differ only in names and in attributes such as
serial numbers. A search reads no names, and only the attributes that selectors and constraints
name: where the devices are alike in the rest, in the same order, and the same ones are in use, it
ends at the same places. Owns saying what a node looks like, and keeping those places for one
demand. Nodes of which a search reads more have no looks (`NodePools.layout`) and are searched one
by one.
"""

from typing import Literal, NamedTuple

from moorage.plugins.dynamic_resources.allocator import Chosen
from moorage.plugins.dynamic_resources.capacity import Amount
from moorage.plugins.dynamic_resources.pools import NodePools
from moorage.plugins.dynamic_resources.records import Layout
from moorage.plugins.dynamic_resources.requests import RequestPlan
from moorage.plugins.dynamic_resources.selectors import Reads
from moorage.plugins.dynamic_resources.usage import DeviceUsage

_MOST_SIGHTS = 1024

ClaimsChoice = tuple[tuple[Chosen, ...], ...]
"""The devices chosen, per claim."""
Sight = tuple[Layout, tuple[int, ...]]
"""What the devices of a node are like, and the places of those in use."""


class Spot(NamedTuple):
    """A choice without the device's name: its place among the devices of the node."""

    request: RequestPlan
    place: int
    consumed: dict[str, Amount]


Spots = tuple[tuple[Spot, ...], ...]
"""The spots chosen, per claim."""


class Located(NamedTuple):
    """A choice by places, to be looked up when the node is taken: of many, one is."""

    spots: Spots
    pools: NodePools

    def devices(self) -> ClaimsChoice:
        """The devices chosen."""
        found = self.pools.devices
        return tuple(
            tuple(Chosen(spot.request, found[spot.place][0], spot.consumed) for spot in claim)
            for claim in self.spots
        )


def sight_of(pools: NodePools, usage: DeviceUsage, reads: Reads) -> Sight | None:
    """What a node looks like just now; None if a search must look at it more closely."""
    layout = pools.layout(reads)
    if layout is None:
        return None
    changed_at = 0
    for pool in pools.pools:
        changed_at = max(changed_at, usage.changed_at.get(pool.id, 0))
    if not changed_at:
        return layout.unused
    if pools.used_as_of != changed_at:
        pools.used_as_of, pools.used_places = changed_at, _used_places(pools, usage)
    used = pools.used_places
    return None if used is None else (layout, used)


def _used_places(pools: NodePools, usage: DeviceUsage) -> tuple[int, ...] | None:
    """The places of devices in use; None if one of them is shared."""
    used = []
    for place, (device, _) in enumerate(pools.devices):
        if device.id in usage.capacity:
            return None
        if device.id in usage.dedicated:
            used.append(place)
    return tuple(used)


class Lookalikes:
    """Outcomes of one demand by looks; they stay true whatever becomes of the nodes."""

    def __init__(self) -> None:
        self._known: dict[Sight, Spots | None] = {}

    def keep(self, sight: Sight, pools: NodePools, chosen: ClaimsChoice | None) -> None:
        """A search on a node that looks like this has ended so."""
        if len(self._known) >= _MOST_SIGHTS:
            self._known.clear()
        if chosen is None:
            self._known[sight] = None
            return
        places = {device.id: place for place, (device, _) in enumerate(pools.devices)}
        self._known[sight] = tuple(
            tuple(Spot(one.request, places[one.device.id], one.consumed) for one in devices)
            for devices in chosen
        )

    def recall(self, sight: Sight, pools: NodePools) -> Located | Literal[False] | None:
        """The same choice out of another node's devices; False if none like it was searched."""
        spots: Spots | Literal[False] | None = self._known.get(sight, False)
        return spots if spots is None or spots is False else Located(spots, pools)
