"""NodeResourcesFit and NodeResourcesBalancedAllocation, one node and one resource at a time."""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise

from moorage.model.pod import Pod
from reference.answers import SKIP, UNRESOLVABLE, UNSCHEDULABLE, Refusal, Skip, truncated
from reference.cluster import NaiveNode

Spec = Sequence[tuple[str, int]]
"""(resource, weight) pairs."""
Shape = Sequence[tuple[int, int]]
"""(utilization in percent, score from 0 to 10) points."""

BASIC = ("cpu", "memory", "ephemeral-storage")


def is_extended(name: str) -> bool:
    """A vendor's resource."""
    return "/" in name and "kubernetes.io/" not in name


def is_scalar(name: str) -> bool:
    """A resource counted beside the basic ones and pods."""
    return "/" in name or name.startswith(("hugepages-", "attachable-volumes-"))


def refuse_unfit(
    pod: Pod,
    info: NaiveNode,
    ignored: Sequence[str] = (),
    ignored_groups: Sequence[str] = (),
) -> Refusal | None:
    """NodeResourcesFit: every shortage is named; one beyond the whole node cannot be cured."""
    offered = info.present().allocatable
    wanted = pod.requests.incoming
    reasons: list[str] = []
    code = UNSCHEDULABLE
    if len(info.pods) + 1 > offered.get("pods", 0):
        reasons.append("Too many pods")
    scalars = sorted(name for name in wanted if is_scalar(name))
    for name in [*BASIC, *scalars]:
        amount = wanted.get(name, 0)
        if amount == 0:
            continue
        if is_extended(name) and (name in ignored or name.split("/")[0] in ignored_groups):
            continue
        total = offered.get(name, 0)
        if amount > total - info.requested(name):
            reasons.append(f"Insufficient {name}")
            if amount > total:
                code = UNRESOLVABLE
    return Refusal(code, tuple(reasons)) if reasons else None


def _considered(info: NaiveNode, name: str, *, with_defaults: bool) -> tuple[int, int]:
    """(allocatable, in use) of a resource as scorers see them; (0, 0) if it does not count."""
    offered = info.present().allocatable
    if name in ("cpu", "memory"):
        used = info.requested_with_defaults(name) if with_defaults else info.requested(name)
        return offered.get(name, 0), used
    if name == "ephemeral-storage" or is_scalar(name):
        return offered.get(name, 0), info.requested(name)
    return 0, 0


# Fit scoring

Strategy = Callable[[int, int], int]


def least_allocated(requested: int, capacity: int) -> int:
    """The free share in percent."""
    return 0 if requested > capacity else truncated((capacity - requested) * 100, capacity)


def most_allocated(requested: int, capacity: int) -> int:
    """The used share in percent."""
    return truncated(min(requested, capacity) * 100, capacity)


def on_shape(shape: Shape, percent: int) -> int:
    """A point on the broken line, scores being ten times those of the configuration."""
    points = [(utilization, score * 10) for utilization, score in shape]
    if percent <= points[0][0]:
        return points[0][1]
    for (x0, y0), (x1, y1) in pairwise(points):
        if percent <= x1:
            return y0 + truncated((y1 - y0) * (percent - x0), x1 - x0)
    return points[-1][1]


def score_fit(pod: Pod, info: NaiveNode, spec: Spec, strategy: str, shape: Shape = ()) -> int:
    """NodeResourcesFit: the weighted mean of what the strategy says of each resource."""
    wanted = pod.requests.incoming_with_defaults
    total = weights = 0
    for name, weight in spec:
        amount = wanted.get(name, 0) if name in BASIC or is_scalar(name) else 0
        if amount == 0 and is_scalar(name):
            continue
        capacity, used = _considered(info, name, with_defaults=True)
        if capacity == 0:
            continue
        requested = used + amount
        if strategy == "LeastAllocated":
            points = least_allocated(requested, capacity)
        elif strategy == "MostAllocated":
            points = most_allocated(requested, capacity)
        else:
            percent = 100 if requested > capacity else truncated(requested * 100, capacity)
            points = on_shape(shape, percent)
            if points == 0:
                continue
        total += points * weight
        weights += weight
    if weights == 0:
        return 0
    if strategy == "RequestedToCapacityRatio":
        return math.floor(Fraction(total, weights) + Fraction(1, 2))
    return truncated(total, weights)


# Balanced allocation


def _balance(shares: Sequence[tuple[int, int]]) -> int:
    fractions = [min(float(used) / float(capacity), 1.0) for used, capacity in shares]
    deviation = 0.0
    if len(fractions) == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    elif len(fractions) > 2:
        total = 0.0
        for fraction in fractions:
            total += fraction
        mean = total / len(fractions)
        squares = 0.0
        for fraction in fractions:
            squares = squares + (fraction - mean) * (fraction - mean)
        deviation = math.sqrt(squares / len(fractions))
    return int((1 - deviation) * 100.0)


def score_balance(pod: Pod, info: NaiveNode, resources: Sequence[str]) -> int | Skip:
    """NodeResourcesBalancedAllocation: how much more even the node would be with the pod."""
    wanted = pod.requests.occupied
    amounts = {
        name: wanted.get(name, 0) if name in BASIC or is_scalar(name) else 0 for name in resources
    }
    if not any(amounts.values()):
        return SKIP
    before: list[tuple[int, int]] = []
    after: list[tuple[int, int]] = []
    for name in resources:
        if amounts[name] == 0 and is_scalar(name):
            continue
        capacity, used = _considered(info, name, with_defaults=False)
        if capacity:
            before.append((used, capacity))
            after.append((used + amounts[name], capacity))
    return 50 + truncated(50 + _balance(after) - _balance(before), 2)
