"""NodeResourcesFit: does the node have what the pod asks for, and how full would it be?"""

from collections.abc import Hashable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from moorage.cluster.columns import Bools, Ints
from moorage.cluster.derived import EXACT, DerivedColumns, Floats, are_plain, plain_amounts
from moorage.cluster.pod_groups import GroupKey
from moorage.cluster.stamps import Aspect
from moorage.cluster.view import NodeView
from moorage.framework.cluster_events import ActionType, EventRegistration, EventResource, on
from moorage.framework.placements import Assignments, PlacementScorePlugin
from moorage.framework.plugin import (
    FilterPlugin,
    Handle,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    ScorePlugin,
    SingleRowMixin,
)
from moorage.framework.status import Code, Reason, Status, Verdicts
from moorage.model.devices import DEVICE_CLASS_PREFIX, DeviceClass, ResourceClaim, ResourceSlice
from moorage.model.meta import ApiObject
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, is_extended, is_scalar
from moorage.plugins.node_resources_fit.strategies import (
    NodeShares,
    most_allocated,
    plain_scorer,
    row_scorer,
    strategy_scorer,
)

BASIC = (CPU, MEMORY, EPHEMERAL_STORAGE)
_CHECKED_FIRST = frozenset((*BASIC, PODS))
# A pod that asks for more resources is told only of those that are short somewhere.
_MOST_NAMED = 28


Wanted = tuple[tuple[str, int], ...]
"""Resources and amounts."""


