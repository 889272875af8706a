"""The rules of a configuration, its profiles and its extenders.

Owns every check that upstream makes on a configuration as a whole, in upstream's order and words.
Must not change the configuration; the rules of plugin arguments are in `validation_args`, the
checks made when a profile is built in `plugins`.
"""

from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

import msgspec

from moorage.config.feature_gates import FeatureGates
from moorage.config.field_errors import (
    aggregate,
    duplicate,
    invalid,
    required,
)
from moorage.config.types import (
    API_VERSION,
    ClientConnectionConfiguration,
    ExtenderConfig,
    ExtensionPoint,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElectionConfiguration,
    PluginRef,
    PluginSet,
)
from moorage.config.validation_args import ARGS_RULES
from moorage.errors import ConfigError
from moorage.model.duration import Duration
from moorage.model.spelling import is_extended_resource, label_key_errors
from moorage.redaction import redacted_url

_REMOVED_PLUGINS = frozenset(("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"))
_REMOVED_TEXT = (
    f'was invalid in version "v1" (KubeSchedulerConfiguration is version "{API_VERSION}")'
)
_NOT_CHECKED_FOR_REMOVED = (ExtensionPoint.PLACEMENT_GENERATE, ExtensionPoint.PLACEMENT_SCORE)


def validate(config: KubeSchedulerConfiguration, gates: FeatureGates) -> None:
    """Raise a `ConfigError` that lists everything that is wrong."""
    errors = validation_errors(config, gates)
    if errors:
        raise ConfigError(aggregate(errors))


def validation_errors(config: KubeSchedulerConfiguration, gates: FeatureGates) -> list[str]:
    """Everything that is wrong with a configuration, as texts that begin with the field's path."""
    errors = _client_errors(config.client_connection)
    errors += _leader_election_errors(config.leader_election)
    if config.parallelism <= 0:
        text = "should be an integer value greater than zero"
        errors.append(invalid("parallelism", config.parallelism, text))
    if config.profiles:
        errors += _profiles_errors(config.profiles, gates)
    else:
        errors.append(required("profiles"))
    errors += _percentage_errors("percentageOfNodesToScore", config.percentage_of_nodes_to_score)
    initial, longest = config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds
    if initial <= 0:
        errors.append(invalid("podInitialBackoffSeconds", initial, "must be greater than 0"))
    if longest < initial:
        text = "must be greater than or equal to PodInitialBackoffSeconds"
        errors.append(invalid("podMaxBackoffSeconds", longest, text))
    return errors + extenders_errors(config.extenders)


def _client_errors(client: ClientConnectionConfiguration) -> list[str]:
    if client.burst >= 0:
        return []
    return [invalid("clientConnection.burst", client.burst, "must be non-negative")]


def _leader_election_errors(election: LeaderElectionConfiguration) -> list[str]:
    if not election.leader_elect:
        return []
    path = "leaderElection"
    times = {
        "leaseDuration": election.lease_duration,
        "renewDeadline": election.renew_deadline,
        "retryPeriod": election.retry_period,
    }
    errors = [
        invalid(f"{path}.{name}", str(time), "must be greater than zero")
        for name, time in times.items()
        if time <= Duration(0)
    ]
    if election.lease_duration <= election.renew_deadline:
        # Upstream shows the deadline here, not the lease duration that it complains about.
        text = "must be greater than `RenewDeadline`"
        errors.append(invalid(f"{path}.leaseDuration", str(election.renew_deadline), text))
    names = {
        "resourceLock": election.resource_lock,
        "resourceNamespace": election.resource_namespace,
        "resourceName": election.resource_name,
    }
    errors += [required(f"{path}.{name}") for name, value in names.items() if not value]
    if election.resource_lock != "leases":
        text = 'resourceLock value must be "leases"'
        errors.append(invalid(f"{path}.resourceLock", election.resource_lock, text))
    return errors


def _percentage_errors(path: str, percentage: int | None) -> list[str]:
    if percentage is None or 0 <= percentage <= 100:
        return []
    return [invalid(path, percentage, "not in valid range [0-100]")]


def _profiles_errors(profiles: Sequence[KubeSchedulerProfile], gates: FeatureGates) -> list[str]:
    errors = []
    names: set[str] = set()
    for index, profile in enumerate(profiles):
        path = f"profiles[{index}]"
        errors += _profile_errors(path, profile, gates)
        if profile.scheduler_name in names:
            # Upstream passes a path as the value, and its fields are hidden from the printer.
            errors.append(duplicate(f"{path}.schedulerName", {}))
        names.add(profile.scheduler_name)
    return errors + _queue_sort_errors(profiles)


