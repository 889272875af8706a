"""Asking for less: the largest requests with which a node has room.

Amounts come from the columns: what is left on each node that refuses the pod for want of resources
alone. How a lower total is shared out among a pod's containers is here, too: the one that has to
give up least of what it asks for, and all of them in proportion if no one alone will do.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np

from moorage.cluster.columns import Bools, Ints
from moorage.explain.fixes.changes import (
    LOWER_REQUEST,
    Change,
    Operation,
    add,
    containers_of,
    failing_together,
    patched,
)
from moorage.explain.fixes.sandbox import Sandbox
from moorage.explain.survey import Survey
from moorage.model.pod import Pod, ResourceRequirements
from moorage.model.pod_requests import requests_without_pod_level
from moorage.model.quantity import parse_milli, whole
from moorage.model.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    is_extended,
    is_hugepages,
    is_pod_level,
)

_KI = 1024
_MI = _KI * 1024
_GI = _MI * 1024

_CPU_STEPS = (1000, 500, 250, 100, 50, 10, 5)
_BYTE_STEPS = (_GI, _GI // 2, _GI // 4, 64 * _MI, 16 * _MI, 4 * _MI, _MI, _KI)
_WORTH = 0.03
"""Rounding may cost so much of an amount."""


def amount_of(resource: str, quantity: str | int | float) -> int:
    """A quantity in the scheduler's unit of the resource."""
    milli = parse_milli(quantity)
    return milli if resource == CPU else whole(milli)


def in_bytes(resource: str) -> bool:
    """Is the resource counted in bytes?"""
    return resource in (MEMORY, EPHEMERAL_STORAGE) or is_hugepages(resource)


def tidy(resource: str, amount: int) -> int:
    """The amount, or a little less, if that looks better."""
    if is_hugepages(resource):
        return amount - amount % page_size(resource)
    steps = _CPU_STEPS if resource == CPU else _BYTE_STEPS if in_bytes(resource) else ()
    for step in steps:
        rounded = amount - amount % step
        if rounded > 0 and amount - rounded <= _WORTH * amount:
            return rounded
    return amount


def page_size(resource: str) -> int:
    """The size in the name of a huge page; its requests are multiples of it."""
    try:
        return max(1, amount_of(resource, resource.removeprefix("hugepages-")))
    except ValueError:
        return 1


def quantity_text(resource: str, amount: int) -> str:
    """An amount in the scheduler's unit, as the API writes it."""
    if resource == CPU:
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if in_bytes(resource) and amount:
        for suffix, size in (("Gi", _GI), ("Mi", _MI), ("Ki", _KI)):
            if amount % size == 0:
                return f"{amount // size}{suffix}"
    return str(amount)


FIT = "NodeResourcesFit"
_LACKS = "Insufficient "
_MOST_SHORTAGES = 8


class RequestSlot(msgspec.Struct, frozen=True):
    """A place in a pod's spec where a resource is asked for."""

    steps: tuple[str | int, ...]
    """The way to the resources."""
    owner: str
    """As it is called in sentences."""
    amount: int
    resources: ResourceRequirements
    """What is there now."""


def lower_requests(sandbox: Sandbox, pod: Pod, survey: Survey, rows: Bools) -> Iterator[Change]:
    """Lower totals that some of the rows have room for."""
    for targets in _targets(sandbox, pod, survey, rows):
        change = lowered(pod, targets)
        if change is not None:
            yield change


def _targets(
    sandbox: Sandbox, pod: Pod, survey: Survey, rows: Bools
) -> Iterator[Mapping[str, int]]:
    """Totals worth trying, by resource, in the scheduler's units."""
    short_of = lacking(survey, pod)
    names = list(short_of)
    rows = rows & ~crowded(survey, len(rows))
    for places, there in failing_together(list(short_of.values()), rows, _MOST_SHORTAGES):
        short = [names[place] for place in places]
        here = np.flatnonzero(there)
        free = {name: np.maximum(left_over(sandbox, name, pod)[here], 0) for name in short}
        if len(short) == 1:
            yield from _single(short[0], free[short[0]], pod.requests.incoming[short[0]])
        else:
            cut = sum(1 - free[name] / pod.requests.incoming[name] for name in short)
            best = int(np.argmin(cut))
            yield {name: int(free[name][best]) for name in short}


