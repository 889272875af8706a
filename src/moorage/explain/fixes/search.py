"""The search for the smallest changes: one at a time, then two together.

Changes are looked for only where they can gain something: at nodes that nothing refuses but the
plugins a remedy is about. Every change found is tried out before it is proposed.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from math import log2

import msgspec

from moorage.cluster.columns import Bools
from moorage.explain.fixes import (
    affinity,
    devices,
    gates,
    moving,
    node_constraints,
    ports,
    spreading,
    volumes,
)
from moorage.explain.fixes.bench import Bench
from moorage.explain.fixes.changes import (
    ADD_NODE,
    FREE_PORT,
    MOVE_POD,
    RAISE_PRIORITY,
    Change,
    counted,
)
from moorage.explain.fixes.edits import edits_of
from moorage.explain.fixes.new_node import add_node
from moorage.explain.fixes.obstacles import Obstacles, obstacles_of
from moorage.explain.fixes.patches import shifts
from moorage.explain.fixes.priority import raise_priority
from moorage.explain.fixes.requests import PLUGIN as FIT
from moorage.explain.fixes.requests import lower_requests
from moorage.explain.fixes.tolerations import CORDON, TAINTS, tolerate_taints, uncordon
from moorage.explain.report import Fix
from moorage.model.pod import Pod

Propose = Callable[[Bench, Pod, Obstacles, Bools], Iterator[Change]]


class Remedy(msgspec.Struct, frozen=True):
    """Something to do about what some plugins refuse."""

    plugins: tuple[str, ...]
    propose: Propose
    last: bool = False
    """Must everything else be settled before it can be worked out?"""


REMEDIES: tuple[Remedy, ...] = (
    Remedy((gates.GATES,), gates.remove_gates),
    Remedy((node_constraints.NAME,), node_constraints.drop_node_name),
    Remedy((TAINTS, CORDON), tolerate_taints),
    Remedy((TAINTS, CORDON), uncordon),
    Remedy((node_constraints.AFFINITY,), node_constraints.relax_node_affinity),
    Remedy((node_constraints.AFFINITY,), node_constraints.label_node, last=True),
    Remedy((gates.FEATURES,), gates.need_no_features),
    Remedy((ports.PLUGIN,), ports.use_other_ports),
    Remedy((ports.PLUGIN,), ports.free_ports, last=True),
    Remedy((affinity.PLUGIN,), affinity.drop_pod_affinity),
    Remedy((affinity.PLUGIN,), affinity.move_opponents, last=True),
    Remedy((spreading.SPREAD,), spreading.relax_spreading),
    Remedy(volumes.ALL, volumes.create_storage),
    Remedy((volumes.BINDING,), volumes.create_volumes, last=True),
    Remedy(volumes.ALL, volumes.do_without_volumes),
    Remedy((volumes.RESTRICTIONS,), moving.move_claim_users, last=True),
    Remedy((volumes.LIMITS, volumes.RESTRICTIONS), moving.move_volume_users, last=True),
    Remedy((devices.PLUGIN,), devices.create_devices, last=True),
    Remedy((devices.PLUGIN,), devices.do_without_devices),
    Remedy((FIT,), lower_requests, last=True),
    Remedy((FIT,), moving.make_room, last=True),
)

_AT_ONCE: tuple[tuple[str, ...], ...] = (volumes.ALL, (TAINTS, CORDON))
"""Plugins that one change can answer together."""
_EXAMPLES = 3
_MOST_FIRST = 3
_MOST_SECOND = 3
_COSTLY = frozenset({ADD_NODE, RAISE_PRIORITY, MOVE_POD, FREE_PORT})
_MOST_OF_A_KIND = 3


class Found(msgspec.Struct, frozen=True):
    """A change that works, and where."""

    change: Change
    nodes: Sequence[str]

    @property
    def rank(self) -> tuple[float, int, str]:
        """Little change first; many nodes make up for some of it."""
        gain = min(0.5, 0.1 * log2(len(self.nodes))) if self.nodes else 0.0
        return (self.change.size - gain, -len(self.nodes), self.change.text)

    def is_beaten_by(self, other: "Found") -> bool:
        """Does less of the same kind gain all of these nodes?"""
        return (
            other.change.kind == self.change.kind
            and other.change.size <= self.change.size
            and len(other.nodes) >= len(self.nodes)
            and self.change.kind not in _COSTLY
            and set(self.nodes) <= set(other.nodes)
        )


def search(bench: Bench, limit: int) -> tuple[Fix, ...]:
    """The smallest changes after which some node takes the pod."""
    pod = bench.pod
    if pod.terminating or not len(bench.state):
        return ()
    obstacles = obstacles_of(bench, pod)
    if not obstacles.count.all() and bench.feasible(pod):
        return ()
    found = _single(bench, pod, obstacles, REMEDIES)
    found += _new_nodes(bench, pod, obstacles)
    found += _preempting(bench, pod)
    if all(one.change.kind in _COSTLY for one in found):
        for together in (2, 3):
            more = _several(bench, pod, obstacles, together)
            found += more
            if found:
                break
    return tuple(_fix(bench, one) for one in _chosen(found, limit))


def _single(
    bench: Bench,
    pod: Pod,
    obstacles: Obstacles,
    remedies: Sequence[Remedy],
    most: int | None = None,
) -> list[Found]:
    """What one change can do."""
    found: list[Found] = []
    for remedy in remedies:
        rows = obstacles.only(remedy.plugins)
        if rows.any() and not bench.exhausted:
            found += _tried(bench, pod, islice(remedy.propose(bench, pod, obstacles, rows), most))
    return found


def _tried(bench: Bench, pod: Pod, changes: Iterable[Change]) -> list[Found]:
    found = []
    for change in changes:
        if bench.exhausted:
            break
        nodes = bench.gained(pod, change)
        if nodes:
            found.append(Found(change, nodes))
    return found


def _new_nodes(bench: Bench, pod: Pod, obstacles: Obstacles) -> list[Found]:
    """The first kind of node of which one more would do; it must take the pod itself."""
    for change in add_node(bench, pod, obstacles):
        if bench.exhausted:
            break
        if not bench.takes(pod, change):
            continue
        names = {node.name for node in change.nodes}
        nodes = [name for name in bench.gained(pod, change) if name in names]
        if nodes:
            return [Found(change, nodes)]
    return []


def _preempting(bench: Bench, pod: Pod) -> list[Found]:
    """What preemption could do for the pod, if it were more important, or does already."""
    change = raise_priority(bench, pod)
    nodes = bench.gained(pod, change) if change is not None else []
    return [Found(change, nodes)] if change is not None and nodes else []


def _several(bench: Bench, pod: Pod, obstacles: Obstacles, together: int) -> list[Found]:
    """So many changes, where fewer are not enough."""
    found: list[Found] = []
    near = obstacles.count_at_once(_AT_ONCE) <= together
    for first in REMEDIES:
        rows = near & obstacles.refused_by(first.plugins)
        if first.last or not rows.any():
            continue
        for change in islice(first.propose(bench, pod, obstacles, rows), _MOST_FIRST):
            if bench.exhausted:
                return found
            found += _after(bench, pod, change, together - 1)
    return found


def _after(bench: Bench, pod: Pod, first: Change, together: int) -> list[Found]:
    """What is to be done after a first change."""
    try:
        changed = first.of(pod)
    except (ValueError, LookupError):
        return []
    with bench.during(first):
        obstacles = obstacles_of(bench, changed)
        if together > 1:
            found = _several(bench, changed, obstacles, together)
        else:
            found = _single(bench, changed, obstacles, REMEDIES, _MOST_SECOND)
    return [_with_first(bench, pod, first, one) for one in found]


def _with_first(bench: Bench, pod: Pod, first: Change, second: Found) -> Found:
    """Both changes, or just the second if it gains as much without the first."""
    if not shifts(first.patch, second.change.patch):
        alone = bench.gained(pod, second.change)
        if set(second.nodes) <= set(alone):
            return Found(second.change, alone)
    return Found(first.then(second.change), second.nodes)


def _chosen(found: Sequence[Found], limit: int) -> list[Found]:
    """The best, not too many of one kind as long as there are others."""
    best: list[Found] = []
    more: list[Found] = []
    seen: dict[frozenset[str], Found] = {}
    enough = {one.change.text for one in found if not one.change.parts}
    for one in sorted(found, key=lambda one: one.rank):
        if enough.intersection(one.change.parts):
            continue
        if one.change.essence in seen or any(map(one.is_beaten_by, seen.values())):
            continue
        seen[one.change.essence] = one
        alike = sum(other.change.kind == one.change.kind for other in best)
        (best if alike < _MOST_OF_A_KIND else more).append(one)
    return sorted((best + more)[:limit], key=lambda one: one.rank)


def _fix(bench: Bench, found: Found) -> Fix:
    change = found.change
    return Fix(
        change=f"{change.text} ({counted(len(found.nodes), 'node')})",
        kind=change.kind,
        nodes_gained=len(found.nodes),
        verified=not bench.concerns_extenders(change.of(bench.pod)),
        size=round(change.size, 3),
        plugins=change.plugins,
        examples=tuple(found.nodes[:_EXAMPLES]),
        victims=tuple(pod.key for pod in change.gone),
        edits=edits_of(bench.pod, change),
    )