class NodeResourcesFit(
    PreFilterPlugin[Wanted],
    FilterPlugin[Wanted],
    PreScorePlugin[Wanted],
    ScorePlugin[Wanted],
    PlacementScorePlugin,
    SingleRowMixin,
):
    """Refuse nodes with too little left; score by the configured strategy."""

    name = "NodeResourcesFit"
    reads = (Aspect.ALLOCATABLE, Aspect.REQUESTED)
    looks_up = (DeviceClass, ResourceClaim, ResourceSlice)
    too_many_pods = Reason("Too many pods")

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._ignored = frozenset(args.ignored_resources)
        self._ignored_groups = frozenset(args.ignored_resource_groups)
        # Upstream knows no number of pods where it scores: naming them has no effect.
        # One that is named twice counts with both weights.
        self._weights: dict[str, int] = {}
        for spec in args.scoring_strategy.resources:
            if spec.name != PODS:
                self._weights[spec.name] = self._weights.get(spec.name, 0) + spec.weight
        self._resources = tuple(self._weights.items())
        self._scalars = frozenset(filter(is_scalar, self._weights))
        self._scorer = strategy_scorer(args.scoring_strategy)
        self._row_scorer = row_scorer(args.scoring_strategy)
        self._plain_scorer = plain_scorer(args.scoring_strategy)
        self._plain = tuple(name for name in self._weights if not is_scalar(name))
        self._usage = DerivedColumns(self._usage_of, self._usage_of_row)
        """What is used of each plain resource, and what is allocatable."""
        self._devices = handle.devices

    def pod_key(self, pod: Pod) -> Hashable | None:
        """What the pod asks for; pods that ask for the same share the object."""
        if len(pod.requests.incoming) > _MOST_NAMED:
            return None  # the order of its reasons depends on all rows
        backed = self._devices.backed_requests(pod)
        if not backed:
            return pod.requests
        if any(name in backed for name, _ in self._resources):
            return None  # the score counts devices, which change without the node
        return pod.requests, backed

    def pre_filter(self, pod: Pod, nodes: NodeView) -> PreFilterResult[Wanted]:
        """Every pod needs at least a place, so this plugin never skips."""
        return PreFilterResult(self._checked(pod))

    def filter(self, pod: Pod, nodes: NodeView, state: Wanted | None) -> Verdicts:
        """All shortages of a node are named, not only the first."""
        wanted = self._checked(pod) if state is None else state
        reasons = [self.too_many_pods]
        for name, _ in wanted if len(wanted) <= _MOST_NAMED else ():
            reasons += _shortages(name)
        verdicts = Verdicts(len(nodes), reasons)
        full = nodes.pod_count >= nodes.allocatable(PODS)
        if full.any():
            verdicts.reject(full, self.too_many_pods)
        for name, amount in wanted:
            total = nodes.allocatable(name)
            lacking: Bools = amount > total - nodes.requested(name)
            if not lacking.any():
                continue
            if self._devices.backs(name):
                lacking &= total != 0  # DynamicResources decides about the others
            too_small = amount > total
            too_small &= lacking
            lacking ^= too_small
            for where, reason in zip((lacking, too_small), _shortages(name), strict=True):
                if where.any():
                    verdicts.reject(where, reason)
        return verdicts

    def rejects_row(self, pod: Pod, nodes: NodeView, row: int, state: Wanted | None) -> bool:
        """The same for one node, without arrays."""
        if nodes.pod_count_at(row) >= nodes.amounts_at(row, PODS)[1]:
            return True
        for name, amount in self._checked(pod) if state is None else state:
            used, total = nodes.amounts_at(row, name)
            if used < 0 or total < 0:
                return super().rejects_row(pod, nodes, row, state)  # where differences wrap around
            if amount > total - used and not (total == 0 and self._devices.backs(name)):
                return True
        return False

    def pre_score(self, pod: Pod, nodes: NodeView) -> Wanted:
        """What counts of the pod's requests; the plugin never skips."""
        return self._scored(pod)

    def score_row(self, pod: Pod, nodes: NodeView, row: int, state: Wanted | None) -> int:
        """How full one node would be, without arrays."""
        scored = self._scored(pod) if state is None else state
        if self._row_scorer is not None and self._scores_plain(scored):
            amounts = [_amounts_at(name, nodes, row) for name in self._plain]
            if are_plain(amounts):
                shares = [
                    (used + wanted, total, self._weights[name])
                    for (used, total), (name, wanted) in zip(amounts, scored, strict=True)
                ]
                return self._row_scorer(shares)
        return super().score_row(pod, nodes, row, state)

    def score(self, pod: Pod, nodes: NodeView, state: Wanted | None) -> Ints:
        """How full the node would be, by the strategy."""
        scored = self._scored(pod) if state is None else state
        if not scored:
            return np.zeros(len(nodes), np.int64)
        usage = None
        if self._plain_scorer is not None and self._scores_plain(scored):
            usage = self._usage.of(nodes)
        if self._plain_scorer is not None and usage is not None:
            wanted = [amount for _, amount in scored]
            return self._plain_scorer(usage, wanted, [self._weights[name] for name in self._plain])
        shares = []
        for name, amount in scored:
            used, total = _used(name, nodes), nodes.allocatable(name)
            if is_scalar(name):
                used, total = self._devices.with_devices(name, nodes, used, total)
            shares.append(NodeShares(used + amount, total, self._weights[name]))
        return self._scorer(shares)

    def _scores_plain(self, scored: Wanted) -> bool:
        """Can the pod's part be counted in floats, if that of the nodes can?"""
        amounts = [amount for _, amount in scored]
        if not amounts or len(amounts) != len(self._plain):
            return False
        return min(amounts) >= 0 and max(amounts) < EXACT

    def _usage_of(self, nodes: NodeView) -> Floats | None:
        used = [_used(name, nodes) for name in self._plain]
        return plain_amounts(used, [nodes.allocatable(name) for name in self._plain])

    def _usage_of_row(self, nodes: NodeView, row: int) -> Sequence[float] | None:
        amounts = [_amounts_at(name, nodes, row) for name in self._plain]
        if not are_plain(amounts):
            return None
        used, total = zip(*amounts, strict=True)
        return (*used, *total)

    def score_placement(
        self, group: GroupKey, assignments: Assignments, nodes: NodeView
    ) -> int | Status:
        """How full the placement would be as a whole; the fuller the better, by any strategy."""
        shares = []
        for name, weight in self._resources:
            wanted = sum(
                pod.requests.incoming_with_defaults.get(name, 0) for pod in assignments.pods
            )
            if wanted == 0 and is_scalar(name):
                continue
            used, total = _used(name, nodes), nodes.allocatable(name)
            # What is used of a resource that the node does not offer does not count.
            taken = wanted + int(used[total != 0].sum())
            shares.append(
                NodeShares(np.array([taken]), np.array([int(total.sum())], np.int64), weight)
            )
        return int(most_allocated(shares)[0]) if shares else 0

    def _scored(self, pod: Pod) -> Wanted:
        """The resources that are scored, and what the pod would add."""
        requests = pod.requests.incoming_with_defaults
        scored = [(name, requests.get(name, 0)) for name, _ in self._resources]
        return tuple([one for one in scored if one[1] or one[0] not in self._scalars])

    def _checked(self, pod: Pod) -> Wanted:
        """The resources to check, in the order their reasons are listed."""
        requests = pod.requests.incoming
        first = [name for name in BASIC if requests.get(name, 0) > 0]
        others = [name for name in sorted(requests.keys() - _CHECKED_FIRST) if requests[name]]
        checked = [*first, *(name for name in others if not self._is_ignored(name))]
        return tuple([(name, requests[name]) for name in checked])

    def _is_ignored(self, name: str) -> bool:
        return is_extended(name) and (
            name in self._ignored or name.split("/", 1)[0] in self._ignored_groups
        )

    def events_to_register(self) -> Sequence[EventRegistration]:
        """Room made by pods, more room on a node, or devices that may stand for a resource."""
        freed = ActionType.DELETE | ActionType.UPDATE_POD_SCALE_DOWN
        grown = ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE
        events = [
            on(EventResource.ASSIGNED_POD, freed, _after_pod_change),
            on(EventResource.TARGET_POD, ActionType.UPDATE_POD_SCALE_DOWN),
            on(EventResource.NODE, grown, self._after_node_change),
        ]
        if self.handle.gates.enabled("DRAExtendedResource"):
            change = ActionType.ADD | ActionType.UPDATE
            events.append(on(EventResource.DEVICE_CLASS, change, _after_class_change))
        return events

    def _after_node_change(self, pod: Pod, old: ApiObject | None, new: ApiObject | None) -> bool:
        if not isinstance(new, Node):
            return False
        wanted = dict(_wanted_at_all(pod))
        offered = new.allocatable
        delegated = {
            name for name in wanted if not offered.get(name, 0) and self._devices.backs(name)
        }
        if offered.get(PODS, 0) < 1 or any(
            offered.get(name, 0) < amount
            for name, amount in wanted.items()
            if name not in delegated
        ):
            return False
        if isinstance(old, Node) and not delegated:
            grown = (
                offered.get(name, 0) > old.allocatable.get(name, 0) for name in (PODS, *wanted)
            )
            if not any(grown):
                return False
        return True


