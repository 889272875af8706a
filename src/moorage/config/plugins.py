"""Which plugins run at each extension point of a profile, in order, and with which weights.

Owns reading the default plugins (`default_plugins.yaml`), a user's plugin sets over them, the
expansion of MultiPoint, and the checks that upstream makes when it builds a profile, in its words.
Must not build plugins: whether a plugin has an extension point is asked through a predicate.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache

import msgspec

from moorage.config.args import NodeResourcesFitArgs
from moorage.config.feature_gates import FeatureGates
from moorage.config.field_errors import aggregate, one_line, quoted
from moorage.config.types import (
    ExtensionPoint,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    PluginRef,
    Plugins,
    PluginSet,
)
from moorage.config.validation_args import node_resources_fit_errors
from moorage.errors import ConfigError
from moorage.tables import read_table


class _DefaultPlugin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    weight: int = 0
    gate: str = ""


@cache
def _table() -> tuple[_DefaultPlugin, ...]:
    return read_table("moorage.config", "default_plugins.yaml", tuple[_DefaultPlugin, ...])


def default_plugins(gates: FeatureGates) -> Plugins:
    """All of them at MultiPoint, in order."""
    refs = [
        PluginRef(one.name, one.weight)
        for one in _table()
        if not one.gate or gates.enabled(one.gate)
    ]
    return Plugins(multi_point=PluginSet(enabled=tuple(refs)))


EVERYTHING = "*"
"""The name that disables all default plugins of a set."""


def merge_plugins(default: Plugins, custom: Plugins) -> Plugins:
    """Merge set by set, MultiPoint among them."""
    merged = {
        point.name.lower(): merge_plugin_set(default.at(point), custom.at(point))
        for point in ExtensionPoint
    }
    return Plugins(multi_point=merge_plugin_set(default.multi_point, custom.multi_point), **merged)


def merge_plugin_set(default: PluginSet, custom: PluginSet) -> PluginSet:
    """Take out of the defaults what the user disables, then put in what the user enables.

    A plugin that is still among the defaults keeps its place there and takes the user's weight; any
    other comes after them. What is disabled is kept, so that MultiPoint does not bring it back.
    """
    disabled = tuple(PluginRef(ref.name) for ref in (*custom.disabled, *default.disabled))
    removed = {ref.name for ref in disabled}
    # A plugin enabled twice replaces a default with its last mention; the others are appended and
    # refused later, when the profile is built.
    last_mention = {ref.name: index for index, ref in enumerate(custom.enabled)}
    enabled: list[PluginRef] = []
    replaced: set[int] = set()
    if EVERYTHING not in removed:
        for ref in default.enabled:
            if ref.name in removed:
                continue
            index = last_mention.get(ref.name)
            if index is not None:
                replaced.add(index)
            enabled.append(ref if index is None else custom.enabled[index])
    enabled += [ref for index, ref in enumerate(custom.enabled) if index not in replaced]
    return PluginSet(enabled=tuple(enabled), disabled=disabled)


Implements = Callable[[str, ExtensionPoint], bool]
"""Whether the plugin of that name runs at that point. One that runs nowhere does not exist."""

_ORDER = (
    ExtensionPoint.PRE_FILTER,
    ExtensionPoint.FILTER,
    ExtensionPoint.POST_FILTER,
    ExtensionPoint.RESERVE,
    ExtensionPoint.PRE_SCORE,
    ExtensionPoint.SCORE,
    ExtensionPoint.PRE_BIND,
    ExtensionPoint.BIND,
    ExtensionPoint.POST_BIND,
    ExtensionPoint.PERMIT,
    ExtensionPoint.PRE_ENQUEUE,
    ExtensionPoint.QUEUE_SORT,
    ExtensionPoint.PLACEMENT_GENERATE,
    ExtensionPoint.PLACEMENT_SCORE,
    ExtensionPoint.POD_GROUP_POST_FILTER,
)
"""Upstream's order of looking at the points; it decides which of several errors is seen."""

