"""Profiles as they are written down, and made again.

Owns which part of a profile is needed to ask its plugins again. Plugins that do not come with
Moorage are not made again, installed or not: what they said is on record (`answers`).
"""

from collections.abc import Mapping, Sequence

import msgspec

from moorage.config.args import ARGS_OF_PLUGIN
from moorage.config.feature_gates import FeatureGates
from moorage.config.types import ExtensionPoint, PluginArgs
from moorage.errors import ConfigError
from moorage.framework.extenders import Extender
from moorage.framework.plugin import Handle, Plugin
from moorage.framework.profile import Profile
from moorage.framework.registry import Registry
from moorage.ledger.answers import recorded_plugin
from moorage.ledger.entries import ExtenderSettings, ProfileSettings, SchedulerSettings

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
    return SchedulerSettings(
        tuple(_profile_settings(profile, registry) for profile in profiles.values()),
        dict(gates.settings),
        gates.version,
        tuple(
            ExtenderSettings(one.name, one.weight, one.filters, one.prioritizes)
            for one in extenders
        ),
    )


def answering_plugins(settings: ProfileSettings) -> tuple[str, ...]:
    """Those that do not come with Moorage and say something about nodes."""
    asked = {name for point in _ASKED_AGAIN for name in settings.plugins.at(point)}
    return tuple(name for name in settings.foreign if name in asked)


def _profile_settings(profile: Profile, registry: Registry) -> ProfileSettings:
    foreign = tuple(
        name
        for name, plugin in profile.plugins.items()
        if name not in registry or type(plugin) is not registry[name]
    )
    arguments = {
        name: msgspec.msgpack.encode(plugin.args)
        for name, plugin in profile.plugins.items()
        if isinstance(plugin.args, PluginArgs) and name not in foreign
    }
    percentage = profile.percentage_of_nodes_to_score
    return ProfileSettings(profile.name, profile.effective, percentage, arguments, foreign)


def profiles_of(
    settings: SchedulerSettings, registry: Registry, handle: Handle
) -> dict[str, Profile]:
    """The profiles made again; `ConfigError` or ValueError if that cannot be done."""
    return {one.name: _profile_of(one, registry, handle) for one in settings.profiles}


def _profile_of(settings: ProfileSettings, registry: Registry, handle: Handle) -> Profile:
    by_point = dict(settings.plugins.by_point)
    for point in by_point.keys() - set(_RECORDED_AT):
        by_point[point] = tuple(n for n in by_point[point] if n not in settings.foreign)
    plugins: dict[str, Plugin] = {}
    for name in dict.fromkeys(name for names in by_point.values() for name in names):
        if name in settings.foreign:
            plugins[name] = recorded_plugin(name, handle)
        elif name in registry:
            plugins[name] = registry[name](_arguments(name, settings.arguments.get(name)), handle)
        else:
            raise ConfigError(f"there is no plugin {name} in this version of Moorage")
    effective = msgspec.structs.replace(settings.plugins, by_point=by_point)
    return Profile(settings.name, effective, plugins, settings.percentage_of_nodes_to_score)


def _arguments(plugin: str, data: bytes | None) -> PluginArgs | None:
    kind = ARGS_OF_PLUGIN.get(plugin)
    if kind is None or data is None:
        return None
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except msgspec.MsgspecError as error:
        raise ConfigError(f"{kind.__name__}: {error}") from error