def _after_pod_change(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> bool:
    if not isinstance(old, Pod):
        return False
    if new is None:
        return bool(old.spec.node_name or old.status.nominated_node_name)
    if not isinstance(new, Pod):
        return False
    before, after = old.requests.occupied, new.requests.occupied
    return bool(new.spec.node_name) and any(
        after.get(name, 0) < before.get(name, 0) for name, _ in _wanted_at_all(pod)
    )


def _after_class_change(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> bool:
    if not isinstance(new, DeviceClass):
        return False
    wanted = pod.requests.incoming
    name = new.spec.extended_resource_name
    if isinstance(old, DeviceClass):
        if (old.spec.extended_resource_name or "") == (name or ""):
            return False
    elif DEVICE_CLASS_PREFIX + new.name in wanted:
        return True
    return name is not None and name in wanted


def _wanted_at_all(pod: Pod) -> Iterator[tuple[str, int]]:
    """Hints look at every resource the pod asks for, ignored ones included."""
    return ((name, v) for name, v in pod.requests.incoming.items() if v and name != PODS)


@lru_cache(maxsize=256)
def _shortages(name: str) -> tuple[Reason, Reason]:
    """Why a node is refused that has too little left of a resource, or too little at all."""
    text = f"Insufficient {name}"
    return Reason(text), Reason(text, Code.UNRESOLVABLE)


def _used(name: str, nodes: NodeView) -> Ints:
    """What counts as used of a resource where nodes are scored."""
    if name in (CPU, MEMORY):
        return nodes.requested_with_defaults(name)
    return nodes.requested(name)


def _amounts_at(name: str, nodes: NodeView, row: int) -> tuple[int, int]:
    """The same for one node, and what is allocatable there."""
    if name in (CPU, MEMORY):
        return nodes.amounts_with_defaults_at(row, name)
    return nodes.amounts_at(row, name)