_MAX_SCORE = 100
_MAX_TOTAL_SCORE = 2**63 - 1


class EffectivePlugins(msgspec.Struct, frozen=True):
    """The outcome for one profile."""

    by_point: Mapping[ExtensionPoint, tuple[str, ...]]
    weights: Mapping[str, int]
    placement_weights: Mapping[str, int]

    def at(self, point: ExtensionPoint) -> tuple[str, ...]:
        """The plugins of one point, in the order in which they run."""
        return self.by_point[point]


def effective_profiles(
    config: KubeSchedulerConfiguration, implements: Implements
) -> dict[str, EffectivePlugins]:
    """Expand all profiles, by scheduler name, and check that they agree on the queue's order."""
    result: dict[str, EffectivePlugins] = {}
    for profile in config.profiles:
        plugins = effective_plugins(profile, implements)
        try:
            _check_same_queue_sort(config.profiles[0], profile, plugins, [*result.values()])
        except ConfigError as error:
            raise ConfigError(f"initializing profiles: {error}") from None
        result[profile.scheduler_name] = plugins
    return result


def effective_plugins(profile: KubeSchedulerProfile, implements: Implements) -> EffectivePlugins:
    """Expand one loaded profile; a `ConfigError` says why the scheduler could not be built."""
    try:
        _check_args(profile)
        by_point = _expanded(profile.plugins, implements)
        _check_counts(profile.scheduler_name, by_point)
        return EffectivePlugins(
            by_point=by_point,
            weights=_weights(profile.plugins, ExtensionPoint.SCORE, implements),
            placement_weights=_weights(profile.plugins, ExtensionPoint.PLACEMENT_SCORE, implements),
        )
    except ConfigError as error:
        raise _of_profile(profile, error) from None


def unknown_plugins(profile: KubeSchedulerProfile, implements: Implements) -> Iterator[ConfigError]:
    """An error for every plugin that is enabled and not there, not for the first only."""
    everywhere = [(ref, _ORDER[0]) for ref in profile.plugins.multi_point.enabled]
    named = [(ref, point) for point in _ORDER for ref in profile.plugins.at(point).enabled]
    for ref, point in everywhere + named:
        try:
            _check_exists(ref, point, implements)
        except ConfigError as error:
            yield _of_profile(profile, error)


def _of_profile(profile: KubeSchedulerProfile, error: ConfigError) -> ConfigError:
    name = one_line(profile.scheduler_name)
    return ConfigError(
        f"initializing profiles: creating profile for scheduler name {name}: {error}"
    )


def _check_args(profile: KubeSchedulerProfile) -> None:
    names = [entry.name for entry in profile.plugin_config]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise ConfigError(f"repeated config for plugin {name}")
    # Upstream's validation of a file misses this plugin's arguments; building the plugin does not.
    args = profile.args_for("NodeResourcesFit")
    is_needed = "NodeResourcesFit" in profile.plugins.enabled_names()
    if is_needed and isinstance(args, NodeResourcesFitArgs):
        errors = node_resources_fit_errors("", args)
        if errors:
            raise ConfigError(f'initializing plugin "NodeResourcesFit": {aggregate(errors)}')


def _expanded(plugins: Plugins, implements: Implements) -> dict[ExtensionPoint, tuple[str, ...]]:
    listed = {point: _listed(point, plugins.at(point), implements) for point in _ORDER}
    if not plugins.multi_point.enabled:
        return listed
    return {
        point: _with_multi_point(point, plugins.at(point), plugins.multi_point.enabled, implements)
        for point in _ORDER
    }


def _listed(point: ExtensionPoint, chosen: PluginSet, implements: Implements) -> tuple[str, ...]:
    """The plugins named at the point itself."""
    names: list[str] = []
    for ref in chosen.enabled:
        _check_exists(ref, point, implements)
        if not implements(ref.name, point):
            raise ConfigError(f"plugin {quoted(ref.name)} does not extend {_kind(point)} plugin")
        if ref.name in names:
            raise ConfigError(_registered_twice(ref, point))
        names.append(ref.name)
    return tuple(names)