def _profile_errors(path: str, profile: KubeSchedulerProfile, gates: FeatureGates) -> list[str]:
    errors = []
    if not profile.scheduler_name:
        errors.append(required(f"{path}.schedulerName"))
    percentage_path = f"{path}.percentageOfNodesToScore"
    errors += _percentage_errors(percentage_path, profile.percentage_of_nodes_to_score)
    for point in ExtensionPoint:
        if point not in _NOT_CHECKED_FOR_REMOVED:
            enabled_path = f"{path}.plugins.{point.value}.enabled"
            errors += _removed_errors(enabled_path, profile.plugins.at(point).enabled)
    seen: set[str] = set()
    for index, entry in enumerate(profile.plugin_config):
        entry_path = f"{path}.pluginConfig[{index}]"
        if entry.name in seen:
            errors.append(duplicate(entry_path, entry.name))
        seen.add(entry.name)
        errors += _entry_errors(entry_path, entry.name, entry.args, gates)
    return errors


def _removed_errors(path: str, refs: Iterable[PluginRef]) -> list[str]:
    return [
        invalid(f"{path}[{index}]", ref.name, _REMOVED_TEXT)
        for index, ref in enumerate(refs)
        if ref.name in _REMOVED_PLUGINS
    ]


def _entry_errors(path: str, name: str, args: object, gates: FeatureGates) -> list[str]:
    if name in _REMOVED_PLUGINS:
        return [invalid(path, name, _REMOVED_TEXT)]
    if name not in ARGS_RULES:
        return []
    kind, rule = ARGS_RULES[name]
    if not isinstance(args, kind):
        return [invalid(f"{path}.args", _shown_args(args), "has to match plugin args")]
    return rule(f"{path}.args", args, gates)


def _queue_sort_errors(profiles: Sequence[KubeSchedulerProfile]) -> list[str]:
    errors = []
    first = profiles[0].plugins.queue_sort
    if len(first.enabled) > 1:
        text = "only one queue sort plugin can be enabled"
        errors.append(invalid("profiles[0].plugins.queueSort.Enabled", len(first.enabled), text))
    name = first.enabled[0].name if first.enabled else None
    args = profiles[0].args_for(name) if name else None
    for index, profile in enumerate(profiles[1:], start=1):
        path = f"profiles[{index}]"
        chosen = profile.plugins.queue_sort
        if chosen != first:
            text = "must be the same for all profiles"
            errors.append(invalid(f"{path}.plugins.queueSort", _shown_set(chosen), text))
        for entry in profile.plugin_config:
            if entry.name == name and entry.args != args:
                text = "queueSort must be the same for all profiles"
                shown = _shown_args(entry.args)
                errors.append(invalid(f"{path}.pluginConfig.args", shown, text))
    return errors


def extenders_errors(extenders: Sequence[ExtenderConfig]) -> list[str]:
    """What is wrong with the extenders of a configuration, or of a legacy policy."""
    errors = []
    managed: set[str] = set()
    for index, extender in enumerate(extenders):
        path = f"extenders[{index}]"
        errors += _address_errors(f"{path}.urlPrefix", extender.url_prefix)
        if extender.prioritize_verb and extender.weight <= 0:
            text = "must have a positive weight applied to it"
            errors.append(invalid(f"{path}.weight", extender.weight, text))
        for number, resource in enumerate(extender.managed_resources):
            name_path = f"{path}.managedResources[{number}].name"
            errors += _managed_resource_errors(name_path, resource.name)
            if resource.name in managed:
                text = "duplicate extender managed resource name"
                errors.append(invalid(name_path, resource.name, text))
            managed.add(resource.name)
    binders = sum(1 for extender in extenders if extender.bind_verb)
    if binders > 1:
        found = f"found {binders} extenders implementing bind"
        errors.append(invalid("extenders", found, "only one extender can implement bind"))
    return errors


def _address_errors(path: str, address: str) -> list[str]:
    try:
        _ = urlsplit(address).port
    except ValueError as error:
        # Python quotes what it stumbled over, which may be a part of a password.
        reason = "it is malformed" if "@" in address else error
        return [invalid(path, redacted_url(address), f"must be a URL: {reason}")]
    return []


def _managed_resource_errors(path: str, name: str) -> list[str]:
    if spelling := label_key_errors(name):
        return [invalid(path, name, text) for text in spelling]
    if is_extended_resource(name):
        return []
    return [invalid(path, name, "is an invalid extended resource name")]


def _shown_set(chosen: PluginSet) -> object:
    """A plugin set as upstream prints it: Go's field names, and null for an empty list."""

    def refs(listed: Sequence[PluginRef]) -> object:
        return [{"Name": ref.name, "Weight": ref.weight} for ref in listed] or None

    return {"Enabled": refs(chosen.enabled), "Disabled": refs(chosen.disabled)}


def _shown_args(args: object) -> object:
    return msgspec.to_builtins(args) if isinstance(args, msgspec.Struct) else args
