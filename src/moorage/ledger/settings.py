"""Profiles as they are written down, and made again.

Owns which part of a profile is needed to ask its plugins again. Plugins that do not come with
Moorage are not made again, installed or not: what they said is on record (`answers`).
"""

from collections.abc import Mapping, Sequence

import msgspec

from moorage.config import args as plugin_args
from moorage.config.feature_gates import EffectiveVersion, FeatureGates, MajorMinor
from moorage.config.plugins import EffectivePlugins
from moorage.config.types import ExtensionPoint, PluginArgs
from moorage.errors import ConfigError
from moorage.framework.extenders import Extender
from moorage.framework.plugin import Handle, Plugin
from moorage.framework.profile import Profile
from moorage.framework.registry import Registry
from moorage.ledger.answers import recorded_plugin
from moorage.ledger.entries import (
    ExtenderSettings,
    PluginArguments,
    ProfileSettings,
    SchedulerSettings,
)

_ASKED_AGAIN = (
    ExtensionPoint.PRE_FILTER,
    ExtensionPoint.FILTER,
    ExtensionPoint.PRE_SCORE,
    ExtensionPoint.SCORE,
)
_RECORDED_AT = (*_ASKED_AGAIN, ExtensionPoint.QUEUE_SORT)  # a profile needs one of the last
"""Where plugins that are not made again have stand-ins; elsewhere they are left out."""


def settings_of(
    profiles: Mapping[str, Profile], extenders: Sequence[Extender], registry: Registry
) -> SchedulerSettings:
    """The profiles and extenders in force; `registry` has the plugins that can be made again."""
    gates = FeatureGates()
    for profile in profiles.values():
        gates = profile.queue_sort.handle.gates
    emulation, oldest = gates.version.emulation, gates.version.min_compatibility
    return SchedulerSettings(
        tuple(_profile_settings(profile, registry) for profile in profiles.values()),
        dict(gates.settings),
        (emulation.major, emulation.minor),
        (oldest.major, oldest.minor),
        tuple(
            ExtenderSettings(one.name, one.weight, one.filters, one.prioritizes)
            for one in extenders
        ),
    )


def answering_plugins(settings: ProfileSettings) -> tuple[str, ...]:
    """Those that do not come with Moorage and say something about nodes."""
    asked = {name for point in _ASKED_AGAIN for name in settings.points[point.value]}
    return tuple(name for name in settings.foreign if name in asked)


def _profile_settings(profile: Profile, registry: Registry) -> ProfileSettings:
    points = {
        point.value: tuple(one.name for one in _at(profile, point)) for point in ExtensionPoint
    }
    foreign = tuple(
        name
        for name, plugin in profile.plugins.items()
        if name not in registry or type(plugin) is not registry[name]
    )
    return ProfileSettings(
        profile.name,
        points,
        dict(profile.weights),
        dict(profile.placement_weights),
        profile.percentage_of_nodes_to_score,
        {
            name: PluginArguments(type(plugin.args).__name__, msgspec.msgpack.encode(plugin.args))
            for name, plugin in profile.plugins.items()
            if isinstance(plugin.args, PluginArgs) and name not in foreign
        },
        foreign,
    )


def _at(profile: Profile, point: ExtensionPoint) -> Sequence[Plugin]:
    found: Plugin | Sequence[Plugin] = getattr(profile, point.name.lower())
    return (found,) if isinstance(found, Plugin) else found


def gates_of(settings: SchedulerSettings) -> FeatureGates:
    """The feature gates that were in force; `ConfigError` if this version does not know them."""
    version = EffectiveVersion(
        MajorMinor(*settings.emulation), MajorMinor(*settings.min_compatibility)
    )
    return FeatureGates(settings.gates, version)


def profiles_of(
    settings: SchedulerSettings, registry: Registry, handle: Handle
) -> dict[str, Profile]:
    """The profiles made again; `ConfigError` or ValueError if that cannot be done."""
    return {one.name: _profile_of(one, registry, handle) for one in settings.profiles}


def _profile_of(settings: ProfileSettings, registry: Registry, handle: Handle) -> Profile:
    by_point: dict[ExtensionPoint, tuple[str, ...]] = {}
    for point in ExtensionPoint:
        names = settings.points.get(point.value, ())
        if point not in _RECORDED_AT:
            names = tuple(name for name in names if name not in settings.foreign)
        by_point[point] = names
    plugins: dict[str, Plugin] = {}
    for name in dict.fromkeys(name for names in by_point.values() for name in names):
        if name in settings.foreign:
            plugins[name] = recorded_plugin(name, handle)
        elif name in registry:
            plugins[name] = registry[name](_arguments(settings.arguments.get(name)), handle)
        else:
            raise ConfigError(f"there is no plugin {name} in this version of Moorage")
    effective = EffectivePlugins(by_point, settings.weights, settings.placement_weights)
    return Profile(settings.name, effective, plugins, settings.percentage_of_nodes_to_score)


def _arguments(written: PluginArguments | None) -> PluginArgs | None:
    if written is None:
        return None
    kind = getattr(plugin_args, written.kind, None)
    if not (isinstance(kind, type) and issubclass(kind, PluginArgs)):
        raise ConfigError(f"plugin arguments of kind {written.kind} are not known")
    try:
        return msgspec.msgpack.decode(written.data, type=kind)
    except msgspec.MsgspecError as error:
        raise ConfigError(f"{written.kind}: {error}") from error
