"""NodeResourcesBalancedAllocation: prefer nodes whose resources fill up evenly.

The score is how much the pod improves the balance: the standard deviation of the used fractions
before and after. Floats follow upstream's order of operations.
"""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from moorage.cluster.columns import Ints
from moorage.cluster.derived import EXACT, DerivedColumns, Floats, are_plain, plain_amounts
from moorage.cluster.stamps import Aspect
from moorage.cluster.view import NodeView
from moorage.framework.plugin import (
    MAX_NODE_SCORE,
    Handle,
    PreScorePlugin,
    ScorePlugin,
    SingleRowMixin,
)
from moorage.framework.status import SKIP, Skip
from moorage.model.devices import DeviceClass, ResourceClaim, ResourceSlice
from moorage.model.pod import Pod
from moorage.model.resources import PODS, is_scalar

Requests = tuple[int, ...]

_HALF = MAX_NODE_SCORE // 2
_SHIFT = MAX_NODE_SCORE + _HALF
"""50 + (50 + change) / 2, rounded down, is (150 + change) / 2, rounded down."""


class NodeResourcesBalancedAllocation(
    PreScorePlugin[Requests], ScorePlugin[Requests], SingleRowMixin
):
    """Score 75 if nothing changes, towards 100 if the pod evens the node out, towards 50 if not."""

    name = "NodeResourcesBalancedAllocation"
    reads = (Aspect.ALLOCATABLE, Aspect.REQUESTED)
    looks_up = (DeviceClass, ResourceClaim, ResourceSlice)

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        # Upstream knows no number of pods where it scores: naming them has no effect.
        self._resources = tuple(spec.name for spec in args.resources if spec.name != PODS)
        self._two_plain = len(self._resources) == 2 and not any(map(is_scalar, self._resources))
        self._devices = handle.devices
        self._usage = DerivedColumns(self._usage_of, self._usage_of_row)
        """What is used of both, what is allocatable, and what the balance with a pod is added to;
        if two plain resources are all that counts."""

    def pod_key(self, pod: Pod) -> Hashable | None:
        """What the pod asks for; pods that ask for the same share the object."""
        backed = self._devices.backed_requests(pod)
        if backed and any(name in backed for name in self._resources):
            return None  # the score counts devices, which change without the node
        return pod.requests

    def pre_score(self, pod: Pod, nodes: NodeView) -> Requests | Skip:
        """Pods that ask for nothing are not balanced."""
        requests = self._requests(pod)
        return requests if any(requests) else SKIP

    def score(self, pod: Pod, nodes: NodeView, state: Requests | None) -> Ints:
        """50 + (50 + balance with the pod - balance without it) / 2."""
        requests = self._requests(pod) if state is None else state
        if not any(requests):
            return np.zeros(len(nodes), np.int64)
        usage = self._usage.of(nodes) if self._scores_plain(requests) else None
        if usage is not None:
            return _score_of_two(usage, requests)
        used, total, wanted = [], [], []
        for name, amount in zip(self._resources, requests, strict=True):
            if amount == 0 and is_scalar(name):
                continue
            taken, offered = nodes.requested(name), nodes.allocatable(name)
            if is_scalar(name):
                taken, offered = self._devices.with_devices(name, nodes, taken, offered)
            used.append(taken)
            total.append(offered)
            wanted.append(amount)
        with_pod = _balance([u + w for u, w in zip(used, wanted, strict=True)], total)
        return _HALF + ((_HALF + with_pod - _balance(used, total)) >> 1)

    def _scores_plain(self, requests: Requests) -> bool:
        """Can the pod's part be counted in floats, if that of the nodes can?"""
        return self._two_plain and min(requests) >= 0 and max(requests) < EXACT

    def _usage_of(self, nodes: NodeView) -> Floats | None:
        used = [nodes.requested(name) for name in self._resources]
        total = [nodes.allocatable(name) for name in self._resources]
        amounts = plain_amounts(used, total)
        return None if amounts is None else np.vstack([amounts, _SHIFT - _balance(used, total)])

    def _usage_of_row(self, nodes: NodeView, row: int) -> Sequence[float] | None:
        first, second = amounts = [nodes.amounts_at(row, name) for name in self._resources]
        if not are_plain(amounts):
            return None
        return (first[0], second[0], first[1], second[1], _SHIFT - _balance_of_row(amounts, (0, 0)))

    def score_row(self, pod: Pod, nodes: NodeView, row: int, state: Requests | None) -> int:
        """The usual case, two plain resources, without arrays."""
        requests = self._requests(pod) if state is None else state
        if any(requests) and self._scores_plain(requests):
            amounts = [nodes.amounts_at(row, name) for name in self._resources]
            if are_plain(amounts):
                change = _balance_of_row(amounts, requests) - _balance_of_row(amounts, (0, 0))
                return _HALF + (_HALF + change) // 2
        return super().score_row(pod, nodes, row, state)

    def _requests(self, pod: Pod) -> Requests:
        requests = pod.requests.occupied
        return tuple([requests.get(name, 0) for name in self._resources])


