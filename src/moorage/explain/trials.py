"""Plugins to ask without consequences.

Owns the copies of a profile's plugins that explanations ask. A copy sees the same cluster and the
same configuration as the plugin itself, but what it notes in itself (the pod it was asked about
last, say), what it counts and what chance it uses is not seen by the scheduler.
"""

from copy import copy
from random import Random
from typing import Any

import msgspec

from moorage.config.types import ExtensionPoint
from moorage.engine.cycle import Cycle
from moorage.framework.api_access import ApiAccess
from moorage.framework.faults import PluginFaults
from moorage.framework.observer import FrameworkObserver
from moorage.framework.plugin import CycleStates, DeferringPlugin, Handle, Plugin
from moorage.framework.profile import Profile


class Trial(msgspec.Struct, frozen=True):
    """A cycle and a profile that may be asked anything about pods, and change nothing."""

    cycle: Cycle
    profile: Profile


def trial(cycle: Cycle, profile: Profile) -> Trial:
    """What the scheduler would do next, to be tried beside it."""
    return Trial(cycle.aside(), trial_profile(profile))


def trial_profile(profile: Profile) -> Profile:
    """The same profile with copies of its plugins."""
    handles: dict[int, Handle] = {}
    copies = {name: _copy(plugin, handles) for name, plugin in profile.plugins.items()}
    bare = copy(profile)
    bare.plugins = copies
    bare.queue_sort = copies[profile.queue_sort.name]  # type: ignore[assignment]
    for point in set(ExtensionPoint) - {ExtensionPoint.QUEUE_SORT}:
        plugins: tuple[Any, ...] = getattr(profile, point.name.lower())
        setattr(bare, point.name.lower(), tuple(copies[plugin.name] for plugin in plugins))
    # Such a plugin leaves work behind when it is asked to make room, and it may be impossible to
    # keep that from being done.
    bare.post_filter = tuple(
        plugin
        for plugin in bare.post_filter
        if not isinstance(plugin, DeferringPlugin) or plugin.trial_copy() is not None
    )
    return bare


def _copy(plugin: Plugin, handles: dict[int, Handle]) -> Plugin:
    trial = plugin.trial_copy() if isinstance(plugin, DeferringPlugin) else None
    copied: Plugin = trial or copy(plugin)
    handle = handles.get(id(plugin.handle))
    if handle is None:
        handle = handles[id(plugin.handle)] = _isolated(plugin.handle)
    copied.handle = handle
    return copied


def _isolated(handle: Handle) -> Handle:
    random = Random()
    random.setstate(handle.random.getstate())
    return msgspec.structs.replace(
        handle,
        random=random,
        observer=FrameworkObserver(),
        api=ApiAccess(),
        cycle_states=CycleStates(),
        faults=PluginFaults(),
    )
