"""Which devices are in use: those of allocated claims, and those being allocated just now.

Owns counting them, claim by claim, and telling which pools changed since a generation, so that
whoever keeps something derived knows what to redo.
"""

from collections import Counter

from moorage.model.devices import ResourceClaim
from moorage.model.quantity import parse_nano
from moorage.plugins.dynamic_resources.capacity import Consumed
from moorage.plugins.dynamic_resources.slices import DeviceId, PoolId

_MOST_CHANGES = 100_000


class DeviceUsage:
    """The devices in use. A device allocated with admin access does not count as used."""

    def __init__(self, *, consumable_capacity: bool) -> None:
        self._consumable = consumable_capacity
        self.dedicated: Counter[DeviceId] = Counter()
        self.shares: Counter[DeviceId] = Counter()
        self.capacity: dict[DeviceId, Consumed] = {}
        self.changed_at: dict[PoolId, int] = {}
        """The generation in which a pool's devices last changed hands, if ever."""
        self._capacity_users: Counter[DeviceId] = Counter()
        self._changes: list[PoolId] = []
        self._dropped = 0

    @property
    def generation(self) -> int:
        """How many changes there were."""
        return self._dropped + len(self._changes)

    def changed_since(self, generation: int) -> set[PoolId] | None:
        """The pools whose devices changed hands since; None if it is too long ago."""
        start = generation - self._dropped
        return set(self._changes[start:]) if start >= 0 else None

    def in_use(self, device: DeviceId) -> bool:
        """Does anybody use it, alone or shared?"""
        return device in self.dedicated or device in self.shares or device in self.capacity

    def add(self, claim: ResourceClaim) -> None:
        """A claim has devices now."""
        self._count(claim, 1)

    def remove(self, claim: ResourceClaim) -> None:
        """A claim gives its devices back."""
        self._count(claim, -1)

    def _count(self, claim: ResourceClaim, sign: int) -> None:
        allocation = claim.status.allocation
        if allocation is None:
            return
        for result in allocation.devices.results:
            if result.admin_access:
                continue
            device = (result.driver, result.pool, result.device)
            shared = self._consumable and result.share_id is not None
            turned = _tally(self.shares if shared else self.dedicated, device, sign)
            if shared and result.consumed_capacity:
                self._consume(
                    device,
                    {name: parse_nano(text) for name, text in result.consumed_capacity.items()},
                    sign,
                )
            if turned or shared:
                pool = (result.driver, result.pool)
                self._changes.append(pool)
                self.changed_at[pool] = self.generation
        if len(self._changes) > _MOST_CHANGES:
            half = _MOST_CHANGES // 2
            self._dropped += half
            del self._changes[:half]

    def _consume(self, device: DeviceId, taken: Consumed, sign: int) -> None:
        used = self.capacity.setdefault(device, {})
        for name, value in taken.items():
            used[name] = used.get(name, 0) + sign * value
        _tally(self._capacity_users, device, sign)
        if device not in self._capacity_users:
            del self.capacity[device]


def _tally(counts: Counter[DeviceId], key: DeviceId, sign: int) -> bool:
    """Count; True if that makes a difference to those who ask whether there is any.

    Between the promise of a device and the end of it the claim itself counts as well, so most
    changes make none.
    """
    before = counts[key]
    now = before + sign
    if now > 0:
        counts[key] = now
    else:
        del counts[key]
    return (before > 0) != (now > 0)
