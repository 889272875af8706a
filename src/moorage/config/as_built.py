"""The configuration that a scheduler ends up with.

Owns what extenders change about the rest of it, and which plugin arguments kube-scheduler writes to
a file, in which order. Must not call an extender nor build plugins: those that a profile enables
are the ones that would be built.
"""

import msgspec

from moorage.config.args import NodeResourcesFitArgs
from moorage.config.types import (
    ExtenderConfig,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    PluginConfig,
)
from moorage.errors import ConfigError

_FIT = "NodeResourcesFit"


def extenders_in_order(config: KubeSchedulerConfiguration) -> tuple[ExtenderConfig, ...]:
    """The extenders as they are called: those that may fail come last."""
    return tuple(sorted(config.extenders, key=lambda extender: extender.ignorable))


def with_extender_resources(config: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    """Let NodeResourcesFit ignore the resources that extenders say it should.

    They replace the resources that the profile itself lists. A `ConfigError` means that a profile
    has no arguments for NodeResourcesFit.
    """
    ignored = tuple(
        resource.name
        for extender in config.extenders
        for resource in extender.managed_resources
        if resource.ignored_by_scheduler
    )
    if not ignored:
        return config
    profiles = tuple(_ignoring(profile, ignored) for profile in config.profiles)
    return msgspec.structs.replace(config, profiles=profiles)


def _ignoring(profile: KubeSchedulerProfile, ignored: tuple[str, ...]) -> KubeSchedulerProfile:
    args = profile.args_for(_FIT)
    if not isinstance(args, NodeResourcesFitArgs):
        raise ConfigError(
            "couldn't build extenders: can't find NodeResourcesFitArgs in plugin config"
        )
    changed = msgspec.structs.replace(args, ignored_resources=ignored)
    return msgspec.structs.replace(
        profile,
        plugin_config=tuple(
            PluginConfig(_FIT, changed) if entry.name == _FIT else entry
            for entry in profile.plugin_config
        ),
    )


def as_built(config: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    """A loaded configuration as `--write-config-to` shows it.

    The resources that extenders look after are among the arguments of NodeResourcesFit, and
    arguments that no plugin reads are gone; the others are sorted by plugin. A `ConfigError` means
    that no scheduler can be built from the configuration.
    """
    applied = with_extender_resources(config)
    profiles = tuple(_as_built(profile) for profile in applied.profiles)
    return msgspec.structs.replace(applied, profiles=profiles)


def _as_built(profile: KubeSchedulerProfile) -> KubeSchedulerProfile:
    enabled = profile.plugins.enabled_names()
    entries = [
        entry for entry in profile.plugin_config if entry.name in enabled and entry.args is not None
    ]
    entries.sort(key=lambda entry: entry.name)
    return msgspec.structs.replace(profile, plugin_config=tuple(entries))
