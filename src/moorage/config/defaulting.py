"""What a decoded configuration means where it is silent.

Owns every default that depends on another value or on the feature gates; the plain ones stand with
the fields in `types` and `args`. Must not reject anything (`validation`).
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from moorage.config.args import (
    ARGS_OF_PLUGIN,
    CPU_AND_MEMORY,
    SYSTEM_DEFAULTING,
    DynamicResourcesArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    ResourceSpec,
    UtilizationShapePoint,
    VolumeBindingArgs,
)
from moorage.config.feature_gates import FeatureGates
from moorage.config.plugins import default_plugins, merge_plugins
from moorage.config.types import (
    ClientConnectionConfiguration,
    ExtenderConfig,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElectionConfiguration,
    PluginArgs,
    PluginConfig,
)
from moorage.model.duration import Duration

Value = TypeVar("Value", bound=msgspec.Struct)

EXTENDER_TIMEOUT = Duration.of_seconds(5)
_CAPACITY_SHAPE = (UtilizationShapePoint(0, 10), UtilizationShapePoint(100, 0))


def with_defaults(
    config: KubeSchedulerConfiguration, gates: FeatureGates
) -> KubeSchedulerConfiguration:
    """Complete a configuration; plugin arguments that it has are complete already."""
    profiles = config.profiles or (KubeSchedulerProfile(),)
    contention = config.enable_contention_profiling
    return msgspec.structs.replace(
        config,
        enable_contention_profiling=config.enable_profiling if contention is None else contention,
        leader_election=_complete(config.leader_election, LeaderElectionConfiguration()),
        client_connection=_complete(config.client_connection, ClientConnectionConfiguration()),
        profiles=tuple(_complete_profile(profile, gates) for profile in profiles),
        extenders=tuple(_complete_extender(extender) for extender in config.extenders),
    )


def default_args(name: str, gates: FeatureGates) -> PluginArgs:
    """The arguments of a plugin that was given none."""
    return complete_args(ARGS_OF_PLUGIN[name](), {}, gates)


def complete_args(args: PluginArgs, given: Mapping[str, object], gates: FeatureGates) -> PluginArgs:
    """Fill in decoded arguments; `given` are the fields as the user wrote them."""
    complete = _COMPLETE_ARGS.get(type(args))
    return args if complete is None else complete(args, given, gates)


def _complete(value: Value, default: Value) -> Value:
    """Replace what is empty or zero: upstream cannot tell that from absent."""
    gaps = {
        field: getattr(default, field)
        for field in value.__struct_fields__
        if not isinstance(getattr(value, field), bool)
        and getattr(value, field) in ("", 0, Duration(0))
    }
    return msgspec.structs.replace(value, **gaps)


def _complete_extender(extender: ExtenderConfig) -> ExtenderConfig:
    timeout = extender.http_timeout
    return msgspec.structs.replace(
        extender, http_timeout=EXTENDER_TIMEOUT if timeout == Duration(0) else timeout
    )


def _complete_profile(profile: KubeSchedulerProfile, gates: FeatureGates) -> KubeSchedulerProfile:
    plugins = merge_plugins(default_plugins(gates), profile.plugins)
    configured = {entry.name for entry in profile.plugin_config}
    missing = sorted(plugins.enabled_names() & ARGS_OF_PLUGIN.keys() - configured)
    added = tuple(PluginConfig(name, default_args(name, gates)) for name in missing)
    return msgspec.structs.replace(
        profile, plugins=plugins, plugin_config=profile.plugin_config + added
    )


def _complete_fit(
    args: NodeResourcesFitArgs, given: Mapping[str, object], gates: FeatureGates
) -> NodeResourcesFitArgs:
    strategy = args.scoring_strategy
    resources = _complete_resources(strategy.resources)
    return msgspec.structs.replace(
        args, scoring_strategy=msgspec.structs.replace(strategy, resources=resources)
    )


def _complete_balanced(
    args: NodeResourcesBalancedAllocationArgs, given: Mapping[str, object], gates: FeatureGates
) -> NodeResourcesBalancedAllocationArgs:
    return msgspec.structs.replace(args, resources=_complete_resources(args.resources))


def _complete_resources(resources: tuple[ResourceSpec, ...]) -> tuple[ResourceSpec, ...]:
    return (
        tuple(ResourceSpec(resource.name, resource.weight or 1) for resource in resources)
        or CPU_AND_MEMORY
    )


def _complete_spread(
    args: PodTopologySpreadArgs, given: Mapping[str, object], gates: FeatureGates
) -> PodTopologySpreadArgs:
    chosen = args.defaulting_type or SYSTEM_DEFAULTING
    return msgspec.structs.replace(args, defaulting_type=chosen)


def _complete_volume_binding(
    args: VolumeBindingArgs, given: Mapping[str, object], gates: FeatureGates
) -> VolumeBindingArgs:
    if args.shape or not gates.enabled("StorageCapacityScoring"):
        return args
    return msgspec.structs.replace(args, shape=_CAPACITY_SHAPE)


def _complete_dynamic_resources(
    args: DynamicResourcesArgs, given: Mapping[str, object], gates: FeatureGates
) -> DynamicResourcesArgs:
    """Take back the default of a time limit whose feature is off: one given there is an error."""
    off: dict[str, None] = {}
    if given.get("filterTimeout") is None and not gates.enabled("DRASchedulerFilterTimeout"):
        off["filter_timeout"] = None
    needed = ("DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus")
    has_binding = all(gates.enabled(name) for name in needed)
    if given.get("bindingTimeout") is None and not has_binding:
        off["binding_timeout"] = None
    return msgspec.structs.replace(args, **off)


_COMPLETE_ARGS: Mapping[type, Callable[[Any, Mapping[str, object], FeatureGates], PluginArgs]] = {
    DynamicResourcesArgs: _complete_dynamic_resources,
    NodeResourcesBalancedAllocationArgs: _complete_balanced,
    NodeResourcesFitArgs: _complete_fit,
    PodTopologySpreadArgs: _complete_spread,
    VolumeBindingArgs: _complete_volume_binding,
}
