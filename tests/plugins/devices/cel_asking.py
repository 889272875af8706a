"""One device, and selectors that are asked whether they select it."""

from moorage.model.devices import ResourceSlice
from moorage.plugins.dynamic_resources.cel import CelFeatures, compile_selector, device_value
from plugins.devices.device_objects import DRIVER, device, slice_of

FEATURES = CelFeatures()


def offering(**attributes: object) -> ResourceSlice:
    """A slice with one device, of which more may be told."""
    known = {"model": "a100", "numa": 1, "healthy": True, **attributes}
    return slice_of("s", [device("d", attributes=known, capacity={"memory": "40Gi"})])


def ask(expression: str, offered: ResourceSlice, features: CelFeatures = FEATURES) -> bool:
    """Does the selector select the device?"""
    value = device_value(offered.spec.devices[0], DRIVER, features)
    return compile_selector(expression, features).matches(value)
