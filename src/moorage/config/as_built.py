"""The configuration that a scheduler ends up with, as kube-scheduler writes it to a file.

Owns which plugin arguments are shown, and in which order. Must not build plugins: those that a
profile enables are the ones that would be built.
"""

import msgspec

from moorage.config.extenders import with_extender_resources
from moorage.config.types import KubeSchedulerConfiguration, KubeSchedulerProfile


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
