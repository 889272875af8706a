"""The search for the smallest changes: one at a time, then two together.

Changes are looked for only where they can gain something: at nodes that nothing refuses but the
plugins a remedy is about. Every change found is tried out before it is proposed.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from math import log2

import msgspec

from moorage.cluster.columns import Bools, Ints
from moorage.explain.fixes import claims, node_rules, other_pods, pod_rules, ports, requests
from moorage.explain.fixes.changes import (
    ADD_NODE,
    FREE_PORT,
    MOVE_POD,
    RAISE_PRIORITY,
    Change,
    counted,
    edits_of,
    shifts,
)
from moorage.explain.fixes.new_node import add_node
from moorage.explain.fixes.node_rules import CORDON, TAINTS
from moorage.explain.fixes.sandbox import Sandbox
from moorage.explain.report import Fix
from moorage.explain.survey import Survey
from moorage.model.pod import Pod

Propose = Callable[[Sandbox, Pod, Survey, Bools], Iterator[Change]]


class Remedy(msgspec.Struct, frozen=True):
    """Something to do about what some plugins refuse."""

    plugins: tuple[str, ...]
    propose: Propose
    last: bool = False
    """Must everything else be settled before it can be worked out?"""


REMEDIES: tuple[Remedy, ...] = (
    Remedy((pod_rules.GATES,), pod_rules.remove_gates),
    Remedy((node_rules.NODE_NAME,), node_rules.drop_node_name),
    Remedy((TAINTS, CORDON), node_rules.tolerate_taints),
    Remedy((TAINTS, CORDON), node_rules.uncordon),
    Remedy((node_rules.NODE_AFFINITY,), node_rules.relax_node_affinity),
    Remedy((node_rules.NODE_AFFINITY,), node_rules.label_node, last=True),
    Remedy((pod_rules.FEATURES,), pod_rules.need_no_features),
    Remedy((ports.PORTS,), ports.use_other_ports),
    Remedy((ports.PORTS,), ports.free_ports, last=True),
    Remedy((pod_rules.POD_AFFINITY,), pod_rules.drop_pod_affinity),
    Remedy((pod_rules.POD_AFFINITY,), pod_rules.move_opponents, last=True),
    Remedy((pod_rules.SPREAD,), pod_rules.relax_spreading),
    Remedy(claims.VOLUMES, claims.create_storage),
    Remedy((claims.VOLUME_BINDING,), claims.create_volumes, last=True),
    Remedy(claims.VOLUMES, claims.do_without_volumes),
    Remedy((claims.VOLUME_RESTRICTIONS,), other_pods.move_claim_users, last=True),
    Remedy(
        (claims.VOLUME_LIMITS, claims.VOLUME_RESTRICTIONS), other_pods.move_volume_users, last=True
    ),
    Remedy((claims.DEVICES,), claims.create_devices, last=True),
    Remedy((claims.DEVICES,), claims.do_without_devices),
    Remedy((requests.FIT,), requests.lower_requests, last=True),
    Remedy((requests.FIT,), other_pods.make_room, last=True),
)

_AT_ONCE: tuple[tuple[str, ...], ...] = (claims.VOLUMES, (TAINTS, CORDON))
"""Plugins that one change can answer together."""
_EXAMPLES = 3
_MOST_FIRST = 3
_MOST_SECOND = 3
_COSTLY = frozenset({ADD_NODE, RAISE_PRIORITY, MOVE_POD, FREE_PORT})
_MOST_OF_A_KIND = 3


class WorkingChange(msgspec.Struct, frozen=True):
    """A change that works, and where."""

    change: Change
    nodes: Sequence[str]

    @property
    def rank(self) -> tuple[float, int, str]:
        """Little change first; many nodes make up for some of it."""
        gain = min(0.5, 0.1 * log2(len(self.nodes))) if self.nodes else 0.0
        return (self.change.size - gain, -len(self.nodes), self.change.text)

    def is_beaten_by(self, other: "WorkingChange") -> bool:
        """Does less of the same kind gain all of these nodes?"""
        return (
            other.change.kind == self.change.kind
            and other.change.size <= self.change.size
            and len(other.nodes) >= len(self.nodes)
            and self.change.kind not in _COSTLY
            and set(self.nodes) <= set(other.nodes)
        )


def search(sandbox: Sandbox, limit: int) -> tuple[Fix, ...]:
    """The smallest changes after which some node takes the pod."""
    pod = sandbox.pod
    if pod.terminating or not len(sandbox.state):
        return ()
    survey = sandbox.survey(pod)
    if not survey.count.all() and sandbox.feasible(pod):
        return ()
    found = _single(sandbox, pod, survey, REMEDIES)
    found += _new_nodes(sandbox, pod, survey)
    found += _preempting(sandbox, pod)
    if all(one.change.kind in _COSTLY for one in found):
        for together in (2, 3):
            more = _several(sandbox, pod, survey, together)
            found += more
            if found:
                break
    return tuple(_fix(sandbox, one) for one in _chosen(found, limit))


def _single(
    sandbox: Sandbox,
    pod: Pod,
    survey: Survey,
    remedies: Sequence[Remedy],
    most: int | None = None,
) -> list[WorkingChange]:
    """What one change can do."""
    found: list[WorkingChange] = []
    for remedy in remedies:
        rows = survey.rejected_only_by(remedy.plugins)
        if rows.any() and not sandbox.exhausted:
            found += _tried(sandbox, pod, islice(remedy.propose(sandbox, pod, survey, rows), most))
    return found


def _tried(sandbox: Sandbox, pod: Pod, changes: Iterable[Change]) -> list[WorkingChange]:
    found = []
    for change in changes:
        if sandbox.exhausted:
            break
        nodes = sandbox.gained(pod, change)
        if nodes:
            found.append(WorkingChange(change, nodes))
    return found


def _new_nodes(sandbox: Sandbox, pod: Pod, survey: Survey) -> list[WorkingChange]:
    """The first kind of node of which one more would do; it must take the pod itself."""
    for change in add_node(sandbox, pod, survey):
        if sandbox.exhausted:
            break
        if not sandbox.takes(pod, change):
            continue
        names = {node.name for node in change.nodes}
        nodes = [name for name in sandbox.gained(pod, change) if name in names]
        if nodes:
            return [WorkingChange(change, nodes)]
    return []


def _preempting(sandbox: Sandbox, pod: Pod) -> list[WorkingChange]:
    """What preemption could do for the pod, if it were more important, or does already."""
    change = other_pods.raise_priority(sandbox, pod)
    nodes = sandbox.gained(pod, change) if change is not None else []
    return [WorkingChange(change, nodes)] if change is not None and nodes else []


def _several(sandbox: Sandbox, pod: Pod, survey: Survey, together: int) -> list[WorkingChange]:
    """So many changes, where fewer are not enough."""
    found: list[WorkingChange] = []
    near = _count_at_once(survey) <= together
    for first in REMEDIES:
        rows = near & survey.rejected_by(first.plugins)
        if first.last or not rows.any():
            continue
        for change in islice(first.propose(sandbox, pod, survey, rows), _MOST_FIRST):
            if sandbox.exhausted:
                return found
            found += _after(sandbox, pod, change, together - 1)
    return found


def _count_at_once(survey: Survey) -> Ints:
    """How many plugins reject each row, where those that one change can answer count as one."""
    total = survey.count
    by_plugin = survey.by_plugin
    for plugins in _AT_ONCE:
        for name in plugins:
            if name in by_plugin:
                total -= by_plugin[name]
        total += survey.rejected_by(plugins)
    return total


def _after(sandbox: Sandbox, pod: Pod, first: Change, together: int) -> list[WorkingChange]:
    """What is to be done after a first change."""
    try:
        changed = first.of(pod)
    except (ValueError, LookupError):
        return []
    with sandbox.during(first):
        survey = sandbox.survey(changed)
        if together > 1:
            found = _several(sandbox, changed, survey, together)
        else:
            found = _single(sandbox, changed, survey, REMEDIES, _MOST_SECOND)
    return [_with_first(sandbox, pod, first, one) for one in found]


def _with_first(sandbox: Sandbox, pod: Pod, first: Change, second: WorkingChange) -> WorkingChange:
    """Both changes, or just the second if it gains as much without the first."""
    if not shifts(first.patch, second.change.patch):
        alone = sandbox.gained(pod, second.change)
        if set(second.nodes) <= set(alone):
            return WorkingChange(second.change, alone)
    return WorkingChange(first.then(second.change), second.nodes)


def _chosen(found: Sequence[WorkingChange], limit: int) -> list[WorkingChange]:
    """The best, not too many of one kind as long as there are others."""
    best: list[WorkingChange] = []
    more: list[WorkingChange] = []
    seen: dict[frozenset[str], WorkingChange] = {}
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


def _fix(sandbox: Sandbox, found: WorkingChange) -> Fix:
    change = found.change
    return Fix(
        change=f"{change.text} ({counted(len(found.nodes), 'node')})",
        kind=change.kind,
        nodes_gained=len(found.nodes),
        verified=not sandbox.concerns_extenders(change.of(sandbox.pod)),
        size=round(change.size, 3),
        plugins=change.plugins,
        examples=tuple(found.nodes[:_EXAMPLES]),
        victims=tuple(pod.key for pod in change.gone),
        edits=edits_of(sandbox.pod, change),
    )
