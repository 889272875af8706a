"""Everything that can be said about a configuration without running a scheduler."""

from collections.abc import Iterator, Sequence

import msgspec

from moorage.config import FeatureGates, KubeSchedulerConfiguration, read_config
from moorage.config.field_errors import one_line
from moorage.config.oddities import oddities
from moorage.config.plugins import effective_plugins, unknown_plugins
from moorage.config.types import KubeSchedulerProfile, LeaderElectionConfiguration
from moorage.config.validation import validation_errors
from moorage.errors import ConfigError
from moorage.framework.registry import Registry
from moorage.kube.http_extender import http_extenders
from moorage.simulator.world import World, full_registry

_JITTER_NUMERATOR, _JITTER_DENOMINATOR = 6, 5
"""How much longer than told a leader waits at most before it tries again: 1.2."""


class Findings(msgspec.Struct, frozen=True):
    """What was found; with no errors a scheduler can be started."""

    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def check_configuration(
    text: bytes, gates: FeatureGates, plugin_files: Sequence[str] = ()
) -> Findings:
    """Go through all the steps of a scheduler's start; each needs the ones before."""
    try:
        config = read_config(text, "", gates)
    except ConfigError as error:
        return Findings((str(error).removeprefix(": "),))
    registry = full_registry(files=plugin_files)
    errors = validation_errors(config, gates)
    for profile in config.profiles:
        errors += _profile_errors(profile, registry)
    if not errors:
        errors += _building_errors(config, gates, registry)
    errors += _election_errors(config.leader_election)
    errors = list(dict.fromkeys(errors))
    warnings = tuple(oddities(config, gates))
    return Findings(tuple(one_line(error) for error in errors), warnings)


def _profile_errors(profile: KubeSchedulerProfile, registry: Registry) -> Iterator[str]:
    """What upstream notices only when it builds a profile, and then only the first."""
    yield from map(str, unknown_plugins(profile, registry.implements))
    try:
        effective_plugins(profile, registry.implements)
    except ConfigError as error:
        yield str(error)


def _building_errors(
    config: KubeSchedulerConfiguration, gates: FeatureGates, registry: Registry
) -> Iterator[str]:
    """What plugins and extenders object to when they are made."""
    try:
        World(config, registry=registry, gates=gates, extenders=http_extenders(config))
    except ConfigError as error:
        yield str(error)


def _election_errors(election: LeaderElectionConfiguration) -> Iterator[str]:
    """What only the elector minds, right after the start."""
    renew, retry = election.renew_deadline.nanoseconds, election.retry_period.nanoseconds
    if election.leader_elect and 0 < renew * _JITTER_DENOMINATOR <= retry * _JITTER_NUMERATOR:
        yield (
            "couldn't create leader elector: "
            "renewDeadline must be greater than retryPeriod*JitterFactor"
        )
