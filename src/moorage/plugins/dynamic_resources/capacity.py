"""Consumable capacity: how much of a device's capacity a request takes.

Owns the rounding that a device's request policy asks for. Amounts are in billionths; what goes into
an allocation keeps the text it was written in, as upstream keeps the quantity's format.
"""

from collections.abc import Mapping
from typing import NamedTuple

from moorage.model.devices import CapacityRequestPolicy, CapacityRequirements, Device
from moorage.model.quantity import Quantity, parse_nano

NANO = 10**9
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL = ("", "k", "M", "G", "T", "P", "E")

Consumed = dict[str, int]
"""Capacity name -> billionths in use."""


class Amount(NamedTuple):
    """An amount and how it is written."""

    nano: int
    text: Quantity


def amount(quantity: Quantity) -> Amount:
    """A quantity of the API."""
    return Amount(parse_nano(quantity), quantity)


def requested_amounts(requirements: CapacityRequirements | None) -> dict[str, Amount]:
    """What a request asks of each capacity."""
    if requirements is None:
        return {}
    return {name: amount(quantity) for name, quantity in requirements.requests.items()}


class Policy:
    """A device's rules for requests of one capacity."""

    __slots__ = ("default", "highest", "lowest", "ranged", "step", "values")

    def __init__(self, policy: CapacityRequestPolicy) -> None:
        limits = policy.valid_range
        self.default = amount(policy.default) if policy.default is not None else None
        self.values = tuple(amount(value) for value in policy.valid_values)
        self.ranged = limits is not None
        self.lowest = self.highest = self.step = None
        if limits is not None:
            self.lowest = amount(limits.min) if limits.min is not None else None
            self.highest = amount(limits.max) if limits.max is not None else None
            self.step = amount(limits.step) if limits.step is not None else None

    def rounded(self, wanted: Amount) -> Amount:
        """The smallest permitted amount that is not less."""
        if self.lowest is not None:
            if wanted.nano < self.lowest.nano:
                return self.lowest
            if self.step is None:
                return wanted
            low, step = _whole(self.lowest.nano), _whole(self.step.nano)
            steps = -((low - _whole(wanted.nano)) // step) if step else 0
            value = low + step * steps
            return Amount(value * NANO, binary_text(value))
        return next((value for value in self.values if wanted.nano <= value.nano), wanted)

    def violated_by(self, taken: Amount) -> bool:
        """Is the amount not permitted after all?"""
        if self.default is not None and taken.nano == self.default.nano:
            return False
        if self.ranged:
            if self.highest is not None and taken.nano > self.highest.nano:
                return True
            if self.step is None:
                return False
            low = _whole(self.lowest.nano) if self.lowest is not None else 0
            return (_whole(taken.nano) - low) % _whole(self.step.nano) != 0
        return bool(self.values) and all(taken.nano != value.nano for value in self.values)


class CapacityRecord:
    """The capacities of one device."""

    __slots__ = ("_policies", "_totals", "plain")

    def __init__(self, device: Device) -> None:
        self._totals = {name: amount(c.value) for name, c in device.capacity.items()}
        self._policies = {
            name: Policy(capacity.request_policy)
            for name, capacity in device.capacity.items()
            if capacity.request_policy is not None
        }
        self.plain = not self._policies
        """Without policies a request that names no amounts takes everything, and that fits."""

    def taken_by(self, requested: Mapping[str, Amount]) -> dict[str, Amount]:
        """What a request takes of every capacity."""
        return {name: self._taken(name, requested.get(name)) for name in self._totals}

    def allows(self, requested: Mapping[str, Amount], *in_use: Mapping[str, int]) -> bool:
        """Is there enough left, given what others use?"""
        if any(name not in self._totals for name in requested):
            return False
        for name, total in self._totals.items():
            taken = self._taken(name, requested.get(name))
            policy = self._policies.get(name)
            if policy is not None and policy.violated_by(taken):
                return False
            if taken.nano + sum(used.get(name, 0) for used in in_use) > total.nano:
                return False
        return True

    def _taken(self, name: str, wanted: Amount | None) -> Amount:
        policy = self._policies.get(name)
        if wanted is None:
            if policy is not None and policy.default is not None:
                return policy.default
            return self._totals[name]
        return wanted if policy is None else policy.rounded(wanted)


def _whole(nano: int) -> int:
    """Billionths as whole units, rounded away from zero (Go's `Quantity.Value`)."""
    return -(-nano // NANO) if nano >= 0 else nano // NANO


def binary_text(value: int) -> str:
    """A whole number as Go prints a quantity in binary form; small ones are printed decimal."""
    base, suffixes = (1024, _BINARY) if abs(value) >= 1024 else (1000, _DECIMAL)
    exponent = 0
    while value and value % base == 0 and exponent < len(suffixes) - 1:
        value //= base
        exponent += 1
    return f"{value}{suffixes[exponent]}"
