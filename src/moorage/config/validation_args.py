"""The rules of plugin arguments.

Owns one function per kind of arguments; each takes the path of the arguments and gives all errors
as texts. Must not decode or default. The rules of an added node affinity are in `added_affinity`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from moorage.config.added_affinity import added_affinity_errors
from moorage.config.args import (
    LEAST_ALLOCATED,
    LIST_DEFAULTING,
    MIN_MAX,
    MOST_ALLOCATED,
    NO_NORMALIZATION,
    REQUESTED_TO_CAPACITY_RATIO,
    SYSTEM_DEFAULTING,
    DefaultPreemptionArgs,
    DefaultSpreadConstraint,
    DynamicResourcesArgs,
    ExpressionFilterArgs,
    ExpressionScoreArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
    VolumeBindingArgs,
)
from moorage.config.expressions import FILTER_EXPRESSIONS, SCORE_EXPRESSIONS, expression_errors
from moorage.config.feature_gates import FeatureGates
from moorage.config.field_errors import (
    child,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from moorage.model.duration import Duration
from moorage.model.spelling import label_key_errors

_STRATEGIES = (LEAST_ALLOCATED, MOST_ALLOCATED, REQUESTED_TO_CAPACITY_RATIO)
_UNSATISFIABLE_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
_NORMALIZATIONS = (MIN_MAX, NO_NORMALIZATION)
_MAX_SHAPE_SCORE = 10


def _default_preemption_errors(
    path: str, args: DefaultPreemptionArgs, gates: FeatureGates
) -> list[str]:
    percentage, absolute = args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
    percentage_path = child(path, "minCandidateNodesPercentage")
    absolute_path = child(path, "minCandidateNodesAbsolute")
    errors = _range_errors(percentage_path, percentage, 0, 100)
    if absolute < 0:
        errors.append(invalid(absolute_path, absolute, "not in valid range [0, inf)"))
    if percentage == 0 and absolute == 0:
        text = "cannot be zero at the same time as"
        errors += [
            invalid(percentage_path, percentage, f"{text} minCandidateNodesAbsolute"),
            invalid(absolute_path, absolute, f"{text} minCandidateNodesPercentage"),
        ]
    return errors


def _inter_pod_affinity_errors(
    path: str, args: InterPodAffinityArgs, gates: FeatureGates
) -> list[str]:
    weight_path = child(path, "hardPodAffinityWeight")
    return _range_errors(weight_path, args.hard_pod_affinity_weight, 0, 100)


def _node_affinity_errors(path: str, args: NodeAffinityArgs, gates: FeatureGates) -> list[str]:
    if args.added_affinity is None:
        return []
    return added_affinity_errors(child(path, "addedAffinity"), args.added_affinity)


def _balanced_allocation_errors(
    path: str, args: NodeResourcesBalancedAllocationArgs, gates: FeatureGates
) -> list[str]:
    errors = []
    seen: set[str] = set()
    for index, resource in enumerate(args.resources):
        here = f"{child(path, 'resources')}[{index}]"
        if resource.name in seen:
            errors.append(duplicate(f"{here}.name", resource.name))
        seen.add(resource.name)
        if resource.weight != 1:
            errors.append(invalid(f"{here}.weight", resource.weight, "must be 1"))
    return errors


def node_resources_fit_errors(path: str, args: NodeResourcesFitArgs) -> list[str]:
    """What is wrong with the arguments of NodeResourcesFit.

    Upstream looks at them only when it builds the plugin, with an empty path; so does `plugins`.
    """
    errors = []
    for index, resource in enumerate(args.ignored_resources):
        errors += _label_name_errors(f"{child(path, 'ignoredResources')}[{index}]", resource)
    for index, group in enumerate(args.ignored_resource_groups):
        here = f"{child(path, 'ignoredResourceGroups')}[{index}]"
        if "/" in group:
            errors.append(invalid(here, group, "resource group name can't contain '/'"))
        errors += _label_name_errors(here, group)
    return errors + _strategy_errors(child(path, "scoringStrategy"), args.scoring_strategy)


def _strategy_errors(path: str, strategy: ScoringStrategy) -> list[str]:
    errors = []
    if strategy.type not in _STRATEGIES:
        errors.append(not_supported(f"{path}.type", strategy.type, _STRATEGIES))
    errors += _resource_weight_errors(f"{path}.resources", strategy.resources)
    ratio, ratio_path = strategy.requested_to_capacity_ratio, f"{path}.requestedToCapacityRatio"
    if strategy.type != REQUESTED_TO_CAPACITY_RATIO:
        if ratio is not None:
            text = "must be nil when type is not RequestedToCapacityRatio"
            errors.append(forbidden(ratio_path, text))
    elif ratio is None:
        text = "must be specified when type is RequestedToCapacityRatio"
        errors.append(required(ratio_path, text))
    else:
        errors += _shape_errors(f"{ratio_path}.shape", ratio.shape)
    return errors


def _pod_topology_spread_errors(
    path: str, args: PodTopologySpreadArgs, gates: FeatureGates
) -> list[str]:
    errors = []
    supported = (SYSTEM_DEFAULTING, LIST_DEFAULTING)
    type_path = child(path, "defaultingType")
    if args.defaulting_type not in supported:
        errors.append(not_supported(type_path, args.defaulting_type, supported))
    elif args.defaulting_type == SYSTEM_DEFAULTING and args.default_constraints:
        text = "when .defaultConstraints are not empty"
        errors.append(invalid(type_path, args.defaulting_type, text))
    seen: set[tuple[str, str]] = set()
    for index, constraint in enumerate(args.default_constraints):
        here = f"{child(path, 'defaultConstraints')}[{index}]"
        errors += _constraint_errors(here, constraint)
        pair = (constraint.topology_key, constraint.when_unsatisfiable)
        if pair in seen:
            errors.append(duplicate(here, f"{{{pair[0]}, {pair[1]}}}"))
        seen.add(pair)
    return errors


def _constraint_errors(path: str, constraint: DefaultSpreadConstraint) -> list[str]:
    errors = []
    if constraint.max_skew <= 0:
        text = "not in valid range (0, inf)"
        errors.append(invalid(f"{path}.maxSkew", constraint.max_skew, text))
    key_path = f"{path}.topologyKey"
    if constraint.topology_key:
        errors += _label_name_errors(key_path, constraint.topology_key)
    else:
        errors.append(required(key_path, "can not be empty"))
    action, action_path = constraint.when_unsatisfiable, f"{path}.whenUnsatisfiable"
    if not action:
        errors.append(required(action_path, "can not be empty"))
    elif action not in _UNSATISFIABLE_ACTIONS:
        errors.append(not_supported(action_path, action, _UNSATISFIABLE_ACTIONS))
    if constraint.label_selector is not None:
        text = "constraint must not define a selector, as they deduced for each pod"
        errors.append(forbidden(f"{path}.labelSelector", text))
    return errors


def _volume_binding_errors(path: str, args: VolumeBindingArgs, gates: FeatureGates) -> list[str]:
    errors = []
    if args.bind_timeout_seconds < 0:
        text = "invalid BindTimeoutSeconds, should not be a negative value"
        errors.append(invalid(child(path, "bindTimeoutSeconds"), args.bind_timeout_seconds, text))
    shape_path = child(path, "shape")
    if gates.enabled("StorageCapacityScoring"):
        errors += _shape_errors(shape_path, args.shape or ())
    elif args.shape is not None:
        shown = [{"Utilization": point.utilization, "Score": point.score} for point in args.shape]
        text = (
            "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
        )
        errors.append(invalid(shape_path, shown, text))
    return errors


def _dynamic_resources_errors(
    path: str, args: DynamicResourcesArgs, gates: FeatureGates
) -> list[str]:
    errors = []
    filter_path, binding_path = child(path, "filterTimeout"), child(path, "bindingTimeout")
    if args.filter_timeout is not None:
        if not gates.enabled("DRASchedulerFilterTimeout"):
            text = "DRASchedulingFilterTimeout feature gate is disabled"
            errors.append(forbidden(filter_path, text))
        elif args.filter_timeout < Duration(0):
            text = "must be zero or positive"
            errors.append(invalid(filter_path, str(args.filter_timeout), text))
    if args.binding_timeout is not None:
        needed = ("DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus")
        if not all(gates.enabled(name) for name in needed):
            text = f"{' or '.join(needed)} feature gate is disabled"
            errors.append(forbidden(binding_path, text))
        elif args.binding_timeout < Duration.of_seconds(1):
            text = "must be at least 1 second"
            errors.append(invalid(binding_path, str(args.binding_timeout), text))
    return errors


def _range_errors(path: str, value: int, least: int, most: int) -> list[str]:
    if least <= value <= most:
        return []
    return [invalid(path, value, f"not in valid range [{least}, {most}]")]


def _label_name_errors(path: str, name: str) -> list[str]:
    return [invalid(path, name, text) for text in label_key_errors(name)]


def _resource_weight_errors(path: str, resources: Sequence[ResourceSpec]) -> list[str]:
    return [
        invalid(
            f"{path}[{index}].weight",
            resource.weight,
            f"resource weight of {resource.name} not in valid range (0, 100]",
        )
        for index, resource in enumerate(resources)
        if not 0 < resource.weight <= 100
    ]


def _shape_errors(path: str, shape: Sequence[UtilizationShapePoint]) -> list[str]:
    if not shape:
        return [required(path, "at least one point must be specified")]
    errors = []
    for index in range(1, len(shape)):
        if shape[index - 1].utilization >= shape[index].utilization:
            text = "values must be sorted in increasing order"
            errors.append(invalid(f"{path}[{index}].utilization", shape[index].utilization, text))
            break
    for index, point in enumerate(shape):
        here = f"{path}[{index}]"
        errors += _range_errors(f"{here}.utilization", point.utilization, 0, 100)
        errors += _range_errors(f"{here}.score", point.score, 0, _MAX_SHAPE_SCORE)
    return errors


def _expression_filter_errors(
    path: str, args: ExpressionFilterArgs, gates: FeatureGates
) -> list[str]:
    del gates
    return expression_errors(child(path, "expression"), args.expression, FILTER_EXPRESSIONS)


def _expression_score_errors(
    path: str, args: ExpressionScoreArgs, gates: FeatureGates
) -> list[str]:
    del gates
    errors = expression_errors(child(path, "expression"), args.expression, SCORE_EXPRESSIONS)
    if args.normalization not in _NORMALIZATIONS:
        here = child(path, "normalization")
        errors.append(not_supported(here, args.normalization, _NORMALIZATIONS))
    return errors


ArgsRule = Callable[[str, Any, FeatureGates], list[str]]

ARGS_RULES: Mapping[str, tuple[type, ArgsRule]] = {
    "DefaultPreemption": (DefaultPreemptionArgs, _default_preemption_errors),
    "DynamicResources": (DynamicResourcesArgs, _dynamic_resources_errors),
    "ExpressionFilter": (ExpressionFilterArgs, _expression_filter_errors),
    "ExpressionScore": (ExpressionScoreArgs, _expression_score_errors),
    "InterPodAffinity": (InterPodAffinityArgs, _inter_pod_affinity_errors),
    "NodeAffinity": (NodeAffinityArgs, _node_affinity_errors),
    "NodeResourcesBalancedAllocation": (
        NodeResourcesBalancedAllocationArgs,
        _balanced_allocation_errors,
    ),
    "PodTopologySpread": (PodTopologySpreadArgs, _pod_topology_spread_errors),
    "VolumeBinding": (VolumeBindingArgs, _volume_binding_errors),
}
"""The rule for each plugin's arguments when a file is validated. NodeResourcesFit is missing, as
it is upstream (by a slip in a name there)."""
