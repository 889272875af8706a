"""The arguments of the plugins that ship with the scheduler.

Owns their fields and the values they take at the default feature gates. Must not validate them
(`validation_args`) nor know which gates change a default (`defaulting`).
"""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from moorage.config.added_affinity import LabelSelectorShape, NodeAffinityShape
from moorage.config.types import ConfigValue, Int32, Int64, PluginArgs
from moorage.model.duration import Duration

LEAST_ALLOCATED = "LeastAllocated"
MOST_ALLOCATED = "MostAllocated"
REQUESTED_TO_CAPACITY_RATIO = "RequestedToCapacityRatio"

SYSTEM_DEFAULTING = "System"
LIST_DEFAULTING = "List"

MIN_MAX = "MinMax"
NO_NORMALIZATION = "None"


class ResourceSpec(ConfigValue, frozen=True):
    """A resource and its weight among others."""

    name: str = ""
    weight: Int64 = 1


class UtilizationShapePoint(ConfigValue, frozen=True):
    """A corner of a scoring curve: utilization in percent, score from 0 to 10."""

    utilization: Int32 = 0
    score: Int32 = 0


CPU_AND_MEMORY = (ResourceSpec("cpu", 1), ResourceSpec("memory", 1))


class RequestedToCapacityRatioParam(ConfigValue, frozen=True):
    """The curve of the RequestedToCapacityRatio strategy."""

    shape: tuple[UtilizationShapePoint, ...] = ()


class ScoringStrategy(ConfigValue, frozen=True):
    """How NodeResourcesFit ranks nodes.

    `type` has no default of its own: a strategy without one is refused when the plugin is built.
    """

    type: str = ""
    resources: tuple[ResourceSpec, ...] = CPU_AND_MEMORY
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None


class DefaultSpreadConstraint(ConfigValue, frozen=True):
    """A constraint that PodTopologySpread gives to pods without any."""

    max_skew: Int32 = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: Annotated[
        dict[str, Any] | None, msgspec.Meta(extra={"shape": LabelSelectorShape})
    ] = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


class DefaultPreemptionArgs(PluginArgs, frozen=True):
    """How many candidate nodes a preemption looks at."""

    min_candidate_nodes_percentage: Int32 = 10
    min_candidate_nodes_absolute: Int32 = 100


class InterPodAffinityArgs(PluginArgs, frozen=True):
    """What counts when nodes are ranked by pod affinity."""

    hard_pod_affinity_weight: Int32 = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class NodeAffinityArgs(PluginArgs, frozen=True):
    """A node affinity that every pod of the profile has in addition to its own.

    The affinity is a plain mapping in the form of `pod.spec.affinity.nodeAffinity`.
    """

    added_affinity: Annotated[
        dict[str, Any] | None, msgspec.Meta(extra={"shape": NodeAffinityShape})
    ] = None


class NodeResourcesFitArgs(PluginArgs, frozen=True):
    """Which resources are left unchecked, and how nodes are ranked."""

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy = ScoringStrategy(LEAST_ALLOCATED)


class NodeResourcesBalancedAllocationArgs(PluginArgs, frozen=True):
    """The resources whose use should be balanced."""

    resources: tuple[ResourceSpec, ...] = CPU_AND_MEMORY


class PodTopologySpreadArgs(PluginArgs, frozen=True):
    """The constraints of pods that define none."""

    default_constraints: tuple[DefaultSpreadConstraint, ...] = ()
    defaulting_type: str = SYSTEM_DEFAULTING


class VolumeBindingArgs(PluginArgs, frozen=True):
    """How long binding may take, and the curve that ranks nodes by storage capacity."""

    bind_timeout_seconds: Int64 = 600
    shape: tuple[UtilizationShapePoint, ...] | None = None


class DynamicResourcesArgs(PluginArgs, frozen=True):
    """Time limits of device allocation; `None` where the feature is off."""

    filter_timeout: Duration | None = Duration.of_seconds(10)
    binding_timeout: Duration | None = Duration.of_seconds(600)


class ExpressionFilterArgs(PluginArgs, frozen=True):
    """Which nodes a pod may use: those of which the expression is true."""

    expression: str = ""
    message: str = ""
    """Why others are refused, for the pod's events; the plugin has a sentence of its own."""


class ExpressionScoreArgs(PluginArgs, frozen=True):
    """How good a node is: the larger the expression's number, the better."""

    expression: str = ""
    normalization: str = MIN_MAX


ARGS_OF_PLUGIN: Mapping[str, type[PluginArgs]] = {
    "DefaultPreemption": DefaultPreemptionArgs,
    "DynamicResources": DynamicResourcesArgs,
    "ExpressionFilter": ExpressionFilterArgs,
    "ExpressionScore": ExpressionScoreArgs,
    "InterPodAffinity": InterPodAffinityArgs,
    "NodeAffinity": NodeAffinityArgs,
    "NodeResourcesBalancedAllocation": NodeResourcesBalancedAllocationArgs,
    "NodeResourcesFit": NodeResourcesFitArgs,
    "PodTopologySpread": PodTopologySpreadArgs,
    "VolumeBinding": VolumeBindingArgs,
}
"""The plugins that take arguments; the kind in a file is the class's name."""
