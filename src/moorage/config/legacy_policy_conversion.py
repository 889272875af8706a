"""From a policy or an algorithm provider of v1.21 to a KubeSchedulerConfiguration of today.

Owns which plugins a profile gets, where, with which weights and arguments, and the list of what
could not be taken over. Must not read files or talk to a cluster.

The profile names every plugin at each of its extension points and nothing at MultiPoint: that is
the form a policy was turned into, and the only one that keeps its order of filters.
"""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import msgspec

from moorage.config.args import NodeResourcesFitArgs
from moorage.config.encoding import encode_config
from moorage.config.feature_gates import DEFAULT_FEATURE_GATES, FeatureGates
from moorage.config.field_errors import aggregate, quoted
from moorage.config.legacy_policy import (
    LabelsPresence,
    LegacyPolicy,
    PredicatePolicy,
    PriorityPolicy,
    RequestedToCapacityRatioArguments,
    decode_policy,
    validate_policy,
)
from moorage.config.loading import load_config
from moorage.config.plugins import EVERYTHING, default_plugins
from moorage.config.types import (
    API_VERSION,
    DEFAULT_SCHEDULER_NAME,
    KIND,
    ExtensionPoint,
    KubeSchedulerConfiguration,
)
from moorage.config.validation_args import node_resources_fit_errors
from moorage.errors import ConfigError
from moorage.tables import read_table

_FIT = "NodeResourcesFit"
_PRE_SCORE_AND_SCORE = (ExtensionPoint.PRE_SCORE, ExtensionPoint.SCORE)
_LEAST_REQUESTED = "LeastRequestedPriority"
_MOST_REQUESTED = "MostRequestedPriority"
_REQUESTED_TO_CAPACITY = "RequestedToCapacityRatio"
_AVOID_PODS = "NodePreferAvoidPodsPriority"
_STRATEGIES = {
    _LEAST_REQUESTED: "LeastAllocated",
    _MOST_REQUESTED: "MostAllocated",
    _REQUESTED_TO_CAPACITY: "RequestedToCapacityRatio",
}
_AUTOSCALER = "ClusterAutoscalerProvider"
_PROVIDERS = ("DefaultProvider", _AUTOSCALER)

Points = Mapping[str, tuple[ExtensionPoint, ...]]


class PolicyTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `legacy_policy.yaml` says of the names in a policy."""

    predicate_order: tuple[str, ...]
    predicate_plugins: Mapping[str, tuple[str, ...]]
    predicate_aliases: Mapping[str, str]
    mandatory_predicates: frozenset[str]
    default_predicates: tuple[str, ...]
    migrated_volume_limits: frozenset[str]
    priority_plugins: Mapping[str, str]
    priority_aliases: Mapping[str, str]
    default_priorities: Mapping[str, int]
    filter_points: Points
    score_points: Points
    before_policy_plugins: Points
    later_plugins: Points
    provider_filters: tuple[str, ...]
    provider_priorities: Mapping[str, int]
    messages: Mapping[str, str]


@cache
def policy_table() -> PolicyTable:
    """Read when it is needed, as hardly any scheduler has a policy."""
    return read_table("moorage.config", "legacy_policy.yaml", PolicyTable)


class Dropped(msgspec.Struct, frozen=True):
    """Something that has no counterpart today, and what to do about it.

    `changes_decisions` is set where the user asked for it and pods may go elsewhere without it.
    """

    item: str
    reason: str
    changes_decisions: bool = False

    def __str__(self) -> str:
        return f"{self.item}: {self.reason}"


class Conversion(msgspec.Struct, frozen=True):
    """A converted configuration: as a user would write it, and loaded; and what is not in it."""

    document: dict[str, Any]
    config: KubeSchedulerConfiguration
    dropped: tuple[Dropped, ...] = ()

    @property
    def refused(self) -> tuple[Dropped, ...]:
        """What must not be dropped without the user's consent."""
        return tuple(one for one in self.dropped if one.changes_decisions)

    def check(self) -> None:
        """Raise a `ConfigError` if dropping something changes decisions."""
        if self.refused:
            texts = "; ".join(str(one) for one in self.refused)
            raise ConfigError(f"this has no counterpart in v1.37: {texts}")


