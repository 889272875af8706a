"""Slices as the scheduler sees them: with the taints that DeviceTaintRules put on their devices.

Owns which rule concerns which device. An object stays the same until its slice or the taints on it
change, so that whatever is derived from a slice can be kept.
"""

from collections.abc import Iterator

import msgspec

from moorage.cluster.listers import Lister, Listers
from moorage.config.feature_gates import FeatureGates
from moorage.model.devices import Device, DeviceTaint, DeviceTaintRule, ResourceSlice

_Added = tuple[tuple[DeviceTaint, ...], ...]
"""The taints that rules add, device by device."""


class TaintedSlices:
    """All slices; without `rules` just as the API has them."""

    def __init__(
        self, slices: Lister[ResourceSlice], rules: Lister[DeviceTaintRule] | None = None
    ) -> None:
        self._slices = slices
        self._rules = rules
        self._tainted: dict[str, tuple[ResourceSlice, _Added, ResourceSlice]] = {}

    @property
    def generation(self) -> int:
        """Grows with every change."""
        return self._slices.generation + (self._rules.generation if self._rules is not None else 0)

    def __iter__(self) -> Iterator[ResourceSlice]:
        before, self._tainted = self._tainted, {}
        rules = tuple(self._rules) if self._rules is not None else ()
        for source in self._slices:
            concerning = [rule for rule in rules if rule.taints_slice(source)]
            if not concerning:
                yield source
                continue
            added = tuple(_added(device, concerning) for device in source.spec.devices)
            kept = before.get(source.name)
            if kept is None or kept[0] is not source or kept[1] != added:
                kept = (source, added, _with_taints(source, added))
            self._tainted[source.name] = kept
            yield kept[2]


def tainted_slices(listers: Listers, gates: FeatureGates) -> TaintedSlices:
    """The slices, with rules if the feature is on."""
    rules = listers.of(DeviceTaintRule) if gates.enabled("DRADeviceTaintRules") else None
    return TaintedSlices(listers.of(ResourceSlice), rules)


def _added(device: Device, rules: list[DeviceTaintRule]) -> tuple[DeviceTaint, ...]:
    return tuple(rule.spec.taint for rule in rules if rule.taints_device(device))


def _with_taints(source: ResourceSlice, added: _Added) -> ResourceSlice:
    replace = msgspec.structs.replace
    devices = tuple(
        replace(device, taints=(*device.taints, *taints)) if taints else device
        for device, taints in zip(source.spec.devices, added, strict=True)
    )
    return replace(source, spec=replace(source.spec, devices=devices))
