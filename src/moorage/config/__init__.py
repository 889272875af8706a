"""The configuration of a scheduler: KubeSchedulerConfiguration v1, feature gates, plugin lists.

`load_config` reads a file's text into a complete, valid value; `effective_profiles` says which
plugins run where. Everything here is plain values: no plugin is built, no file opened, and neither
the model of API objects nor NumPy is known.
"""

from moorage.config.encoding import encode_config, shown_config
from moorage.config.feature_gates import DEFAULT_FEATURE_GATES, FeatureGates
from moorage.config.loading import (
    default_config,
    load_config,
    load_profile,
    read_config,
    validate_config,
)
from moorage.config.plugins import effective_profiles
from moorage.config.types import KubeSchedulerConfiguration, KubeSchedulerProfile

__all__ = [
    "DEFAULT_FEATURE_GATES",
    "FeatureGates",
    "KubeSchedulerConfiguration",
    "KubeSchedulerProfile",
    "default_config",
    "effective_profiles",
    "encode_config",
    "load_config",
    "load_profile",
    "read_config",
    "shown_config",
    "validate_config",
]