def convert_policy(
    document: Mapping[str, object],
    *,
    gates: FeatureGates = DEFAULT_FEATURE_GATES,
    scheduler_name: str = DEFAULT_SCHEDULER_NAME,
) -> Conversion:
    """The configuration that does what a policy, given as plain values, asks for.

    A `ConfigError` means that v1.21 would have refused the policy, too. Call `Conversion.check`
    unless the user agreed to lose what cannot be converted.
    """
    policy = decode_policy(document)
    validate_policy(policy)
    profile = _Profile(gates)
    if policy.always_check_all_predicates:
        profile.drop("alwaysCheckAllPredicates", "check_all_gone")
    _add_predicates(profile, policy.predicates)
    _add_priorities(profile, policy.priorities)
    if policy.hard_pod_affinity_symmetric_weight and profile.scores("InterPodAffinity"):
        weight = policy.hard_pod_affinity_symmetric_weight
        profile.args["InterPodAffinity"] = {"hardPodAffinityWeight": weight}
    return profile.conversion(scheduler_name, _extenders(profile, policy))


def convert_algorithm_provider(
    name: str,
    *,
    gates: FeatureGates = DEFAULT_FEATURE_GATES,
    scheduler_name: str = DEFAULT_SCHEDULER_NAME,
) -> Conversion:
    """The configuration that does what an algorithm provider of v1.21 did."""
    if name not in _PROVIDERS:
        raise ConfigError(f"algorithm provider {quoted(name)} is not registered")
    profile = _Profile(gates)
    for plugin in profile.table.provider_filters:
        profile.add_filter(plugin)
    for priority, weight in profile.table.provider_priorities.items():
        if priority == _AVOID_PODS:
            profile.drop(f"priority {quoted(priority)}", "avoid_pods_gone")
        elif priority == _LEAST_REQUESTED and name == _AUTOSCALER:
            profile.add_score(_FIT, weight)
            profile.args[_FIT] = {"scoringStrategy": {"type": _STRATEGIES[_MOST_REQUESTED]}}
        else:
            profile.add_score(profile.table.priority_plugins[priority], weight)
    return profile.conversion(scheduler_name, [])


class _Profile:
    """A profile that is being put together."""

    def __init__(self, gates: FeatureGates) -> None:
        self.gates = gates
        self.table = policy_table()
        self.args: dict[str, dict[str, Any]] = {}
        self.dropped: list[Dropped] = []
        self._sets: dict[ExtensionPoint, dict[str, int]] = {point: {} for point in ExtensionPoint}
        self._add_general(self.table.before_policy_plugins)

    def add_filter(self, plugin: str) -> None:
        self._enable(plugin, self.table.filter_points[plugin])

    def add_score(self, plugin: str, weight: int) -> None:
        """Let a plugin rank nodes; like upstream, the first weight that it is given stays."""
        points = self.table.score_points.get(plugin, _PRE_SCORE_AND_SCORE)
        self._enable(plugin, points, weight)

    def filters(self, plugin: str) -> bool:
        return plugin in self._sets[ExtensionPoint.FILTER]

    def scores(self, plugin: str) -> bool:
        return plugin in self._sets[ExtensionPoint.SCORE]

    def drop(
        self, item: str, message: str, *, changes_decisions: bool = False, **filled: object
    ) -> None:
        """Note something that is not taken over, with a message of the table."""
        reason = self.table.messages[message].format(**filled)
        self.dropped.append(Dropped(item, reason, changes_decisions))

    def conversion(self, scheduler_name: str, extenders: list[Any]) -> Conversion:
        self._add_general(self.table.later_plugins)
        plugins: dict[str, Any] = {"multiPoint": {"disabled": [{"name": EVERYTHING}]}}
        for point, chosen in self._sets.items():
            if chosen:
                plugins[point.value] = {"enabled": [_ref(*pair) for pair in chosen.items()]}
        profile: dict[str, Any] = {"schedulerName": scheduler_name, "plugins": plugins}
        if self.args:
            entries = [{"name": name, "args": args} for name, args in sorted(self.args.items())]
            profile["pluginConfig"] = entries
        document = {"apiVersion": API_VERSION, "kind": KIND, "profiles": [profile]}
        if extenders:
            document["extenders"] = extenders
        config = load_config(json.dumps(document), "the converted configuration", self.gates)
        _check_strategy(config)
        return Conversion(document, config, tuple(self.dropped))

    def _add_general(self, plugins: Mapping[str, Iterable[ExtensionPoint]]) -> None:
        defaults = default_plugins(self.gates).multi_point.enabled
        weights = {ref.name: ref.weight for ref in defaults}
        for name, points in plugins.items():
            if name in weights:
                self._enable(name, points, weights[name])

    def _enable(self, plugin: str, points: Iterable[ExtensionPoint], weight: int = 0) -> None:
        for point in points:
            weighs = point in (ExtensionPoint.SCORE, ExtensionPoint.PLACEMENT_SCORE)
            self._sets[point].setdefault(plugin, weight if weighs else 0)


