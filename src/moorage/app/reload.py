"""Another configuration without a restart: on SIGHUP, or when its file or ConfigMap changes.

Files with plugins are read again in the same way (`plugin_reload` tries them). Owns when to read,
and reports the outcome: in the log, an event and a metric. What cannot be used changes nothing.
Owns as well which fields take effect only after a restart; `kube.live` exchanges everything else.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from random import Random

import msgspec

from moorage.app.config_sources import ConfigSource
from moorage.app.plugin_reload import PluginFiles, digest
from moorage.config import KubeSchedulerConfiguration
from moorage.errors import MoorageError
from moorage.kube.client import KubeClient
from moorage.kube.event_recorder import EventRecorder
from moorage.kube.live import LiveScheduler
from moorage.kube.object_watch import follow_object
from moorage.kube.requests import Json
from moorage.kube.resources import resource_for
from moorage.kube.timing import WallTimer
from moorage.log_fields import V, fields
from moorage.metrics.process import OperationMetrics
from moorage.model.meta import ApiObject, ObjectMeta

log = logging.getLogger(__name__)

FILE_PERIOD = 2.0
"""How often a file is looked at. The volumes of ConfigMaps change by swapped links, which watching
the file itself would miss."""

_RELOADED = "ConfigReloaded"
_REFUSED = "ConfigReloadFailed"
_PLUGINS_RELOADED = "PluginsReloaded"
_PLUGINS_REFUSED = "PluginReloadFailed"
_SETTLED_SECONDS = 0.1
"""A file that is still being written changes again within this time."""
_AT_START_ONLY = {
    "leader_election": "leaderElection",
    "client_connection": "clientConnection",
    "enable_profiling": "enableProfiling",
    "enable_contention_profiling": "enableContentionProfiling",
    "delay_cache_until_active": "delayCacheUntilActive",
}
"""Fields that are read once, by their names in the file."""


class EventSubject(ApiObject, frozen=True):
    """What an event about the configuration regards."""


def subject(kind: str, api_version: str, namespace: str, name: str) -> EventSubject:
    """A reference to an object that need not exist."""
    return EventSubject(
        kind=kind, api_version=api_version, metadata=ObjectMeta(name=name, namespace=namespace)
    )


class Reloader:
    """Keeps a live scheduler's configuration equal to its source."""

    def __init__(
        self,
        live: LiveScheduler,
        source: ConfigSource | None,
        config: KubeSchedulerConfiguration,
        plugins: PluginFiles,
        *,
        client: KubeClient,
        recorder: EventRecorder,
        metrics: OperationMetrics,
        regarding: EventSubject,
        read: KubeSchedulerConfiguration,
        watch: bool = True,
        file_period: float = FILE_PERIOD,
        tell: Callable[[str], None] = lambda note: None,
    ) -> None:
        self.config = config
        """The configuration in force."""
        self._live = live
        self._source = source
        self._plugins = plugins
        self._client = client
        self._recorder = recorder
        self._metrics = metrics
        self._regarding = regarding
        self._watch = watch
        self._file_period = file_period
        self._tell = tell
        self._asked = asyncio.Event()
        self._digest = digest(Path(source.file)) if source is not None and source.file else None
        self._read = read
        """What was last read from the source: reading the same again changes nothing."""

    def ask(self) -> None:
        """Read the source again soon; what SIGHUP does."""
        self._asked.set()

    async def run(self) -> None:
        """Reload whenever there is reason to, until cancelled."""
        watching = self._watching() if self._watch else None
        task = None if watching is None else asyncio.create_task(watching)
        try:
            while True:
                await self._asked.wait()
                self._asked.clear()
                await self.reload()
        finally:
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def reload(self) -> bool:
        """Read the source and use what it says; False if the old configuration stays."""
        plugins, source = self._plugins, self._source
        changed = plugins.changed()
        if source is None and not changed:
            log.info("there is nothing to reload: the configuration comes from the flags alone")
            return False
        if source is not None and source.file:
            self._digest = digest(Path(source.file))
        try:
            new = self._read if source is None else await source.load(self._client)
            await self._live.between_attempts()
            versions = await plugins.renewed(self._live.scheduler, new)
            if new == self._read and versions is None:
                assert source is not None, "a file with plugins has changed"
                log.log(V(2), "The configuration has not changed", extra=fields(source=source.name))
                return False
            await self._live.reload(new, plugins.registry(versions))
        except MoorageError as error:
            self._report_refusal(error, ", ".join(map(str, changed)))
            return False
        if versions is not None:
            plugins.use(versions)
            self._report_plugins(", ".join(map(str, changed)))
        if new != self._read:
            restart = fields_that_need_a_restart(self.config, new)
            self.config, self._read = with_start_fields_of(self.config, new), new
            assert source is not None, "only a source gives another configuration"
            self._report_success(source, restart)
        return True

    def _report_plugins(self, files: str) -> None:
        self._metrics.plugins_reloaded()
        log.info("Reloaded plugins", extra=fields(files=files))
        self._event("Normal", _PLUGINS_RELOADED, f"the plugins of {files} were read again")

    def _report_success(self, source: ConfigSource, restart: list[str]) -> None:
        self._metrics.reloaded()
        log.info("Reloaded the configuration", extra=fields(source=source.name))
        note = f"the configuration was read again from {source.name}"
        if restart:
            late = ", ".join(restart)
            log.warning("changes of %s take effect after a restart", late)
            note += f"; changes of {late} take effect after a restart"
        self._event("Normal", _RELOADED, note)

    def _report_refusal(self, error: MoorageError, files: str) -> None:
        source = self._source
        if files:
            self._metrics.plugin_reload_refused()
            log.error(
                "The plugins were not reloaded and stay as they were",
                extra=fields(files=files, err=error),
            )
            note = f"the plugins of {files} were not read again and stay as they were: {error}"
            self._event("Warning", _PLUGINS_REFUSED, note)
            return
        assert source is not None, "without one there is nothing else that could be wrong"
        self._metrics.reload_refused()
        log.error(
            "The configuration was not reloaded and stays as it was",
            extra=fields(source=source.name, err=error),
        )
        note = f"the configuration was not read again from {source.name} and stays as it was"
        self._event("Warning", _REFUSED, f"{note}: {error}")

    def _event(self, type_: str, reason: str, note: str) -> None:
        if type_ == "Normal":
            self._tell(note)  # what is wrong is in the log
        controller = next(iter(self._live.scheduler.profiles))
        # Not counted as equal: what is wrong now must not vanish in a count of what was wrong.
        self._recorder.event(
            self._regarding, type_, reason, "Reloading", note, controller=controller, apart=note
        )

    # What to watch

    async def _watching(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch_plugins())
            group.create_task(self._watch_source())

    async def _watch_plugins(self) -> None:
        while self._plugins.names:
            await asyncio.sleep(self._file_period)
            if changed := self._plugins.changed():
                await asyncio.sleep(_SETTLED_SECONDS)
                if changed == self._plugins.changed():
                    self.ask()

    async def _watch_source(self) -> None:
        if self._source is None:
            return
        key = self._source.config_map
        if key is not None:
            await follow_object(
                self._client,
                resource_for("ConfigMap"),
                key.namespace,
                key.name,
                _Changes(self.ask),
                timer=WallTimer(),
                random=Random(),
            )
        elif self._source.file:
            await self._watch_file(Path(self._source.file))

    async def _watch_file(self, path: Path) -> None:
        while True:
            await asyncio.sleep(self._file_period)
            current = digest(path)
            # A file that is gone for a moment is being replaced, and one that stays away is no
            # reason to lose the configuration.
            if current is not None and current != self._digest:
                self.ask()


class _Changes:
    """Asks once per version of an object; a watch repeats what is known when it begins anew."""

    def __init__(self, ask: Callable[[], None]) -> None:
        self._ask = ask
        self._known = ""

    def __call__(self, change: str, obj: Json) -> None:
        version = (obj.get("metadata") or {}).get("resourceVersion", "")
        if change != "DELETED" and version != self._known:
            self._known = version
            self._ask()


def fields_that_need_a_restart(
    old: KubeSchedulerConfiguration, new: KubeSchedulerConfiguration
) -> list[str]:
    """What changed but takes effect only when the process starts."""
    return [
        name
        for attribute, name in _AT_START_ONLY.items()
        if getattr(old, attribute) != getattr(new, attribute)
    ]


def with_start_fields_of(
    old: KubeSchedulerConfiguration, new: KubeSchedulerConfiguration
) -> KubeSchedulerConfiguration:
    """The new configuration as far as it is in force: what needs a restart is still the old."""
    unchanged = {attribute: getattr(old, attribute) for attribute in _AT_START_ONLY}
    return msgspec.structs.replace(new, **unchanged)
