"""A profile: the plugins of one scheduler name, in order, with weights."""

from collections.abc import Collection, Iterator
from copy import copy
from typing import Any

import msgspec

from moorage.cluster.stamps import Aspect
from moorage.config.as_built import with_extender_resources
from moorage.config.plugins import EffectivePlugins, effective_plugins, effective_profiles
from moorage.config.types import ExtensionPoint, KubeSchedulerConfiguration, KubeSchedulerProfile
from moorage.errors import ConfigError, MoorageError, reason_of, shown
from moorage.framework.calls import watched
from moorage.framework.faults import is_ours, raised_at
from moorage.framework.group_preemption import PodGroupPostFilterPlugin
from moorage.framework.guard import FAULTS, events_of, may_take_long
from moorage.framework.placements import (
    PlacementFeasiblePlugin,
    PlacementGeneratePlugin,
    PlacementScorePlugin,
)
from moorage.framework.plugin import (
    BindPlugin,
    FilterPlugin,
    Handle,
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
from moorage.framework.registry import Registry
from moorage.model.custom import parse_resource_name
from moorage.model.decode import KINDS
from moorage.model.meta import ApiObject
from moorage.model.pod import Pod


class Profile:
    """Instances of the plugins of one profile, listed per extension point."""

    def __init__(
        self,
        name: str,
        effective: EffectivePlugins,
        instances: dict[str, Plugin],
        percentage_of_nodes_to_score: int | None,
    ) -> None:
        def at(point: ExtensionPoint) -> tuple[Any, ...]:
            return tuple(instances[plugin] for plugin in effective.at(point))

        self.name = name
        self.percentage_of_nodes_to_score = percentage_of_nodes_to_score
        self.effective = effective
        self.weights = effective.weights
        self.plugins = instances
        self._slow = tuple(
            plugin
            for plugin in instances.values()
            if type(plugin).may_take_long is not Plugin.may_take_long
        )
        # What each point's plugins inherit from is checked when the profile is expanded.
        self.pre_enqueue: tuple[PreEnqueuePlugin, ...] = at(ExtensionPoint.PRE_ENQUEUE)
        self.queue_sort: QueueSortPlugin = at(ExtensionPoint.QUEUE_SORT)[0]
        self.pre_filter: tuple[PreFilterPlugin[Any], ...] = at(ExtensionPoint.PRE_FILTER)
        self.pre_filter_names = tuple(plugin.name for plugin in self.pre_filter)
        self.filter: tuple[FilterPlugin[Any], ...] = at(ExtensionPoint.FILTER)
        self.post_filter: tuple[PostFilterPlugin, ...] = at(ExtensionPoint.POST_FILTER)
        self.pre_score: tuple[PreScorePlugin[Any], ...] = at(ExtensionPoint.PRE_SCORE)
        self.score: tuple[ScorePlugin[Any], ...] = at(ExtensionPoint.SCORE)
        self.reserve: tuple[ReservePlugin, ...] = at(ExtensionPoint.RESERVE)
        self.permit: tuple[PermitPlugin, ...] = at(ExtensionPoint.PERMIT)
        self.pre_bind: tuple[PreBindPlugin, ...] = at(ExtensionPoint.PRE_BIND)
        self.bind: tuple[BindPlugin, ...] = at(ExtensionPoint.BIND)
        self.post_bind: tuple[PostBindPlugin, ...] = at(ExtensionPoint.POST_BIND)
        self.placement_generate: tuple[PlacementGeneratePlugin, ...] = at(
            ExtensionPoint.PLACEMENT_GENERATE
        )
        self.placement_feasible = tuple(
            plugin for plugin in instances.values() if isinstance(plugin, PlacementFeasiblePlugin)
        )
        self.placement_score: tuple[PlacementScorePlugin, ...] = at(ExtensionPoint.PLACEMENT_SCORE)
        self.pod_group_post_filter: tuple[PodGroupPostFilterPlugin, ...] = at(
            ExtensionPoint.POD_GROUP_POST_FILTER
        )

    def may_take_long(self, pod: Pod) -> bool:
        """May an attempt to place the pod take long, as far as its plugins can say?"""
        return any(may_take_long(plugin, pod) for plugin in self._slow)

    def without_post_filter(self) -> "Profile":
        """The same profile for a try that must have no consequences."""
        bare = copy(self)
        bare.post_filter = ()
        return bare


def named_kinds(plugin: Plugin) -> Iterator[type[ApiObject] | str]:
    """What must be watched for a plugin: what it looks up, and custom resources it waits for."""
    if not isinstance(plugin.looks_up, Collection) or isinstance(plugin.looks_up, str):
        raise ConfigError(
            f"plugin {plugin.name}: looks_up: expected a tuple of kinds, got {plugin.looks_up!r}"
        )
    for kind in plugin.looks_up:
        is_known = isinstance(kind, type) and kind.__name__ in KINDS
        if not (is_known or (isinstance(kind, str) and parse_resource_name(kind))):
            raise ConfigError(
                f"plugin {plugin.name}: looks_up: {kind!r} is neither a type of moorage.model nor "
                "<plural>.<version>.<group>"
            )
        yield kind
    for registration in events_of(plugin) or ():
        resource = registration.event.resource
        if isinstance(resource, str):
            if parse_resource_name(resource) is None:
                raise ConfigError(
                    f"plugin {plugin.name}: events_to_register: {resource!r} is not "
                    "<plural>.<version>.<group>"
                )
            yield resource


def check_reads(plugin: Plugin) -> None:
    """`ConfigError` unless the parts of a node that a plugin says it reads are such."""
    reads = plugin.reads
    if not (isinstance(reads, tuple | list) and all(isinstance(one, Aspect) for one in reads)):
        raise ConfigError(
            f"plugin {plugin.name}: reads: expected a tuple of Aspects, got {shown(reads)}"
        )


def build_profile(
    config: KubeSchedulerProfile,
    registry: Registry,
    handle: Handle,
    percentage_of_nodes_to_score: int | None = None,
) -> Profile:
    """Make the plugins that a profile's configuration names."""
    effective = effective_plugins(config, registry.implements)
    instances: dict[str, Plugin] = {}
    handle = msgspec.structs.replace(handle, profile_name=config.scheduler_name)
    for name in dict.fromkeys(name for names in effective.by_point.values() for name in names):
        instances[name] = _instance(name, registry[name], config.args_for(name), handle)
    percentage = config.percentage_of_nodes_to_score
    if percentage is None:
        percentage = percentage_of_nodes_to_score
    return Profile(config.scheduler_name, effective, instances, percentage)


def _instance(name: str, plugin_class: type[Plugin], args: Any, handle: Handle) -> Plugin:
    """Make a plugin; its constructor may raise anything, which is the configuration's fault."""
    try:
        plugin = watched(plugin_class, handle.calls, handle.profile_name)(args, handle)
    except FAULTS as error:
        what = f'initializing plugin "{name}": '
        if is_ours(plugin_class) or isinstance(error, MoorageError):
            raise ConfigError(f"{what}{error}") from error
        place = raised_at(plugin_class, "", error.__traceback__)
        raise ConfigError(f"{what}{reason_of(error)}{f' ({place})' if place else ''}") from error
    if not hasattr(plugin, "handle"):
        plugin.handle = handle  # its constructor did not call that of `Plugin`
    check_reads(plugin)
    return plugin


def build_profiles(
    config: KubeSchedulerConfiguration, registry: Registry, handle: Handle
) -> dict[str, Profile]:
    """All profiles of a configuration by scheduler name; they must agree on the queue's order."""
    config = with_extender_resources(config)
    effective_profiles(config, registry.implements)
    percentage = config.percentage_of_nodes_to_score
    return {
        profile.scheduler_name: build_profile(profile, registry, handle, percentage)
        for profile in config.profiles
    }