def _ref(name: str, weight: int) -> dict[str, Any]:
    return {"name": name, "weight": weight} if weight else {"name": name}


def _add_predicates(profile: _Profile, predicates: tuple[PredicatePolicy, ...] | None) -> None:
    chosen = set(profile.table.mandatory_predicates)
    presences: list[tuple[str, LabelsPresence]] = []
    if predicates is None:
        chosen.update(profile.table.default_predicates)
    for predicate in predicates or ():
        name = profile.table.predicate_aliases.get(predicate.name, predicate.name)
        item, argument = f"predicate {quoted(predicate.name)}", predicate.argument
        if name in profile.table.predicate_order:
            chosen.add(name)
            _note_predefined(profile, item, name, has_argument=argument is not None)
        elif argument is None:
            raise ConfigError(f"predicate type not found for {quoted(name)}")
        elif argument.labels_presence is not None:
            presences.append((item, argument.labels_presence))
        else:
            profile.drop(
                f"{item} (serviceAffinity)", "service_affinity_gone", changes_decisions=True
            )
    for name in profile.table.predicate_order:
        for plugin in profile.table.predicate_plugins.get(name, ()) if name in chosen else ():
            profile.add_filter(plugin)
    _add_label_presences(profile, presences)


def _note_predefined(profile: _Profile, item: str, name: str, *, has_argument: bool) -> None:
    if name in profile.table.migrated_volume_limits:
        profile.drop(item, "volume_limits_moved")
    if has_argument:
        profile.drop(item, "argument_ignored")
    elif name in ("CheckNodeLabelPresence", "CheckServiceAffinity"):
        profile.drop(item, "without_labels")