def _with_multi_point(
    point: ExtensionPoint,
    chosen: PluginSet,
    multi_point: Sequence[PluginRef],
    implements: Implements,
) -> tuple[str, ...]:
    """The plugins of a point: overrides of MultiPoint, the rest of MultiPoint, the point's own."""
    listed = [ref.name for ref in chosen.enabled]
    disabled = {ref.name for ref in chosen.disabled}
    if EVERYTHING in disabled:
        return tuple(listed)
    overriding: set[str] = set()
    added: list[str] = []
    for ref in multi_point:
        _check_exists(ref, point, implements)
        if not implements(ref.name, point) or ref.name in disabled:
            continue
        if ref.name in listed:
            overriding.add(ref.name)
        elif ref.name in added:
            raise ConfigError(_registered_twice(ref, point))
        else:
            added.append(ref.name)
    first = [name for name in listed if name in overriding]
    last = [name for name in listed if name not in overriding]
    return (*first, *added, *last)


def _check_exists(ref: PluginRef, point: ExtensionPoint, implements: Implements) -> None:
    if not any(implements(ref.name, other) for other in ExtensionPoint):
        raise ConfigError(f"{_kind(point)} {quoted(ref.name)} does not exist")


def _registered_twice(ref: PluginRef, point: ExtensionPoint) -> str:
    return f"plugin {quoted(ref.name)} already registered as {quoted(_kind(point))}"


def _kind(point: ExtensionPoint) -> str:
    """Upstream's name of the interface of a point, such as `PreFilterPlugin`."""
    return point.value[0].upper() + point.value[1:] + "Plugin"


def _check_counts(name: str, by_point: Mapping[ExtensionPoint, tuple[str, ...]]) -> None:
    profile = f"profile with scheduler name {quoted(name)}"
    queue_sorts = len(by_point[ExtensionPoint.QUEUE_SORT])
    if queue_sorts != 1:
        raise ConfigError(
            f"only one queue sort plugin required for {profile}, but got {queue_sorts}"
        )
    if not by_point[ExtensionPoint.BIND]:
        raise ConfigError(f"at least one bind plugin is needed for {profile}")
    if len(by_point[ExtensionPoint.PLACEMENT_GENERATE]) > 1:
        raise ConfigError(f"at most one placement generate plugin is allowed for {profile}")


def _weights(plugins: Plugins, point: ExtensionPoint, implements: Implements) -> dict[str, int]:
    """The weight of every plugin that can score, from its first mention; 0 counts as 1."""
    weights: dict[str, int] = {}
    total = 0
    mentions: Iterable[PluginRef] = (*plugins.at(point).enabled, *plugins.multi_point.enabled)
    for ref in mentions:
        if ref.name in weights or not implements(ref.name, point):
            continue
        weights[ref.name] = ref.weight or 1
        added = weights[ref.name] * _MAX_SCORE
        # Upstream's own check overflows once negative weights have made the total negative.
        if total < 0 or total + added > _MAX_TOTAL_SCORE:
            subject = "score" if point is ExtensionPoint.SCORE else "placement score"
            raise ConfigError(f"{subject} plugins: total score of Score plugins could overflow")
        total += added
    return weights


def _check_same_queue_sort(
    first: KubeSchedulerProfile,
    profile: KubeSchedulerProfile,
    plugins: EffectivePlugins,
    earlier: Sequence[EffectivePlugins],
) -> None:
    if not earlier:
        return
    (expected,) = earlier[0].at(ExtensionPoint.QUEUE_SORT)
    (actual,) = plugins.at(ExtensionPoint.QUEUE_SORT)
    name = quoted(profile.scheduler_name)
    if actual != expected:
        raise ConfigError(
            f"different queue sort plugins for profile {name}: "
            f"{quoted(actual)}, first: {quoted(expected)}"
        )
    if first.args_for(expected) != profile.args_for(actual):
        raise ConfigError(f"different queue sort plugin args for profile {name}")