def _single(name: str, free: Ints, wanted: int) -> Iterator[Mapping[str, int]]:
    """The largest total that gains a node; and one that gains several for not much less."""
    yield {name: int(free.max())}
    kept, count = np.unique(free, return_counts=True)
    gained = count[::-1].cumsum()[::-1]
    worth = gained * (kept / wanted) ** 2
    best = int(np.argmax(worth))
    if gained[best] > gained[-1]:
        yield {name: int(kept[best])}


def lacking(survey: Survey, pod: Pod) -> dict[str, Bools]:
    """By resource, the rows that have too little of it."""
    found: dict[str, Bools] = {}
    for text, rows in survey.reasons(FIT).items():
        name = text.removeprefix(_LACKS)
        if text.startswith(_LACKS) and pod.requests.incoming.get(name, 0) > 0:
            found[name] = found[name] | rows if name in found else rows
    return found


def crowded(survey: Survey, size: int) -> Bools:
    """The rows that can take no further pod, however small."""
    full = np.zeros(size, np.bool_)
    for text, rows in survey.reasons(FIT).items():
        if not text.startswith(_LACKS):
            full |= rows
    return full


def left_over(sandbox: Sandbox, name: str, pod: Pod) -> Ints:
    """What each node has left of a resource, less what pods that wait for it will take."""
    nodes = sandbox.nodes
    free = nodes.allocatable(name) - nodes.requested(name)
    for row, waiting in sandbox.cycle.nominated.ahead_of(pod, nodes).items():
        free[row] -= sum(other.requests.occupied.get(name, 0) for other in waiting)
    return free


# Sharing a lower total out


def lowered(pod: Pod, targets: Mapping[str, int]) -> Change | None:
    """The pod with lower totals of some resources; None if its containers cannot be so small."""
    places: dict[tuple[str | int, ...], tuple[RequestSlot, dict[str, str]]] = {}
    texts: list[str] = []
    size = 0.0
    for name, target in targets.items():
        amounts = _shared_out(pod, name, target)
        if not amounts:
            return None
        for slot, amount in amounts:
            places.setdefault(slot.steps, (slot, {}))[1][name] = quantity_text(name, amount)
        texts.append(_sentence(name, amounts))
        total = pod.requests.incoming[name]
        size += 0.2 + 1.5 * (1 - target / total) + (0.5 if target == 0 else 0.0)
    text = " and ".join(texts)
    operations = (one for slot, lower in places.values() for one in _lowering(slot, lower))
    return Change(LOWER_REQUEST, text, size, (FIT,), tuple(operations))


def _lowering(slot: RequestSlot, lower: Mapping[str, str]) -> Iterator[Operation]:
    """Lower requests in one place, and limits that must stay equal to them."""
    requests, limits = slot.resources.requests, slot.resources.limits
    if any(name in limits for name in lower):
        # Requests that follow from limits are in no manifest, and there may be no place for them.
        yield add({**requests, **lower}, *slot.steps, "requests")
    else:
        yield from (add(lower[name], *slot.steps, "requests", name) for name in lower)
    for name, quantity in lower.items():
        if name in limits and (is_extended(name) or is_hugepages(name)):
            yield add(quantity, *slot.steps, "limits", name)


def _sentence(name: str, amounts: Sequence[tuple[RequestSlot, int]]) -> str:
    plural = "s" if len(amounts) > 1 else ""
    if not any(amount for _, amount in amounts):
        parts = " and ".join(f"{slot.owner} ({_now(slot, name)})" for slot, _ in amounts)
        return f"drop the {name} request{plural} of {parts}"
    parts = " and ".join(
        f"{slot.owner} from {_now(slot, name)} to {quantity_text(name, amount)}"
        for slot, amount in amounts
    )
    return f"lower the {name} request{plural} of {parts}"


def _now(slot: RequestSlot, name: str) -> str:
    return str(slot.resources.requests[name])


