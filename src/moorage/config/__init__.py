"""The configuration of a scheduler: KubeSchedulerConfiguration v1, feature gates, plugin lists.

`load_config` reads a file's text into a complete, valid value; `effective_plugins` says which
plugins run where. Everything here is plain values: no plugin is built, no file opened, and neither
the model of API objects nor NumPy is known.
"""

from moorage.config.args import (
    ARGS_OF_PLUGIN,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    ResourceSpec,
)
from moorage.config.as_built import extenders_in_order, with_extender_resources
from moorage.config.defaulting import default_args
from moorage.config.encoding import encode_config, shown_config
from moorage.config.feature_gates import DEFAULT_FEATURE_GATES, FeatureGates
from moorage.config.loading import (
    default_config,
    load_config,
    load_profile,
    read_config,
    validate_config,
)
from moorage.config.plugins import (
    EffectivePlugins,
    Implements,
    default_plugins,
    effective_plugins,
    effective_profiles,
    merge_plugins,
)
from moorage.config.types import (
    API_VERSION,
    KIND,
    ExtenderConfig,
    ExtenderManagedResource,
    ExtensionPoint,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElectionConfiguration,
    PluginArgs,
    PluginConfig,
    PluginRef,
    Plugins,
    PluginSet,
)

__all__ = [
    "API_VERSION",
    "ARGS_OF_PLUGIN",
    "DEFAULT_FEATURE_GATES",
    "KIND",
    "DynamicResourcesArgs",
    "EffectivePlugins",
    "ExtenderConfig",
    "ExtenderManagedResource",
    "ExtensionPoint",
    "FeatureGates",
    "Implements",
    "InterPodAffinityArgs",
    "KubeSchedulerConfiguration",
    "KubeSchedulerProfile",
    "LeaderElectionConfiguration",
    "NodeAffinityArgs",
    "NodeResourcesFitArgs",
    "PluginArgs",
    "PluginConfig",
    "PluginRef",
    "PluginSet",
    "Plugins",
    "PodTopologySpreadArgs",
    "ResourceSpec",
    "default_args",
    "default_config",
    "default_plugins",
    "effective_plugins",
    "effective_profiles",
    "encode_config",
    "extenders_in_order",
    "load_config",
    "load_profile",
    "merge_plugins",
    "read_config",
    "shown_config",
    "validate_config",
    "with_extender_resources",
]
