"""Asking the PreEnqueue plugins whether a pod may enter the queue.

Owns the order of asking and what a refusal leaves behind on the pod. Must not move the pod.
"""

import logging
from collections.abc import Iterable, Mapping

from moorage.engine.queue.observer import QueueObserver
from moorage.engine.queue.queued_pod import QueuedPodInfo
from moorage.errors import MoorageError
from moorage.framework.guard import guard
from moorage.framework.plugin import PreEnqueuePlugin
from moorage.framework.profile import Profile
from moorage.framework.status import Code, Status


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
        started = self._observer.time()
        admitted = self._all_agree(info)
        self._observer.pre_enqueue_finished(
            info.pod.spec.scheduler_name, self._observer.time() - started
        )
        return admitted

    def _all_agree(self, info: QueuedPodInfo) -> bool:
        for plugin in self._in_order(info):
            status = self._ask(plugin, info)
            if status is not None and status.code is not Code.SUCCESS:
                self._refused(plugin, info, status)
                return False
        info.gating_plugin = ""
        return True

    def _in_order(self, info: QueuedPodInfo) -> Iterable[PreEnqueuePlugin]:
        plugins = self._plugins.get(info.pod.spec.scheduler_name, ())
        if not info.gating_plugin:
            return plugins
        # Whoever refused last time most likely does so again, and that spares the others.
        return sorted(plugins, key=lambda plugin: plugin.name != info.gating_plugin)

    def _ask(self, plugin: PreEnqueuePlugin, info: QueuedPodInfo) -> Status | None:
        start = self._observer.time()
        try:
            with guard(plugin, "PreEnqueue"):
                status = plugin.pre_enqueue(info.pod)
                code = Code.SUCCESS if status is None else status.code
        except MoorageError as error:
            code = Code.ERROR
            status = Status(code, (str(error),))
        self._observer.pre_enqueue_answered(
            plugin.name, info.pod.spec.scheduler_name, code, self._observer.time() - start
        )
        return status

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
