"""Plugin names and how to make the plugins; in-tree ones merged with third parties'."""

from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import entry_points

from moorage.config.types import ExtensionPoint
from moorage.errors import ConfigError
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
}
"""Which class a plugin inherits from to take part in a point."""


class Registry:
    """Name -> plugin class. Adding a name twice is an error, never a silent override."""

    def __init__(self, plugins: Iterable[type[Plugin]] = ()) -> None:
        self._plugins: dict[str, type[Plugin]] = {}
        for plugin in plugins:
            self.register(plugin)

    def register(self, plugin: type[Plugin]) -> None:
        """Add one plugin."""
        known = self._plugins.get(plugin.name)
        if known is not None:
            raise ConfigError(
                f"a plugin named {plugin.name} already exists: {known.__module__} "
                f"and {plugin.__module__} both define it"
            )
        self._plugins[plugin.name] = plugin

    def register_entry_points(self) -> None:
        """Add the plugins that installed packages offer as `moorage.plugins` entry points."""
        for entry_point in entry_points(group=ENTRY_POINT_GROUP):
            try:
                plugin = entry_point.load()
            except Exception as error:
                raise ConfigError(
                    f"plugin entry point {entry_point.name} = {entry_point.value} "
                    f"cannot be loaded: {error}"
                ) from error
            if not (isinstance(plugin, type) and issubclass(plugin, Plugin)):
                raise ConfigError(
                    f"plugin entry point {entry_point.name} = {entry_point.value} "
                    "is not a subclass of moorage.framework.plugin.Plugin"
                )
            self.register(plugin)

    def __iter__(self) -> Iterator[str]:
        return iter(self._plugins)

    def __contains__(self, name: str) -> bool:
        return name in self._plugins

    def __getitem__(self, name: str) -> type[Plugin]:
        return self._plugins[name]

    def implements(self, name: str, point: ExtensionPoint) -> bool:
        """Does a plugin of that name exist and take part in an extension point?"""
        plugin, point_class = self._plugins.get(name), POINT_CLASSES.get(point)
        return plugin is not None and point_class is not None and issubclass(plugin, point_class)
