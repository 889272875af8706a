"""A profile: the plugins of one scheduler name, in order, with weights."""

from collections.abc import Sequence
from typing import Any, TypeVar, cast

from moorage.config.expansion import EffectivePlugins, effective_plugins
from moorage.config.types import ExtensionPoint, KubeSchedulerProfile
from moorage.errors import ConfigError, MoorageError
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

P = TypeVar("P", bound=Plugin)


class Profile:
    """Instances of the plugins of one profile, listed per extension point."""

    def __init__(
        self,
        name: str,
        effective: EffectivePlugins,
        instances: dict[str, Plugin],
        percentage_of_nodes_to_score: int | None,
    ) -> None:
        def at(point: ExtensionPoint, _kind: type[P]) -> tuple[P, ...]:
            return tuple(cast(P, instances[plugin]) for plugin in effective.at(point))

        self.name = name
        self.percentage_of_nodes_to_score = percentage_of_nodes_to_score
        self.weights = effective.weights
        self.plugins = instances
        self.pre_enqueue = at(ExtensionPoint.PRE_ENQUEUE, PreEnqueuePlugin)
        self.queue_sort = at(ExtensionPoint.QUEUE_SORT, QueueSortPlugin)[0]
        # Each plugin's state has a type of its own; here they are passed through unseen.
        self.pre_filter = at(ExtensionPoint.PRE_FILTER, PreFilterPlugin[Any])
        self.filter = at(ExtensionPoint.FILTER, FilterPlugin[Any])
        self.post_filter = at(ExtensionPoint.POST_FILTER, PostFilterPlugin)
        self.pre_score = at(ExtensionPoint.PRE_SCORE, PreScorePlugin[Any])
        self.score = at(ExtensionPoint.SCORE, ScorePlugin[Any])
        self.reserve = at(ExtensionPoint.RESERVE, ReservePlugin)
        self.permit = at(ExtensionPoint.PERMIT, PermitPlugin)
        self.pre_bind = at(ExtensionPoint.PRE_BIND, PreBindPlugin)
        self.bind = at(ExtensionPoint.BIND, BindPlugin)
        self.post_bind = at(ExtensionPoint.POST_BIND, PostBindPlugin)


def build_profile(
    config: KubeSchedulerProfile,
    registry: Registry,
    handle: Handle,
    percentage_of_nodes_to_score: int | None = None,
) -> Profile:
    """Make the plugins that a profile's configuration names."""
    effective = effective_plugins(config, registry.implements)
    instances: dict[str, Plugin] = {}
    for name in dict.fromkeys(name for names in effective.by_point.values() for name in names):
        try:
            instances[name] = registry[name](config.args_for(name), handle)
        except MoorageError as error:
            raise ConfigError(f'initializing plugin "{name}": {error}') from error
    percentage = config.percentage_of_nodes_to_score
    if percentage is None:
        percentage = percentage_of_nodes_to_score
    return Profile(config.scheduler_name, effective, instances, percentage)


def build_profiles(
    configs: Sequence[KubeSchedulerProfile],
    registry: Registry,
    handle: Handle,
    percentage_of_nodes_to_score: int | None = None,
) -> dict[str, Profile]:
    """All profiles of a configuration by scheduler name."""
    return {
        config.scheduler_name: build_profile(config, registry, handle, percentage_of_nodes_to_score)
        for config in configs
    }