def _shared_out(pod: Pod, name: str, target: int) -> list[tuple[RequestSlot, int]]:
    """What each place may ask for, so that the total is the target or a little less."""
    pod_level = _pod_level(pod, name)
    if pod_level is None:
        return _among_containers(pod, name, target)
    overhead = amount_of(name, pod.spec.overhead.get(name, 0))
    left = target - overhead
    if left < 0:
        return []
    amounts = [(pod_level, tidy(name, min(left, pod_level.amount)))]
    inner = requests_without_pod_level(pod).get(name, 0)
    if inner > amounts[0][1]:  # the API wants the whole to be at least its parts
        bare = msgspec.structs.replace(pod.spec, resources=None, overhead={})
        parts = _among_containers(msgspec.structs.replace(pod, spec=bare), name, amounts[0][1])
        return [*amounts, *parts] if parts else []
    return amounts


def _among_containers(pod: Pod, name: str, target: int) -> list[tuple[RequestSlot, int]]:
    slots = _slots(pod, name)
    best: tuple[RequestSlot, int] | None = None
    for slot in slots:
        amount = _alone(pod, name, slot, target)
        if amount is not None and (best is None or amount * best[0].amount > best[1] * slot.amount):
            best = slot, amount
    if best is not None:
        slot, amount = best
        return [(slot, tidy(name, amount))]
    if not slots or _total(pod, name, [(slot, 0) for slot in slots]) > target:
        return []

    def capped(level: int) -> list[tuple[RequestSlot, int]]:
        """Nobody asks for more than the level."""
        return [(slot, min(slot.amount, level)) for slot in slots]

    levels = range(max(slot.amount for slot in slots))
    level = bisect_right(levels, target, key=lambda level: _total(pod, name, capped(level))) - 1
    return _raised(pod, name, capped(level), target)


def _raised(
    pod: Pod, name: str, amounts: list[tuple[RequestSlot, int]], target: int
) -> list[tuple[RequestSlot, int]]:
    """Give back what a place gave up in vain, such as containers that run at other times."""
    for place, (slot, _) in enumerate(amounts):
        others = [*amounts[:place], *amounts[place + 1 :]]
        beside = patched(pod, _operations(name, others))
        amount = _alone(beside, name, slot, target)
        if amount is not None:
            amounts[place] = slot, amount
    return [(slot, tidy(name, amount)) for slot, amount in amounts if amount < slot.amount]


def _alone(pod: Pod, name: str, slot: RequestSlot, target: int) -> int | None:
    """How much one place may ask for, if it alone gives way; None if that is not enough."""
    if _total(pod, name, [(slot, 0)]) > target:
        return None
    # The total grows with the place's amount, or not at all. What is beside it where it does:
    huge = 2 * max(slot.amount, pod.requests.incoming.get(name, 0), 1)
    beside = _total(pod, name, [(slot, huge)]) - huge
    return max(0, min(target - beside, slot.amount))


def _total(pod: Pod, name: str, amounts: Sequence[tuple[RequestSlot, int]]) -> int:
    return patched(pod, _operations(name, amounts)).requests.incoming.get(name, 0)


def _operations(name: str, amounts: Sequence[tuple[RequestSlot, int]]) -> tuple[Operation, ...]:
    return tuple(
        add(quantity_text(name, amount), *slot.steps, "requests", name) for slot, amount in amounts
    )


def _pod_level(pod: Pod, name: str) -> RequestSlot | None:
    resources = pod.spec.resources
    if resources is None or not is_pod_level(name) or name not in resources.requests:
        return None
    return _slot(("spec", "resources"), "the pod", resources, name)


def _slots(pod: Pod, name: str) -> list[RequestSlot]:
    """Every container that asks for a resource."""
    found = []
    for steps, container in containers_of(pod):
        if name in container.resources.requests:
            word = "container" if steps[1] == "containers" else "init container"
            owner = f"{word} {container.name}"
            slot = _slot((*steps, "resources"), owner, container.resources, name)
            if slot.amount > 0:
                found.append(slot)
    return found


def _slot(
    steps: tuple[str | int, ...], owner: str, resources: ResourceRequirements, name: str
) -> RequestSlot:
    return RequestSlot(steps, owner, amount_of(name, resources.requests[name]), resources)
