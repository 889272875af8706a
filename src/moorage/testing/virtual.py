"""A whole scheduler in virtual time, for tests of plugins: a few classes are enough to begin."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from moorage.config import DEFAULT_FEATURE_GATES, FeatureGates, load_config
from moorage.config.types import API_VERSION, KIND, ExtensionPoint
from moorage.framework.plugin import Plugin
from moorage.framework.registry import POINT_CLASSES, Registry
from moorage.kube.http_extender import http_extenders
from moorage.model.meta import Json
from moorage.plugins.defaults import in_tree_registry
from moorage.simulator.virtual import VirtualCluster

_EXCLUSIVE = (ExtensionPoint.QUEUE_SORT, ExtensionPoint.BIND)


class VirtualScheduler(VirtualCluster):
    """Schedules what it is given, as soon as it can.

    `plugins` take part in all their points unless `profiles` or `config` (both as in a
    configuration, as plain values) say otherwise; `args` are those of a plugin by its name.
    """

    def __init__(
        self,
        *plugins: type[Plugin],
        args: Mapping[str, Any] | None = None,
        profiles: Sequence[Json] | None = None,
        config: Json | None = None,
        gates: FeatureGates = DEFAULT_FEATURE_GATES,
    ) -> None:
        own = {plugin.name for plugin in plugins}
        in_tree = in_tree_registry()
        registry = Registry([in_tree[name] for name in in_tree if name not in own])
        for plugin in plugins:
            registry.register(plugin)
        given = profiles or [enabled_profile(plugins, args or {})]
        document = {"apiVersion": API_VERSION, "kind": KIND, "profiles": given, **(config or {})}
        loaded = load_config(msgspec.json.encode(document), "the configuration", gates)
        super().__init__(loaded, registry, gates=gates, extenders=http_extenders(loaded))


def enabled_profile(plugins: Iterable[type[Plugin]], args: Mapping[str, Any]) -> Json:
    """A profile with the default plugins and others, in every point these take part in."""
    points: dict[str, Any] = {}
    known: list[Json] = []
    for plugin in plugins:
        reference = {"name": plugin.name}
        for point, base in POINT_CLASSES.items():
            if not issubclass(plugin, base):
                continue
            entry = points.setdefault(point.value, {"enabled": []})
            entry["enabled"].append(reference)
            if point in _EXCLUSIVE:
                entry["disabled"] = [{"name": "*"}]
        if plugin.name in args:
            known.append({"name": plugin.name, "args": args[plugin.name]})
    if ExtensionPoint.BIND.value in points:
        points[ExtensionPoint.BIND.value]["enabled"].append({"name": "DefaultBinder"})
    return {"plugins": points, "pluginConfig": known}
