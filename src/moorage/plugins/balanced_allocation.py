"""NodeResourcesBalancedAllocation: prefer nodes whose resources fill up evenly.

The score is how much the pod improves the balance: the standard deviation of the used fractions
before and after. Floats follow upstream's order of operations.
"""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moorage.cluster.columns import Ints
from moorage.cluster.derived import DerivedColumn
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

Floats = NDArray[np.float64]
Requests = tuple[int, ...]

_HALF = MAX_NODE_SCORE // 2
_EXACT = 2**52
"""Amounts below this are exact as floats, so that Python divides them as NumPy does."""


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
        self._balance_now = DerivedColumn(self._balance_of, self._balance_of_row)
        """How evenly nodes are used without the pod, if two plain resources are all that counts."""

    def pod_key(self, pod: Pod) -> Hashable | None:
        """What the pod asks for; pods that ask for the same share the object."""
        backed = self._devices.backed_requests(pod)
        if any(name in backed for name in self._resources):
            return None  # the score counts devices, which change without the node
        return pod.requests

    def pre_score(self, pod: Pod, nodes: NodeView) -> Requests | Skip:
        """Pods that ask for nothing are not balanced."""
        del nodes
        requests = self._requests(pod)
        return requests if any(requests) else SKIP

    def score(self, pod: Pod, nodes: NodeView, state: Requests | None) -> Ints:
        """50 + (50 + balance with the pod - balance without it) / 2."""
        requests = self._requests(pod) if state is None else state
        if not any(requests):
            return np.zeros(len(nodes), np.int64)
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
        everywhere = self._two_plain and all(
            nodes.allocatable_bounds(name)[0] > 0 for name in self._resources
        )
        without = self._balance_now.of(nodes) if self._two_plain else _balance(used, total)
        together = [u + w for u, w in zip(used, wanted, strict=True)]
        with_pod = _balance_of_two(together, total) if everywhere else _balance(together, total)
        change: Ints = with_pod - without
        change += _HALF
        change >>= 1  # half of it, rounded down
        change += _HALF
        return change

    def _balance_of(self, nodes: NodeView) -> Ints:
        used = [nodes.requested(name) for name in self._resources]
        return _balance(used, [nodes.allocatable(name) for name in self._resources])

    def _balance_of_row(self, nodes: NodeView, row: int) -> int:
        balance = self._plain_balance(nodes, row, (0, 0))
        return int(self._balance_of(nodes.take(np.array([row])))[0]) if balance is None else balance

    def _plain_balance(self, nodes: NodeView, row: int, added: Requests) -> int | None:
        """The balance of one node with requests added; None where that is not simple."""
        difference = 0.0
        for name, amount in zip(self._resources, added, strict=True):
            used, total = nodes.amounts_at(row, name)
            if not 0 < total < _EXACT or not 0 <= used < _EXACT:
                return None
            used += amount
            # The fractions' difference: what the second one leaves of the first.
            difference = (used / total if used < total else 1.0) - difference
        # The sign does not matter, so neither does which fraction was taken from which.
        return int((1 - abs(difference / 2)) * MAX_NODE_SCORE)

    def score_row(self, pod: Pod, nodes: NodeView, row: int, state: Requests | None) -> int:
        """The usual case, two plain resources that the node offers, without arrays."""
        requests = self._requests(pod) if state is None else state
        if not self._two_plain or not all(requests):
            return super().score_row(pod, nodes, row, state)
        without = self._plain_balance(nodes, row, (0, 0))
        with_pod = self._plain_balance(nodes, row, requests)
        if without is None or with_pod is None:
            return super().score_row(pod, nodes, row, state)
        return _HALF + (_HALF + with_pod - without) // 2

    def _requests(self, pod: Pod) -> Requests:
        requests = pod.requests.occupied
        return tuple(requests.get(name, 0) for name in self._resources)


def _balance(requested: Sequence[Ints], allocatable: Sequence[Ints]) -> Ints:
    """(1 - standard deviation of the used fractions) x 100; absent resources take no part."""
    size = len(allocatable[0])
    if len(allocatable) == 2 and size and all(int(total.min()) > 0 for total in allocatable):
        return _balance_of_two(requested, allocatable)
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


def _balance_of_two(requested: Sequence[Ints], allocatable: Sequence[Ints]) -> Ints:
    """The usual case, cpu and memory on every node, in few passes."""
    first, second = (used / total for used, total in zip(requested, allocatable, strict=True))
    np.minimum(first, 1.0, out=first)
    np.minimum(second, 1.0, out=second)
    first -= second
    first /= 2
    np.abs(first, out=first)
    np.subtract(1, first, out=first)
    first *= MAX_NODE_SCORE
    return first.astype(np.int64)


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
