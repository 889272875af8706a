"""Plugins from files (`--plugin`): read when the process starts, and again when a file changes.

Owns what becomes of a changed file: it is imported beside the one in use, and its plugins have to
pass the plugin checks on some nodes of the cluster at hand, in a thread of their own. Whatever is
wrong is a `ConfigError`, and the plugins in use stay. `reload` exchanges them.
"""

import asyncio
import ctypes
import hashlib
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from random import Random
from typing import TypeVar

import msgspec

from moorage.cluster.state import ClusterState
from moorage.config import KubeSchedulerConfiguration
from moorage.engine.scheduler import Scheduler
from moorage.errors import CallTimedOutError, ConfigError, MoorageError, reason_of
from moorage.framework.plugin import Plugin
from moorage.framework.registry import Registry
from moorage.model.pod import Pod
from moorage.simulator.plugin_files import FoundPlugin, PluginFile, load_plugin_file
from moorage.simulator.world import full_registry

T = TypeVar("T")

CHECK_SECONDS = 30.0
_MOST_PODS = 8

Versions = Mapping[PluginFile, Sequence[FoundPlugin]]


class PluginFiles:
    """The files of a command line, and the plugins of each that are in use.

    `plugins` are those of a program that runs the command.
    """

    def __init__(self, texts: Iterable[str], plugins: Iterable[type[Plugin]] = ()) -> None:
        self._plugins = tuple(plugins)
        files = tuple(PluginFile.parse(text) for text in texts)
        self._seen = _digests(files)
        """Of the newest versions that were tried, whatever came of it."""
        self._used: Versions = {file: load_plugin_file(file) for file in files}

    @property
    def names(self) -> str:
        """What the files are called in messages."""
        return ", ".join(dict.fromkeys(str(file.path) for file in self._used))

    def registry(self, versions: Versions | None = None) -> Registry:
        """All plugins that a configuration may name."""
        registry = full_registry(self._plugins)
        for found in (versions or self._used).values():
            for one in found:
                registry.register(one.plugin, one.source)
        return registry

    def changed(self) -> Mapping[Path, bytes]:
        """The files that are not as they were when they were last tried; missing ones wait."""
        now = _digests(self._used)
        return {path: digest for path, digest in now.items() if digest != self._seen.get(path)}

    async def renewed(
        self, scheduler: Scheduler, config: KubeSchedulerConfiguration
    ) -> Versions | None:
        """The plugins of the files as they are now, tried; None if no file has changed."""
        changed = self.changed()
        if not changed:
            return None
        self._seen = {**self._seen, **changed}
        some, pods = _some_of(scheduler)
        gates = scheduler.handle.gates

        def try_all() -> Versions:
            from moorage.testing import PluginCheckError
            from moorage.testing.plugin_checks import check_plugin_here, some_of

            new = {file: load_plugin_file(file) for file in self._used if file.path in changed}
            versions = {**self._used, **new}
            self.registry(versions)
            for plugin, source in chain.from_iterable(new.values()):
                for args in _args(plugin.name, config):
                    state = some_of(some, Random(0))
                    try:
                        check_plugin_here(plugin, args, state, pods, gates)
                    except PluginCheckError as error:
                        complaint = str(error).removeprefix(f"{plugin.name}: ")
                        raise ConfigError(f"{source}: {complaint}") from error
            return versions

        return await _in_time(try_all, ", ".join(map(str, changed)))

    def use(self, versions: Versions) -> None:
        """These are in use from now on."""
        old, self._used = self._used, versions
        for module in _modules(old) - _modules(versions):
            sys.modules.pop(module, None)


def digest(path: Path) -> bytes | None:
    """Tells versions of a file apart; None if it is gone, perhaps as it is being replaced."""
    try:
        return hashlib.sha256(path.read_bytes()).digest()
    except OSError:
        return None


def _digests(files: Iterable[PluginFile]) -> dict[Path, bytes]:
    found = {file.path: digest(file.path) for file in files}
    return {path: one for path, one in found.items() if one is not None}


def _modules(versions: Versions) -> set[str]:
    return {one.plugin.__module__ for one in chain.from_iterable(versions.values())}


def _some_of(scheduler: Scheduler) -> tuple[ClusterState, Sequence[Pod]]:
    """Some nodes of the cluster with their pods, copied, and pods to ask about."""
    from moorage.testing.plugin_checks import some_of

    waiting = scheduler.queue.view.pending_pods().pods[:_MOST_PODS]
    state = some_of(scheduler.state, Random(0))
    placed = [pod for pod, _ in state.placed_pods()]
    return state, [*waiting, *placed][:_MOST_PODS]


def _args(name: str, config: KubeSchedulerConfiguration) -> Iterable[object]:
    """What a plugin is made with in the profiles that enable it."""
    found: list[object] = []
    for profile in config.profiles:
        sets = msgspec.structs.astuple(profile.plugins)
        args = profile.args_for(name)
        if args not in found and any(one.name == name for each in sets for one in each.enabled):
            found.append(args)
    return found


async def _in_time(work: Callable[[], T], names: str) -> T:
    """Try files in a thread that does not keep the process alive.

    Whatever they do, all that comes of it is a `ConfigError`, also if they hang.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(error: MoorageError | None, result: T | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]  # there is one if nothing failed

    def run() -> None:
        error, result = None, None
        try:
            result = work()
        except MoorageError as failed:
            error = failed
        except BaseException as failed:
            error = ConfigError(f"{names}: {reason_of(failed)}")
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, error, result)

    thread = threading.Thread(target=run, name="trying plugins", daemon=True)
    thread.start()
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            return await done
    except TimeoutError:
        error = ctypes.py_object(CallTimedOutError)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), error)
        raise ConfigError(f"{names}: trying it took longer than {CHECK_SECONDS:g}s") from None
