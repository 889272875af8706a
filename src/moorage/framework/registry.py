"""Plugin names and how to make the plugins; in-tree ones merged with third parties'."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points

from moorage.config.types import ExtensionPoint
from moorage.errors import ConfigError, reason_of, shown
from moorage.framework.group_preemption import PodGroupPostFilterPlugin
from moorage.framework.placements import PlacementGeneratePlugin, PlacementScorePlugin
from moorage.framework.plugin import (
    BindPlugin,
    FilterPlugin,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    ReservePlugin,
    ScorePlugin,
)

log = logging.getLogger(__name__)

ENTRY_POINT_GROUP = "moorage.plugins"

POINT_CLASSES: Mapping[ExtensionPoint, type[Plugin]] = {
    ExtensionPoint.PRE_ENQUEUE: PreEnqueuePlugin,
    ExtensionPoint.QUEUE_SORT: QueueSortPlugin,
    ExtensionPoint.PRE_FILTER: PreFilterPlugin,
    ExtensionPoint.FILTER: FilterPlugin,
    ExtensionPoint.POST_FILTER: PostFilterPlugin,
    ExtensionPoint.PRE_SCORE: PreScorePlugin,
    ExtensionPoint.SCORE: ScorePlugin,
    ExtensionPoint.RESERVE: ReservePlugin,
    ExtensionPoint.PERMIT: PermitPlugin,
    ExtensionPoint.PRE_BIND: PreBindPlugin,
    ExtensionPoint.BIND: BindPlugin,
    ExtensionPoint.POST_BIND: PostBindPlugin,
    ExtensionPoint.PLACEMENT_GENERATE: PlacementGeneratePlugin,
    ExtensionPoint.PLACEMENT_SCORE: PlacementScorePlugin,
    ExtensionPoint.POD_GROUP_POST_FILTER: PodGroupPostFilterPlugin,
}
"""Which class a plugin inherits from to take part in a point."""


class Registry:
    """Name -> plugin class. Adding a name twice is an error, never a silent override."""

    def __init__(self, plugins: Iterable[type[Plugin]] = ()) -> None:
        self._plugins: dict[str, type[Plugin]] = {}
        self._sources: dict[str, str] = {}
        self._broken: dict[str, str] = {}
        """Entry points that cannot be used, and why: an error only for who enables them."""
        for plugin in plugins:
            self.register(plugin)

    def register(self, plugin: type[Plugin], source: str = "") -> None:
        """Add one plugin; `source` is the place that messages name, its module unless told."""
        if problem := _problem_of(plugin):
            raise ConfigError(f"plugin {source or shown(plugin)} {problem}")
        source = source or plugin.__module__
        if plugin.name in self._plugins:
            raise ConfigError(
                f"a plugin named {plugin.name} already exists: {self._sources[plugin.name]} "
                f"and {source} both define it"
            )
        self._plugins[plugin.name] = plugin
        self._sources[plugin.name] = source
        self._broken.pop(plugin.name, None)

    def register_entry_points(self) -> None:
        """Add the plugins that installed packages offer as `moorage.plugins` entry points.

        One that cannot be used is a warning; whoever enables its name gets the error.
        """
        for entry_point in entry_points(group=ENTRY_POINT_GROUP):
            try:
                plugin = entry_point.load()
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                self._note_broken(entry_point, f"cannot be loaded: {reason_of(error)}")
                continue
            if problem := _problem_of(plugin):
                self._note_broken(entry_point, problem)
            else:
                self.register(plugin)

    def _note_broken(self, entry_point: EntryPoint, problem: str) -> None:
        problem = f"plugin entry point {entry_point.name} = {entry_point.value} {problem}"
        if entry_point.name not in self._plugins:
            self._broken[entry_point.name] = problem
        log.warning("%s", problem)

    def __iter__(self) -> Iterator[str]:
        return iter(self._plugins)

    def __contains__(self, name: str) -> bool:
        return name in self._plugins

    def __getitem__(self, name: str) -> type[Plugin]:
        return self._plugins[name]

    def implements(self, name: str, point: ExtensionPoint) -> bool:
        """Does a plugin of that name exist and take part in an extension point?

        `ConfigError` if it would exist but for a broken entry point.
        """
        if name in self._broken:
            raise ConfigError(self._broken[name])
        plugin, point_class = self._plugins.get(name), POINT_CLASSES.get(point)
        return plugin is not None and point_class is not None and issubclass(plugin, point_class)


def _problem_of(plugin: object) -> str:
    """Why something is no plugin class; empty if it is one."""
    if not (isinstance(plugin, type) and issubclass(plugin, Plugin)):
        return "is not a subclass of moorage.framework.plugin.Plugin"
    name = getattr(plugin, "name", None)
    if not isinstance(name, str):
        return "is a class without a name"
    if name.split() != [name] or not name.isprintable():
        return f"has the name {name!r}: expected one word"
    return ""