def _balance(requested: Sequence[Ints], allocatable: Sequence[Ints]) -> Ints:
    """(1 - standard deviation of the used fractions) x 100; absent resources take no part."""
    size = len(allocatable[0])
    offered = [total != 0 for total in allocatable]
    fractions: list[Floats] = [
        np.minimum(used / np.maximum(total, 1), 1.0)
        for used, total in zip(requested, allocatable, strict=True)
    ]
    count = np.sum(offered, axis=0)
    deviation: Floats = np.zeros(size, np.float64)
    two = count == 2
    if two.any():
        deviation = np.where(two, _half_difference(fractions, offered), deviation)
    more = count > 2
    if more.any():
        deviation = np.where(more, _deviation(fractions, offered, count), deviation)
    return ((1 - deviation) * MAX_NODE_SCORE).astype(np.int64)


def _balance_of_row(amounts: Sequence[tuple[int, int]], added: Requests) -> int:
    """The balance of one node with requests added, where two plain resources count."""
    difference = 0.0
    for (used, total), amount in zip(amounts, added, strict=True):
        taken = used + amount
        # The sign does not matter, so neither does which fraction is taken from which.
        difference = (taken / total if taken < total else 1.0) - difference
    return int((1 - abs(difference / 2)) * MAX_NODE_SCORE)


def _score_of_two(usage: Floats, requests: Requests) -> Ints:
    """The score where two plain resources count, in few passes."""
    total = usage[2:4]
    fractions = usage[:2] + np.array(requests, np.float64)[:, None]
    np.minimum(fractions, total, out=fractions)
    fractions /= total
    score: Floats = fractions[0]
    score -= fractions[1]
    np.abs(score, out=score)
    # Halving and doubling are exact, so this is (1 - difference / 2) * 100 to the last bit.
    np.subtract(2.0, score, out=score)
    score *= _HALF
    np.floor(score, out=score)
    score += usage[4]
    score *= 0.5
    return score.astype(np.int64)


def _half_difference(fractions: Sequence[Floats], offered: Sequence[Any]) -> Floats:
    first: Floats = np.zeros_like(fractions[0])
    second: Floats = np.zeros_like(fractions[0])
    seen: Ints = np.zeros(len(first), np.int64)
    for fraction, here in zip(fractions, offered, strict=True):
        first = np.where(here & (seen == 0), fraction, first)
        second = np.where(here & (seen == 1), fraction, second)
        seen += here
    return np.abs((first - second) / 2)


def _deviation(fractions: Sequence[Floats], offered: Sequence[Any], count: Ints) -> Floats:
    several = np.maximum(count, 1)
    total: Floats = np.zeros_like(fractions[0])
    for fraction, here in zip(fractions, offered, strict=True):
        total = total + np.where(here, fraction, 0.0)
    mean = total / several
    squares: Floats = np.zeros_like(total)
    for fraction, here in zip(fractions, offered, strict=True):
        squares = squares + np.where(here, (fraction - mean) * (fraction - mean), 0.0)
    return np.sqrt(squares / several)
