"""Plugins that fail: each fault is counted, and an event tells of a plugin that keeps failing.

Owns the words and where they go. What counts as a fault is `framework.guard`'s business.
"""

import logging
from collections.abc import Callable

from moorage.framework.faults import PluginFault
from moorage.framework.plugin import Handle
from moorage.log_fields import fields
from moorage.model.meta import ApiObject

log = logging.getLogger(__name__)

_KEEPS_FAILING = "PluginKeepsFailing"


def report_faults(
    handle: Handle,
    regarding: ApiObject,
    *,
    row: int,
    count: Callable[[str, str, str], None] = lambda *_: None,
) -> None:
    """Have faults counted, and tell of `row` in a row in an event about `regarding`."""

    def keeps_failing(fault: PluginFault, times: int) -> None:
        log.error(
            "Plugin keeps failing",
            extra=fields(plugin=fault.plugin, profile=fault.profile, faults=times),
        )
        note = (
            f"plugin {fault.plugin} of profile {fault.profile} has failed {times} times in a row "
            f"and stays enabled; the last time: {fault.message}"
        )
        write = handle.api.write_event
        write(regarding, "Warning", _KEEPS_FAILING, "Scheduling", note, controller=fault.profile)

    faults = handle.faults
    faults.row = row
    faults.observe = lambda fault: count(fault.plugin, fault.point, fault.kind)
    faults.keeps_failing = keeps_failing
    while faults.early:
        faults.observe(faults.early.popleft())
