"""What is legal in a configuration and yet surely not what its author wanted.

Owns the findings. Must not refuse anything: upstream accepts all of it.
"""

from collections.abc import Iterator

from moorage.config.feature_gates import FeatureGates
from moorage.config.field_errors import quoted
from moorage.config.plugins import EVERYTHING, default_plugins
from moorage.config.types import (
    ExtenderConfig,
    ExtensionPoint,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    PluginSet,
)

_ONE_THREAD = "it changes nothing here: one thread looks at all nodes at once, in columns"
_WEIGHING = (ExtensionPoint.SCORE, ExtensionPoint.PLACEMENT_SCORE)


def oddities(config: KubeSchedulerConfiguration, gates: FeatureGates) -> list[str]:
    """Findings about a loaded configuration, each beginning with the field's path."""
    defaults = {ref.name for ref in default_plugins(gates).multi_point.enabled}
    found: list[str] = []
    if config.parallelism != KubeSchedulerConfiguration().parallelism:
        found.append(f"parallelism: {_ONE_THREAD}")
    for index, profile in enumerate(config.profiles):
        found += _profile(f"profiles[{index}]", profile, defaults)
    for index, extender in enumerate(config.extenders):
        found += _extender(f"extenders[{index}]", extender)
    return found


def _profile(path: str, profile: KubeSchedulerProfile, defaults: set[str]) -> Iterator[str]:
    plugins = profile.plugins
    yield from _disabled(f"{path}.plugins.multiPoint", plugins.multi_point, defaults)
    could_run = defaults | {ref.name for ref in plugins.multi_point.enabled}
    for point in ExtensionPoint:
        here = f"{path}.plugins.{point.value}"
        yield from _disabled(here, plugins.at(point), could_run)
        if point not in _WEIGHING:
            for index, ref in enumerate(plugins.at(point).enabled):
                if ref.weight:
                    yield f"{here}.enabled[{index}].weight: only weights of score plugins count"
    enabled = plugins.enabled_names()
    for index, entry in enumerate(profile.plugin_config):
        if entry.name not in enabled:
            where = f"{path}.pluginConfig[{index}]"
            yield f"{where}: {quoted(entry.name)} is enabled nowhere, so nobody reads its args"


def _disabled(path: str, chosen: PluginSet, could_run: set[str]) -> Iterator[str]:
    for index, ref in enumerate(chosen.disabled):
        if ref.name != EVERYTHING and ref.name not in could_run:
            where = f"{path}.disabled[{index}]"
            yield f"{where}: {quoted(ref.name)} is not enabled by default, so nothing is disabled"


def _extender(path: str, extender: ExtenderConfig) -> Iterator[str]:
    verbs = (
        extender.filter_verb,
        extender.prioritize_verb,
        extender.preempt_verb,
        extender.bind_verb,
    )
    if not any(verbs):
        yield f"{path}: it has no verb, so it is never asked"
