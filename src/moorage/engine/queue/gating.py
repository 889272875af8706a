"""Asking the PreEnqueue plugins whether a pod may enter the queue.

Owns the order of asking and what a refusal leaves behind on the pod. Must not move the pod.
"""

import logging
from collections.abc import Iterable, Mapping

from moorage.engine.queue.observer import QueueObserver
from moorage.engine.queue.queued_pod import QueuedPodInfo
from moorage.errors import PluginError
from moorage.framework.guard import ask_pre_enqueue
from moorage.framework.plugin import PreEnqueuePlugin
from moorage.framework.profile import Profile
from moorage.framework.status import Code, Status
from moorage.model.pod import Pod

_SUCCESS = Code.SUCCESS  # bound once: reading a member off its enum is slow


class Gatekeeper:
    """The PreEnqueue plugins of all profiles."""

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        observer: QueueObserver,
        log: logging.Logger,
    ) -> None:
        self._plugins = {name: profile.pre_enqueue for name, profile in profiles.items()}
        self._observer = observer
        self._log = log

    def admit(self, info: QueuedPodInfo) -> bool:
        """May the pod enter? If not, it bears the name of the first plugin that refused."""
        observer, profile = self._observer, info.pod.spec.scheduler_name
        # Each plugin's time begins where the one before it ended: every pod passes here, and
        # reading the clock is a good part of the cost.
        started = lap = observer.time()
        admitted = True
        for plugin in self._in_order(info):
            status, code = _answer(plugin, info.pod)
            now = observer.time()
            observer.pre_enqueue_answered(plugin.name, profile, code, now - lap)
            lap = now
            if status is not None and code is not _SUCCESS:
                self._refused(plugin, info, status)
                admitted = False
                break
        else:
            info.gating_plugin = ""
        observer.pre_enqueue_finished(profile, lap - started)
        return admitted

    def _in_order(self, info: QueuedPodInfo) -> Iterable[PreEnqueuePlugin]:
        plugins = self._plugins.get(info.pod.spec.scheduler_name, ())
        if not info.gating_plugin:
            return plugins
        # Whoever refused last time most likely does so again, and that spares the others.
        return sorted(plugins, key=lambda plugin: plugin.name != info.gating_plugin)

    def _refused(self, plugin: PreEnqueuePlugin, info: QueuedPodInfo, status: Status) -> None:
        name = plugin.name
        if name not in info.unschedulable_plugins and name not in info.pending_plugins:
            self._observer.unschedulable_reason(name, info.pod.spec.scheduler_name, 1)
        info.unschedulable_plugins.add(name)
        info.gating_plugin = name
        if status.code is Code.ERROR:
            self._log.error("pod %s is kept out by %s: %s", info.key, name, status.message)
        else:
            self._log.debug("pod %s is kept out by %s: %s", info.key, name, status.message)


def _answer(plugin: PreEnqueuePlugin, pod: Pod) -> tuple[Status | None, Code]:
    """What a plugin says; what goes wrong in it is an error's status."""
    try:
        status = ask_pre_enqueue(plugin, pod)
    except PluginError as error:
        status = Status(Code.ERROR, (str(error),), plugin.name)
    return status, _SUCCESS if status is None else status.code
