"""One device, and selectors that are asked whether they select it."""

from moorage.model.devices import ResourceSlice
from moorage.plugins.dynamic_resources.selectors import DeviceSelectors
from plugins.devices.device_objects import DRIVER, device, slice_of

SELECTORS = DeviceSelectors()


def offering(**attributes: object) -> ResourceSlice:
    """A slice with one device, of which more may be told."""
    known = {"model": "a100", "numa": 1, "healthy": True, **attributes}
    return slice_of("s", [device("d", attributes=known, capacity={"memory": "40Gi"})])


def ask(expression: str, offered: ResourceSlice, selectors: DeviceSelectors = SELECTORS) -> bool:
    """Does the selector select the device?"""
    variables = selectors.variables(offered.spec.devices[0], DRIVER)
    return selectors.compile(expression).evaluate_bool(variables)
