"""How much of a device's capacities a request takes, and whether that much is left.

Owns the rounding that a capacity's policy asks for. Amounts are in billionths; what goes into an
allocation is written in the format it came in, or in that of the step it was rounded to.
"""

from collections.abc import Mapping
from typing import NamedTuple

from moorage.model.devices import (
    CapacityRequestPolicy,
    CapacityRequestPolicyRange,
    CapacityRequirements,
    Device,
)
from moorage.model.quantity import (
    MAX_VALUE,
    NANO,
    Quantity,
    QuantityFormat,
    parse_nano,
    quantity_format,
    quantity_text,
)
from moorage.plugins.errors import CapacityError

_MILLI = NANO // 1000

Consumed = dict[str, int]
"""Capacity name -> billionths in use."""


class Amount(NamedTuple):
    """An amount and how it is written."""

    nano: int
    form: QuantityFormat

    @property
    def text(self) -> str:
        """As the API shows it."""
        return quantity_text(self.nano, self.form)


def amount(quantity: Quantity) -> Amount:
    """A quantity of the API."""
    nano, form = parse_nano(quantity), quantity_format(quantity)
    if form is QuantityFormat.BINARY and 0 < abs(nano) < NANO:
        form = QuantityFormat.DECIMAL
    return Amount(nano, form)


def requested_amounts(requirements: CapacityRequirements | None) -> dict[str, Amount]:
    """What a request asks of each capacity."""
    if requirements is None:
        return {}
    return {name: amount(quantity) for name, quantity in requirements.requests.items()}


class _Range:
    """Amounts from, to, in steps: whole ones, or thousandths where the feature is on."""

    __slots__ = ("_highest", "_in_milli", "_step", "lowest")

    def __init__(self, limits: CapacityRequestPolicyRange, *, fractional: bool) -> None:
        self.lowest = amount(limits.min) if limits.min is not None else None
        self._highest = amount(limits.max) if limits.max is not None else None
        self._step = amount(limits.step) if limits.step is not None else None
        self._in_milli = fractional and all(
            bound is None or _is_milli(bound.nano)
            for bound in (self.lowest, self._highest, self._step)
        )
        self._in_milli &= self._step is None or self._step.nano > 0

    def rounded(self, wanted: Amount) -> Amount:
        """The smallest amount that is not less; raises `CapacityError` if that cannot be said."""
        assert self.lowest is not None, "whoever asks has looked"
        if wanted.nano < self.lowest.nano:
            return self.lowest
        step = self._step
        if step is None:
            return wanted
        if self._in_milli and not _is_milli(wanted.nano):
            raise _unrepresentable(f"request {wanted.text} is not a representable milli value")
        if not self._in_milli and wanted.nano > MAX_VALUE * NANO:
            raise _unrepresentable(f"request {wanted.text} exceeds MaxInt64")
        low, width = self._units(self.lowest.nano), self._units(step.nano)
        if width <= 0:
            return wanted
        steps = -((low - self._units(wanted.nano)) // width)
        if low >= 0 and steps > (MAX_VALUE - low) // width:
            limit = "the milli-value range" if self._in_milli else "MaxInt64"
            raise _unrepresentable(
                f"rounding request {wanted.text} up to the next step passes {limit}"
            )
        unit = _MILLI if self._in_milli else NANO
        return Amount((low + width * steps) * unit, step.form)

    def violated_by(self, taken: Amount) -> bool:
        """Is the amount none of these after all?"""
        if self._highest is not None and taken.nano > self._highest.nano:
            return True
        if self._step is None:
            return False
        if self._in_milli and not _is_milli(taken.nano):
            return True
        low = self._units(self.lowest.nano) if self.lowest is not None else 0
        width = self._units(self._step.nano)
        return width != 0 and (self._units(taken.nano) - low) % width != 0

    def _units(self, nano: int) -> int:
        """Thousandths, or whole units rounded away from zero (Go's `Quantity.Value`)."""
        if self._in_milli:
            return nano // _MILLI
        return -(-nano // NANO) if nano >= 0 else nano // NANO


class Policy:
    """A device's rules for requests of one capacity."""

    __slots__ = ("_range", "_values", "default")

    def __init__(self, policy: CapacityRequestPolicy, *, fractional: bool) -> None:
        self.default = amount(policy.default) if policy.default is not None else None
        self._values = tuple(amount(value) for value in policy.valid_values)
        limits = policy.valid_range
        self._range = _Range(limits, fractional=fractional) if limits is not None else None

    def rounded(self, wanted: Amount) -> Amount:
        """The smallest permitted amount that is not less; raises `CapacityError`."""
        if self._range is not None and self._range.lowest is not None:
            return self._range.rounded(wanted)
        return next((value for value in self._values if wanted.nano <= value.nano), wanted)

    def violated_by(self, taken: Amount) -> bool:
        """Is the amount not permitted after all?"""
        if self.default is not None and taken.nano == self.default.nano:
            return False
        if self._range is not None:
            return self._range.violated_by(taken)
        return bool(self._values) and all(taken.nano != value.nano for value in self._values)


class CapacityRecord:
    """The capacities of one device."""

    __slots__ = ("_policies", "_totals", "plain")

    def __init__(self, device: Device, *, fractional: bool) -> None:
        self._totals = {name: amount(c.value) for name, c in device.capacity.items()}
        self._policies = {
            name: Policy(capacity.request_policy, fractional=fractional)
            for name, capacity in device.capacity.items()
            if capacity.request_policy is not None
        }
        self.plain = not self._policies and all(one.nano >= 0 for one in self._totals.values())
        """Without policies a request that names no amounts takes everything, and that fits."""

    def taken_by(self, requested: Mapping[str, Amount]) -> dict[str, Amount]:
        """What a request takes of every capacity; raises `CapacityError`."""
        taken = {}
        for name in self._totals:
            try:
                found = taken[name] = self._taken(name, requested.get(name))
            except CapacityError as error:
                raise CapacityError(f'capacity "{name}": {error}') from None
            if found.nano < 0:
                raise CapacityError(f'capacity "{name}": capacity value is negative')
        return taken

    def allows(self, requested: Mapping[str, Amount], *in_use: Mapping[str, int]) -> bool:
        """Is there enough left, given what others use? Raises `CapacityError`."""
        if any(name not in self._totals for name in requested):
            return False
        for name, taken in self.taken_by(requested).items():
            policy = self._policies.get(name)
            if policy is not None and policy.violated_by(taken):
                return False
            used = sum(other.get(name, 0) for other in in_use)
            if taken.nano + used > self._totals[name].nano:
                return False
        return True

    def _taken(self, name: str, wanted: Amount | None) -> Amount:
        policy = self._policies.get(name)
        if wanted is None:
            if policy is not None and policy.default is not None:
                return policy.default
            return self._totals[name]
        return wanted if policy is None else policy.rounded(wanted)


def _is_milli(nano: int) -> bool:
    """Is it a whole number of thousandths that Go can tell?"""
    return nano % _MILLI == 0 and abs(nano // _MILLI) <= MAX_VALUE


def _unrepresentable(why: str) -> CapacityError:
    return CapacityError(
        f"capacity request cannot be represented in the device's range arithmetic: {why}"
    )
