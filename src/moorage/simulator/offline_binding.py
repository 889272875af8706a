"""PreBind, Bind and PostBind of a pod in a cluster in files, and what plugins left for later.

Binding itself is no work here: the pod counts on its node already. Plugins that would write do so
to the world. An event loop is made only for plugins that need one.
"""

import asyncio
import logging
from collections.abc import Coroutine
from copy import copy
from typing import Any, TypeVar

from moorage.framework.binding import after_binding, bind_pod, prepare
from moorage.framework.guard import FAULTS, guard
from moorage.framework.plugin import PreBindPlugin
from moorage.framework.profile import Profile
from moorage.framework.status import Status
from moorage.model.pod import Pod
from moorage.plugins.default_binder import DefaultBinder
from moorage.simulator.api import SimulatedCluster, SimulatedPort

log = logging.getLogger(__name__)

T = TypeVar("T")


class OfflineBinding:
    """Runs what is async, in an event loop that is made when it is first needed."""

    def __init__(self, world: SimulatedCluster) -> None:
        self._world = world
        self._api = SimulatedPort(world)
        self._runner = asyncio.Runner()

    def close(self) -> None:
        self._runner.close()

    def bind(self, profile: Profile, pod: Pod, node_name: str) -> Status | None:
        """Run the binding cycle; None when the pod is bound."""
        for plugin in profile.pre_bind:
            with guard(plugin, "PreBind"):
                plugin.pre_bind_offline(pod)
        if any(map(_needs_loop, profile.pre_bind)) or _binds_itself(profile):
            refusal = self._run(self._bind(profile, pod, node_name))
            if refusal is not None:
                return refusal
        self._world.placed(pod, node_name)
        if profile.post_bind:
            self._run(after_binding(profile, pod, node_name))
        return None

    async def _bind(self, profile: Profile, pod: Pod, node_name: str) -> Status | None:
        bare = copy(profile)
        bare.pre_bind = tuple(filter(_needs_loop, profile.pre_bind))
        refusal = await prepare(bare, pod, node_name, self._api)
        return refusal or await bind_pod(profile, pod, node_name, self._api)

    def run_later(self) -> None:
        later = self._world.handle.api.later
        while later:
            work = later.popleft()
            try:
                self._run(work)
            except FAULTS:
                log.exception("what a plugin left for later failed: %s", work)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)


def _needs_loop(plugin: PreBindPlugin) -> bool:
    """Has the plugin no other way for clusters in files?"""
    return type(plugin).pre_bind_offline is PreBindPlugin.pre_bind_offline


def _binds_itself(profile: Profile) -> bool:
    return any(not isinstance(plugin, DefaultBinder) for plugin in profile.bind)