def _add_label_presences(profile: _Profile, presences: list[tuple[str, LabelsPresence]]) -> None:
    """Labels that nodes must have, or lack, become an affinity that all pods have."""
    present = [label for _, given in presences if given.presence for label in given.labels]
    absent = [label for _, given in presences if not given.presence for label in given.labels]
    for label in absent:
        if label in present:
            raise ConfigError(
                f'presentLabels[{present.index(label)}]: Invalid value: "{label}": '
                f"conflict with absentLabels[{absent.index(label)}]"
            )
    if not profile.filters("NodeAffinity"):
        for item, _ in presences:
            profile.drop(f"{item} (labelsPresence)", "label_presence_gone", changes_decisions=True)
        return
    expressions = [{"key": label, "operator": "Exists"} for label in dict.fromkeys(present)]
    expressions += [{"key": label, "operator": "DoesNotExist"} for label in dict.fromkeys(absent)]
    if expressions:
        terms = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
        profile.args["NodeAffinity"] = {
            "addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        }


def _add_priorities(profile: _Profile, priorities: tuple[PriorityPolicy, ...] | None) -> None:
    ratio: RequestedToCapacityRatioArguments | None = None
    if priorities is None:
        weights = dict(profile.table.default_priorities)
        del weights[_AVOID_PODS]
        item = f"priority {quoted(_AVOID_PODS)}, one of the default ones"
        profile.drop(item, "avoid_pods_gone")
    else:
        weights = {}
        for priority in priorities:
            name = _taken_over(profile, priority)
            if name:
                weights[name] = priority.weight
            if name == _REQUESTED_TO_CAPACITY and priority.argument is not None:
                ratio = priority.argument.requested_to_capacity_ratio_arguments
    _choose_strategy(profile, weights, ratio)
    for name in sorted(weights):
        profile.add_score(profile.table.priority_plugins[name], weights[name])
    if "EvenPodsSpreadPriority" in weights and "SelectorSpreadPriority" not in weights:
        profile.args["PodTopologySpread"] = {"defaultingType": "List"}


def _taken_over(profile: _Profile, priority: PriorityPolicy) -> str | None:
    """The name of a priority that has a counterpart; any other is dropped or refused."""
    name = profile.table.priority_aliases.get(priority.name, priority.name)
    item, argument = f"priority {quoted(priority.name)}", priority.argument
    if name == "EqualPriority":
        return None
    if name == _AVOID_PODS:
        profile.drop(item, "avoid_pods_gone", changes_decisions=True)
        return None
    if name in profile.table.priority_plugins and name != _REQUESTED_TO_CAPACITY:
        return name
    if argument is None:
        raise ConfigError(f"priority type not found for {quoted(name)}")
    if argument.requested_to_capacity_ratio_arguments is not None:
        return _REQUESTED_TO_CAPACITY
    if argument.label_preference is not None:
        kind, reason = "labelPreference", "label_preference_gone"
    else:
        kind, reason = "serviceAntiAffinity", "service_anti_affinity_gone"
    profile.drop(f"{item} ({kind})", reason, changes_decisions=True)
    return None


def _choose_strategy(
    profile: _Profile, weights: dict[str, int], ratio: RequestedToCapacityRatioArguments | None
) -> None:
    """What were three plugins are three strategies of one, so only one can stay."""
    asked = sorted(_STRATEGIES.keys() & weights.keys(), key=lambda name: (-weights[name], name))
    if not asked:
        return
    winner = asked[0]
    for name in asked[1:]:
        del weights[name]
        filled = {"winner": winner, "weight": weights[winner]}
        item = f"priority {quoted(name)}"
        profile.drop(item, "one_strategy", changes_decisions=True, **filled)
    strategy: dict[str, Any] = {"type": _STRATEGIES[winner]}
    if winner == _REQUESTED_TO_CAPACITY and ratio is not None:
        strategy["requestedToCapacityRatio"] = {
            "shape": [msgspec.to_builtins(point) for point in ratio.shape]
        }
        if ratio.resources:
            strategy["resources"] = [msgspec.to_builtins(one) for one in ratio.resources]
    if winner != _LEAST_REQUESTED:
        profile.args[_FIT] = {"scoringStrategy": strategy}


def _extenders(profile: _Profile, policy: LegacyPolicy) -> list[Any]:
    if not policy.extenders:
        return []
    managed = (one for extender in policy.extenders for one in extender.managed_resources)
    if any(one.ignored_by_scheduler for one in managed):
        # Resources that the scheduler shall ignore need these arguments, even without the plugin.
        profile.args.setdefault(_FIT, {})
    config = KubeSchedulerConfiguration(extenders=policy.extenders)
    written: list[Any] = encode_config(config)["extenders"]
    for extender in written:
        if extender["httpTimeout"] == "0s":  # as if it was not given
            del extender["httpTimeout"]
    return written


def _check_strategy(config: KubeSchedulerConfiguration) -> None:
    """The curve and its resources are looked at only when the plugin is built; that is too late."""
    args = config.profiles[0].args_for(_FIT)
    errors = node_resources_fit_errors("", args) if isinstance(args, NodeResourcesFitArgs) else []
    if errors:
        raise ConfigError(f"initializing plugin {quoted(_FIT)}: {aggregate(errors)}")
