"""Amounts of resources as people write them: `3500m`, `6Gi`, and rounded down to look tidy."""

from moorage.model.quantity import parse_milli, whole
from moorage.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, is_hugepages

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


def written(resource: str, amount: int) -> str:
    """An amount in the scheduler's unit, as the API writes it."""
    if resource == CPU:
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if in_bytes(resource) and amount:
        for suffix, size in (("Gi", _GI), ("Mi", _MI), ("Ki", _KI)):
            if amount % size == 0:
                return f"{amount // size}{suffix}"
    return str(amount)
