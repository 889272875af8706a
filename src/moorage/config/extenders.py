"""What the extenders of a configuration change about the rest of it.

Owns two rules that apply when a scheduler is built. Must not call an extender.
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
