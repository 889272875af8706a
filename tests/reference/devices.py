"""A naive device allocator: every combination, in order, judged as a whole.

It knows no pools beyond a flat list of devices, and nothing of search: the first combination that
breaks no rule is the answer. Slow, and meant to be seen through at a glance.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product


@dataclass(frozen=True)
class PlainDevice:
    """A device: its name, an attribute, what it draws from one counter, capacity to share."""

    name: str
    colour: str
    draws: int = 0
    shared: int | None = None
    """How much there is to share; None for a device that is given away whole."""


@dataclass(frozen=True)
class PlainRequest:
    """So many devices of some colours; `amount` is what it takes of a shared one."""

    count: int
    colours: frozenset[str]
    amount: int = 1


@dataclass(frozen=True)
class PlainClaim:
    """Requests, each a list of alternatives, and whether all colours must agree, or all differ."""

    requests: tuple[tuple[PlainRequest, ...], ...]
    alike: bool = False
    unlike: bool = False


@dataclass
class World:
    """The devices of a node in the order they are tried, the counter, and what is in use."""

    devices: Sequence[PlainDevice]
    counter: int
    used: set[str] = field(default_factory=set)


Choice = tuple[tuple[str, ...], ...]
"""Per claim the devices' names, request after request."""


def first_allocation(world: World, claims: Sequence[PlainClaim]) -> Choice | None:
    """The first combination that breaks no rule."""
    for picked in _combinations(world, claims):
        if _allowed(world, claims, picked):
            return tuple(tuple(d.name for _, devices in claim for d in devices) for claim in picked)
    return None


Picked = tuple[tuple[tuple[PlainRequest, tuple[PlainDevice, ...]], ...], ...]


def _combinations(world: World, claims: Sequence[PlainClaim]) -> Iterator[Picked]:
    options = [
        [
            (request, devices)
            for request in alternatives
            for devices in combinations(world.devices, request.count)
        ]
        for claim in claims
        for alternatives in claim.requests
    ]
    for flat in product(*options):
        rest = iter(flat)
        yield tuple(tuple(next(rest) for _ in claim.requests) for claim in claims)


def _allowed(world: World, claims: Sequence[PlainClaim], picked: Picked) -> bool:
    chosen = [pair for claim in picked for pair in claim]
    every = [(request, d) for request, devices in chosen for d in devices]
    if any(d.colour not in request.colours for request, d in every):
        return False
    whole = Counter(d.name for _, d in every if d.shared is None)
    if any(count > 1 or name in world.used for name, count in whole.items()):
        return False
    taken: Counter[str] = Counter()
    for request, d in every:
        taken[d.name] += request.amount
    if any(d.shared is not None and taken[d.name] > d.shared for _, d in every):
        return False
    drawing = {d.name: d for _, d in every} | {
        d.name: d for d in world.devices if d.name in world.used
    }
    overdrawn = sum(d.draws for d in drawing.values()) > world.counter
    if overdrawn and any(d.draws for _, d in every):  # others' debts do not concern the rest
        return False
    for claim, got in zip(claims, picked, strict=True):
        colours = [d.colour for _, devices in got for d in devices]
        if claim.alike and len(set(colours)) > 1:
            return False
        if claim.unlike and len(set(colours)) < len(colours):
            return False
    return True
